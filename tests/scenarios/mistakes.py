"""Programs with mistakes: `combray run --check` reports each with rank, call and line."""

import concurrent.futures
import pathlib
import re
import shutil

from harness.scenarios import Skip, needs_combray, places, run

from . import hosts

SECONDS_MAX = 60.0
SOURCE = pathlib.Path(__file__).resolve().parent.parent / "c" / "mistakes.c"
# By the argument of tests/c/mistakes.c: the number of processes, and the reports. {here} stands for
# the line that is marked in that function of the program, as in "// order: here".
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
    "ready": (2, [r"rank 0 calls MPI_Rsend with tag 3 to rank 1, which has posted no receive", r"ready {here}"]),
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
    "changed_sum": (2, [r"rank 1: the memory that MPI_Iallreduce reads was changed before the operation was complete",
                        r"MPI_Iallreduce, called by changed_sum {here}", r"MPI_Wait, called by changed_sum {end}"]),
    "overlap_blocks": (2, [r"rank 1 passes memory to MPI_Iallgatherv to write to, of which 4 bytes belong to a receive that "
                           r"is not complete", r"MPI_Iallgatherv, .* overlap_blocks {here}", r"overlap_blocks {first}"]),
    "put_twice": (3, [r"rank [12] writes memory of rank 0 in halo, and rank [12] writes 4 bytes of it, with no synchronization",
                      r"rank 1: MPI_Put, called by put_twice {here}", r"rank 2: MPI_Put, called by put_twice {here}"]),
    "put_and_get": (3, [r"rank [12] (reads|writes) memory of rank 0 in halo, and rank [12] (reads|writes) 4 bytes",
                        r"rank 1: MPI_Put.* put_and_get {put}", r"rank 2: MPI_Get.* put_and_get {get}"]),
    "accumulated": (2, [r"rank [01] changes memory of rank 0 in halo \((MPI_SUM|MPI_PROD), integers of 4 bytes\), and "
                        r"rank [01] changes 4 bytes of it \((MPI_SUM|MPI_PROD), ", r"rank 1: .* accumulated {here}"]),
    "unflushed": (2, [r"rank 0 reads memory of rank 1 in halo, and rank 0 writes 4 bytes of it, with no synchronization",
                      r"MPI_Get, called by unflushed {get}", r"MPI_Put, called by unflushed {put}"]),
    "changed_put": (2, [r"rank 0: the memory that MPI_Put reads was changed before the operation was complete",
                        r"MPI_Put, called by changed_put {here}", r"MPI_Win_unlock, called by changed_put {end}"]),
    "got_too_early": (2, [r"rank 0 sends memory of which 4 bytes belong to an operation \(MPI_Get\) that is not complete",
                          r"MPI_Send, called by got_too_early {here}", r"got_too_early {get}"]),
    "mismatched_found": (2, [r"rank 1 receives floating-point numbers of 8 bytes with tag 6 from rank 0, which sends integers "
                             r"of 8 bytes", r"MPI_Mrecv, called by mismatched_found {here}", r"mismatched_found {sender}"]),
}
# Data for another host is read when it leaves: where the memory is gone, the process ends before
# the mistake is reported.
NOT_BETWEEN_HOSTS = {"freed"}
# Correct programs that use much of the interface: --check reports nothing for them.
CORRECT = ["none"]


def told(output):
    return [line for line in output.splitlines() if "combray: check:" in line]


def marks(name, source=SOURCE):
    """The places that are marked in a source, by their names."""
    places_of = {}
    for number, line in enumerate(source.read_text().splitlines(), 1):
        found = re.search(rf"(?://|!) {name}: (\w+)$", line)
        if found:
            places_of[found[1]] = rf"\(mistakes\{source.suffix}:{number}\)"
    return places_of


def play(runner, name, count, here=None):
    """A mistake on this machine, or on two hosts, the last process on the second one."""
    words = [str(runner.build / "mistakes"), name]
    if here:
        command = here.job(f"box1:{count - 1},box2:1" if count > 1 else "box1", *words, options=["--check"])
    else:
        command = [*runner.mpiexec, "--check", "-n", str(count), *words]
    return run(command, timeout=SECONDS_MAX)


def faults_of(runner, name, here=None):
    """Mistakes that are not reported, and reports where nothing is wrong."""
    count, wanted = MISTAKES[name]
    try:
        _, output, _ = play(runner, name, count, here)
    except AssertionError as problem:
        return [f"{name}: {problem}"]
    faults = [f"{name}: not told: {one}\n{output}" for one in wanted
              if not re.search(one.format(**marks(name)), output)]
    if len(told(output)) > sum("{" not in one for one in wanted) * count:
        faults.append(f"{name}: more is told than is wrong:\n{output}")
    return faults


def look_at_all(runner, here=None):
    names = [name for name in MISTAKES if not here or name not in NOT_BETWEEN_HOSTS]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        faults = [fault for found in pool.map(lambda name: faults_of(runner, name, here), names) for fault in found]
    assert not faults, "\n".join(faults)
    for name in CORRECT:
        code, output, _ = play(runner, name, 3, here)
        assert code == 0 and not told(output), f"{name}: exit code {code}\n{output}"


@places(8)
def mistakes_are_reported(runner):
    needs_combray(runner)
    look_at_all(runner)


@places(8)
def mistakes_are_reported_on_two_hosts(runner):
    with hosts.hosts(runner, 2) as here:
        look_at_all(runner, here)


# The reports for mistakes.f90, in the form of the table for mistakes.c.
IN_FORTRAN = [
    r"rank 0: the memory that MPI_Isend sends was changed", r"rank 0: MPI_Isend, called by commit {changed}",
    r"rank 0: MPI_Wait, called by commit {end}",
    r"rank 1 receives floating-point numbers of 4 bytes with tag 5 from rank 0, which sends integers of 4 bytes",
    r"rank 1: MPI_Recv, called by commit {receiver}", r"rank 0: MPI_Send, called by commit {sender}",
    r"rank 1 calls MPI_Bcast with root 1, but rank 0 with root 0", r"rank 1: MPI_Bcast, called by commit {root}",
]


def mistakes_in_fortran_are_reported(runner):
    needs_combray(runner)
    compiler = pathlib.Path(runner.mpicc[0]).with_name("mpifort")
    if not shutil.which("gfortran") or not compiler.exists():
        raise Skip("needs gfortran, and the Fortran interfaces")
    source, built = SOURCE.parents[1] / "scenarios" / "mistakes.f90", runner.build / "mistakes_in_fortran"
    code, output, _ = run([str(compiler), "-g", str(source), "-o", str(built)], timeout=SECONDS_MAX)
    assert code == 0, output
    _, output, _ = run([*runner.mpiexec, "--check", "-n", "2", str(built)], timeout=SECONDS_MAX)
    for one in IN_FORTRAN:
        assert re.search(one.format(**marks("fortran", source)), output), f"not told: {one}\n{output}"
    assert len(told(output)) == 3, output


SCENARIOS = [mistakes_are_reported, mistakes_are_reported_on_two_hosts, mistakes_in_fortran_are_reported]
