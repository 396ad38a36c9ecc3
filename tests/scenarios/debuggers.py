"""What debuggers find in a launcher: the processes of its job (tests/c/mpir_client.c is a small one)."""

import os
import platform
import re
import subprocess
import time

from harness.scenarios import Skip, end_of, needs_combray, program, run

from . import hosts


def client(runner):
    needs_combray(runner)
    return str(runner.build / "mpir_client")


def table(output):
    """The lines of a table: host, program and number of each rank."""
    lines = re.findall(r"^(\d+) (\S+) (\S+) (\d+)$", output, re.M)
    assert [int(line[0]) for line in lines] == list(range(len(lines))), output
    return [(host, file, int(number)) for _, host, file, number in lines]


def started(runner, command, count, environment=()):
    """A job that a debugger starts: nobody is through MPI_Init before it says so. Gives the table."""
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


SCENARIOS = [
    a_debugger_sees_the_message_queues_of_a_process_that_is_stopped,
    a_debugger_starts_a_job,
    a_debugger_finds_the_processes_of_a_job_that_runs,
    a_debugger_starts_a_job_on_two_hosts,
]
