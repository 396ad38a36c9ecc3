"""Jobs that stand still are queried (`combray ps`): the first line of the answer is the reason."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

from harness.scenarios import END_SECONDS_MAX, end_of, needs, needs_combray, places, processes_of, run, traces

from . import managers

# So long a program takes until all its ranks wait; then an answer takes half a second.
# All machines together may take 7.5 s, as on a busy machine.
HANG_SECONDS, HANG_SECONDS_MAX = 2.5, 40.0
ANSWER_SECONDS, ANSWER_SECONDS_MAX = 8.0, 20.0
# By the argument of tests/c/hangs.c: the number of processes, and how the first line begins.
CAUSES = {
    "crossed": (3, r"ranks 0 and 1 wait for each other: rank 0 in MPI_Recv for tag 1 from rank 1, rank 1 in "
                   r"MPI_Recv for tag 1 from rank 0$"),
    "ring": (10, r"10 ranks wait for each other in a cycle, each for the next: 0, 9, 8, 7, 6, 5, 4, 3, 2, 1; rank 0 "
                 r"in MPI_Recv for tag 2 from rank 9"),
    "large_sends": (2, r"ranks 0 and 1 wait for each other: rank 0 in MPI_Send with tag 3 to rank 1, rank 1"),
    "tag": (3, r"rank 0 waits in MPI_Recv for tag 5 from rank 1; a message with tag 6 from it has arrived"),
    "communicator": (2, r"rank 0 waits in MPI_Recv for tag 5 from rank 1 on library; a message with tag 5 on "
                        r"MPI_COMM_WORLD \(not library\) from it has arrived"),
    "left": (3, r"rank 0 waits in MPI_Probe for tag 7 from rank 1, but rank 1 is in MPI_Finalize"),
    "computes": (3, r"ranks 0 and 2 wait for rank 1: it computes \(no call of MPI for \d"),
    "late_member": (3, r"rank 1 has not entered MPI_Barrier on MPI_COMM_WORLD, in which ranks 0 and 2 wait: it "
                       r"waits in MPI_Recv for tag 9 from rank 0"),
    "computing_member": (3, r"rank 2 has not entered MPI_Allreduce on MPI_COMM_WORLD, in which ranks 0 and 1 "
                            r"wait: it sleeps outside of MPI"),
    "libraries": (3, r"collective operations of two communicators are called in different order: rank 0 waits in "
                     r"MPI_Barrier on solver, ranks 1 and 2 in MPI_Barrier on output"),
    "request": (2, r"rank 0 has not entered MPI_Barrier on MPI_COMM_WORLD, in which rank 1 waits: it waits in "
                   r"MPI_Waitall for tag 11 from rank 1"),
    "synchronous": (2, r"rank 0 has not entered MPI_Barrier.*: it waits in MPI_Ssend with tag 12 to rank 1"),
    "probe": (2, r"rank 0 has not entered MPI_Barrier.*: it waits in MPI_Probe for tag 13 from rank 1"),
    "anybody": (3, r"ranks 0, 1 and 2 wait for a message from any rank"),
    "polls": (2, r"rank 1 waits for rank 0: it makes calls that do not wait, one after the other"),
    "locks": (3, r"ranks 0 and 1 wait in MPI_Win_lock for access to memory of rank 0, whose lock other ranks hold"),
    "chain": (4, r"rank 2 waits for rank 3: it sleeps outside of MPI"),
    "nonblocking": (3, r"rank 1 has not entered MPI_Barrier \(begun before MPI_Wait\) on MPI_COMM_WORLD, in which "
                       r"ranks 0 and 2 wait: it waits in MPI_Recv for tag 17 from rank 0"),
    "threads": (2, r"rank 0 has not entered MPI_Barrier.*: it waits in MPI_Recv for tag 2[01] from rank 1, and in "
                   r"MPI_Recv for tag 2[01] from rank 1"),
    "begun_sends": (2, r"rank 0 has not entered MPI_Barrier.*: it waits in MPI_Waitany with tag 3[23] to rank 1"),
    "unsent": (2, r"rank 0 waits in MPI_Recv for tag 5 from rank 1, and rank 1's MPI_Bsend of it returned "
                  r"MPI_ERR_BUFFER \d\S* s ago \(the attached buffer has too little room for 32000 bytes"),
    "refused": (3, r"rank 1 has not entered MPI_Allreduce on MPI_COMM_WORLD, in which ranks 0 and 2 wait: it waits in "
                   r"MPI_Recv for tag 40 from rank 0; its call returned MPI_ERR_COUNT \d\S* s ago \(argument 3 \(count\)"),
    "accepted": (2, r"rank 0 waits in MPI_Comm_accept: no process of another job has connected to its port$"),
    "connected": (2, r"rank 1 waits in MPI_Comm_connect: the process that has opened the port does not accept$"),
    "spawned": (2, r"rank 0 waits in MPI_Comm_spawn: not all 2 processes of sleep have called MPI_Init$"),
    "stopped": (3, r"rank 1 \(process \d+ on \S+\) was stopped by a signal; ranks 0 and 2 wait for it; kill -CONT"),
}


def command(runner):
    """`combray`, beside the launcher."""
    launcher = next(word for word in runner.mpiexec if os.path.basename(word) in ("mpiexec", "mpirun"))
    return os.path.join(os.path.dirname(os.path.realpath(launcher)), "combray")


def begin(runner, name, count, options=(), before=()):
    words = [*runner.mpiexec, *options, "-n", str(count), *before, str(runner.build / "hangs"), name]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def end(launcher):
    # A second one does not wait for what does not end by itself.
    for _ in range(2):
        launcher.send_signal(signal.SIGTERM)
        time.sleep(0.1)
    return end_of(launcher)


def ask(runner, launcher, *options):
    begun = time.monotonic()
    code, output, _ = run([command(runner), "ps", str(launcher.pid), *options], timeout=ANSWER_SECONDS_MAX)
    assert code == 0, output
    return output, time.monotonic() - begun


def ask_until(pattern, runner, launcher):
    """Asks until the first line of the answer matches; gives the last answer, or the fault, if time is up before."""
    deadline = time.monotonic() + HANG_SECONDS_MAX
    while True:
        time.sleep(0.5)
        code, output, _ = run([command(runner), "ps", str(launcher.pid)], timeout=ANSWER_SECONDS_MAX)
        if code == 0 and re.match(pattern, output, re.M) or time.monotonic() > deadline:
            return output


@places(16)
def hangs_are_explained(runner, names=tuple(CAUSES), options=()):
    needs_combray(runner)
    faults = []
    # Several at a time, as they sleep nearly always.
    def look(name):
        launcher = begin(runner, name, CAUSES[name][0], options)
        try:
            output = ask_until(CAUSES[name][1], runner, launcher)
            if not re.match(CAUSES[name][1], output, re.M):
                faults.append(f"{name}:\n{output}")
        finally:
            end(launcher)

    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        list(pool.map(look, names))
    assert not faults, "\n".join(faults)


def calls_are_named_without_their_callers(runner):
    """Looking up callers takes seconds on a busy machine, and is left out in little address space; the function of MPI
    is reported anyway."""
    needs_combray(runner)
    little = ["sh", "-c", 'ulimit -v 2000000 && exec "$@"', "sh"]
    launcher = begin(runner, "tag", 3, before=little)
    try:
        output = ask_until(CAUSES["tag"][1], runner, launcher)
        assert re.match(CAUSES["tag"][1], output) and "called by" not in output, output
    finally:
        end(launcher)


def a_job_is_asked_in_all_ways(runner):
    needs_combray(runner)
    before = traces()
    begun = [begin(runner, name, 2) for name in ("crossed", "chain")]
    try:
        ask_in_all_ways(runner, *begun)
    finally:
        for one in begun:
            if one.poll() is None:
                end(one)
    assert traces() <= before, f"left behind: {traces() - before}"


def ask_in_all_ways(runner, launcher, other):
    time.sleep(HANG_SECONDS)
    output, seconds = ask(runner, launcher)
    # On a busy machine a report may come before all callers have been looked up.
    deadline = time.monotonic() + 60
    while output.count("called by receive") < 2 and time.monotonic() < deadline:
        output, seconds = ask(runner, launcher)
    lines = output.splitlines()
    assert seconds < ANSWER_SECONDS, f"the answer took {seconds:.1f} s"
    assert re.search(r"^ +0 .* MPI_Recv +tag 1 from rank 1 on MPI_COMM_WORLD, 4 bytes; called by receive",
                     output, re.M), output
    assert re.search(r"^ +1 .* tag 1 from rank 0", output, re.M), output
    # The table has shown the only receive of each rank.
    assert "receives without a message" not in output, output
    picture = runner.build / "waits.svg"
    for file in (picture, picture.with_suffix(".png")):
        ask(runner, launcher, "--picture", str(file))
    assert picture.with_suffix(".png").read_bytes().startswith(b"\x89PNG"), "no picture in PNG"
    text = picture.read_text()
    assert text.count('class="arrow cycle"') == 2 and lines[0][:40] in text, text
    told = json.loads(ask(runner, launcher, "--json")[0])
    assert told["job"] == launcher.pid and told["causes"][0] == lines[0], told
    assert [one["answer"]["calls"][0]["function"] for one in told["ranks"]] == ["MPI_Recv"] * 2, told
    code, listed, _ = run([command(runner), "ps"])
    assert code == 0 and all(re.search(rf"^ *{one.pid} +2 ", listed, re.M) for one in (launcher, other)), listed
    refused_to_others(runner, launcher)
    end(other)
    # The first SIGQUIT asks for the report and ends no process; a second one soon after is passed
    # on.
    launcher.send_signal(signal.SIGQUIT)
    time.sleep(1.5)
    assert launcher.poll() is None, end_of(launcher)
    launcher.send_signal(signal.SIGQUIT)
    output = end_of(launcher)
    assert lines[0] in output and "SIGQUIT" in output, output
    code, output, _ = run([command(runner), "ps", str(launcher.pid)])
    assert code != 0 and "no job" in output, output


def refused_to_others(runner, launcher):
    """A user other than the owner of the job and root gets no answer about it."""
    if os.geteuid() != 0:
        return
    nobody = 65534
    done = subprocess.run([command(runner), "ps", str(launcher.pid)], capture_output=True, text=True, cwd="/",
                          user=nobody, group=nobody, extra_groups=[])
    assert done.returncode != 0 and "MPI_Recv" not in done.stdout + done.stderr, done


def time_limit_tells_the_cause(runner):
    needs_combray(runner)
    options = ["--timeout", "2"]
    begun = time.monotonic()
    output = end_of(begin(runner, "tag", 2, options))
    assert time.monotonic() - begun < END_SECONDS_MAX, output
    assert "the time limit of 2 s has passed" in output, output
    assert re.search(CAUSES["tag"][1], output, re.M), output
    # A program that does not use MPI has nothing to report.
    code, output, seconds = run([*runner.mpiexec, "--timeout", "1", "-n", "1", "sleep", "60"])
    assert code == 124 and "waits for" not in output and seconds < 4, f"{seconds:.1f} s\n{output}"


def an_interrupt_reports_the_cause(runner):
    """Sends a signal as Ctrl-C does, or a batch system at the end of its time limit."""
    needs_combray(runner)
    for number in (signal.SIGINT, signal.SIGTERM):
        launcher = begin(runner, "tag", 2)
        ask_until(CAUSES["tag"][1], runner, launcher)
        begun = time.monotonic()
        launcher.send_signal(number)
        output = end_of(launcher)
        assert time.monotonic() - begun < END_SECONDS_MAX and launcher.returncode == 128 + number, output
        assert f"ended by {number.name}; still running: rank 0" in output, output
        assert re.search(CAUSES["tag"][1], output, re.M), output


def a_job_that_stands_still_ends(runner):
    needs_combray(runner)
    begun = time.monotonic()
    output = end_of(begin(runner, "tag", 2, ["--stall", "3"]))
    assert 3 < time.monotonic() - begun < END_SECONDS_MAX, output
    assert "no rank has made progress for 3 s" in output and re.search(CAUSES["tag"][1], output, re.M), output
    # One that computes, or does not answer, may go on.
    launcher = begin(runner, "chain", 2, ["--stall", "1"])
    time.sleep(4)
    assert launcher.poll() is None, end_of(launcher)
    end(launcher)


def programs_without_a_helper_are_known_by_the_system(runner):
    needs_combray(runner)
    launcher = begin(runner, "chain", 2, ["-x", "COMBRAY_HELPER=never"])
    time.sleep(HANG_SECONDS)
    output, _ = ask(runner, launcher)
    end(launcher)
    assert re.match(r"rank 0 waits for rank 1: it did not answer; its state in the kernel: sleeping", output), output


def programs_without_mpi_are_asked_too(runner):
    needs_combray(runner)
    words = [*runner.mpiexec, "-n", "2", "sleep", "60"]
    launcher = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    time.sleep(HANG_SECONDS)
    output, _ = ask(runner, launcher)
    end(launcher)
    assert output.startswith("no rank has waited for long"), output
    assert output.count("before the end of MPI_Init") == 2, output


def asked_job(runner, host, copy):
    """The output of `combray ps` on such a host of the job, where the program has this path."""
    code, listed, _ = run([*host, command(runner), "ps", "--json"])
    told = json.loads(listed.splitlines()[-1])
    found = [one for one in (told if isinstance(told, list) else [told]) if str(copy) in one["program"]]
    assert code == 0 and len(found) == 1, listed
    return str(found[0]["job"])


def told_under(runner, launch, name, count):
    """Starts a job by another launcher, and gives its program and what ends it."""
    folder = tempfile.TemporaryDirectory(dir=runner.build)
    copy = pathlib.Path(folder.name).resolve() / "hangs"
    subprocess.run(["cp", runner.build / "hangs", copy], check=True)
    launcher = subprocess.Popen([*launch, "-n", str(count), copy, name], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True)

    def ended():
        for process in processes_of(copy):
            # The launcher may end the others once the first one is gone.
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        launcher.kill()
        launcher.communicate()
        folder.cleanup()
    deadline = time.monotonic() + 30.0
    while len(processes_of(copy)) < count and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(HANG_SECONDS)
    return copy, ended


def explained_under(runner, launch, names, host=(), at_a_time=1):
    faults = []

    def look(name):
        copy, ended = told_under(runner, launch, name, CAUSES[name][0])
        try:
            asks = [*host, command(runner), "ps", asked_job(runner, host, copy)]
            code, output, _ = run(asks)
            # On a busy machine a report may come before all callers have been looked up.
            deadline = time.monotonic() + 30.0
            while not re.match(CAUSES[name][1], output.splitlines()[0]) and time.monotonic() < deadline:
                time.sleep(HANG_SECONDS)
                code, output, _ = run(asks)
            if code or not re.match(CAUSES[name][1], output.splitlines()[0]):
                faults.append(f"{name}:\n{output}")
        except AssertionError as problem:
            faults.append(f"{name}: {problem}")
        finally:
            ended()

    with concurrent.futures.ThreadPoolExecutor(at_a_time) as pool:
        list(pool.map(look, names))
    assert not faults, "\n".join(faults)


def hangs_under_hydra_are_explained(runner):
    needs_combray(runner)
    names = ("crossed", "ring", "tag", "communicator", "left", "libraries", "stopped", "computes")
    explained_under(runner, managers.hydra()(runner), names, at_a_time=4)


def hangs_under_prrte_are_explained(runner):
    """Two launchers: that of PRRTE itself, and that of Open MPI, which starts it."""
    needs_combray(runner)
    for launcher in ("prterun", "mpirun"):
        explained_under(runner, managers.prrte(launcher)(runner), ("ring", "tag", "left", "stopped"), at_a_time=4)


@needs("slurm")
def hangs_under_slurm_are_explained(runner):
    """One after the other, as steps of Slurm wait for cores."""
    needs_combray(runner)
    names = ("ring", "left", "stopped", "computes", "tag", "libraries", "locks", "unsent")
    explained_under(runner, managers.slurm("pmi2", "-w", "box1")(runner), names, [*managers.BOX, "on", "box1"])


@needs("slurm")
def what_two_hosts_of_slurm_tell_is_joined(runner):
    """Each host reports its own ranks and which are missing; both reports together show the cause.
    """
    needs_combray(runner)
    copy, ended = told_under(runner, managers.slurm("pmi2", hosts=2)(runner), "ring", 10)
    try:
        told = []
        for host in ([*managers.BOX, "on", "box1"], [*managers.BOX, "on", "box2"]):
            job = asked_job(runner, host, copy)
            code, output, _ = run([*host, command(runner), "ps", job])
            assert code == 0 and "runs on another machine, which was not queried" in output.splitlines()[0], output
            assert output.count("on another machine, not queried") == 5 and output.count("MPI_Recv  ") == 5, output
            told.append(run([*host, command(runner), "ps", job, "--json"])[1])
        done = subprocess.run([command(runner), "ps", "--join"], input="".join(told), capture_output=True, text=True)
        assert re.match(CAUSES["ring"][1], done.stdout), done
    finally:
        ended()


SCENARIOS = [
    hangs_under_hydra_are_explained,
    hangs_under_prrte_are_explained,
    hangs_under_slurm_are_explained,
    what_two_hosts_of_slurm_tell_is_joined,
    hangs_are_explained,
    calls_are_named_without_their_callers,
    a_job_is_asked_in_all_ways,
    time_limit_tells_the_cause,
    an_interrupt_reports_the_cause,
    a_job_that_stands_still_ends,
    programs_without_a_helper_are_known_by_the_system,
    programs_without_mpi_are_asked_too,
]
