"""A matrix of wrong and right programs by kind of mistake: `combray run --check` reports each wrong one, with the
right words, and says nothing of its twin, which differs in that point only."""

import concurrent.futures
import pathlib
import re
import shutil

from harness.scenarios import Skip, needs_combray, places, run

SOURCES = pathlib.Path(__file__).resolve().parent.parent / "c"

SECONDS_MAX = 60.0
OVERLAP = r"rank \d passes to MPI_\w+ a buffer to read and a buffer to write, which have \d+ bytes in common"
IN_USE = r"memory .*of which \d+ bytes belong to a (receive|send) that is not complete"
SIDES = r"rank \d calls MPI_\w+ with .* to send to itself, but .* to receive"
PEERS = r"rank \d calls MPI_\w+ with .* to receive from rank \d, which sends "
CONFLICT = r"rank \d (reads|writes|changes) memory of rank \d in .*, and rank \d (reads|writes|changes) \d+ bytes of it"
DEADLOCK = r"ranks? .*waits? for (each other|itself), and only the buffering of their messages prevents a deadlock: rank \d in MPI_"
# By kind: the program, the number of processes, and the expected report for each case.
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
        "not_ready": r"calls MPI_Rsend with tag 0 to rank \d, which has posted no receive"}),
    "sends that rely on buffering": ("misuse_messages", 2, {
        "both_send": DEADLOCK, "ring_of_sends": DEADLOCK, "slow_receiver": DEADLOCK,
        "both_send_with_buffer": DEADLOCK, "crossed_tags": DEADLOCK, "send_before_barrier": DEADLOCK,
        "send_to_itself": DEADLOCK}),
    "sends of three processes that rely on buffering": ("misuse_messages", 3, {
        "complete_sends_first": DEADLOCK, "complete_started_first": DEADLOCK, "send_before_bcast": DEADLOCK,
        "around_three": r"3 ranks wait for each other, and only .* rank 1 in MPI_Recv for a message of rank 2",
        "master_and_workers": DEADLOCK}),
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
# With how many processes all right cases of a program run.
ALL_COUNTS = {"misuse_collectives": 3, "misuse_messages": 4, "misuse_windows": 3, "misuse_accesses_reported": 2}
# Not found are the wrong forms of wildcard_then_named and wildcards_for_all, whose receives may
# take either message, and of load_beside_locked_put.
# Programs whose loads and stores the compiler makes them report.
ACCESSES = "misuse_accesses"
READ_TOO_EARLY = r"rank \d reads memory of which 4 bytes belong to (a receive|an operation \(MPI_\w+\)) that is not"
WRITTEN_TOO_EARLY = r"rank \d writes memory of which 4 bytes belong to (a receive|a send|an operation \(MPI_Put\)) that is"
OF_ACCESSES = {
    "read_before_wait": READ_TOO_EARLY, "written_before_wait": WRITTEN_TOO_EARLY,
    "written_while_sent": WRITTEN_TOO_EARLY, "read_while_reduced": READ_TOO_EARLY,
    "read_before_flush": READ_TOO_EARLY, "read_before_fence": READ_TOO_EARLY, "origin_written": WRITTEN_TOO_EARLY,
    "load_beside_put": CONFLICT, "store_beside_put": CONFLICT, "store_beside_get": CONFLICT,
    "store_beside_sum": CONFLICT, "load_in_exposure": CONFLICT, "store_beside_locked_put": CONFLICT,
    "waits_for_value": CONFLICT, "stored_before_message": CONFLICT,
}


def reported(runner, program, count, case, form):
    """The output of --check for one form of a case, and the exit code."""
    command = [*runner.mpiexec, "--check", "-n", str(count), str(runner.build / program), case, form]
    try:
        code, output, _ = run(command, timeout=SECONDS_MAX)
    except AssertionError as problem:
        return -1, str(problem)
    return code, output


def faults_of(runner, program, count, case, wanted):
    """The complaints: a wrong program without the wanted report, or a right one with a report or a failure."""
    code, output = reported(runner, program, count, case, "wrong" if wanted else "right")
    if wanted:
        return [] if re.search(f"combray: check: .*{wanted}", output) else [f"{case}: not reported:\n{output}"]
    return [f"{case}: exit code {code} of the right program\n{output}"] if code or "combray: check:" in output else []


@places(8)
def misuse_is_reported_and_right_use_is_not(runner):
    needs_combray(runner)
    cases = [(program, count, case, wanted)
             for program, count, cases in MATRIX.values() for case, wanted in cases.items()]
    look_at_all(runner, [*cases, ("misuse_messages", 2, "received_by_thread", None)])


def look_at_all(runner, cases):
    """The wrong cases, and the right ones: together where they need no threads."""
    cases = cases + [(program, ALL_COUNTS[program], "all", None) for program in sorted({one for one, *_ in cases})]
    cases += [(program, count, case, None) for program, count, case, _ in cases if case in ("funneled", "serialized")]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(faults_of, runner, *case) for case in cases]
        faults = [fault for one in runs for fault in one.result()]
    assert not faults, f"{len(faults)} faults\n" + "\n".join(faults)


@places(8)
def loads_and_stores_of_the_program_are_compared(runner):
    needs_combray(runner)
    source, built = SOURCES / f"{ACCESSES}.c", f"{ACCESSES}_reported"
    words = [*runner.mpicc, "--check-accesses", "-g", "-O1", str(source), "-o", str(runner.build / built)]
    code, output, _ = run(words, timeout=SECONDS_MAX)
    if code != 0 and not shutil.which("gcc"):
        raise Skip("needs GCC")
    assert code == 0, output
    look_at_all(runner, [(built, 2, case, wanted) for case, wanted in OF_ACCESSES.items()])
    # The place is that of the load.
    _, output = reported(runner, built, 2, "read_before_wait", "wrong")
    assert re.search(r"rank 0: a load in read_before_wait \(misuse_accesses\.c:\d+\)", output), output


def other_compilers_are_refused_where_they_would_see_nothing(runner):
    needs_combray(runner)
    other = runner.build / "other-compiler"
    other.write_text("#!/bin/sh\necho 'clang version 14.0.6'\n")
    other.chmod(0o755)
    code, output, _ = run([*runner.mpicc, f"-cc={other}", "--check-accesses", "-c", str(SOURCES / "misuse_accesses.c")])
    assert code == 2 and "--check-accesses needs GCC" in output and str(other) in output, f"{code}\n{output}"


SCENARIOS = [other_compilers_are_refused_where_they_would_see_nothing, misuse_is_reported_and_right_use_is_not,
             loads_and_stores_of_the_program_are_compared]
