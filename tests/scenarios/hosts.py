"""Jobs on several hosts, which are network namespaces of this machine (tests/cluster/box).

How the launcher deals with hosts is tested in more cases, without namespaces, by crates/cli/tests/hosts.rs.
"""

import contextlib
import getpass
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

from harness import TESTS, jobs, scenarios
from harness.scenarios import END_SECONDS_MAX, Skip, alone, places

from . import connecting, hangs, launching, spawning

BOX, RSH = (TESTS / "cluster" / name for name in ("box", "rsh"))


class Hosts:
    """Emulated hosts, of a box in a folder of its own."""

    def __init__(self, runner, folder):
        self.mpiexec = runner.mpiexec
        self.environment = ["env", f"COMBRAY_BOX={folder}"]

    def command(self, *words):
        """A command of the box."""
        return [*self.environment, str(BOX), *map(str, words)]

    def box(self, *words):
        return subprocess.run(self.command(*words), capture_output=True, text=True)

    def job(self, places, *words, options=()):
        return [*self.environment, *self.mpiexec, "--hosts", places, "--launch-agent", str(RSH), *options, *words]


@contextlib.contextmanager
def hosts(runner, count, *rates):
    """So many hosts, of a box of this scenario's own."""
    if not scenarios.is_combray(runner):
        raise Skip("holds for Combray's launcher")
    with tempfile.TemporaryDirectory(prefix="hosts-", dir=runner.build) as folder:
        here = Hosts(runner, folder)
        refusal = here.box("check")
        if refusal.returncode != 0:
            raise Skip(refusal.stderr.strip())
        try:
            made = here.box("up", count, *(rates or (0,)))
            assert made.returncode == 0, made.stderr
            yield here
        finally:
            here.box("down")


def ends(command, *words, code=None, **more):
    """The job fails soon, with these words."""
    got, output, seconds = scenarios.run(command, **more)
    assert got != 0 and code in (None, got), f"exit code {got}\n{output}"
    assert seconds < END_SECONDS_MAX, f"{seconds:.1f} s\n{output}"
    for word in words:
        assert re.search(word, output), f"the message does not say {word!r}:\n{output}"
    return output


def ranks_run_on_their_hosts(runner):
    with hosts(runner, 3) as here:
        words = ["sh", "-c", "echo $PMI_RANK $(hostname) $COMBRAY_NODE"]
        code, output, _ = scenarios.run(here.job("box1:2,box2:1,box3:2", *words))
        expected = ["0 box1 box1", "1 box1 box1", "2 box2 box2", "3 box3 box3", "4 box3 box3"]
        assert code == 0 and sorted(output.splitlines()) == expected, output
        code, output, _ = scenarios.run(here.job("box1:2,box2:2", scenarios.program(runner), "hello"))
        lines = sorted(line for line in output.splitlines() if line.startswith("rank"))
        assert code == 0 and lines == [f"rank {rank} of 4" for rank in range(4)], output


@places(12)
def messages_cross_all_hosts(runner):
    """Small and large messages around a ring in which each process has its neighbours elsewhere."""
    with hosts(runner, 4) as here:
        for count in (4, 12):
            options = ["--map-by", "node", "-n", str(count)]
            words = [scenarios.program(runner), "traffic"]
            code, output, _ = scenarios.run(
                here.job("box1:3,box2:3,box3:3,box4:3", *words, options=options), timeout=60.0)
            assert code == 0, output


def failures_elsewhere_end_the_job(runner):
    program = scenarios.program(runner)
    with hosts(runner, 2) as here:
        for how, code, *words in (
            ("kill", 137, "rank 3 .*on box2", "SIGKILL"),
            ("exit3", 3, "rank 3 .*on box2", r"\b3\b"),
            ("abort", 7, "rank 3", "MPI_Abort"),
            ("exit0", 1, "rank 3 .*on box2", "MPI_Finalize"),
        ):
            output = ends(here.job("box1:2,box2:2", program, how), *words, code=code)
            assert "last words of rank 3" in output, output
        ends(here.job("box1,box9", program, "hello"), "box9 cannot be reached", "no host box9")


def jobs_on_different_hosts_connect(runner):
    with hosts(runner, 2) as here:
        of_host = {"accept": "box1:4", "connect": "box2:4"}
        launcher = lambda side: here.job(of_host[side])
        connecting.both_end_well(runner, "whole", 2, 2, launcher=launcher)
        # A job on both hosts, and one on the second.
        of_host["accept"] = "box1:1,box2:1"
        connecting.both_end_well(runner, "whole", 2, 1, launcher=launcher)


@places(8)
def grids_are_folded_along_a_torus(runner):
    """With reorder all neighbours of a grid are one link apart; without the network they are not."""
    columns, scattered = 2, (1, 6, 3, 8, 5, 2, 7, 4)
    with hosts(runner, 8) as here, tempfile.NamedTemporaryFile("w", suffix=".network") as network:
        network.write("torus 4x2: box[1-8]\n")
        network.flush()
        named = ",".join(f"box{number}" for number in scattered)

        def distance(one, other):
            """The number of links between two hosts of the torus."""
            steps = (abs(a - b) for a, b in zip(divmod(one, columns), divmod(other, columns)))
            return sum(min(step, extent - step) for step, extent in zip(steps, (4, columns)))

        def longest(*extents, known):
            """The greatest distance between neighbours of a periodic grid."""
            job = here.job(named, runner.build / "folded", *map(str, extents))
            variables = [f"COMBRAY_NETWORK={network.name}"] if known else []
            code, output, _ = scenarios.run(["env", *variables, *job])
            assert code == 0, output
            found = re.search(r"^hosts: (.*)$", output, re.MULTILINE)
            assert found, output
            at = [int(name.removeprefix("box")) - 1 for name in found[1].split()]
            assert sorted(at) == list(range(8)), output
            inner = 8 // extents[0]
            ring = lambda first, step, count: [(first + step * one, first + step * ((one + 1) % count))
                                               for one in range(count)]
            edges = [edge for start in range(inner) for edge in ring(start, inner, extents[0])]
            edges += [edge for start in range(0, 8, inner) for edge in ring(start, 1, inner) if inner > 1]
            return max(distance(at[one], at[other]) for one, other in edges)

        for extents in (8,), (4, 2), (2, 4):
            assert longest(*extents, known=True) == 1, extents
            assert longest(*extents, known=False) > 1, extents


@places(8)
def spawned_processes_get_free_slots(runner):
    """The root runs on the second host: the launcher of the spawned job there reaches the others."""
    with hosts(runner, 3) as here:
        program = runner.build / "spawned_places"
        def lines(*words, options=("-n", "3")):
            code, output, _ = scenarios.run(here.job("box1:2,box2:2,box3:2", program, *words, options=options))
            assert code == 0, output
            return output
        output = lines("1", "3")
        assert "universe: 6" in output and "children: box2\n" in output, output
        assert "children: box2 box3 box3\n" in output and "free slots" not in output, output
        output = lines("5")
        assert re.search(r"children: box2 box3 box3 box1 box1$", output, re.MULTILINE), output
        assert output.count("processes share slots") == 1, output
        output = lines("4", "3", options=("-n", "3", "--nooversubscribe"))
        assert "refused\nchildren: box2 box3 box3\n" in output, output
        # Both spawn at the same time, then again: the first processes have given their slots back.
        for options in ("-n", "2"), ("-n", "2", "--nooversubscribe"):
            output = lines("each", "2", "2", "2", options=options)
            places = re.findall(r"children: (\w+) (\w+)$", output, re.MULTILINE)
            assert len(places) == 6 and "free slots" not in output, output
            for at in range(0, 6, 2):
                assert sorted(sum(places[at:at + 2], ())) == ["box2", "box2", "box3", "box3"], output


@places(4)
def all_members_leave_an_operation_in_which_a_spawned_process_has_failed(runner):
    """One of the parents has no connection to the killed process, and learns of it from the other one."""
    with hosts(runner, 2) as here:
        for operation in "disconnect", "allreduce":
            options = ("-n", "2", "--keep-going", "--timeout", "20")
            job = here.job("box1:2,box2:2", runner.build / "spawned_left", operation, options=options)
            code, output, _ = scenarios.run(job)
            left = re.findall("^parent . goes on$", output, re.MULTILINE)
            assert code == 0 and len(left) == 2, f"exit code {code}\n{output}"


@places(8)
def independent_spawned_jobs_end_well_on_other_hosts(runner):
    """The root runs under an agent, as do the processes that it spawns: on its host and on another."""
    with hosts(runner, 2) as here, spawning.own_program(runner) as copy:
        start = lambda *options: here.job("box1:2,box2:1", options=("-n", "1", *options))
        spawning.independent_jobs_end_well(start, str(copy))


class OnHosts:
    """The runner with a launcher that gives two hosts their processes in turn."""

    def __init__(self, runner, here):
        self.build = runner.build
        self.mpiexec = here.job("box1:8,box2:8", "--map-by", "node")


def all_is_as_on_one_machine(runner):
    """What the scenarios of one machine see from outside."""
    with hosts(runner, 2) as here:
        for scenario in (
            launching.hello,
            launching.killed_process_ends_the_job,
            launching.crashed_process_ends_the_job,
            launching.exit_without_finalize_ends_the_job,
            launching.quiet_exit_without_finalize_ends_the_job,
            launching.abort_gives_its_code,
            launching.abort_with_0_succeeds,
            launching.errors_are_fatal,
            launching.errors_abort_ends_its_group,
            launching.survivors_of_an_ended_process_are_told,
            launching.survivors_of_a_killed_process_are_notified,
            launching.sessions_survive_a_killed_process,
            launching.those_left_recover,
            launching.who_fails_in_finalize_keeps_nobody_there,
            launching.collective_writes_tell_of_a_killed_process,
            launching.windows_survive_a_killed_process,
            launching.a_window_is_freed_when_all_that_are_left_are_done,
            launching.nobody_waits_for_a_window_that_another_could_not_make,
            launching.who_ends_without_a_message_is_missed,
            launching.who_fails_while_persistent_collectives_are_made_holds_up_nobody,
            launching.operations_that_a_failed_process_began_end_well_or_are_reported,
            launching.initial_error_handler,
            launching.calls_at_the_wrong_time_are_reported,
            launching.input_goes_to_rank_0,
            launching.lines_stay_whole,
            launching.output_is_tagged,
            launching.timeout_ends_the_job,
            launching.several_programs,
            launching.missing_program_is_reported,
        ):
            try:
                scenario(OnHosts(runner, here))
            except AssertionError as problem:
                raise AssertionError(f"{scenario.__name__}: {problem}") from None


@places(16)
def hangs_are_explained_across_hosts(runner):
    with hosts(runner, 2) as here:
        hangs.hangs_are_explained(OnHosts(runner, here))


@places(40)
def many_processes_on_four_hosts(runner):
    """40 processes, each with a megabyte of output in numbered lines."""
    with hosts(runner, 4) as here:
        program = scenarios.program(runner)
        command = here.job("box1:10,box2:10,box3:10,box4:10", program, "lines", "1100")
        code, output, _ = scenarios.run(command, timeout=120.0)
        assert code == 0, output[-2000:]
        seen = {}
        for line in output.splitlines():
            found = re.fullmatch(r"<(\d+) (\d+) (x*)>", line)
            assert found, f"a broken line: {line[:200]}"
            rank, number = int(found[1]), int(found[2])
            assert seen.get(rank, -1) == number - 1, f"rank {rank}: line {number} is out of order"
            seen[rank] = number
        assert seen == {rank: 1099 for rank in range(40)}, f"lines are missing: {seen}"


@contextlib.contextmanager
def waiting(runner, command_of):
    """A job of four whose processes wait for ever, and the path of their program."""
    with tempfile.TemporaryDirectory() as folder:
        copy = scenarios.own_copy(runner, folder)
        launcher = subprocess.Popen(
            command_of(str(copy)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )
        try:
            for _ in range(4):
                line = launcher.stdout.readline()
                if "waiting" not in line:
                    launcher.kill()
                    raise AssertionError(f"the job did not start: {line}{launcher.communicate()[0]}")
            yield launcher, copy
        finally:
            if launcher.poll() is None:
                launcher.kill()
                launcher.communicate()


@alone("counts what jobs leave on this machine")
def killed_launcher_leaves_nothing(runner):
    with hosts(runner, 2) as here:
        before = scenarios.traces()
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            command_of = lambda copy: here.job("box1:2,box2:2", copy, "wait")
            with waiting(runner, command_of) as (launcher, copy):
                launcher.send_signal(number)
                scenarios.end_of(launcher)
                assert launcher.returncode != 0, f"exit code 0 after {number.name}"
                scenarios.wait_until_gone(copy)
                assert not scenarios.traces() - before, f"{number.name}: {scenarios.traces() - before}"


def a_host_that_dies_ends_the_job(runner):
    """All processes of a host end at once, as if it were switched off."""
    with hosts(runner, 2) as here:
        with waiting(runner, lambda copy: here.job("box1:2,box2:2", copy, "wait")) as (launcher, copy):
            started = time.monotonic()
            here.box("on", "box2", "sh", "-c", "net=$(readlink /proc/self/ns/net); for p in /proc/[0-9]*; do "
                '[ "$(readlink $p/ns/net)" = "$net" ] && [ ${p#/proc/} != $$ ] && kill -9 ${p#/proc/}; done')
            output = scenarios.end_of(launcher)
            assert launcher.returncode not in (0, 124), output
            assert "box2" in output, output
            assert time.monotonic() - started < END_SECONDS_MAX, output
            scenarios.wait_until_gone(copy)


def outages(*words):
    """Jobs of tests/cluster/outages, all of which must behave as expected."""
    if subprocess.run([str(BOX), "check"], capture_output=True).returncode != 0:
        raise Skip("no hosts can be emulated here")
    code, output = jobs.run_bounded([str(TESTS / "cluster" / "outages"), "--side-by-side", "3", *words], 600)
    assert code == 0, output


@places(8)
def who_is_killed_elsewhere_is_missed_over_every_network(runner):
    """A process, its agent or its whole host dies while the others wait, or test again and again.
    """
    if not scenarios.is_combray(runner):
        raise Skip("holds for Combray's launcher")
    outages("--outage", "kill-process,kill-agent,kill-host", "--net", "tcp,ether,ofi:tcp", "--keep-going", "yes", "--count", "9")


@places(8)
def a_path_becomes_narrow_over_plain_ethernet(runner):
    """For good, or for a while, while messages of all lengths are underway."""
    if not scenarios.is_combray(runner):
        raise Skip("holds for Combray's launcher")
    outages("--outage", "mtu-down,mtu", "--net", "ether", "--count", "4")


@places(8)
def only_paths_cut_are_reported_over_every_network(runner):
    if not scenarios.is_combray(runner):
        raise Skip("holds for Combray's launcher")
    outages("--outage", "cut-all", "--net", "tcp,ether,ofi:tcp", "--silence", "4", "--count", "6")


def the_launcher_may_run_on_a_host(runner):
    """Its own host gets its processes directly, by whichever of its names."""
    with hosts(runner, 2) as here:
        for own in ("box1", "10.77.0.1", "localhost"):
            words = ["sh", "-c", "echo $PMI_RANK $(hostname) $COMBRAY_NODE"]
            command = [*here.command("on", "box1"), *here.job(f"{own}:2,box2:2", *words)]
            code, output, _ = scenarios.run(command)
            expected = ["0 box1 box1", "1 box1 box1", "2 box2 box2", "3 box2 box2"]
            assert code == 0 and sorted(output.splitlines()) == expected, output


def ssh_words(folder):
    return ["ssh", "-x", "-o", "BatchMode=yes", "-p", "2222", "-i", f"{folder}/key",
            "-o", f"UserKnownHostsFile={folder}/known", "-o", "StrictHostKeyChecking=accept-new"]


@contextlib.contextmanager
def daemons(here, folder, names):
    """An sshd on each of these hosts, and a key that opens them all."""
    daemon = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if not daemon or not shutil.which("ssh"):
        raise Skip("no ssh and sshd (Debian: openssh-client, openssh-server)")
    for key in ("key", "host"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{key}"], check=True)
    shutil.copy(f"{folder}/key.pub", f"{folder}/authorized")
    settings = [f"HostKey={folder}/host", f"AuthorizedKeysFile={folder}/authorized", "PidFile=none",
                "StrictModes=no", "UsePAM=no", "PermitRootLogin=yes", "Port=2222", "PrintMotd=no"]
    options = [word for setting in settings for word in ("-o", setting)]
    started = []
    try:
        for name in names:
            prepare = 'mkdir -p /run/sshd && exec "$@"'
            words = [*here.command("on", name), "sh", "-c", prepare, "sh", daemon, "-D", "-e", "-f", "/dev/null"]
            started.append(subprocess.Popen(
                [*words, *options], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=open(f"{folder}/{name}.log", "w"),
            ))
        for name in names:
            for _ in range(100):
                command = [*here.command("on", names[0]), *ssh_words(folder), name, "true"]
                if (told := subprocess.run(command, capture_output=True, text=True)).returncode == 0:
                    break
                time.sleep(0.05)
            else:
                log = pathlib.Path(f"{folder}/{name}.log").read_text()
                raise AssertionError(f"no ssh to {name}: {told.stderr}\n{log}")
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def over_real_ssh(runner):
    with hosts(runner, 3) as here, tempfile.TemporaryDirectory() as folder, \
            daemons(here, folder, ["box1", "box2", "box3"]):
        def start(places, *words):
            return [*here.command("on", "box1"), *runner.mpiexec, "--hosts", places, "--launch-agent",
                    " ".join(ssh_words(folder)), *words]
        words = ["sh", "-c", 'echo "$PMI_RANK $(hostname) $USER $1"', "sh", "a  'b' $c"]
        code, output, _ = scenarios.run(start("box1:1,box2:2,box3:1", *words))
        user = getpass.getuser()
        expected = [f"{rank} {name} {user} a  'b' $c"
                    for rank, name in enumerate(["box1", "box2", "box2", "box3"])]
        lines = sorted(re.sub(r"^0 box1 \S* ", f"0 box1 {user} ", line) for line in output.splitlines())
        assert code == 0 and lines == expected, output
        code, output, _ = scenarios.run(
            [*start("box2:2,box3:2", scenarios.program(runner), "lines", "300")], timeout=60.0)
        assert code == 0 and len(output.splitlines()) == 1200, output[-2000:]
        ends(start("box2,box9", "true"), "box9 cannot be reached", "resolve hostname box9")
        with waiting(runner, lambda copy: start("box2:2,box3:2", copy, "wait")) as (launcher, copy):
            launcher.kill()
            scenarios.end_of(launcher)
            scenarios.wait_until_gone(copy)


SCENARIOS = [
    jobs_on_different_hosts_connect,
    spawned_processes_get_free_slots,
    all_members_leave_an_operation_in_which_a_spawned_process_has_failed,
    independent_spawned_jobs_end_well_on_other_hosts,
    ranks_run_on_their_hosts,
    all_is_as_on_one_machine,
    hangs_are_explained_across_hosts,
    messages_cross_all_hosts,
    grids_are_folded_along_a_torus,
    failures_elsewhere_end_the_job,
    many_processes_on_four_hosts,
    killed_launcher_leaves_nothing,
    a_host_that_dies_ends_the_job,
    who_is_killed_elsewhere_is_missed_over_every_network,
    a_path_becomes_narrow_over_plain_ethernet,
    only_paths_cut_are_reported_over_every_network,
    the_launcher_may_run_on_a_host,
    over_real_ssh,
]
