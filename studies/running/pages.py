"""The pages of docs/studies: the figures of a study, between two marks, beside the text that people wrote."""

import os
import platform
import re
from pathlib import Path

from .measuring import ROOT

FOLDER = ROOT / "docs" / "studies"
BEGIN, END = "<!-- figures: {} -->", "<!-- end of figures -->"


def machine() -> str:
    """The processor, the number of cores, and the kernel."""
    described = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", described, re.MULTILINE)
    processor = model[1].strip() if model else platform.machine()
    kernel = ".".join(platform.release().split(".")[:2])
    return f"{processor}, {len(os.sched_getaffinity(0))} cores, Linux {kernel}"


def figures(name: str, title: str, table: str) -> str:
    return f"![{title}]({name}.svg)\n\n{machine()}.\n\n```text\n{table.rstrip()}\n```\n"


def replaced(page: str, command: str, content: str) -> str:
    """The page with this content between its marks. Raises ValueError if it does not have both once."""
    parts = re.split(r"^<!-- figures: .* -->$|^<!-- end of figures -->$", page, flags=re.MULTILINE)
    if len(parts) != 3:
        raise ValueError("a page has one line <!-- figures: COMMAND --> and one line <!-- end of figures -->")
    return f"{parts[0]}{BEGIN.format(command)}\n\n{content}\n{END}{parts[2]}"


def write(name: str, title: str, command: str, table: str, picture: str, folder: Path = FOLDER) -> None:
    """Writes the picture beside the page, and the figures into it."""
    (folder / f"{name}.svg").write_text(picture)
    page = folder / f"{name}.md"
    page.write_text(replaced(page.read_text(), command, figures(name, title, table)))
