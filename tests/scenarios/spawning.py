"""Jobs that processes have spawned, observed from outside (tests/c/spawned_jobs.c): one of the two
jobs ends, and nothing is left of what must end with it."""

import contextlib
import pathlib
import signal
import subprocess
import tempfile

from harness.scenarios import end_of, needs_combray, places, run, wait_until_gone

CHILDREN = 2


@contextlib.contextmanager
def own_program(runner):
    """The program under a path of its own, by which its processes are known."""
    with tempfile.TemporaryDirectory(prefix="combray-spawning-") as folder:
        copy = pathlib.Path(folder).resolve() / "spawned_jobs"
        # By a process: see harness.scenarios.own_copy.
        subprocess.run(["cp", str(runner.build / "spawned_jobs"), copy], check=True)
        yield copy


def ends_with_its_parents(runner, how, count, words):
    """The job of the parents ends in this way, and the spawned job with it."""
    needs_combray(runner)
    with own_program(runner) as copy:
        launcher = [*runner.mpiexec, "-n", str(count)] if count else []
        code, output, _ = run([*launcher, copy, how])
        have_run = all(f"child runs {rank}" in output for rank in range(CHILDREN))
        assert code != 0 and have_run and words in output, f"exit code {code}\n{output}"
        wait_until_gone(copy)


@places(3)
def a_spawned_job_ends_when_a_process_without_launcher_is_killed(runner):
    ends_with_its_parents(runner, "killed", 0, "has ended without MPI_Finalize")


@places(4)
def a_spawned_job_ends_when_the_job_of_its_parents_fails(runner):
    ends_with_its_parents(runner, "killed", 2, "SIGKILL")


@places(4)
def a_spawned_job_ends_when_its_parents_abort(runner):
    ends_with_its_parents(runner, "aborted", 2, "MPI_Abort")
    ends_with_its_parents(runner, "aborted", 0, "MPI_Abort")


@places(3)
def a_spawned_job_ends_when_the_user_interrupts_its_parents(runner):
    needs_combray(runner)
    with own_program(runner) as copy:
        launcher = subprocess.Popen([*runner.mpiexec, "-n", "1", copy, "waits"], text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        while "parent runs" not in launcher.stdout.readline():
            assert launcher.poll() is None
        launcher.send_signal(signal.SIGINT)
        end_of(launcher)
        wait_until_gone(copy)


@places(4)
def survivors_of_both_jobs_spawn_another_process(runner):
    needs_combray(runner)
    for killed, left in ("child", 4), ("parent", 4):
        command = [*runner.mpiexec, "--keep-going", "-n", "2", str(runner.build / "spawned_recover"), killed]
        code, output, _ = run(command)
        assert output.count("has recovered") == left, f"exit code {code}\n{output}"
        assert (code == 0) == (killed == "child"), f"exit code {code}\n{output}"


@places(4)
def disconnected_jobs_live_on(runner):
    """The launcher of the parents waits for the jobs that they have spawned, whose output it prints."""
    needs_combray(runner)
    with own_program(runner) as copy:
        for count in (1, 2):
            code, output, seconds = run([*runner.mpiexec, "-n", str(count), copy, "apart"])
            assert code == 0 and output.count("child goes on") == CHILDREN, f"exit code {code}\n{output}"
            wait_until_gone(copy)
        # Without a launcher, nothing waits.
        code, output, _ = run([copy, "apart"])
        assert code == 0, f"exit code {code}\n{output}"
        wait_until_gone(copy)


@places(3)
def parents_get_an_error_when_a_spawned_job_fails(runner):
    needs_combray(runner)
    with own_program(runner) as copy:
        for launcher in ([], [*runner.mpiexec, "-n", "1"]):
            code, output, _ = run([*launcher, copy, "child-dies"])
            assert code == 0 and "parent got an error 0" in output, f"exit code {code}\n{output}"
            wait_until_gone(copy)


SCENARIOS = [
    a_spawned_job_ends_when_a_process_without_launcher_is_killed,
    a_spawned_job_ends_when_the_job_of_its_parents_fails,
    a_spawned_job_ends_when_its_parents_abort,
    a_spawned_job_ends_when_the_user_interrupts_its_parents,
    disconnected_jobs_live_on,
    survivors_of_both_jobs_spawn_another_process,
    parents_get_an_error_when_a_spawned_job_fails,
]
