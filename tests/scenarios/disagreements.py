"""Processes whose collective operations do not match: that is reported, and no process waits for
ever."""

import re
import threading

from harness.scenarios import needs_combray, places, run

SECONDS_MAX = 20.0
DISAGREEMENTS = ["small-root", "large-root", "nonblocking", "counts", "roots", "functions", "absent"]
# The error of a receiver that gets too much, and the errors of processes that would wait for ever.
TOO_LONG = r"but the receive buffer only \d+|where there is room for \d+|with sizes that do not agree"
FOR_EVER = r"rank \d+ of MPI_COMM_WORLD waits in MPI_\w+.* for rank \d+, which (is in|has ended|has called) .*" \
           r"must call the same collective operations"
ENDED = r"waits in MPI_Bcast of 400000 bytes with root 0 for rank 0, which has ended this operation, " \
        r"and has called MPI_Bcast of 40 bytes with root 0"


def play(runner, how, count, boards, variables, outcomes):
    settings = [f"{name}={value}" for name, value in variables.items()]
    command = ["env", f"COMBRAY_BOARDS={boards}", *settings, *runner.mpiexec, "-n", str(count),
               str(runner.build / "disagree"), how]
    case = (how, count, boards, variables)
    try:
        code, output, _ = run(command, timeout=SECONDS_MAX)
        outcomes.append((*case, code, output))
    except AssertionError as problem:
        outcomes.append((*case, None, str(problem)))


def play_all(runner, cases):
    """Runs all cases concurrently, as they sleep nearly always."""
    needs_combray(runner)
    outcomes = []
    players = [threading.Thread(target=play, args=(runner, *case, outcomes)) for case in cases]
    for player in players:
        player.start()
    for player in players:
        player.join()
    return outcomes


@places(16)
def disagreement_is_reported(runner):
    chain = {"COMBRAY_COLLECTIVES": "bcast:chain"}
    cases = [(how, 3, boards, {}) for how in DISAGREEMENTS for boards in ("auto", "never")]
    cases += [("small-root", 5, "never", chain), ("late", 3, "auto", {}), ("late", 2, "never", {}),
              ("late-threads", 3, "auto", {}), ("late-threads", 4, "never", {}),
              # Rank 0 waits in the barrier of the launcher, beside 129 ranks that wait for it.
              ("absent", 130, "auto", {})]
    told = 0
    for how, count, boards, more, code, output in play_all(runner, cases):
        case = f"{how}, {count} processes, boards {boards}: exit code {code}\n{output}"
        assert code is not None, case
        if how.startswith("late"):
            # A process that computes must not be mistaken for one whose call does not match.
            assert code == 0 and output.count("is done") == count, case
        elif more:
            assert re.search(ENDED, output), case
        elif code == 0:
            # Some mismatched calls complete without an error: less data than there is room for is
            # accepted.
            assert how != "absent", case
        else:
            assert re.search(f"{TOO_LONG}|{FOR_EVER}", output), case
            told += 1
    assert told >= len(DISAGREEMENTS), f"only {told} disagreements were told"


# By the argument of tests/c/left_early.c: what rank 0 or 1 reports.
LEFT = {
    "receive": r"rank 0 of MPI_COMM_WORLD waits for a message with tag 7 of rank 1, which has called MPI_Finalize",
    # With MPI_THREAD_MULTIPLE, where no thread can cancel what another one receives in MPI_Recv.
    "threads": r"rank 0 of MPI_COMM_WORLD waits for a message with tag 7 of rank 1, which has called MPI_Finalize",
    "other-tag": r"with tag 7 of rank 1, which has called MPI_Finalize and sends nothing more\. A message with tag 8 of rank 1",
    "any": r"rank 0 of MPI_COMM_WORLD waits for a message of any rank, but all others have called MPI_Finalize",
    "all": r"waits for a message with tag 7 of rank 2, which has called MPI_Finalize",
    "leads": r"rank 0 of .* waits in the creation of a communicator from a group of rank [12], which has called MPI_Finalize",
    "follows": r"rank 1 of .* waits in the creation of a communicator from a group of rank 0, which has called MPI_Finalize",
}


@places(16)
def receives_of_ranks_in_finalize_end_the_job(runner):
    needs_combray(runner)
    outcomes = []

    def start(how, place, *copying):
        command = [*runner.mpiexec, "-n", "3", *(word for way in copying for word in ("-env", "COMBRAY_COPYING", way)),
                   str(runner.build / "left_early"), how, place]
        try:
            code, output, _ = run(command, timeout=SECONDS_MAX)
            outcomes.append((how, " ".join((place, *copying)), code, output))
        except AssertionError as problem:
            outcomes.append((how, " ".join((place, *copying)), None, str(problem)))
    ending = ("late", "underway", "stream", "cancelled")
    cases = [(how, place) for how in (*LEFT, *ending) for place in ("near", "far")]
    # The ways in which the data of a large message can go, which measured costs decide.
    cases += [("underway", "near", way) for way in ("once", "piped", "past-caches", "packets", "jointly")]
    players = [threading.Thread(target=start, args=case) for case in cases]
    for player in players:
        player.start()
    for player in players:
        player.join()
    for how, place, code, output in outcomes:
        case = f"{how}, {place}: exit code {code}\n{output}"
        if how in LEFT:
            assert code not in (None, 0) and re.search(LEFT[how], output), case
        else:
            assert code == 0 and output.count("is done") == 3, case


SCENARIOS = [disagreement_is_reported, receives_of_ranks_in_finalize_end_the_job]
