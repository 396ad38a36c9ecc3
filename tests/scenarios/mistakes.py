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
    "left_early": (3, [r"rank 1 calls MPI_Finalize, but rank 0 calls MPI_Barrier", r"left_early {others}"]),
    "root": (2, [r"rank 1 calls MPI_Bcast with root 1, but rank 0 with root 0", r"rank 1: MPI_Bcast.* root {here}"]),
    "reduction": (2, [r"rank 1 calls MPI_Allreduce with MPI_MAX, but rank 0 with MPI_SUM", r"reduction {here}"]),
    "counts": (2, [r"rank 1 calls MPI_Reduce with 8 bytes for each process, but rank 0 with 4", r"counts {here}"]),
    "types": (2, [r"rank 1 calls MPI_Allreduce with floating-point numbers of 4 bytes, but rank 0 with integers of 4",
                  r"types {here}"]),
    "begun": (3, [r"rank 2 calls MPI_Ibarrier, but rank 0 calls MPI_Ibcast", r"begun {here}"]),
    "threads": (2, [r"rank \d calls MPI_\w+ on MPI_COMM_WORLD while another of its threads is in MPI_\w+ there",
                    r"MPI_Barrier, called by in_thread {here}"]),
    "changed": (2, [r"rank 0: the memory that MPI_Isend sends was changed before the send was complete",
                    r"MPI_Isend, called by changed {here}", r"MPI_Wait, called by changed {end}"]),
    "changed_started": (2, [r"rank 0: the memory that MPI_Start sends was changed", r"changed_started {here}"]),
    "freed": (2, [r"rank 0: the memory that MPI_Isend sends was (given back|changed)", r"freed {here}"]),
    "overlap": (2, [r"rank 0 receives into memory of which 16 bytes belong to a receive that is not complete",
                    r"overlap {here}", r"overlap {first}"]),
    "sent_too_early": (2, [r"rank 0 sends memory of which 4 bytes belong to a receive", r"sent_too_early {here}"]),
    "ready": (2, [r"rank 0 calls MPI_Rsend with tag 3 to rank 1, where no receive is posted", r"ready {here}"]),
    "truncated": (2, [r"rank 1 receives 16 bytes with tag 5 from rank 0 into a buffer of 12",
                      r"rank 1: MPI_Recv, called by truncated {here}", r"rank 0: MPI_Send.* truncated {sender}"]),
    "truncated_later": (2, [r"rank 1 receives 8 bytes with tag 5 from rank 0 into a buffer of 4",
                            r"MPI_Irecv, called by truncated_later {here}", r"truncated_later {sender}"]),
    "mismatched": (2, [r"rank 1 receives floating-point numbers of 8 bytes with tag 6 from rank 0, which sends integers "
                       r"of 8 bytes", r"mismatched {here}", r"mismatched {sender}"]),
    "mismatched_structure": (2, [r"rank 1 receives floating-point numbers of 4 bytes with tag 0 from rank 0, which "
                                 r"sends integers of 4 bytes", r"mismatched_structure {here}"]),
    "request_left": (1, [r"rank 0 calls MPI_Finalize, but a request of MPI_Irecv was never completed",
                         r"request_left {here}"]),
    "persistent_left": (2, [r"rank 1 calls MPI_Finalize, but 3 requests of MPI_Recv_init were never freed",
                            r"persistent_left {here}"]),
    "objects_left": (2, [r"a communicator of MPI_Comm_dup was never freed", r"objects_left {communicator}",
                         r"a datatype of MPI_Type_contiguous was never freed", r"objects_left {type}",
                         r"a group of MPI_Comm_group was never freed", r"objects_left {group}"]),
    "message_left": (2, [r"rank 1 calls MPI_Finalize, but has never received a message of 4 bytes with tag 8 from rank 0",
                         r"rank 0: MPI_Send, called by message_left {here}"]),
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
        if len(told(output)) > sum("{" not in one for one in wanted) * count:
            faults.append(f"{name}: more is told than is wrong:\n{output}")
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
