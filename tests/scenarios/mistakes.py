"""Programs with mistakes, of which `combray run --check` tells each with rank, call and line."""

import concurrent.futures
import pathlib
import re

from harness.scenarios import needs_combray, places, run

SECONDS_MAX = 60.0
SOURCE = pathlib.Path(__file__).resolve().parent.parent / "c" / "mistakes.c"
# By the argument of tests/c/mistakes.c: the number of processes, and what is told. {here} is the
# place that is marked so in that function of the program, as in "// order: here".
MISTAKES = {
    "order": (3, [r"rank 1 calls MPI_Bcast, but rank 0 calls MPI_Barrier \(collective operation 1 of MPI_COMM_WORLD\)",
                  r"rank 1: MPI_Bcast, called by order {here}, main", r"rank 0: MPI_Barrier, called by order {others}"]),
    "root": (2, [r"rank 1 calls MPI_Bcast with root 1, but rank 0 with root 0", r"rank 1: MPI_Bcast.* root {here}"]),
    "reduction": (2, [r"rank 1 calls MPI_Allreduce with MPI_MAX, but rank 0 with MPI_SUM", r"reduction {here}"]),
    "counts": (2, [r"rank 1 calls MPI_Reduce with 8 bytes for each process, but rank 0 with 4", r"counts {here}"]),
    "types": (2, [r"rank 1 calls MPI_Allreduce with floating-point numbers of 4 bytes, but rank 0 with integers of 4",
                  r"types {here}"]),
    "begun": (3, [r"rank 2 calls MPI_Ibarrier, but rank 0 calls MPI_Ibcast", r"begun {here}"]),
    "threads": (2, [r"rank \d calls MPI_\w+ on MPI_COMM_WORLD while another of its threads is in MPI_\w+ there",
                    r"MPI_Barrier, called by in_thread {here}"]),
}
# Programs without a mistake that use much of the interface: nothing is told of them.
CORRECT = ["none"]


def told(output):
    return [line for line in output.splitlines() if "combray: check:" in line]


def marks(name):
    """The places that are marked in the source, by their names."""
    places_of = {}
    for number, line in enumerate(SOURCE.read_text().splitlines(), 1):
        found = re.search(rf"// {name}: (\w+)$", line)
        if found:
            places_of[found[1]] = rf"\(mistakes\.c:{number}\)"
    return places_of


def play(runner, name, count):
    command = [*runner.mpiexec, "--check", "-n", str(count), str(runner.build / "mistakes"), name]
    return run(command, timeout=SECONDS_MAX)


@places(8)
def mistakes_are_told(runner):
    needs_combray(runner)
    faults = []

    def look(name):
        count, wanted = MISTAKES[name]
        try:
            _, output, _ = play(runner, name, count)
        except AssertionError as problem:
            faults.append(f"{name}: {problem}")
            return
        for one in wanted:
            if not re.search(one.format(**marks(name)), output):
                faults.append(f"{name}: not told: {one}\n{output}")

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(look, MISTAKES))
    assert not faults, "\n".join(faults)


@places(4)
def nothing_is_told_of_correct_programs(runner):
    needs_combray(runner)
    for name in CORRECT:
        code, output, _ = play(runner, name, 3)
        assert code == 0 and not told(output), f"{name}: exit code {code}\n{output}"


SCENARIOS = [mistakes_are_told, nothing_is_told_of_correct_programs]
