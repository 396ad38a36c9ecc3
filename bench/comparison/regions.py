"""One region for all receivers, beside one for each: a program of the crate driver-shm."""

import json
import subprocess

from . import cells, machine
from .libraries import REPOSITORY, run_quietly
from .table import size_text

PROGRAM = "region_broadcast"
# What one region for all may take of one for each, as a geometric mean: they are measured within
# a few per cent.
LIMIT = 1.02


def measure(cores: list) -> tuple:
    """The records of the program, and what a cache line needed before and after."""
    run_quietly(["cargo", "build", "--quiet", "--release", "--manifest-path",
                 REPOSITORY / "Cargo.toml", "-p", "driver-shm", "--example", PROGRAM])
    before = machine.crossing_nanoseconds(cores)
    done = subprocess.run([REPOSITORY / "target" / "release" / "examples" / PROGRAM, "--json"],
                          text=True, capture_output=True, timeout=120, check=True)
    after = machine.crossing_nanoseconds(cores)
    return [json.loads(line) for line in done.stdout.splitlines()], (before, after)


def print_curve(records: list, crossings: tuple) -> None:
    counts = sorted({record["processes"] for record in records})
    print(f"\nUntil all have copied a region of one of so many processes, in µs: declared once, "
          f"and (in brackets) for each receiver; a cache line crossed in {crossings[0]:.0f} ns "
          f"before and {crossings[1]:.0f} ns after\n")
    print(" " * 8 + "".join(f"{count} processes".rjust(22) for count in counts))
    for size in sorted({record["bytes"] for record in records}):
        found = {record["processes"]: record for record in records if record["bytes"] == size}
        print(f"{size_text(size):>8}" + "".join(
            f"{found[count]['once_us']:.1f} ({found[count]['each_us']:.1f})".rjust(22)
            for count in counts))


def judge(records: list) -> tuple:
    """(goal, verdict, what was found)."""
    ratios = [record["once_us"] / record["each_us"] for record in records]
    mean = cells.geometric_mean(ratios)
    return (f"≤ {LIMIT} of one for each", "reached" if mean <= LIMIT else "not reached",
            f"mean {mean:.2f}, {min(ratios):.2f} to {max(ratios):.2f}")
