"""Jobs that were started separately and connect to each other (tests/c/connected_jobs.c)."""

import contextlib
import ctypes
import pathlib
import subprocess
import tempfile
import time

from harness.scenarios import END_SECONDS_MAX, PLACES, Skip, end_of, needs_combray, places, run

from . import hangs

# So long, two connected jobs may take on a busy machine.
SECONDS_MAX = 240


def program(runner):
    return str(runner.build / "connected_jobs")


def apart(side):
    """Options by which the jobs of both sides count as on two machines."""
    return ["-x", f"COMBRAY_NODE={side}"]


@contextlib.contextmanager
def two_jobs(runner, what, accepting, connecting, launcher=None):
    """Starts both; gives both launchers. `launcher` returns the launcher of a side, with options."""
    needs_combray(runner)
    launcher = launcher or (lambda side: runner.mpiexec)
    with tempfile.TemporaryDirectory(prefix="connecting-") as folder:
        file = str(pathlib.Path(folder) / "port")
        job = lambda count, side: subprocess.Popen(
            [*launcher(side), "-n", str(count), program(runner), what, side, file],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        jobs = job(accepting, "accept"), job(connecting, "connect")
        try:
            yield jobs
        except AssertionError as problem:
            raise AssertionError("".join([str(problem), *map(what_the_other_printed, jobs)])) from None
        finally:
            for one in jobs:
                if one.poll() is None:
                    one.terminate()
                    one.wait()


def what_the_other_printed(launcher):
    """The end of a job whose output has not been read, as the fault of a job is often an effect of the other's."""
    if launcher.stdout.closed:
        return ""
    try:
        launcher.wait(END_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        launcher.terminate()
    return f"\nthe other job:\n{launcher.communicate()[0]}"


def ends_well(launcher, count):
    output = launcher.communicate(timeout=SECONDS_MAX)[0]
    assert launcher.returncode == 0, output
    for rank in range(count):
        assert f"rank {rank} is done" in output, output


def both_end_well(runner, what, *counts, launcher=None):
    with two_jobs(runner, what, *counts, launcher) as jobs:
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


@places(4)
def connections_that_come_and_go_leave_nothing(runner):
    # The first quarter of them takes what the processes keep for further messages.
    both_end_well(runner, "often:480", 2, 2)
    both_end_well(runner, "often:40", 1, 2, launcher=lambda side: [*runner.mpiexec, *apart(side)])


@places(5)
def ends_of_a_connection_close_at_different_times(runner):
    for launcher in (None, lambda side: [*runner.mpiexec, *apart(side)]):
        both_end_well(runner, "closing", 1, 1, launcher=launcher)
        both_end_well(runner, "closing", 3, 2, launcher=launcher)


@places(3)
def a_job_survives_the_other_one(runner):
    for launcher in (None, lambda side: [*runner.mpiexec, *apart(side)]):
        with two_jobs(runner, "survives", 2, 1, launcher) as (survivor, killed):
            ends_well(survivor, 2)
            assert end_of(killed) is not None and killed.returncode != 0


@places(5)
def survivors_of_both_jobs_recover(runner):
    keep = lambda side: ["--keep-going"] if side == "connect" else []
    for options in (lambda side: [], apart):
        launcher = lambda side: [*runner.mpiexec, *keep(side), *options(side)]
        with two_jobs(runner, "recovers", 2, 3, launcher) as (whole, reduced):
            ends_well(whole, 2)
            output = reduced.communicate(timeout=SECONDS_MAX)[0]
            assert reduced.returncode != 0 and output.count("is done") == 2, output


@places(5)
def windows_and_files_of_both_jobs(runner):
    for launcher in (None, lambda side: [*runner.mpiexec, *apart(side)]):
        both_end_well(runner, "stores", 2, 3, launcher=launcher)
    both_end_well(runner, "stores", 1, 1)


@places(5)
def windows_and_files_of_survivors_of_both_jobs(runner):
    keep = lambda side: ["--keep-going"] if side == "connect" else []
    for options in (lambda side: [], apart):
        launcher = lambda side: [*runner.mpiexec, *keep(side), *options(side)]
        with two_jobs(runner, "stores-survive", 2, 3, launcher) as (whole, reduced):
            ends_well(whole, 2)
            output = reduced.communicate(timeout=SECONDS_MAX)[0]
            assert reduced.returncode != 0 and output.count("is done") == 2, output


@places(5)
def jobs_on_two_machines(runner):
    launcher = lambda side: [*runner.mpiexec, *apart(side)]
    both_end_well(runner, "whole", 1, 1, launcher=launcher)
    both_end_well(runner, "whole", 2, 3, launcher=launcher)
    both_end_well(runner, "again", 2, 1, launcher=launcher)


@places(PLACES)
def one_process_of_a_large_job_meets_another_machine_alone(runner):
    try:
        ctypes.CDLL("libfabric.so.1")
    except OSError:
        raise Skip("no libfabric") from None
    # Interfaces of libfabric need progress, and only this process uses one. So many processes
    # meet at the launcher.
    networks = ["-x", "COMBRAY_NET=tcp,ofi:tcp:lo"]
    both_end_well(runner, "alone", 132, 1, launcher=lambda side: [*runner.mpiexec, *apart(side), *networks])


@places(4)
def networks_over_which_jobs_do_not_connect_are_named(runner):
    try:
        ctypes.CDLL("libfabric.so.1")
    except OSError:
        raise Skip("no libfabric") from None
    launcher = lambda side: [*runner.mpiexec, *apart(side), "-x", "COMBRAY_NET=ofi:tcp:lo"]
    with two_jobs(runner, "whole", 2, 2, launcher) as both:
        for job in both:
            output = job.communicate(timeout=SECONDS_MAX)[0]
            assert job.returncode != 0 and "COMBRAY_NET excludes: add it, as in COMBRAY_NET=ofi,tcp" in output, output


@places(4)
def services_are_found_by_their_names(runner):
    for variable in ("COMBRAY_NAMES", "XDG_RUNTIME_DIR"):
        with tempfile.TemporaryDirectory(prefix="names-") as folder:
            launcher = lambda _: [*runner.mpiexec, "-x", f"{variable}={folder}"]
            both_end_well(runner, "published", 1, 2, launcher=launcher)
            left = [path for path in pathlib.Path(folder).rglob("*") if path.is_file()]
            assert not left, f"names are left: {left}"


def published_services_are_listed_and_removed(runner):
    """`combray names`: a service of a process that was killed, and one of a process that runs."""
    needs_combray(runner)
    with tempfile.TemporaryDirectory(prefix="names-") as folder:
        names = lambda *words: run(["env", f"COMBRAY_NAMES={folder}", hangs.command(runner), "names", *words])
        code, output, _ = names()
        assert code == 0 and output == f"no service is published in {folder}\n", output
        job = subprocess.Popen([*runner.mpiexec, "-x", f"COMBRAY_NAMES={folder}", "-n", "1", runner.build / "connected_jobs",
                                "published", "accept", "ocean"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        deadline = time.monotonic() + SECONDS_MAX
        while output.startswith("no service"):
            assert time.monotonic() < deadline and job.poll() is None, output
            output = names()[1]
        lines = output.splitlines()
        assert len(lines) == 3 and lines[0].startswith("service ") and "has ended" not in output, output
        code, output, _ = names("--remove-ended")
        assert (code, output) == (0, "") and len(list(pathlib.Path(folder).iterdir())) == 1, output
        job.kill()
        job.communicate()
        while "has ended" not in names()[1]:
            assert time.monotonic() < deadline
        code, output, _ = names("--remove-ended")
        assert code == 0 and output.startswith("removed: ") and not list(pathlib.Path(folder).iterdir()), output
        code, output, _ = names("--remove", "ocean")
        assert code == 2 and 'no service "ocean" is published' in output, output


def processes_with_a_socket_in_common(runner):
    both_end_well(runner, "joined", 1, 1)


def a_wait_for_another_job_is_explained(runner):
    with two_jobs(runner, "whole", 2, 1, lambda side: runner.mpiexec if side == "accept" else ["true"]) as (job, _):
        wanted = ["another job, at a port", "it waits in MPI_Comm_accept until another job connects"]
        deadline = time.monotonic() + SECONDS_MAX
        output = ""
        while not all(words in output for words in wanted):
            assert time.monotonic() < deadline, output
            output = run([hangs.command(runner), "ps", str(job.pid)])[1]


def halves_of_a_job(runner):
    needs_combray(runner)
    for count in (2, 3):
        code, output, _ = run([*runner.mpiexec, "-n", str(count), program(runner), "halves", ""])
        assert code == 0 and output.count("is done") == count, output


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
    connections_that_come_and_go_leave_nothing,
    ends_of_a_connection_close_at_different_times,
    a_job_survives_the_other_one,
    survivors_of_both_jobs_recover,
    windows_and_files_of_both_jobs,
    windows_and_files_of_survivors_of_both_jobs,
    jobs_on_two_machines,
    one_process_of_a_large_job_meets_another_machine_alone,
    networks_over_which_jobs_do_not_connect_are_named,
    services_are_found_by_their_names,
    published_services_are_listed_and_removed,
    processes_with_a_socket_in_common,
    a_wait_for_another_job_is_explained,
    halves_of_a_job,
    names_that_lead_nowhere,
]
