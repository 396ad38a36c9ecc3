"""A matrix of wrong and right programs by kind of mistake: `combray run --check` reports each wrong one, with the
right words, and says nothing of its twin, which differs in that point only."""

import concurrent.futures
import re

from harness.scenarios import needs_combray, places, run

SECONDS_MAX = 60.0
OVERLAP = r"rank \d gives MPI_\w+ a buffer to read and one to write to, which have \d+ bytes in common"
IN_USE = r"memory .*of which \d+ bytes belong to a (receive|send) that is not complete"
SIDES = r"rank \d calls MPI_\w+ with .* for itself to send, but .* to receive"
PEERS = r"rank \d calls MPI_\w+ with .* to receive from rank \d, which sends "
CONFLICT = r"rank \d (reads|writes|changes) memory of rank \d in .*, and rank \d (reads|writes|changes) \d+ bytes of it"
# By kind: the program, the number of processes, and for each case what is reported.
MATRIX = {
    "amounts and types of collective operations": ("misuse_collectives", 3, {
        "allgather_sides": SIDES, "allgather_elements": SIDES, "alltoall_sides": SIDES, "gather_sides": SIDES,
        "scatter_sides": SIDES, "allgatherv_sides": SIDES, "allgatherv_peers": PEERS, "gatherv_peers": PEERS,
        "scatterv_peers": PEERS, "alltoallv_peers": PEERS, "alltoallv_sides": SIDES, "alltoallw_peers": PEERS,
        "ialltoallv_peers": PEERS, "alltoallv_in_place": PEERS}),
    "buffers of one call that overlap": ("misuse_collectives", 3, {
        "gather_alias": OVERLAP, "gather_overlap": OVERLAP, "scatter_alias": OVERLAP, "allgather_alias": OVERLAP,
        "allgatherv_alias": OVERLAP, "alltoall_alias": OVERLAP, "alltoallw_alias": OVERLAP,
        "allreduce_overlap": OVERLAP, "reduce_overlap": OVERLAP, "scan_overlap": OVERLAP,
        "reduce_scatter_overlap": OVERLAP, "reduce_local_alias": OVERLAP, "reduce_local_overlap": OVERLAP,
        "iallgather_alias": OVERLAP}),
    "buffers of one message call that overlap": ("misuse_messages", 2, {
        "sendrecv_overlap": OVERLAP, "isendrecv_overlap": OVERLAP, "sendrecv_columns": OVERLAP}),
    "threads": ("misuse_collectives", 1, {
        "funneled": r"calls MPI_Sendrecv in a thread that is not the main thread, at MPI_THREAD_FUNNELED",
        "serialized": r"calls MPI_\w+ while another of its threads is in MPI_\w+, at MPI_THREAD_SERIALIZED"}),
    "buffers in use": ("misuse_messages", 2, {
        "received_twice": IN_USE, "sent_while_received": IN_USE,
        "changed_before_wait": r"MPI_Isend sends was changed before the send was complete",
        "changed_while_started": r"MPI_Start sends was changed before the send was complete"}),
    "messages that do not fit": ("misuse_messages", 2, {
        "too_long": r"receives 12 bytes with tag 0 from rank \d into a buffer of 8",
        "other_elements": r"receives floating-point numbers of 4 bytes .* which sends integers of 4 bytes",
        "not_ready": r"calls MPI_Rsend with tag 0 to rank \d, where no receive is posted"}),
    "left over": ("misuse_messages", 2, {
        "not_received": r"has never received a message of 4 bytes", "not_completed": r"a request of MPI_Isend was never",
        "not_freed": r"a communicator of MPI_Comm_dup was never freed"}),
    "one-sided accesses in one epoch": ("misuse_windows", 3, {
        "get_beside_atomic_read": CONFLICT, "get_beside_fetch": CONFLICT, "atomic_read_beside_sum": CONFLICT,
        "put_beside_put": CONFLICT, "put_beside_get": CONFLICT, "sum_beside_product": CONFLICT,
        "sum_beside_put": CONFLICT, "posted_puts": CONFLICT, "no_flush": CONFLICT}),
    "one-sided accesses of several processes under locks": ("misuse_windows", 3, {
        "shared_locks": CONFLICT, "exclusive_locks": CONFLICT, "locked_all": CONFLICT, "locked_with_message": CONFLICT,
        "locked_with_flag": CONFLICT}),
    "own memory of a window in calls": ("misuse_windows", 3, {
        "origin_in_window": CONFLICT, "result_in_window": CONFLICT, "sent_from_window": CONFLICT,
        "sent_before_put": CONFLICT, "received_into_window": CONFLICT}),
    "epochs and origins of one-sided operations": ("misuse_windows", 3, {
        "freed_without_fence": r"calls MPI_Win_free for .*, but no MPI_Win_fence has ended the epoch of its MPI_Put",
        "accumulate_alias": OVERLAP, "origin_changed": r"MPI_Put reads was changed before the operation was complete",
        "result_sent": r"belong to an operation \(MPI_Get\) that is not complete"}),
}


def reported(runner, program, count, case, form):
    """What --check says of one form of a case, and the exit code."""
    command = [*runner.mpiexec, "--check", "-n", str(count), str(runner.build / program), case, form]
    try:
        code, output, _ = run(command, timeout=SECONDS_MAX)
    except AssertionError as problem:
        return -1, str(problem)
    return code, output


def faults_of(runner, program, count, case, wanted):
    """What is not reported of a wrong program, or is reported of a right one."""
    _, output = reported(runner, program, count, case, "wrong")
    faults = [] if re.search(f"combray: check: .*{wanted}", output) else [f"{case}: not reported:\n{output}"]
    code, output = reported(runner, program, count, case, "right")
    if code != 0 or "combray: check:" in output:
        faults.append(f"{case}: exit code {code} of the right program\n{output}")
    return faults


@places(8)
def misuse_is_reported_and_right_use_is_not(runner):
    needs_combray(runner)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(faults_of, runner, program, count, case, wanted)
                for program, count, cases in MATRIX.values() for case, wanted in cases.items()]
        faults = [fault for one in runs for fault in one.result()]
    assert not faults, f"{len(faults)} faults\n" + "\n".join(faults)


SCENARIOS = [misuse_is_reported_and_right_use_is_not]
