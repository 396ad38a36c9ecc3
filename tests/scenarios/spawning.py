"""Jobs that processes have spawned, observed from outside (tests/c/spawned_jobs.c): one of the two
jobs ends, and nothing is left of what must end with it."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

from harness.scenarios import (
    END_SECONDS_MAX, end_of, needs_combray, places, processes_of, run, wait_until_gone,
)

from . import hangs

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


def independent_jobs_end_well(start, copy):
    """Jobs that live on when their parents have ended, and end by themselves or with the launcher.
    `start` returns the command for a job of one process with these options."""
    command = lambda how, *options: start(*options) + [copy, how]
    code, output, _ = run(command("apart"))
    assert code == 0 and output.count("child goes on") == CHILDREN, f"exit code {code}\n{output}"
    code, output, _ = run(command("apart-fails"))
    assert code == 3, f"the failure of a job without parents is that of the launcher: {code}\n{output}"
    wait_until_gone(copy)
    code, output, _ = run(command("stays", "--timeout", "4"))
    assert code == 124 and f"still running: {copy}" in output, f"exit code {code}\n{output}"
    wait_until_gone(copy)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        launcher = subprocess.Popen(command("stays"), text=True, stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        left = CHILDREN
        while left:
            line = launcher.stdout.readline()
            assert line, f"exit code {launcher.wait()}"
            left -= "child stays" in line
        # Only the spawned job is left.
        deadline = time.monotonic() + END_SECONDS_MAX
        while len(processes_of(copy)) != CHILDREN:
            assert time.monotonic() < deadline, processes_of(copy)
            time.sleep(0.02)
        launcher.send_signal(number)
        output = end_of(launcher)
        expected = -number if number == signal.SIGKILL else 128 + number
        assert launcher.returncode == expected, f"exit code {launcher.returncode}\n{output}"
        wait_until_gone(copy)


@places(3)
def independent_jobs_end_well_on_one_machine(runner):
    needs_combray(runner)
    with own_program(runner) as copy:
        independent_jobs_end_well(lambda *options: [*runner.mpiexec, "-n", "1", *options], copy)


def line_of(what, text):
    [line] = [line for line in text.splitlines() if what in line]
    return line


@places(5)
def jobs_are_listed_below_those_that_have_spawned_them(runner):
    """`combray ps`, while a job and one that it has spawned run, and when only the second one does."""
    needs_combray(runner)
    ps = lambda *words: run([hangs.command(runner), "ps", *map(str, words)])[1]
    # With one job, that job is shown.
    with own_program(runner) as copy, subprocess.Popen([*runner.mpiexec, "-n", "1", "cat"], stdin=subprocess.PIPE):
        for how, stage in ("waits", "connected"), ("stays", "independent"):
            launcher = subprocess.Popen([*runner.mpiexec, "-n", "2", copy, how], text=True, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            try:
                awaited = {f"child {'runs' if how == 'waits' else 'stays'} {rank}" for rank in range(CHILDREN)}
                while awaited:
                    line = launcher.stdout.readline()
                    assert line, f"exit code {launcher.wait()}"
                    awaited.discard(line.strip())
                report = json.loads(ps(launcher.pid, "--json"))
                [spawned] = report["spawned"]
                assert (spawned["stage"], spawned["ranks"]) == (stage, CHILDREN), spawned
                expected = f"spawned job {spawned['job']} on {spawned['host']}: {copy} {how}, {CHILDREN} ranks on"
                assert line_of("spawned job ", ps(launcher.pid)).startswith(expected), ps(launcher.pid)
                listed = ps().splitlines()
                at = next(at for at, line in enumerate(listed) if line.split()[0] == str(launcher.pid))
                assert expected in listed[at + 1] and stage in listed[at + 1], listed
                assert not any(line.split()[0] == str(spawned["job"]) for line in listed), listed
                own = json.loads(ps(spawned["job"], "--json"))
                assert own["job"] == spawned["job"] and len(own["ranks"]) == CHILDREN, own
            finally:
                launcher.terminate()
                end_of(launcher)
            wait_until_gone(copy)


@places(4)
def checks_and_profiles_cover_spawned_jobs(runner):
    """Both jobs are checked, each by itself, and have reports of their own."""
    needs_combray(runner)
    with own_program(runner) as copy:
        file = copy.with_name("run.json")
        for options in ["--check"], ["--check", "--profile", str(file)]:
            code, output, _ = run([*runner.mpiexec, *options, "-n", "2", copy, "apart"])
            assert code == 0 and output.count("child goes on") == CHILDREN, f"exit code {code}\n{output}"
        reports = sorted(copy.parent.glob("run*.json"))
        assert len(reports) == 2 and re.fullmatch(r"run\.job\d+\.json", reports[0].name), reports
        assert all(json.loads(report.read_text()) for report in reports)


@places(3)
def parents_get_an_error_when_a_spawned_job_fails(runner):
    needs_combray(runner)
    with own_program(runner) as copy:
        keeps_going = [*runner.mpiexec, "--keep-going", "-n", "1"]
        for launcher, how in (([], "child-dies"), ([], "child-aborts"), ([*runner.mpiexec, "-n", "1"], "child-dies"),
                              ([*runner.mpiexec, "-n", "1"], "child-aborts"), (keeps_going, "child-aborts")):
            code, output, _ = run([*launcher, copy, how])
            assert code == 0 and "parent got an error 0" in output, f"{how}: exit code {code}\n{output}"
            wait_until_gone(copy)


@places(3)
def processes_that_have_finalized_give_back_their_slots(runner):
    """The first spawned processes live for longer than slots are waited for."""
    needs_combray(runner)
    environment = {**os.environ, "TEST_END_US": "6000000"}
    for options in [], ["--nooversubscribe"]:
        words = ["--hosts", "localhost:3", *options, "-n", "1", str(runner.build / "spawned_places"), "2", "2"]
        code, output, _ = run([*runner.mpiexec, *words], env=environment)
        assert code == 0 and output.count("children:") == 2 and "slots" not in output, f"exit code {code}\n{output}"


@places(3)
def lines_of_spawned_processes_name_their_job_and_rank(runner):
    needs_combray(runner)
    with own_program(runner) as copy:
        for option, stream in (("--tag-output", "<stdout>:"), ("-l", "")):
            code, output, _ = run([*runner.mpiexec, option, "-n", "1", copy, "apart"])
            assert code == 0, f"exit code {code}\n{output}"
            for rank in range(CHILDREN):
                line = rf"^\[0\]{stream} \[\d+:{rank}\]{stream} child goes on {rank}$"
                assert re.search(line, output, re.MULTILINE), f"{line} is not in\n{output}"
            assert re.search(rf"^\[0\]{stream} parent runs 0$", output, re.MULTILINE), output
        code, output, _ = run([*runner.mpiexec, "-n", "1", copy, "apart"])
        assert code == 0 and "[" not in output, f"exit code {code}\n{output}"
        wait_until_gone(copy)


SCENARIOS = [
    lines_of_spawned_processes_name_their_job_and_rank,
    a_spawned_job_ends_when_a_process_without_launcher_is_killed,
    a_spawned_job_ends_when_the_job_of_its_parents_fails,
    a_spawned_job_ends_when_its_parents_abort,
    a_spawned_job_ends_when_the_user_interrupts_its_parents,
    disconnected_jobs_live_on,
    independent_jobs_end_well_on_one_machine,
    jobs_are_listed_below_those_that_have_spawned_them,
    checks_and_profiles_cover_spawned_jobs,
    survivors_of_both_jobs_spawn_another_process,
    parents_get_an_error_when_a_spawned_job_fails,
    processes_that_have_finalized_give_back_their_slots,
]
