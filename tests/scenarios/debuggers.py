"""What debuggers find in a launcher: the processes of its job (tests/c/mpir_client.c is a small one)."""

import os
import platform
import re
import shutil
import subprocess
import time

from harness.scenarios import Skip, end_of, needs_combray, program, run

from . import hangs, hosts


def client(runner):
    needs_combray(runner)
    return str(runner.build / "mpir_client")


def table(output):
    """The lines of a table: host, program and number of each rank."""
    lines = re.findall(r"^(\d+) (\S+) (\S+) (\d+)$", output, re.M)
    assert [int(line[0]) for line in lines] == list(range(len(lines))), output
    return [(host, file, int(number)) for _, host, file, number in lines]


def started(runner, command, count, environment=()):
    """A job that a debugger starts: no rank leaves MPI_Init before the debugger releases it.
    Returns the table."""
    if platform.machine() != "x86_64":
        raise Skip("the small debugger starts launchers on x86-64 only")
    code, output, _ = run([*environment, client(runner), *command], timeout=60.0)
    assert code == 0 and "state 1" in output, output
    before, after = output.split("go on\n")
    assert f"{count} processes" in before and "rank" not in before, output
    assert sorted(after.splitlines()) == [f"rank {rank} of {count}" for rank in range(count)], output
    return table(before)


def a_debugger_starts_a_job(runner):
    lines = started(runner, [*runner.mpiexec, "-n", "3", program(runner), "hello"], 3)
    assert [file for _, file, _ in lines] == [os.path.realpath(program(runner))] * 3, lines
    assert len({host for host, _, _ in lines}) == 1 and len({number for _, _, number in lines}) == 3, lines


def a_debugger_finds_the_processes_of_a_job_that_runs(runner):
    words = [*runner.mpiexec, "-n", "2", program(runner), "wait"]
    launcher = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    waiting = sorted(int(launcher.stdout.readline().split()[1]) for _ in range(2))
    code, output, _ = run([client(runner), "-p", str(launcher.pid)])
    launcher.terminate()
    end_of(launcher)
    assert code == 0 and sorted(number for _, _, number in table(output)) == waiting, output


def a_debugger_starts_a_job_on_two_hosts(runner):
    with hosts.hosts(runner, 2) as here:
        command = here.job("box1:2,box2:1", program(runner), "hello")
        # The debugger starts the launcher itself, not what sets its variables.
        lines = started(runner, command[len(here.environment):], 3, here.environment)
    assert [host for host, _, _ in lines] == ["box1", "box1", "box2"], lines


# What a process of tests/c/queues.c has; a line for each in tests/c/mqs_client.c's words.
QUEUES = """\
MPI_COMM_WORLD: rank 0 of 2, in the job 0 1
  send: rank 1, in the job 1, tag 9, 4194304 bytes, first l, status 0: announced: waits for its receive
  receive: rank -1, in the job -1, tag 7, 40 bytes, first -, status 0: waits for a message
  receive: rank 1, in the job 1, tag 11, 80 bytes, first -, status 0: waits for a message
  receive: rank 1, in the job 1, tag 99, 1 bytes, first -, status 0: waits for a message
  message: rank 1, in the job 1, tag 5, 100 bytes, first -, status 1: arrived before its receive
  message: rank 1, in the job 1, tag 5, 10 bytes, first -, status 1: arrived before its receive
MPI_COMM_SELF: rank 0 of 1, in the job 0
turned: rank 1 of 2, in the job 1 0
  send: rank 0, in the job 1, tag 10, 30 bytes, first l, status 0: synchronous: waits for its receive
  receive: rank 0, in the job 1, tag 12, 70 bytes, first -, status 0: waits for a message
  message: rank 0, in the job 1, tag 6, 20 bytes, first -, status 1: arrived before its receive
"""


def a_debugger_sees_the_message_queues_of_a_process_that_is_stopped(runner):
    needs_combray(runner)
    launcher = subprocess.Popen([*runner.mpiexec, "-n", "2", str(runner.build / "queues")],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        line = launcher.stdout.readline().split()
        assert line[:1] == ["waiting"], line
        # The receive that it waits in is posted after that.
        time.sleep(0.5)
        for _ in range(2):
            code, output, _ = run([str(runner.build / "mqs_client"), line[1]])
            head, queues = output.split("\n", 1)
            assert code == 0 and re.fullmatch(r"Combray message queues \S+, version 2, 8 bytes", head), output
            assert queues == QUEUES, output
    finally:
        launcher.terminate()
        end_of(launcher)


# How gdb finds the fields of an entry of the table; the launcher needs no debug information.
HOST, FILE, NUMBER = (f"*({kind}*)(*(char**)&MPIR_proctable + 24 * {{}} + {offset})"
                      for kind, offset in (("char*", 0), ("char*", 8), ("int", 16)))


def gdb(*commands, of=()):
    """What gdb prints that carries out these commands."""
    if not shutil.which("gdb"):
        raise Skip("needs gdb")
    # Else it reads expressions as those of the function that was stopped.
    words = [word for command in ("set language c", *commands) for word in ("-ex", command)]
    code, output, _ = run(["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", *words, *of], timeout=120.0)
    if "ptrace: Operation not permitted" in output:
        raise Skip("this system does not let gdb attach to processes")
    assert code == 0, output
    return output


def printing(count):
    """The commands that print the size of the table, and so many of its entries."""
    entries = [f'printf "entry %s %s %d\\n", {HOST}, {FILE}, {NUMBER}'.format(*[index] * 3) for index in range(count)]
    return ['printf "size %d\\n", *(int*)&MPIR_proctable_size', *entries]


def printed(output, file, count):
    """The processes that gdb printed, of so many ranks that run this file."""
    assert f"size {count}\n" in output, output
    entries = re.findall(r"^entry (\S+) (\S+) (\d+)$", output, re.M)
    assert [entry[1] for entry in entries] == [os.path.realpath(file)] * count, output
    assert {entry[0] for entry in entries} == {platform.node()}, output
    return [int(entry[2]) for entry in entries]


def gdb_attaches_to_a_job_that_stands_still(runner):
    """Attaches to the launcher, whose table lists the ranks; then to a rank, which shows the call
    in which it waits."""
    needs_combray(runner)
    launcher = hangs.begin(runner, "crossed", 2)
    try:
        time.sleep(hangs.HANG_SECONDS)
        processes = printed(gdb(*printing(2), of=["-p", str(launcher.pid)]), runner.build / "hangs", 2)
        for process in processes:
            stack = gdb("thread apply all backtrace", of=["-p", str(process)])
            # Functions that were inlined or merged have no address.
            frames = re.findall(r"^#\d+ +(?:0x\w+ in )?(\w+) \(", stack, re.M)
            inside = [name for name in frames if name in ("MPI_Recv", "PMPI_Recv", "receive", "crossed", "main")]
            assert inside[-4:-3] in (["MPI_Recv"], ["PMPI_Recv"]), stack
            assert inside[-3:] == ["receive", "crossed", "main"], stack
        # Both were let go on.
        output, _ = hangs.ask(runner, launcher)
        assert output.startswith("ranks 0 and 1 wait for each other"), output
    finally:
        hangs.end(launcher)


def gdb_starts_a_job(runner):
    """As a parallel debugger does: the ranks are stopped in MPI_Init until it has their table."""
    needs_combray(runner)
    output = gdb("starti", "set var *(int*)&MPIR_being_debugged = 1", "break MPIR_Breakpoint", "continue",
                 *printing(3), "continue", of=["--args", *runner.mpiexec, "-n", "3", program(runner), "hello"])
    processes = printed(output, program(runner), 3)
    assert len(set(processes)) == 3, output
    before, after = output.split("size 3", 1)
    assert "rank" not in before.split("Breakpoint 1, ")[1], output
    assert sorted(re.findall(r"^rank \d of 3$", after, re.M)) == [f"rank {rank} of 3" for rank in range(3)], output


SCENARIOS = [
    gdb_attaches_to_a_job_that_stands_still,
    gdb_starts_a_job,
    a_debugger_sees_the_message_queues_of_a_process_that_is_stopped,
    a_debugger_starts_a_job,
    a_debugger_finds_the_processes_of_a_job_that_runs,
    a_debugger_starts_a_job_on_two_hosts,
]
