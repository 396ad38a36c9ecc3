"""`combray run --record-order` and `--replay-order`: what is not compared by tests/order."""

import os
import tempfile

from harness.scenarios import needs_combray, run

COUNT = 3


def job(runner, *words, count=COUNT):
    """Runs the random program; returns its exit code and the lines of its output."""
    options = [word for word in words if word.startswith("-")]
    values = {option: words[words.index(option) + 1] for option in options}
    flags = [one for option in options for one in (option, values[option])]
    rest = list(words[2 * len(options):])
    program = str(runner.build / "order_random")
    command = [*runner.mpiexec, "--oversubscribe", *flags, "-n", str(count), program, *rest]
    code, output, _ = run(command, timeout=120)
    return code, output.splitlines()


def a_run_that_diverges_names_the_place(runner):
    needs_combray(runner)
    with tempfile.TemporaryDirectory(dir=runner.build) as folder:
        code, output = job(runner, "--record-order", folder, "5")
        assert code == 0, output
        code, output = job(runner, "--replay-order", folder, "6")
        said = "\n".join(output)
        assert code != 0 and "has diverged from the recording" in said and "order_random.c:" in said, output
        # The program is longer than the recorded one.
        code, output = job(runner, "--replay-order", folder, "5", "40")
        said = "\n".join(output)
        assert code != 0 and "order_random.c:" in said, output


def recordings_of_other_jobs_are_refused(runner):
    needs_combray(runner)
    with tempfile.TemporaryDirectory(dir=runner.build) as folder:
        code, output = job(runner, "--record-order", folder, "7")
        assert code == 0, output
        code, output = job(runner, "--replay-order", folder, "7", count=2)
        assert code != 0 and "a recording is replayed with as many processes" in output[0], output
        code, output = job(runner, "--replay-order", folder + "/nothing", "7")
        assert code != 0 and "cannot be read" in output[0], output
        with open(os.path.join(folder, "rank0.order"), "wb") as file:
            file.write(b"something else that is long enough for a head")
        code, output = job(runner, "--replay-order", folder, "7")
        assert code != 0 and "is no recording" in "\n".join(output), output


def a_run_that_is_killed_can_be_replayed(runner):
    needs_combray(runner)
    with tempfile.TemporaryDirectory(dir=runner.build) as folder:
        of_killed = [job(runner, option, folder, "11", "8", "killed") for option in ("--record-order", "--replay-order")]
        # Other processes may have been ended before they printed.
        numbers = [[line for line in output if line.startswith("rank 0: ")] for _, output in of_killed]
        assert len(numbers[0]) == 1 and numbers[0] == numbers[1], of_killed


def replays(runner, *words):
    """Records a kind of the program order_replays, and replays it with more words; returns the exit codes and what
    was printed."""
    needs_combray(runner)
    program = str(runner.build / "order_replays")
    with tempfile.TemporaryDirectory(dir=runner.build) as folder:
        def play(option, *words):
            command = [*runner.mpiexec, "--oversubscribe", option, folder, "-n", str(COUNT), program, *words]
            code, output, _ = run(command, timeout=300)
            return code, output
        return play("--record-order", words[0]), play("--replay-order", *words)


def requests_wait_for_the_turn_of_others_in_any_number(runner):
    recorded, replayed = replays(runner, "window", "late")
    assert recorded == replayed == (0, "rank 0: 2\n"), (recorded, replayed)


def a_receive_for_which_nothing_was_recorded_ends_the_run(runner):
    recorded, (code, output) = replays(runner, "receive", "late")
    assert recorded[0] == 0, recorded
    assert code != 0 and "received no message" in output and "order_replays.c:" in output, output


def several_threads_are_reported(runner):
    for code, output in replays(runner, "threads"):
        assert "several threads" in output and "rank 0" in output, (code, output)


def spawned_jobs_leave_the_recording_of_their_parents_alone(runner):
    """Three children would write files of their ranks there, and the first one that of its parent."""
    needs_combray(runner)
    program = str(runner.build / "dynamic_spawn")
    for launcher in ([*runner.mpiexec, "-n", "1"], []):
        with tempfile.TemporaryDirectory(dir=runner.build) as folder:
            for variable in ("COMBRAY_RECORD_ORDER", "COMBRAY_REPLAY_ORDER"):
                code, output, _ = run(["env", f"{variable}={folder}", *launcher, program])
                assert code == 0, f"{variable} {launcher}\n{output}"
                assert os.listdir(folder) == ["rank0.order"], os.listdir(folder)


SCENARIOS = [
    a_run_that_diverges_names_the_place,
    recordings_of_other_jobs_are_refused,
    a_run_that_is_killed_can_be_replayed,
    requests_wait_for_the_turn_of_others_in_any_number,
    a_receive_for_which_nothing_was_recorded_ends_the_run,
    several_threads_are_reported,
    spawned_jobs_leave_the_recording_of_their_parents_alone,
]
