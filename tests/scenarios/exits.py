"""The exit codes of the launcher are those that docs/user/exit-codes.md lists."""

import signal
import subprocess

from harness import TESTS
from harness.scenarios import needs_combray, run

PAGE = TESTS.parent / "docs" / "user" / "exit-codes.md"
CASES = [(0, ["-n", "2", "true"]), (7, ["-n", "2", "sh", "-c", "exit 7"]), (2, ["-n", "2", "./no-such-program"]),
         (2, ["--no-such-option", "true"]), (2, ["-n", "0", "true"]),
         (124, ["-n", "2", "--timeout", "0.5s", "sleep", "600"]), (137, ["-n", "2", "sh", "-c", "kill -9 $$"])]


def each_end_has_its_code(runner):
    needs_combray(runner)
    for expected, words in CASES:
        code, output, _ = run([*runner.mpiexec, *words], timeout=60.0)
        assert code == expected, f"{words}: {code}, not {expected}\n{output}"


def a_signal_for_the_launcher_is_in_its_code(runner):
    needs_combray(runner)
    for number in (signal.SIGINT, signal.SIGTERM):
        job = subprocess.Popen([*runner.mpiexec, "-n", "1", "sh", "-c", "echo up; sleep 600"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        assert job.stdout.readline() == b"up\n"
        job.send_signal(number)
        code = job.wait(timeout=60)
        assert code == 128 + number, f"{number}: {code}"


def the_page_lists_them(runner):
    del runner
    page = PAGE.read_text()
    for code in ("0", "2", "124"):
        assert f"| {code} |" in page, code
    for number in (signal.SIGABRT, signal.SIGKILL, signal.SIGSEGV):
        assert f"{128 + number} `{number.name}`" in page, number


SCENARIOS = [each_end_has_its_code, a_signal_for_the_launcher_is_in_its_code, the_page_lists_them]
