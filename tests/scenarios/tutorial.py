"""Runs the commands of pages as a reader types them: docs/user/first-hour.md, and the walk of docs/user/slow-programs.md."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from harness import ROOT
from harness.scenarios import alone, needs_combray

FIRST_HOUR = ROOT / "docs/user/first-hour.md"
SLOW_PROGRAMS = ROOT / "docs/user/slow-programs.md"
# On a machine that is busy with other tests.
SECONDS_MAX = 120


def steps(page, language):
    """The commands in the blocks of this language, each with the output that the page shows."""
    for found, block in re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.M | re.S):
        if found != language:  # What needs other hosts, or other packages.
            continue
        commands = re.split(r"^\$ ", block, flags=re.M)
        assert not commands[0], f"a block begins with no command:\n{block}"
        for text in commands[1:]:
            command, _, printed = text.partition("\n")
            if "<<'END'" in command:
                document, end, printed = printed.partition("\nEND\n")
                command += f"\n{document}{end}"
            yield command, printed


def as_pattern(printed):
    return ".*".join(re.escape(part) for part in printed.strip("\n").split("...")).replace(r".*\n", ".*\n?")


def with_other_figures(printed):
    """The pattern of an output whose figures with a decimal point, and widths of columns, differ."""
    return re.sub(r"(?:\\ )+", r"\\s+", re.sub(r"(?:\\ )*\d+\\[.]\d+(?:\\ [mu]s)?", r"\\s*[\\d.]+(?: [mu]?s)?", as_pattern(printed)))


def play(runner, page, language, pattern):
    """Runs the commands in a folder of their own, in which `examples` is that of the sources; returns their number."""
    folder = pathlib.Path(shutil.which(runner.mpiexec[0])).parent
    environment = dict(os.environ, PREFIX=str(folder.parent), PATH=f"{folder}:{os.environ['PATH']}")
    count = 0
    with tempfile.TemporaryDirectory(dir=runner.build) as work:
        pathlib.Path(work, "examples").symlink_to(ROOT / "examples")
        state = pathlib.Path(work, ".state")
        state.write_text("true\n")
        for command, printed in steps(page, language):
            # Variables and the exit code of a command last until the next.
            script = f". {state}\n{command}\ncode=$?\nexport -p > {state}\necho \"(exit $code)\" >> {state}\n"
            ended = subprocess.run(["bash", "-c", script], cwd=work, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX)
            output = ended.stdout.strip("\n")
            assert re.fullmatch(pattern(printed), output, re.S), (
                f"$ {command}\nprints\n{output}\nand not, as the page says,\n{printed}")
            count += 1
    return count


def the_first_hour(runner):
    needs_combray(runner)
    count = play(runner, FIRST_HOUR, "", as_pattern)
    assert count > 10, f"{count} commands are tried"


@alone("the longest wait must be that of the program")
def from_a_slow_program_to_its_line(runner):
    needs_combray(runner)
    # Load can make another wait the longest one.
    for is_last in (False, False, True):
        try:
            count = play(runner, SLOW_PROGRAMS, "console", with_other_figures)
            break
        except AssertionError:
            if is_last:
                raise
    assert count > 4, f"{count} commands are tried"


SCENARIOS = [the_first_hour, from_a_slow_program_to_its_line]
