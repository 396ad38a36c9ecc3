"""Jobs that were started separately and connect to each other (tests/c/connected_jobs.c)."""

import contextlib
import pathlib
import subprocess
import tempfile

from harness.scenarios import END_SECONDS_MAX, end_of, needs_combray, places, run

# So long, two connected jobs may take on a busy machine.
SECONDS_MAX = 60


def program(runner):
    return str(runner.build / "connected_jobs")


@contextlib.contextmanager
def two_jobs(runner, what, accepting, connecting, options=()):
    """Starts both; gives both launchers."""
    with tempfile.TemporaryDirectory(prefix="connecting-") as folder:
        file = str(pathlib.Path(folder) / "port")
        job = lambda count, side: subprocess.Popen(
            [*runner.mpiexec, *options, "-n", str(count), program(runner), what, side, file],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        jobs = job(accepting, "accept"), job(connecting, "connect")
        try:
            yield jobs
        finally:
            for one in jobs:
                if one.poll() is None:
                    one.terminate()
                    one.wait()


def ends_well(launcher, count):
    output = launcher.communicate(timeout=SECONDS_MAX)[0]
    assert launcher.returncode == 0, output
    for rank in range(count):
        assert f"rank {rank} is done" in output, output


def both_end_well(runner, what, *counts):
    needs_combray(runner)
    with two_jobs(runner, what, *counts) as jobs:
        for job, count in zip(jobs, counts):
            ends_well(job, count)


def one_process_of_each(runner):
    both_end_well(runner, "whole", 1, 1)


@places(5)
def several_processes(runner):
    both_end_well(runner, "whole", 2, 3)
    both_end_well(runner, "whole", 3, 1)


@places(4)
def connections_between_the_same_jobs(runner):
    both_end_well(runner, "again", 2, 2)


@places(3)
def a_job_survives_the_other_one(runner):
    needs_combray(runner)
    with two_jobs(runner, "survives", 2, 1) as (survivor, killed):
        ends_well(survivor, 2)
        assert end_of(killed) is not None and killed.returncode != 0


def names_that_lead_nowhere(runner):
    needs_combray(runner)
    for count in (1, 3):
        code, output, seconds = run([*runner.mpiexec, "-n", str(count), program(runner), "refused", "connect"])
        assert code == 0 and output.count("is done") == count, output
        assert seconds < END_SECONDS_MAX, f"{seconds:.1f} s"


SCENARIOS = [
    one_process_of_each,
    several_processes,
    connections_between_the_same_jobs,
    a_job_survives_the_other_one,
    names_that_lead_nowhere,
]
