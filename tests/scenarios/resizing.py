"""`combray resize`, and what programs are told of it (tests/c/wanted_size.c)."""

import pathlib
import re
import subprocess
import time

from harness.scenarios import END_SECONDS_MAX, needs_combray, places, run

# So long, a busy machine may take until a program has looked.
SECONDS_MAX = 60


def combray(runner):
    """The command beside the launcher."""
    return str(pathlib.Path(runner.mpiexec[0]).resolve().with_name("combray"))


def resize(runner, *words):
    return run([combray(runner), "resize", *map(str, words)], timeout=SECONDS_MAX)[:2]


@places(2)
def all_ranks_are_told(runner):
    needs_combray(runner)
    job = subprocess.Popen([*runner.mpiexec, "-n", "2", str(runner.build / "wanted_size"), "9"],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        # The launcher of a job is found by its process number when it listens.
        resized = lambda *words: resize(runner, *words, job.pid)
        wait_until(lambda: "it had 2 when it last looked" in resized(5)[1], "the program has not looked")
        told = [job.stdout.readline() for _ in range(2)]
        assert sorted(told) == [f"rank {rank}: 5 processes on no host\n" for rank in range(2)], told
        assert resized("+2")[0] == 0
        told = [job.stdout.readline() for _ in range(2)]
        assert sorted(told) == [f"rank {rank}: 7 processes on no host\n" for rank in range(2)], told
        code, said = resized("--hosts", "a:2, b", "-1")
        assert code == 0 and "6 processes" in said, said
        told = [job.stdout.readline() for _ in range(2)]
        assert sorted(told) == [f"rank {rank}: 6 processes on a:2,b\n" for rank in range(2)], told
        for words, why in [(("-6",), "must keep at least one"), (("0",), "must keep at least one"),
                           (("--hosts", "-o", 3), "--hosts"), (("many",), "must be a number of processes")]:
            code, said = resized(*words)
            assert code == 2 and why in said, said
        assert resized("9")[0] == 0
        output = job.communicate(timeout=SECONDS_MAX)[0]
        assert job.returncode == 0 and "9 processes on no host" in output, output
    finally:
        if job.poll() is None:
            job.terminate()
            job.wait(END_SECONDS_MAX)
    code, said = resize(runner, 3, job.pid)
    assert code == 2 and re.search(rf"no job {job.pid} ", said), said


def wait_until(is_so, what):
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


SCENARIOS = [all_ranks_are_told]
