"""Helpers for scenarios: Python functions that start jobs and observe them from outside.

A scenario takes the runner of tests/run, which has `mpicc`, `mpiexec`, `build` (a folder with the C
programs) and the compiler. An AssertionError is a failure, `Skip` a skip. SCENARIOS of its file lists it.
"""

import os
import pathlib
import re
import subprocess
import time

from .jobs import run

# A job that lost a process must be gone after so long.
END_SECONDS_MAX = 10.0
# The number of places of the pool that a scenario takes by default.
PLACES = 3


class Skip(Exception):
    """The scenario cannot be played here."""


def alone(reason):
    """Marks a scenario that must not run beside other jobs, with the reason."""
    def mark(function):
        function.alone = reason
        return function
    return mark


def places(count):
    """Marks a scenario that has so many processes at work."""
    def mark(function):
        function.places = count
        return function
    return mark


def needs(thing):
    """Marks a scenario that shares this thing with others, one at a time."""
    def mark(function):
        function.needs = thing
        return function
    return mark


def program(runner):
    """The program whose argument selects its behaviour (tests/c/job.c)."""
    return str(runner.build / "job")


def start(runner, count, *arguments, options=(), **more):
    """Run the job program; gives exit code, output (both streams), seconds."""
    command = [*runner.mpiexec, *options, "-n", str(count), program(runner), *arguments]
    return run(command, **more)


def is_combray(runner):
    code, output, _ = run([*runner.mpiexec, "--version"])
    return code == 0 and "ombray" in output


def needs_combray(runner):
    if not is_combray(runner):
        raise Skip("holds for Combray's launcher")


def processes_of(path):
    """The living processes that run this file."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "exe") == str(path):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def parent_of(process):
    return int(pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])


def own_copy(runner, folder):
    """The job program under a path of its own, which distinguishes its processes from others."""
    copy = pathlib.Path(folder).resolve() / "job"
    # By a process: what this one writes, its children hold open for a moment, and a file that is
    # open for writing cannot be run.
    subprocess.run(["cp", program(runner), copy], check=True)
    return copy


def wait_until_gone(path, seconds=END_SECONDS_MAX):
    deadline = time.monotonic() + seconds
    while left := processes_of(path):
        if time.monotonic() > deadline:
            raise AssertionError(f"processes {left} are still there after {seconds} s")
        time.sleep(0.02)


def end_of(launcher):
    """What a launcher still prints until it and all that hold its output have ended."""
    try:
        return launcher.communicate(timeout=END_SECONDS_MAX)[0]
    except subprocess.TimeoutExpired:
        raise AssertionError(f"no end after {END_SECONDS_MAX} s; there are\n{all_processes()}") from None


def all_processes():
    """A line for each process: its id, parent, state, the kernel function in which it waits, its
    command line."""
    lines = []
    for entry in sorted(pathlib.Path("/proc").glob("[0-9]*"), key=lambda entry: int(entry.name)):
        try:
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state, parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:2]
            waits = (entry / "wchan").read_text()
        except OSError:
            continue
        if words:
            lines.append(f"{entry.name:>7} {parent:>7} {state} {waits:24} {words}")
    return "\n".join(lines)


def traces():
    """What a job could leave behind on this machine."""
    shared = {f"/dev/shm/{name}" for name in os.listdir("/dev/shm")}
    temporary = {f"/tmp/{name}" for name in os.listdir("/tmp") if "combray" in name.lower()}
    return shared | temporary


def ends_badly(runner, how, *words):
    """A job of three processes of which the last ends like this; the job must end soon too, with
    these words."""
    code, output, seconds = start(runner, 3, how)
    assert code != 0, f"exit code 0\n{output}"
    assert seconds < END_SECONDS_MAX, f"{seconds:.1f} s\n{output}"
    if is_combray(runner):
        for word in words:
            assert re.search(word, output), f"the message does not say {word!r}:\n{output}"
        assert "last words of rank 2" in output, f"what the process wrote is lost:\n{output}"
        told = [line for line in output.splitlines() if re.search(words[0], line)]
        assert len(told) <= 3, f"the same is said {len(told)} times:\n{output}"
    return code


def check_survivors(output, ranks, what=""):
    """These ranks have come to their end behind the failure of another one, and no check has failed."""
    for rank in ranks:
        assert f"rank {rank} survives" in output, f"{what}: rank {rank}\n{output}"
    for words in ("expected", " gave class ", " got class ", " is false"):
        assert words not in output, f"{what}\n{output}"
