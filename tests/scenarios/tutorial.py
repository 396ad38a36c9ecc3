"""Runs the commands of docs/user/first-hour.md as a reader types them."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from harness import ROOT
from harness.scenarios import needs_combray

PAGE = ROOT / "docs/user/first-hour.md"
# On a machine that is busy with other tests.
SECONDS_MAX = 120


def steps():
    """The commands of the page, each with the output that the page shows."""
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", PAGE.read_text(), re.M | re.S):
        if language:  # What needs other hosts, or other packages.
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


def the_first_hour(runner):
    needs_combray(runner)
    folder = pathlib.Path(shutil.which(runner.mpiexec[0])).parent
    environment = dict(os.environ, PREFIX=str(folder.parent))
    count = 0
    with tempfile.TemporaryDirectory(dir=runner.build) as work:
        state = pathlib.Path(work, ".state")
        state.write_text("true\n")
        for command, printed in steps():
            # Variables and the exit code of a command last until the next.
            script = f". {state}\n{command}\ncode=$?\nexport -p > {state}\necho \"(exit $code)\" >> {state}\n"
            ended = subprocess.run(["bash", "-c", script], cwd=work, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX)
            output = ended.stdout.strip("\n")
            assert re.fullmatch(as_pattern(printed), output, re.S), (
                f"$ {command}\nprints\n{output}\nand not, as the page says,\n{printed}")
            count += 1
    assert count > 10, f"{count} commands are tried"


SCENARIOS = [the_first_hour]
