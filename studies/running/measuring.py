"""Finds the libraries, compiles the studies with each, and runs them in turn."""

import os
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from comparison import libraries  # noqa: E402
from comparison.libraries import Library, LibraryError, run_quietly, say  # noqa: E402
from comparison.running import run_marked  # noqa: E402

from .energy import Meter, Used  # noqa: E402
from .plans import ROUNDS, Start, Study  # noqa: E402

PROGRAMS = ROOT / "build" / "studies"
CASE = re.compile(r"^case (\S+): ([\d.]+) (?:ms|MB), \w+ ([\d.]+) (?:ms|MB)$", re.MULTILINE)
# A command that only this library installs.
SIGNS = {"combray": "combray", "mpich": "mpichversion", "openmpi": "ompi_info"}
# Where the set-up of the tests and of bench/compare put other libraries, relative to build/.
PLACES = {"mpich": ("peers/mpich", "hydra"), "openmpi": ("peers/openmpi", "openmpi")}


def library_at(prefix: Path) -> Library:
    """The library that is installed there."""
    for name, command in SIGNS.items():
        if (prefix / "bin" / command).exists():
            if name == "combray":
                return libraries.combray(prefix)
            return replace(libraries.peer_libraries()[name], prefix=prefix)
    raise LibraryError(f"--with {prefix}: none of {', '.join(SIGNS.values())} is in {prefix / 'bin'}")


def found_libraries(prefixes: list) -> list:
    """Those at the prefixes, or else Combray in build/prefix and the others that are in build/."""
    if prefixes:
        return [library_at(Path(prefix).resolve()) for prefix in prefixes]
    found = [library_at(ROOT / "build" / "prefix")]
    for name, places in PLACES.items():
        there = [ROOT / "build" / place for place in places
                 if (ROOT / "build" / place / "bin" / SIGNS[name]).exists()]
        if there:
            found.append(library_at(there[0]))
        else:
            say(f"{name} is not beside it: neither build/{' nor build/'.join(places)} has it")
    return found


def program(study: Study, library: Library) -> Path:
    return PROGRAMS / f"{study.name}-{library.name}"


def build(study: Study, library: Library) -> None:
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    # Other libraries' headers lead to warnings.
    warnings = ["-Wall", "-Wextra", "-Werror"] if library.name == "combray" else []
    run_quietly([library.prefix / "bin" / "mpicc", "-std=c11", "-O2", *warnings, "-fopenmp",
                 ROOT / "studies" / study.source, "-o", program(study, library), "-lm"],
                {**library.environ(), **library.environment})


@dataclass(frozen=True)
class Result:
    """What a start printed."""

    cases: list  # (case, milliseconds or megabytes, the part in brackets) of each repetition
    bits: str  # of the result, "" where the program prints none
    failure: str = ""  # why it did not come to its end; the cases are those before


def run_start(study: Study, library: Library, start: Start, seconds: float) -> Result:
    """Raises LibraryError if a result is wrong, or it is unknown whether all are right."""
    environ = {**library.environ(), **library.environment, "OMP_NUM_THREADS": str(start.threads)}
    if start.processes * start.threads > len(os.sched_getaffinity(0)):
        # Threads that spin in barriers would hold up those that have work.
        environ["OMP_WAIT_POLICY"] = "passive"
    command = [str(library.prefix / library.launch[0]), *library.launch[1:], *study.survivors.get(library.name, ()), "-n",
               str(start.processes), str(program(study, library)), *start.arguments]
    output, failure = run_marked(environ, command, seconds)
    if study.survivors and failure and failure.startswith("ended with") and f"{study.name}: all right" in output:
        failure = None  # the launcher's exit code is that of the killed process
    wrong = re.search(r"^.*WRONG.*$", output, re.MULTILINE)
    if wrong:
        raise LibraryError(wrong[0])
    version = re.search(r"^library: (.*)$", output, re.MULTILINE)
    if not version:
        raise LibraryError(failure or f"the program did not say which library it has: {output[:200]}")
    if library.version_word not in version[1]:
        raise LibraryError(f"another library answered: {version[1]}")
    if not failure and f"{study.name}: all right" not in output:
        raise LibraryError("the program did not say that all results are right")
    bits = re.search(r"^bits: ([0-9a-f]+)$", output, re.MULTILINE)
    return Result([(f"{start.label} {name}", float(total), float(communication))
                   for name, total, communication in CASE.findall(output)], bits[1] if bits else "",
                  failure or "")


class Figures:
    """The least figure of each case and library, with the part in brackets."""

    def __init__(self):
        self.best = {}  # case -> library title -> (ms, ms of communication), or (MB, MB of the library)
        self.failures = []  # sentences
        self.unfinished = []  # sentences: what other libraries than the first have not finished in time
        self.passed = 0  # starts whose results were all right
        self.bits = ""  # those of the first start that printed some
        self.used = {}  # (start, round) -> library title -> Used, of starts that came to their end

    def add(self, title: str, result: Result) -> None:
        """Raises LibraryError if the result has other bits than that of an earlier start, or if the start
        failed; its cases before, verified like all others, count."""
        self.bits = self.bits or result.bits
        if not result.failure and result.bits != self.bits:
            raise LibraryError(f"WRONG: the result has the bits {result.bits}, an earlier one {self.bits}")
        for case, total, communication in result.cases:
            by_title = self.best.setdefault(case, {})
            by_title[title] = min(by_title.get(title, (total, communication)), (total, communication))
        if result.failure:
            raise LibraryError(result.failure)
        self.passed += 1

    def used_by_all(self, titles: list) -> dict:
        """library title -> Used, in the starts that all these libraries have made."""
        common = [by_title for by_title in self.used.values() if all(title in by_title for title in titles)]
        return {title: sum((by_title[title] for by_title in common), Used()) for title in titles} if common else {}


def measure(study: Study, found: list, size: str, seconds: float, titles: dict) -> Figures:
    """Every start with every library in turn, round after round. What failed is not repeated."""
    figures, failed = Figures(), set()
    if study.survivors:
        found = [library for library in found if library.name in study.survivors]
    for library in found:
        build(study, library)
    for number in range(1, ROUNDS[size] + 1):
        for start in study.starts[size]:
            say(f"{study.name}: round {number} of {ROUNDS[size]}, {start.label} {' '.join(start.arguments)}")
            for library in found:
                if (library.prefix, start) in failed:
                    continue
                try:
                    meter = Meter()
                    figures.add(titles[library.prefix], run_start(study, library, start, seconds))
                    figures.used.setdefault((start, number), {})[titles[library.prefix]] = meter.used()
                except LibraryError as error:
                    failed.add((library.prefix, start))
                    words = " ".join(start.arguments)
                    sentence = f"{titles[library.prefix]}, {start.label} {words}: {error}"
                    is_late = library is not found[0] and "not finished after" in str(error)
                    (figures.unfinished if is_late else figures.failures).append(sentence)
                    say(f"  {'NO RESULT' if is_late else 'FAILED'}: {sentence}")
    return figures
