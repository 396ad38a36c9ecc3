"""`combray run --trace` records what happened when, and `combray trace` finds the waits."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

from harness import loggops
from harness.scenarios import Skip, needs_combray, run

from . import hosts

# The late rank of tests/c/wait_states.c, and how long it takes, in milliseconds.
LATE, MILLISECONDS = 1, 200
# How much shorter and longer a wait may be than the delay of the late rank, as a part of it. A
# machine that is busy with other tests lets waits end later; tests/perfetto/waits is stricter.
SHORTER_MAX, LONGER_MAX = 0.05, 1.0
ATTEMPTS = 3
# By the argument of tests/c/wait_states.c: the kind of the wait that is found, and the function.
KINDS = {
    "late_sender_small": ("late_sender", "MPI_Recv"),
    "late_sender_large": ("late_sender", "MPI_Recv"),
    "late_sender_nonblocking": ("late_sender", "MPI_Wait"),
    "late_sender_nonblocking_large": ("late_sender", "MPI_Wait"),
    "wrong_order_small": ("wrong_order", "MPI_Recv"),
    "wrong_order_large": ("wrong_order", "MPI_Recv"),
    "late_receiver_small": ("late_receiver", "MPI_Ssend"),
    "late_receiver_large": ("late_receiver", "MPI_Send"),
    "wait_at_barrier": ("wait_at_barrier", "MPI_Barrier"),
    "wait_at_nxn": ("wait_at_n_x_n", "MPI_Allreduce"),
    "wait_at_nxn_large": ("wait_at_n_x_n", "MPI_Alltoall"),
    "early_reduce": ("early_reduce", "MPI_Reduce"),
    "early_reduce_large": ("early_reduce", "MPI_Reduce"),
    "late_broadcast_small": ("late_broadcast", "MPI_Bcast"),
    "late_broadcast": ("late_broadcast", "MPI_Bcast"),
    "lock_held": ("wait_for_window", "MPI_Win_lock"),
    "lock_held_large": ("wait_for_window", "MPI_Win_lock"),
    "late_post_small": ("wait_for_window", "MPI_Win_start"),
    "late_post_large": ("wait_for_window", "MPI_Win_start"),
}


def shown(runner, count, words, *options):
    """Runs a program with a trace; returns what combray trace prints about it, and the numbers that the program has
    printed. Scenarios run beside each other."""
    with tempfile.TemporaryDirectory(dir=runner.build) as folder:
        file = os.path.join(folder, "run.pftrace")
        job = [*runner.mpiexec, "--oversubscribe", "--trace", file, "-n", str(count), *words]
        code, output, _ = run(job, timeout=60)
        assert code == 0, output
        assert all(re.fullmatch(r"[\d.]+", line) for line in output.split()), output
        numbers = [float(line) for line in output.split()]
        code, output, _ = run([combray(runner), "trace", *options, file], timeout=60)
        assert code == 0, output
        return output, numbers


def traced(runner, count, words):
    """Runs a program with a trace; returns the findings, and the numbers that the program has printed."""
    output, numbers = shown(runner, count, words, "--json")
    return json.loads(output), numbers


def combray(runner):
    return os.path.join(os.path.dirname(runner.mpiexec[0]), "combray")


def undisturbed(runner, count, words, check, *expected):
    """
    Checks the findings about several runs of a program, until they are as expected. Load delays ranks: a punctual
    one that loses its core begins its wait later, and one that computes takes longer. A fault of the trace shows each
    time; a run that fails is not repeated.
    """
    for _ in range(ATTEMPTS - 1):
        found = traced(runner, count, words)
        with contextlib.suppress(AssertionError):
            return check(*found, *expected)
    return check(*traced(runner, count, words), *expected)


def has_wait(found, delays, name, words, longer_max=LONGER_MAX):
    """The wait of rank 0 for the late rank was found, and lasted as long as that rank was late; returns by which part
    of that it was longer."""
    kind, function = KINDS[name]
    delay, = delays
    waits = [one for one in found["waits"] if one["rank"] == 0 and one["seconds"] > 0.5 * delay]
    expected = {"kind": kind, "function": function, "awaited": LATE}
    reported = [{key: one[key] for key in expected} for one in waits]
    assert reported == [expected], f"{words}: {reported} instead of {expected}"
    seconds, place = waits[0]["seconds"], waits[0]["place"]
    longer = seconds / delay - 1
    assert -SHORTER_MAX <= longer <= longer_max, f"{words}: a wait of {seconds} s, and a delay of {delay} s"
    assert place.endswith(")") or "wait_states" in place, f"{words}: no place in {waits[0]}"
    return longer


def waits_are_found(runner, counts, *options):
    for name in KINDS:
        words = [*options, str(runner.build / "wait_states"), name, str(MILLISECONDS)]
        for count in counts:
            undisturbed(runner, count, words, has_wait, name, words)


def waits_are_found_with_kind_rank_and_time(runner):
    needs_combray(runner)
    waits_are_found(runner, (2, 3))


def waits_between_machines_are_found(runner):
    needs_combray(runner)
    # Each process is a machine of its own.
    waits_are_found(runner, (2,), "sh", "-c", 'COMBRAY_NODE=machine$PMI_RANK exec "$@"', "sh")


def ranks_that_wait_for_the_end_of_a_trace_end_no_job(runner):
    needs_combray(runner)
    # Rank 3 waits for the reports of the others while rank 2 waits until rank 0 compares the
    # clocks.
    on_two_machines = ["sh", "-c", 'COMBRAY_NODE=machine$((PMI_RANK / 2)) exec "$@"', "sh"]
    found, _ = traced(runner, 4, [*on_two_machines, str(runner.build / "left_early"), "late-end"])
    assert found["ranks"] == 4, found


def has_no_long_wait(found, _, longest=0.5):
    """No wait is longer than this part of the duration of a computation; returns the longest one as such a part."""
    parts = [one["seconds"] * 1000 / MILLISECONDS for one in found["waits"]]
    assert (found["ranks"], found["hosts"], found["dropped"]) == (2, 1, 0) and max(parts, default=0.0) <= longest, found
    return max(parts, default=0.0)


def a_balanced_program_shows_no_long_wait(runner):
    needs_combray(runner)
    words = [str(runner.build / "wait_states"), "balanced", str(MILLISECONDS)]
    undisturbed(runner, 2, words, has_no_long_wait)


def the_path_of_a_late_rank_is_critical(runner):
    needs_combray(runner)
    found, _ = traced(runner, 3, [str(runner.build / "wait_states"), "wait_at_barrier", str(MILLISECONDS)])
    first = found["critical_path"][0]
    assert (first["rank"], first["activity"]) == (LATE, "computing"), found
    assert first["seconds"] > 0.9 * MILLISECONDS / 1000, found


def has_phases(found, delays, longer_max=LONGER_MAX):
    """The phase in which a rank is late is found, with that rank and its time; returns by which part this was longer."""
    uneven, even, level = found["phases"]
    assert [one["name"] for one in found["phases"]] == ["uneven", "even", "level 7"], found["phases"]
    assert [one["times"] for one in found["phases"]] == [2, 2, 1], found["phases"]
    longer = uneven["seconds"] / sum(delays) - 1
    assert uneven["slowest"] == LATE and -SHORTER_MAX <= longer <= longer_max, (uneven, delays)
    assert uneven["load_balance"] < 0.7 and 0.3 < uneven["waiting"] < 0.6, uneven
    return longer


def phases_show_which_rank_is_slow(runner):
    needs_combray(runner)
    words = [str(runner.build / "wait_states"), "phases", str(MILLISECONDS)]
    undisturbed(runner, 2, words, has_phases)


# By the argument of tests/c/wait_states.c with two processes: lower bounds of the serialisation
# and the transfer efficiency.
EFFICIENCIES = {
    # Rank 1 computes, and the others do nothing: no time is lost for dependencies or messages.
    "wait_at_barrier": (0.8, 0.8),
    "late_receiver_large": (0.8, 0.8),
    # The ranks compute one after the other.
    "in_turns": (None, 0.8),
}


def has_efficiencies(findings, _, name, serialisation, transfer):
    found = findings["efficiency"]
    assert abs(found["parallel"] - found["load_balance"] * found["communication"]) < 1e-6, (name, found)
    assert abs(found["communication"] - found["serialisation"] * found["transfer"]) < 1e-6, (name, found)
    assert found["transfer"] > transfer, (name, found)
    if serialisation is None:
        # Half of the time, and the same work on both.
        assert 0.4 < found["serialisation"] < 0.6 and found["load_balance"] > 0.8, (name, found)
    else:
        assert found["serialisation"] > serialisation and found["load_balance"] < 0.6, (name, found)


def efficiencies_are_those_of_known_programs(runner):
    needs_combray(runner)
    for name, (serialisation, transfer) in EFFICIENCIES.items():
        words = [str(runner.build / "wait_states"), name, str(MILLISECONDS)]
        undisturbed(runner, 2, words, has_efficiencies, name, serialisation, transfer)


def a_picture_shows_all_ranks(runner):
    needs_combray(runner)
    picture = runner.build / "trace.svg"
    words = [str(runner.build / "wait_states"), "wait_at_barrier", "20"]
    output, _ = shown(runner, 3, words, "--picture", str(picture))
    text = picture.read_text()
    assert "Critical path" in output, output
    assert all(f"rank {rank}</text>" in text for rank in range(3)) and text.endswith("</svg>\n"), text


def spawned_jobs_have_traces_of_their_own(runner):
    needs_combray(runner)
    with tempfile.TemporaryDirectory(dir=runner.build) as folder:
        file = os.path.join(folder, "run.pftrace")
        job = [*runner.mpiexec, "--oversubscribe", "--trace", file, "-n", "1", str(runner.build / "dynamic_spawn")]
        code, output, _ = run(job, timeout=60)
        traces = os.listdir(folder)
        assert code == 0 and "run.pftrace" in traces, (code, output, traces)
        spawned = [name for name in traces if re.fullmatch(r"run([.]job\d+)+[.]pftrace", name)]
        assert spawned and len(spawned) + 1 == len(traces), traces
        for name in traces:
            code, output, _ = run([combray(runner), "trace", os.path.join(folder, name)], timeout=60)
            assert code == 0 and "Critical path" in output, (name, output)


def other_files_are_refused(runner):
    needs_combray(runner)
    for name, reason in [("/nothing/here", "cannot be read"), ("/bin/sh", "no Perfetto trace"),
                         ("/dev/null", "not written by combray run --trace")]:
        code, output, _ = run([combray(runner), "trace", name], timeout=20)
        assert code != 0 and reason in output and name in output, (name, code, output)


def early(runner, how, count=2, *, job=None, code=None, options=(), limit=60):
    """The findings about a job that ends early, or none if its ranks have written the trace themselves."""
    with tempfile.TemporaryDirectory(dir=runner.build) as folder:
        file = os.path.join(folder, "run.pftrace")
        words = ["--trace", file, *options, "-n", str(count), str(runner.build / "ends_early"), how]
        command = job(words) if job else [*runner.mpiexec, "--oversubscribe", *words]
        got, output, _ = run(command, timeout=limit)
        assert got == code, (how, got, output)
        by_launcher = f"the trace of the job until its end is in {file}" in output
        code, output, _ = run([combray(runner), "trace", "--json", file], timeout=60)
        assert code == 0, output
        return json.loads(output), by_launcher


# By the argument of tests/c/ends_early.c: the exit code, and the options.
EARLY_ENDS = {
    "is_killed": (137, ()),
    "aborts": (3, ()),
    "exits": (5, ()),
    "waits": (124, ("--timeout", "3")),
}


def is_whole(found, ranks, hosts=1):
    """All ranks have recorded all phases."""
    assert (found["ranks"], found["hosts"], found["dropped"]) == (ranks, hosts, 0), found
    assert [(one["name"], one["times"]) for one in found["phases"]] == [("rounds", 1), ("end", 1)], found
    # Each round is a call and a message, that is four events.
    assert found["events"] > 4 * 100 * ranks, found["events"]


def traces_are_exported(runner):
    needs_combray(runner)
    for kind in ("late_sender_large", "wait_at_nxn"):
        with tempfile.TemporaryDirectory(dir=runner.build) as folder:
            file = os.path.join(folder, "run.pftrace")
            words = [str(runner.build / "wait_states"), kind, str(MILLISECONDS)]
            code, output, _ = run([*runner.mpiexec, "--oversubscribe", "--trace", file, "-n", "3", *words], timeout=60)
            assert code == 0, output
            code, output, _ = run([combray(runner), "trace", "--json", file], timeout=60)
            found = json.loads(output)
            exported = {}
            for format in ("json", "html", "goal", "tit"):
                code, output, _ = run([combray(runner), "trace", file, "--to", format], timeout=60)
                target = os.path.join(folder, f"run.{format}")
                assert code == 0 and target in output, output
                if format != "tit":
                    with open(target) as content:
                        exported[format] = content.read()
            ranks = json.loads(exported["json"])["ranks"]
            assert sum(len(one["events"]) for one in ranks) == found["events"], kind
            calls = [event for one in ranks for event in one["events"] if event["kind"] == "call"]
            assert any("wait_states.c" in call["place"] for call in calls), calls[:3]
            page = exported["html"]
            assert "<svg" in page and "wait_states.c" in page and "<script src" not in page and "<link" not in page
            # The simulator finds out that the others wait for the late rank.
            seconds = loggops.seconds(exported["goal"], L=1000)
            assert 0.95 * MILLISECONDS / 1000 < seconds < 1.05 * found["seconds"], (kind, seconds, found["seconds"])
            with open(os.path.join(folder, "run.tit", "ranks.txt")) as names:
                assert names.read().split() == ["rank0.txt", "rank1.txt", "rank2.txt"]
            with open(os.path.join(folder, "run.tit", "rank2.txt")) as actions:
                lines = actions.read().splitlines()
            assert lines[0] == "2 init" and lines[-1] == "2 finalize", lines


def traced_work(runner, count, folder, *before, options=()):
    """Runs tests/c/traced_work.c with a trace; returns the file, the findings and all events by rank."""
    file = os.path.join(folder, "run.pftrace")
    words = [*before, str(runner.build / "traced_work"), os.path.join(folder, "data")]
    job = [*runner.mpiexec, "--oversubscribe", *options, "--trace", file, "-n", str(count), *words]
    code, output, _ = run(job, timeout=60)
    assert (code, output) == (0, ""), output
    code, output, _ = run([combray(runner), "trace", "--json", file], timeout=60)
    found = json.loads(output)
    code, output, _ = run([combray(runner), "trace", file, "--to", "json"], timeout=60)
    assert code == 0, output
    with open(os.path.join(folder, "run.json")) as content:
        ranks = json.load(content)["ranks"]
    return file, found, [one["events"] for one in ranks]


# By function: the bytes that the members of an operation of two processes contribute and get.
EXCHANGED = {
    "MPI_Allreduce": (2 * 3 * 800, 2 * 3 * 800),
    "MPI_Bcast": (1000, 1000),
    "MPI_Gatherv": (4 + 8, 4 + 8),
    "MPI_Ialltoall": (2 * 16, 2 * 16),
    "MPI_Alltoall": (2 * 32, 2 * 32),
}


def all_kinds_of_work_are_in_one_timeline(runner):
    needs_combray(runner)
    with tempfile.TemporaryDirectory(dir=runner.build) as folder:
        file, found, ranks = traced_work(runner, 2, folder)
        calls = {one["function"]: one for one in found["calls"]}
        exchanged = {name: (calls[name]["bytes_sent"], calls[name]["bytes_received"]) for name in EXCHANGED}
        assert exchanged == EXCHANGED, exchanged
        roots = {event["root"] for events in ranks for event in events if event["kind"] == "exchange"}
        assert roots == {None, 0, 1}, roots
        work = {(one["kind"], one["name"]): one for one in found["work"]}
        # A large message is copied by one of the ways.
        copies = [one for (kind, _), one in work.items() if kind == "copy"]
        assert sum(one["bytes"] for one in copies) >= 4 << 20, found["work"]
        # A call may transfer less than requested, and a first one is short to measure its cost.
        written, read = work["file call", "write"], work["file call", "read"]
        assert written["bytes"] == 2 * 5 * 4096 and written["times"] >= 10, work
        assert read["bytes"] == 2 * 4096 and read["times"] >= 2, work
        assert work["user-level thread", "worker"]["times"] >= 2 * 3, work
        highest = {one["name"]: one["highest"] for one in found["counters"]}
        assert highest["unexpected messages"] >= 30 and highest["resident bytes"] > 1 << 20, highest
        code, page, _ = run([combray(runner), "trace", file], timeout=60)
        words = ("Calls", "Beside the calls", "Highest values", "user-level thread", "unexpected messages")
        assert code == 0 and all(word in page for word in words), page
        code, output, _ = run([combray(runner), "trace", file, "--to", "html"], timeout=60)
        with open(os.path.join(folder, "run.html")) as content:
            page = content.read()
        assert code == 0 and "user-level thread" in page and "contributed" in page, page


def packets_of_rails_are_in_the_timeline(runner):
    needs_combray(runner)
    with tempfile.TemporaryDirectory(dir=runner.build) as folder:
        # Each process is a machine of its own.
        apart = ["sh", "-c", 'COMBRAY_NODE=machine$PMI_RANK exec "$@"', "sh"]
        _, found, ranks = traced_work(runner, 2, folder, *apart)
        assert sum(one["bytes"] for one in found["rails"]) > 4 << 20, found["rails"]
        packets = [event for event in ranks[0] if event["kind"] == "packet"]
        assert all(event["peer"] == 1 and event["rail"] for event in packets), packets[:3]
        # Messages that are submitted while the rail is busy share packets.
        assert any(event.get("messages", 0) > 1 for event in packets), found["rails"]
        sent = sum(event.get("messages", 0) for event in packets)
        submitted = sum(event["kind"] == "send" for event in ranks[0])
        assert 0 < sent <= submitted, (sent, submitted)


def served_operations_are_in_the_timeline(runner):
    needs_combray(runner)
    with tempfile.TemporaryDirectory(dir=runner.build) as folder:
        # While the order is recorded, windows use messages: the target carries out the operations.
        options = ("--record-order", os.path.join(folder, "recording"))
        _, found, ranks = traced_work(runner, 2, folder, options=options)
        served = {one["name"]: one for one in found["work"] if one["kind"] == "served operation"}
        put, summed = served["put"], served["accumulate"]
        assert (put["times"], put["bytes"], summed["times"], summed["bytes"]) == (10, 640, 1, 8), served
        spans = [event for event in ranks[1] if event.get("track") == "served operations" and event["name"] == "put"]
        assert len(spans) == 10 and all(event["peer"] == 0 for event in spans), spans


def openmp_regions_have_their_places(runner):
    needs_combray(runner)
    if not (pathlib.Path(runner.mpiexec[0]).parents[1] / "lib" / "combray" / "openmp").exists():
        raise Skip("there is no library of OpenMP")
    with tempfile.TemporaryDirectory(dir=runner.build) as folder:
        program, file = os.path.join(folder, "regions"), os.path.join(folder, "run.pftrace")
        source = os.path.join(os.path.dirname(__file__), "traced_regions.c")
        code, output, _ = run([*runner.mpicc, "-O2", "-g", "-fopenmp", source, "-o", program])
        assert code == 0, output
        job = [*runner.mpiexec, "--openmp", "--oversubscribe", "--trace", file, "-n", "2", program]
        code, output, _ = run(job, timeout=60)
        assert (code, output) == (0, ""), output
        code, output, _ = run([combray(runner), "trace", file, "--to", "json"], timeout=60)
        assert code == 0, output
        with open(os.path.join(folder, "run.json")) as content:
            ranks = json.load(content)["ranks"]
        for rank in ranks:
            spans = [one for one in rank["events"] if one["kind"] == "work" and one["track"].startswith("OpenMP thread ")]
            count = lambda name, track="": sum(one["name"] == name and track in one["track"] for one in spans)
            for thread in range(3):
                assert count("region sweep (traced_regions.c:11)", f"thread {thread}") == 3, spans
            assert count("region tasks (traced_regions.c:20)") == 3 * 2 and count("task") == 3 * 6, spans
            # A span on a thread is inside another one, or apart from it.
            for one in spans:
                for other in spans:
                    (a, b), (c, d) = ((two["time"] - two["lasted_ns"], two["time"]) for two in (one, other))
                    assert one["track"] != other["track"] or not a < c < b < d, (one, other)
            # Thread 0 computes least, so it waits at the barrier.
            sweeps = [one["lasted_ns"] for one in spans if "sweep" in one["name"]]
            assert min(sweeps) > 1e6, sweeps


def archives_of_otf2_have_all_events(runner):
    needs_combray(runner)
    printer = shutil.which("otf2-print")
    if not printer:
        raise Skip("there is no otf2-print")
    with tempfile.TemporaryDirectory(dir=runner.build) as folder:
        file, _, ranks = traced_work(runner, 3, folder)
        # An archive that is there is replaced.
        for _ in range(2):
            code, output, _ = run([combray(runner), "trace", file, "--to", "otf2"], timeout=60)
            assert code == 0, output
        code, output, _ = run([printer, os.path.join(folder, "run.otf2", "traces.otf2")], timeout=60)
        assert code == 0 and "rror" not in output, output[-2000:]
        lines = [line.split() for line in output.splitlines()]
        printed = {}
        for line in lines:
            if len(line) > 2 and line[1].isdigit() and line[2].isdigit():
                printed[line[0]] = printed.get(line[0], 0) + 1
        counts = {}
        for event in (event for events in ranks for event in events):
            counts[event["kind"]] = counts.get(event["kind"], 0) + 1
        slices = counts["call"] + counts["wait"] + counts["work"]
        expected = {"MPI_SEND": counts["send"], "MPI_RECV": counts["match"], "METRIC": counts["counter"],
                    "ENTER": slices, "LEAVE": slices}
        assert {name: printed.get(name) for name in expected} == expected, (printed, counts)
        # 3 MPI_Allreduce, MPI_Bcast, MPI_Gatherv, MPI_Alltoall and MPI_Barrier of 3 ranks.
        assert printed["MPI_COLLECTIVE_END"] >= 3 * 7, printed
        code, output, _ = run([printer, "-G", os.path.join(folder, "run.otf2", "traces.otf2")], timeout=60)
        assert code == 0 and "MPI_Allreduce" in output and "rank 2" in output, output[:2000]
        # An archive of which a part is missing is replaced; a file, and another folder, stay.
        os.remove(os.path.join(folder, "run.otf2", "traces.def"))
        code, output, _ = run([combray(runner), "trace", file, "--to", "otf2"], timeout=60)
        assert code == 0 and "traces.def" in os.listdir(os.path.join(folder, "run.otf2")), output
        os.remove(os.path.join(folder, "run.otf2", "traces.otf2"))
        for target, reason in ((os.path.join(folder, "run.otf2"), "belongs to no archive"), (file, "File exists")):
            command = [combray(runner), "trace", file, "--to", "otf2", "--output", target]
            code, output, _ = run(command, timeout=60)
            assert code == 2 and reason in output and output.count("\n") == 1, (code, output)


def jobs_that_end_early_have_traces(runner):
    needs_combray(runner)
    for how, (code, options) in EARLY_ENDS.items():
        found, by_launcher = early(runner, how, 3, code=code, options=options)
        assert by_launcher, how
        is_whole(found, 3)


def a_wait_that_never_ends_is_found(runner):
    needs_combray(runner)
    found, _ = early(runner, "waits", 2, code=124, options=("--timeout", "3"))
    longest = sorted(found["waits"], key=lambda one: -one["seconds"])[:2]
    seen = sorted((one["rank"], one["awaited"], one["kind"], one["function"]) for one in longest)
    assert seen == [(rank, 1 - rank, "late_sender", "MPI_Recv") for rank in range(2)], found["waits"]
    # A rank that waits notes that at intervals which double.
    assert all(0.5 < one["seconds"] < 60 and "ends_early.c:" in one["place"] for one in longest), longest


def what_the_ranks_have_written_stays(runner):
    needs_combray(runner)
    found, by_launcher = early(runner, "fails_after_the_end", code=6)
    assert not by_launcher
    is_whole(found, 2)


def the_last_part_of_a_trace_is_kept(runner):
    needs_combray(runner)
    options = ("--timeout", "3", "--trace-last", "1")
    found, _ = early(runner, "waits", code=124, options=options)
    assert 0.9 < found["seconds"] <= 1.0 and found["dropped"] == 0, found
    assert [one["name"] for one in found["phases"]] == ["end"], found["phases"]
    command = [*runner.mpiexec, "--trace-last", "0", "-n", "1", "true"]
    code, output, _ = run(command, timeout=20)
    assert code != 0 and "--trace-last needs a number of seconds" in output, output


def jobs_of_several_hosts_that_end_early_have_traces(runner):
    with hosts.hosts(runner, 2) as here:
        for how, (code, options) in EARLY_ENDS.items():
            job = lambda words: here.job("box1:2,box2:2", *words)
            found, by_launcher = early(runner, how, 4, job=job, code=code, options=options)
            assert by_launcher, how
            is_whole(found, 4, 2)


def a_running_job_shows_its_trace(runner):
    needs_combray(runner)
    with tempfile.TemporaryDirectory(dir=runner.build) as folder:
        file, now = (os.path.join(folder, name) for name in ("run.pftrace", "now.pftrace"))
        words = ["--oversubscribe", "--trace", file, "-n", "2", str(runner.build / "ends_early"), "waits"]
        job = subprocess.Popen([*runner.mpiexec, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            limit = time.monotonic() + 60
            while True:
                code, output, _ = run([combray(runner), "ps", "--trace", now, str(job.pid)], timeout=60)
                if code == 0:
                    code, output, _ = run([combray(runner), "trace", "--json", now], timeout=60)
                    found = json.loads(output)
                    longest = max([one["seconds"] for one in found["waits"]], default=0)
                    if found["ranks"] == 2 and len(found["phases"]) == 2 and longest > 0.5:
                        break
                assert time.monotonic() < limit and job.poll() is None, output
            is_whole(found, 2)
        finally:
            job.kill()
            job.wait()


SCENARIOS = [
    jobs_that_end_early_have_traces,
    a_wait_that_never_ends_is_found,
    what_the_ranks_have_written_stays,
    the_last_part_of_a_trace_is_kept,
    jobs_of_several_hosts_that_end_early_have_traces,
    a_running_job_shows_its_trace,
    waits_are_found_with_kind_rank_and_time,
    waits_between_machines_are_found,
    ranks_that_wait_for_the_end_of_a_trace_end_no_job,
    a_balanced_program_shows_no_long_wait,
    the_path_of_a_late_rank_is_critical,
    phases_show_which_rank_is_slow,
    a_picture_shows_all_ranks,
    spawned_jobs_have_traces_of_their_own,
    traces_are_exported,
    all_kinds_of_work_are_in_one_timeline,
    packets_of_rails_are_in_the_timeline,
    served_operations_are_in_the_timeline,
    openmp_regions_have_their_places,
    archives_of_otf2_have_all_events,
    efficiencies_are_those_of_known_programs,
    other_files_are_refused,
]
