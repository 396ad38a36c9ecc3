"""Jobs observed from outside: how they start, what they print, how they end, what they leave."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

from harness.scenarios import (
    END_SECONDS_MAX, Skip, alone, check_survivors, end_of, ends_badly, is_combray, needs_combray, own_copy, program, run,
    start, traces, wait_until_gone,
)

# So long, start and finish is repeated, at most so often.
CYCLES_SECONDS, CYCLES_MAX = 5.0, 1000


def hello(runner):
    for count in (1, 2, 5):
        code, output, _ = start(runner, count, "hello")
        assert code == 0, output
        lines = sorted(line for line in output.splitlines() if line.startswith("rank"))
        assert lines == [f"rank {rank} of {count}" for rank in range(count)], output


def programs_of_a_rank_run_one_after_the_other(runner):
    needs_combray(runner)
    shell = lambda script: run([*runner.mpiexec, "-n", "2", "sh", "-c", script, program(runner)])
    code, output, _ = shell('"$0" hello; "$0" hello')
    assert code == 0 and output.count("rank 1 of 2") == 2, output
    code, output, _ = shell('"$0" hello & "$0" hello; wait')
    if code:
        # The two may also have run one after the other, which is no error.
        assert re.search(r"of the same rank, uses MPI|two processes of a rank use MPI", output), output


def ranks_of_large_jobs_are_started_beside_few_descriptors(runner):
    """Each start copies the descriptors of the launcher, so those of earlier ranks must be out of the way."""
    needs_combray(runner)
    count = 200
    script = "echo $PMI_RANK $PMI_FD; echo $PMI_RANK >&2"
    code, output, _ = run([*runner.mpiexec, "-n", str(count), "--tag-output", "sh", "-c", script])
    assert code == 0, output
    lines = re.findall(r"^\[(\d+)\]<stdout>: (\d+) (\d+)$", output, re.M)
    assert sorted(int(rank) for _, rank, _ in lines) == list(range(count)), output
    errors = re.findall(r"^\[(\d+)\]<stderr>: (\d+)$", output, re.M)
    assert len(errors) == count, output
    assert all(tag == rank for tag, rank, *_ in lines + errors), f"the output of another rank\n{output}"
    highest = max(int(descriptor) for _, _, descriptor in lines)
    assert highest < 300, f"a rank was started beside {highest} descriptors"


def who_has_lost_the_variables_of_the_launcher_is_told(runner):
    needs_combray(runner)
    code, output, _ = run([*runner.mpiexec, "-n", "2", "env", "-i", program(runner), "hello"])
    assert code == 0 and output.count("rank 0 of 1") == 2, output
    told = re.findall(r'note: process \d+ runs alone, .* though "combray run" has started it: .*PMI_FD', output)
    assert len(told) == 2, output
    code, output, _ = run([program(runner), "hello"])
    assert code == 0 and "note" not in output, output


def nothing_of_a_script_survives_all_that_watch_over_the_job(runner):
    """The system ends what the launcher starts, and the library what stands below that."""
    needs_combray(runner)
    folder = tempfile.mkdtemp(prefix="combray-watchers-")
    try:
        copy = own_copy(runner, folder)
        launcher = subprocess.Popen([*runner.mpiexec, "-n", "2", "sh", "-c", f"{copy} wait; true"],
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(2):
            assert "waiting" in launcher.stdout.readline()
        child = lambda process: int(pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()[0])
        guard = child(launcher.pid)
        watchers = (launcher.pid, guard, child(guard))
        # Stopped, none of them does anything about the end of another one.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in watchers:
                os.kill(process, number)
        wait_until_gone(copy)
        launcher.communicate()
    finally:
        shutil.rmtree(folder)


def killed_process_ends_the_job(runner):
    ends_badly(runner, "kill", r"(?i)rank 2\b", r"(?i)SIGKILL|signal 9")


def crashed_process_ends_the_job(runner):
    ends_badly(runner, "segfault", r"(?i)rank 2\b", r"(?i)SIGSEGV|signal 11|segmentation")


def exit_without_finalize_ends_the_job(runner):
    code = ends_badly(runner, "exit3", r"(?i)rank 2\b", r"\b3\b")
    assert code == 3, f"exit code {code}"


def quiet_exit_without_finalize_ends_the_job(runner):
    needs_combray(runner)
    ends_badly(runner, "exit0", r"(?i)rank 2\b", r"MPI_Finalize")


def abort_gives_its_code(runner):
    code = ends_badly(runner, "abort", r"(?i)rank 2\b", r"MPI_Abort", r"\b7\b")
    assert code == 7, f"exit code {code}"


def abort_with_0_succeeds(runner):
    """As under other launchers; other codes do not become success where they lose bits."""
    needs_combray(runner)
    for given, wanted, options in ((0, 0, []), (0, 0, ["--keep-going"]), (256, 1, [])):
        code, output, seconds = start(runner, 3, "abort", str(given), options=options)
        assert code == wanted and seconds < END_SECONDS_MAX, f"{given}: {code} after {seconds:.1f} s\n{output}"
        assert "rank 2 on" in output and f"the error code {given}," in output, output
    code, output, _ = run([program(runner), "abort", "0"])
    assert code == 0, output


def who_ends_the_job_is_told_once(runner):
    """By the launcher, whatever becomes of the error output of the rank."""
    needs_combray(runner)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="combray-told-"))
    try:
        for what, count, word in (("abort", 3, r"rank 2 on \S+ called MPI_Abort with the error code 7, so the job ends$"),
                                  ("fatal", 2, r"rank \d on \S+: MPI_Send: .*MPI_ERR_RANK.* so the job ends\.$")):
            for options in ([], [f"--errfile-pattern={folder}/errors-%r"]):
                code, output, _ = start(runner, count, what, options=options)
                told = [line for line in output.splitlines() if line.startswith("combray:")]
                assert code != 0 and len(told) == len(set(told)) and re.search(word, told[0]), output
                assert what != "abort" or len(told) == 1, output
    finally:
        shutil.rmtree(folder)


def errors_are_fatal(runner):
    code, output, seconds = start(runner, 2, "fatal")
    assert code != 0 and seconds < END_SECONDS_MAX, f"{code} after {seconds:.1f} s\n{output}"
    for word in ("MPI_Send", "77"):
        assert word in output, f"the message does not say {word}:\n{output}"


def a_failing_delete_function_is_reported(runner):
    needs_combray(runner)
    code, output, seconds = start(runner, 2, "fail_to_finalize")
    assert code != 0 and seconds < END_SECONDS_MAX, f"{code} after {seconds:.1f} s\n{output}"
    assert re.search(r"MPI_Finalize: the delete function of the keyval \d+ returned the error code \d+ \(MPI_ERR_OTHER",
                     output), output
    assert "without MPI_Finalize" not in output, output


def calls_at_the_wrong_time_are_reported(runner):
    for when, word in (("early", "MPI_Init"), ("late", "MPI_Finalize")):
        code, output, seconds = start(runner, 2, when)
        assert code != 0 and seconds < END_SECONDS_MAX, f"{when}: {code} after {seconds:.1f} s\n{output}"
        if is_combray(runner):
            assert word in output and "MPI_Comm_rank" in output, f"{when}: not told\n{output}"


def the_communicator_of_one_process_ends_with_the_world(runner):
    needs_combray(runner)
    code, output, seconds = start(runner, 2, "self_after")
    assert code != 0 and seconds < END_SECONDS_MAX, f"{code} after {seconds:.1f} s\n{output}"
    assert "MPI_Comm_rank: argument 1 (comm)" in output and "sessions do not have it" in output, output


def alone_without_launcher(runner):
    code, output, _ = run([program(runner), "hello"])
    assert code == 0 and "rank 0 of 1" in output, output
    code, output, _ = run([program(runner), "traffic"])
    assert code == 0, output


def foreign_launcher_is_an_error(runner):
    """Under a launcher whose protocol the library does not support, N programs must not run as N
    jobs of one process."""
    needs_combray(runner)
    cases = [
        {"PMI_SIZE": "4", "PMI_RANK": "1"},
        {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"},
        {"PMIX_RANK": "0", "PMIX_NAMESPACE": "job", "SLURM_STEP_NUM_TASKS": "2"},
    ]
    for case in cases:
        code, output, seconds = run([program(runner), "hello"], env=dict(os.environ, **case))
        assert code != 0, f"{case}: ran as one process\n{output}"
        assert seconds < END_SECONDS_MAX, f"{case}: {seconds:.1f} s"
        assert len(output.strip()) > 40, f"{case}: no clear message\n{output}"
    code, output, _ = run([program(runner), "hello"], env=dict(os.environ, PMI_SIZE="1", PMI_RANK="0"))
    assert code == 0 and "rank 0 of 1" in output, output


@alone("counts what jobs leave on this machine")
def cycles_leave_nothing(runner):
    with tempfile.TemporaryDirectory() as folder:
        copy = own_copy(runner, folder)
        before, deadline, cycles = traces(), time.monotonic() + CYCLES_SECONDS, 0
        while cycles < CYCLES_MAX and time.monotonic() < deadline:
            code, output, _ = run([*runner.mpiexec, "-n", "2", str(copy), "hello"])
            assert code == 0, f"cycle {cycles}\n{output}"
            cycles += 1
        wait_until_gone(copy)
        for how in ("kill", "abort", "exit3"):
            run([*runner.mpiexec, "-n", "3", str(copy), how])
        wait_until_gone(copy)
        left = traces() - before
        # Other jobs of other users on this machine come and go: only what is still there a moment
        # later counts.
        time.sleep(0.5 if left else 0)
        left &= traces()
        assert not left or not is_combray(runner), f"after {cycles} cycles: {sorted(left)[:10]}"


@alone("counts what jobs leave on this machine")
def killed_launcher_leaves_nothing(runner):
    needs_combray(runner)
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        with tempfile.TemporaryDirectory() as folder:
            copy = own_copy(runner, folder)
            before = traces()
            launcher = subprocess.Popen(
                [*runner.mpiexec, "-n", "4", str(copy), "wait"], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            )
            for _ in range(4):
                assert "waiting" in launcher.stdout.readline(), "the job did not start"
            launcher.send_signal(number)
            end_of(launcher)
            assert launcher.returncode != 0, f"exit code 0 after {number.name}"
            wait_until_gone(copy)
            assert not traces() - before, f"{number.name}: {traces() - before}"


def the_benchmark_program_is_found_by_its_name(runner):
    needs_combray(runner)
    code, output, _ = run([*runner.mpiexec, "-n", "2", "combray-bench", "pingpong", "--sizes", "8"], timeout=60)
    assert code == 0 and "pingpong" in output, f"exit code {code}\n{output}"
    code, output, _ = run([*runner.mpiexec, "-n", "2", "combray-nothing"], timeout=60)
    assert code == 2 and "in no folder of PATH" in output, f"exit code {code}\n{output}"


def benchmarks_join_the_job_that_starts_them(runner):
    needs_combray(runner)
    command = str(pathlib.Path(shutil.which(runner.mpiexec[0])).with_name("combray"))
    code, output, _ = run([*runner.mpiexec, "-n", "3", command, "bench", "--sizes", "8", "--batches", "3", "--json", "allreduce"])
    assert code == 0 and output.count('"record":"result"') == 1 and '"processes":3' in output, output
    code, output, _ = run([command, "bench"])
    assert code == 0 and "Usage: " in output and "\n  pingpong " in output, output


def input_goes_to_rank_0(runner):
    text = "first\nsecond\nthird\n" + "more\n" * 20000
    with tempfile.TemporaryFile("w+") as file:
        file.write(text)
        file.seek(0)
        code, output, _ = start(runner, 3, "input", stdin=file)
    assert code == 0, output
    assert 'rank 0 read "first"' in output and 'rank 0 read "third"' in output, output
    assert "rank 0 read 20003 lines" in output, output
    assert "rank 1 read 0 lines" in output and "rank 2 read 0 lines" in output, output


def lines_stay_whole(runner):
    needs_combray(runner)
    code, output, _ = start(runner, 4, "lines", "200")
    assert code == 0, output[-2000:]
    seen = {}
    for line in output.splitlines():
        found = re.fullmatch(r"<(\d+) (\d+) (x*)>", line)
        assert found, f"a broken line: {line[:200]}"
        rank, number, filler = int(found[1]), int(found[2]), found[3]
        assert len(filler) == number % 7 * 300, f"line {number} of rank {rank} is cut"
        assert seen.get(rank, -1) == number - 1, f"rank {rank}: line {number} is out of order"
        seen[rank] = number
    assert seen == {rank: 199 for rank in range(4)}, f"lines are missing: {seen}"


def output_is_tagged(runner):
    needs_combray(runner)
    code, output, _ = start(runner, 3, "lines", "5", options=["--tag-output"])
    assert code == 0, output
    for line in output.splitlines():
        found = re.search(r"<(\d+) \d+ x*>$", line)
        assert found and found[1] in line[: found.start()], f"not tagged by its rank: {line[:100]}"


def timeout_ends_the_job(runner):
    needs_combray(runner)
    code, output, seconds = start(runner, 2, "wait", options=["--timeout", "1"])
    assert code != 0, output
    assert 0.9 < seconds < END_SECONDS_MAX, f"{seconds:.1f} s"
    assert re.search(r"(?i)timeout|time", output), output


def environment_and_folder(runner):
    needs_combray(runner)
    code, output, _ = start(runner, 2, "environment", "COLOUR",
                            options=["-x", "COLOUR=dark red", "-wdir", "/tmp"])
    assert code == 0 and output.count("dark red in /tmp") == 2, output
    for name, value in (("OMPI_COMM_WORLD_SIZE", "2"), ("PMI_SIZE", "2")):
        code, output, _ = start(runner, 2, "environment", name)
        assert code == 0 and output.count(f": {value} in") == 2, output
    for name in ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_RANK", "MPI_LOCALRANKID"):
        code, output, _ = start(runner, 2, "environment", name)
        assert "rank 0 of 2: 0 in" in output and "rank 1 of 2: 1 in" in output, output


def several_programs(runner):
    command = [*runner.mpiexec, "-n", "1", program(runner), "hello", ":",
               "-n", "2", program(runner), "environment", "HOME"]
    code, output, _ = run(command)
    assert code == 0 and "rank 0 of 3" in output, output
    assert "rank 1 of 3: " in output and "rank 2 of 3: " in output, output


def missing_program_is_reported(runner):
    code, output, seconds = run([*runner.mpiexec, "-n", "2", "/nowhere/at/all"])
    assert code != 0 and seconds < END_SECONDS_MAX, output
    assert "/nowhere/at/all" in output, output


def small_shared_memory(runner):
    """A container's /dev/shm may be tiny: the job runs or fails with a message, but gets no SIGBUS."""
    needs_combray(runner)
    inner = ["mount -t tmpfs -o size=64k tmpfs /dev/shm && exec", *runner.mpiexec, "-n", "3",
             program(runner), "traffic"]
    probe = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"],
                           capture_output=True)
    if probe.returncode != 0:
        raise Skip("no right to mount")
    code, output, _ = run(["unshare", "-m", "bash", "-c", " ".join(inner)])
    assert code == 0, f"exit code {code}\n{output}"


def errors_abort_ends_its_group(runner):
    needs_combray(runner)
    for count in (2, 4, 5):
        code, output, seconds = start(runner, count, "end_some")
        first = count // 2
        assert code not in (0, 124), f"exit code {code}\n{output}"
        assert "MPI_ERRORS_ABORT" in output and "rank 0 ends after an error" in output, output
        for rank in range(count):
            assert (f"rank {rank} goes on" in output) == (rank >= first), f"rank {rank}\n{output}"
        assert seconds < END_SECONDS_MAX, f"{seconds:.1f} s"


def survivors(runner, count, how, *options):
    """A job whose last rank ends in this way; returns the exit code and the output."""
    command = [*runner.mpiexec, *options, "-n", str(count), str(runner.build / "survivors"), how]
    code, output, _ = run(command)
    return code, output


def survivors_of_an_ended_process_are_told(runner):
    """What involves a process that has ended alone fails, and nothing else waits for it."""
    needs_combray(runner)
    for count in (2, 3, 4):
        code, output = survivors(runner, count, "alone")
        assert code not in (0, 1, 124), f"exit code {code}\n{output}"
        check_survivors(output, range(count - 1))


def survivors_of_a_killed_process_are_notified(runner):
    """The case above under a launcher that lets the other ranks go on."""
    needs_combray(runner)
    for count in (2, 4):
        code, output = survivors(runner, count, "killed", "--keep-going")
        assert code == 137, f"exit code {code}\n{output}"
        check_survivors(output, range(count - 1))


def sessions_survive_a_killed_process(runner):
    """Without the world, nothing but the launcher knows who has failed and who has left."""
    needs_combray(runner)
    code, output, _ = run([*runner.mpiexec, "--keep-going", "-n", "4", str(runner.build / "sessions_survivors")])
    assert code == 137, f"exit code {code}\n{output}"
    for rank in range(2):
        assert f"rank {rank} goes on" in output, f"rank {rank}\n{output}"


def those_left_recover(runner):
    """Processes fail one after the other, and the others agree, shrink and compute until two are left."""
    needs_combray(runner)
    for how, count, wanted in (("killed", 4, 137), ("segfault", 3, 139), ("exit", 5, 3), ("stop", 2, 137)):
        program = str(runner.build / "recovery")
        command = [*runner.mpiexec, "--keep-going", "-n", str(count), program, how]
        code, output, _ = run(command)
        assert code == wanted, f"{how}: exit code {code}\n{output}"
        assert len(re.findall(r"rank \d+ survives", output)) == min(count - 1, 2), f"{how}\n{output}"
        assert "expected" not in output and " gave class " not in output, f"{how}\n{output}"


def who_fails_in_finalize_keeps_nobody_there(runner):
    needs_combray(runner)
    for count in (2, 3):
        code, output, _ = run([*runner.mpiexec, "--keep-going", "-n", str(count), str(runner.build / "fails_in_finalize")])
        assert code == 137, f"exit code {code}\n{output}"
        for rank in range(count - 1):
            assert f"rank {rank} has taken leave" in output, f"rank {rank}\n{output}"


def collective_writes_tell_of_a_killed_process(runner):
    needs_combray(runner)
    for count in (2, 3):
        with tempfile.TemporaryDirectory(dir=runner.build) as folder:
            command = [*runner.mpiexec, "--keep-going", "-n", str(count), str(runner.build / "files_apart"), f"{folder}/file"]
            code, output, _ = run(command)
        assert code == 137, f"exit code {code}\n{output}"
        for rank in range(count - 1):
            assert f"rank {rank} is told" in output, f"rank {rank}\n{output}"


def windows_survive_a_killed_process(runner):
    needs_combray(runner)
    for count, what, expected in ((2, "locks", 137), (4, "locks", 137), (3, "accumulate", 142), (3, "accumulate", 142)):
        words = ["--keep-going", "-n", str(count), str(runner.build / "windows_survivors"), what]
        code, output, _ = run([*runner.mpiexec, *words])
        assert code == expected, f"exit code {code}\n{output}"
        check_survivors(output, range(count - 1))


def a_window_is_freed_when_all_that_are_left_are_done(runner):
    needs_combray(runner)
    cases = [(3, "known"), (4, "unknown"), (2, "unknown"), (4, "epochs")]
    cases += [(3, "loop", str(moment)) for moment in (700, 3000, 9000)]
    for count, *words in cases:
        for shared in ("auto", "never"):
            code, output, _ = run(
                [*runner.mpiexec, "--keep-going", "-n", str(count), str(runner.build / "windows_freed"), *words],
                env=dict(os.environ, COMBRAY_SHARED_WINDOWS=shared),
            )
            assert code == (142 if words[0] == "loop" else 137), f"{words}: exit code {code}\n{output}"
            check_survivors(output, range(count - 1), words)


def nobody_waits_for_a_window_that_another_could_not_make(runner):
    needs_combray(runner)
    # The failing process is needed for all windows with memory; without it only some get an error.
    cases = [(137, "killed", 0, what, 1 + what % 3) for what in range(6)]
    cases += [(142, "killed", moment, what, 2) for what, moment in enumerate((400, 1000, 2000, 4000, 7000))]
    cases += [(6, "alone", 0, what, 2) for what in (2, 4, 5)]
    for shared in ("auto", "never"):
        for wanted, how, moment, what, victim in cases:
            options = ["--keep-going"] if how == "killed" else []
            words = [*options, "-n", "4", str(runner.build / "windows_half_made"), how, str(moment), str(what), str(victim)]
            code, output, _ = run([*runner.mpiexec, *words], env=dict(os.environ, COMBRAY_SHARED_WINDOWS=shared))
            assert code == wanted, f"{words}: exit code {code}\n{output}"
            check_survivors(output, set(range(4)) - {victim}, words)


def who_ends_without_a_message_is_missed(runner):
    needs_combray(runner)
    for count in (2, 3, 5):
        for how, wanted in (("killed", 137), ("alone", 6)):
            options = ["--keep-going"] if how == "killed" else []
            words = [*options, "-n", str(count), str(runner.build / "never_met"), how]
            code, output, _ = run([*runner.mpiexec, *words])
            assert code == wanted, f"{words}: exit code {code}\n{output}"
            check_survivors(output, range(count - 1), words)


def who_fails_while_persistent_collectives_are_made_holds_up_nobody(runner):
    needs_combray(runner)
    cases = [(137, "killed", when, kind) for when in ("before", "made") for kind in (0, 1, 4, 8, 12, 17)]
    cases += [(142, "killed", moment, 0) for moment in (400, 2000, 9000)]
    cases += [(6, "alone", when, 12) for when in ("before", "made")]
    for wanted, how, when, kind in cases:
        options = ["--keep-going"] if how == "killed" else []
        words = [*options, "-n", "3", str(runner.build / "persistent_survivors"), how, str(when), str(kind)]
        code, output, _ = run([*runner.mpiexec, *words])
        assert code == wanted, f"{words}: exit code {code}\n{output}"
        check_survivors(output, range(2), words)


def operations_that_a_failed_process_began_end_well_or_are_reported(runner):
    needs_combray(runner)
    for kind in ("0", "1", "2"):
        words = ["--keep-going", "-n", "3", str(runner.build / "sent_before_failing"), kind]
        code, output, _ = run([*runner.mpiexec, *words])
        assert code == 137, f"{kind}: exit code {code}\n{output}"
        check_survivors(output, range(2), kind)


def initial_error_handler(runner):
    needs_combray(runner)
    handler = lambda name: ("-initial-errhandler", name)
    for name in ("mpi_errors_return", "RETURN"):
        code, output, _ = start(runner, 2, "report_error", "all", options=handler(name))
        assert code == 0, f"exit code {code}\n{output}"
        assert all(f"rank {rank} got MPI_ERR_RANK" in output for rank in range(2)), output
    for name in ("mpi_errors_abort", "mpi_errors_are_fatal"):
        code, output, _ = start(runner, 2, "report_error", options=handler(name))
        assert code not in (0, 124), f"{name}: exit code {code}\n{output}"
        assert name.upper() in output and "got" not in output, output
    code, output, _ = start(runner, 2, "hello", options=handler("mpi_errors_maybe"))
    assert code == 2 and "mpi_errors_return" in output, f"exit code {code}\n{output}"


SCENARIOS = [
    hello,
    nothing_of_a_script_survives_all_that_watch_over_the_job,
    programs_of_a_rank_run_one_after_the_other,
    ranks_of_large_jobs_are_started_beside_few_descriptors,
    who_has_lost_the_variables_of_the_launcher_is_told,
    killed_process_ends_the_job,
    crashed_process_ends_the_job,
    exit_without_finalize_ends_the_job,
    quiet_exit_without_finalize_ends_the_job,
    abort_gives_its_code,
    abort_with_0_succeeds,
    who_ends_the_job_is_told_once,
    errors_are_fatal,
    a_failing_delete_function_is_reported,
    errors_abort_ends_its_group,
    survivors_of_an_ended_process_are_told,
    survivors_of_a_killed_process_are_notified,
    sessions_survive_a_killed_process,
    those_left_recover,
    who_fails_in_finalize_keeps_nobody_there,
    collective_writes_tell_of_a_killed_process,
    windows_survive_a_killed_process,
    a_window_is_freed_when_all_that_are_left_are_done,
    nobody_waits_for_a_window_that_another_could_not_make,
    who_ends_without_a_message_is_missed,
    who_fails_while_persistent_collectives_are_made_holds_up_nobody,
    operations_that_a_failed_process_began_end_well_or_are_reported,
    initial_error_handler,
    calls_at_the_wrong_time_are_reported,
    the_communicator_of_one_process_ends_with_the_world,
    alone_without_launcher,
    foreign_launcher_is_an_error,
    cycles_leave_nothing,
    killed_launcher_leaves_nothing,
    benchmarks_join_the_job_that_starts_them,
    the_benchmark_program_is_found_by_its_name,
    input_goes_to_rank_0,
    lines_stay_whole,
    output_is_tagged,
    timeout_ends_the_job,
    environment_and_folder,
    several_programs,
    missing_program_is_reported,
    small_shared_memory,
]
