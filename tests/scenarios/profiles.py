"""`combray run --profile` reports where the time of a job went, and what would help."""

import contextlib
import json
import os
import pathlib
import re
import tempfile
import threading
import time

from harness.scenarios import Skip, alone, needs_combray, run

from . import examples, hosts

# Others may use the machine while times are measured: so often a program is tried.
ATTEMPTS = 3
# By the argument of tests/c/profiles.c: the number of processes, and the cause that is reported
# first.
CAUSES = {
    "slow_rank": (2, "slow_rank"),
    "chain": (4, "chain"),
    "small_messages": (2, "small_messages"),
    "late_receives": (2, "late_receives"),
    "imbalance": (2, "imbalance"),
    "late_sends": (2, "late_sends"),
}


def start(runner, count, name, *options):
    words = [*runner.mpiexec, "--oversubscribe", *options, "-n", str(count), str(runner.build / "profiles"), name]
    return run(words, timeout=60)


@alone("measures times")
def advice_names_the_cause(runner):
    needs_combray(runner)
    file = runner.build / "advice.json"
    faults = []
    for name, (count, cause) in CAUSES.items():
        for _ in range(ATTEMPTS):
            code, output, _ = start(runner, count, name, "--profile", str(file))
            assert code == 0, output
            causes = causes_in(file)
            if causes[:1] == [cause]:
                break
        else:
            faults.append(f"{name}: {causes}\n{output}")
    assert not faults, "\n".join(faults)


# Examples that are made slow (slowed.h): source, kind of slowness, processes, words, and the cause
# that is reported first.
SLOWED = [
    ("poisson3d", "BY_ONE_RANK", 2, ["24", "40"], "slow_rank"),
    ("poisson3d", "BY_A_CHAIN", 4, ["24", "25"], "chain"),
    ("asp", "BY_SMALL_MESSAGES", 2, ["400"], "small_messages"),
    ("poisson3d", "BY_LATE_RECEIVES", 2, ["110", "8"], "late_receives"),
]


def causes_in(file):
    """The causes that were reported, by their machine-readable names. That the machine has too few cores for the test
    comes before them."""
    return [one["cause"] for one in json.loads(file.read_text())["advice"] if one["cause"] != "too_few_cores"]


def first_cause(file):
    """The cause of the program that was reported first."""
    return causes_in(file)[:1]


def advised(runner, command, cause):
    """Runs a program until this cause is reported; returns what is reported instead."""
    file = runner.build / "slowed.json"
    for _ in range(ATTEMPTS):
        code, output, _ = run([*command(["--profile", str(file)])], timeout=120)
        assert code == 0 and (" right" in output or "violations" in output), output
        found = first_cause(file)
        if found == [cause]:
            return []
    return [f"{cause}: {found}\n{output}"]


@alone("measures times")
def reasons_why_examples_are_slow_are_reported(runner):
    needs_combray(runner)
    header, faults = os.path.join(os.path.dirname(__file__), "slowed.h"), []
    for source, way, count, words, cause in SLOWED:
        program = examples.build(runner, f"{source}_{way.lower()}", f"{source}.c", native=False,
                                 extra=["-include", header, f"-DSLOWED={way}", "-D_POSIX_C_SOURCE=200112L",
                                        "-Wno-unused-function"])
        job = [*runner.mpiexec, "--oversubscribe", "-n", str(count)]
        faults += advised(runner, lambda options: [*job, *options, program, *words], cause)
    assert not faults, "\n".join(faults)


@alone("measures times")
def examples_in_wrong_places_are_reported(runner):
    needs_combray(runner)
    if len(os.sched_getaffinity(0)) < 2:
        raise Skip("needs two cores")
    # All on one core, though there are others.
    program = examples.build(runner, "hybrid_barrier_placed", "hybrid_barrier.c", native=False, extra=["-fopenmp"])
    core = str(min(os.sched_getaffinity(0)))
    job = ["env", "OMP_NUM_THREADS=1", *runner.mpiexec, "-n", "2"]
    faults = advised(runner, lambda options: [*job, *options, "taskset", "-c", core, program, "300"], "shared_core")
    # Neighbours on different hosts.
    poisson = examples.build(runner, "poisson3d_placed", "poisson3d.c", native=False)
    with hosts.hosts(runner, 2, "100mbit") as here:
        file = runner.build / "rankfile"
        file.write_text("".join(f"rank {rank}=box{1 + (rank in (1, 2))}\n" for rank in range(4)))
        job = [*here.environment, *runner.mpiexec, "--launch-agent", str(hosts.RSH), "--oversubscribe",
               "--rankfile", str(file), "-n", "4"]
        faults += advised(runner, lambda options: [*job, *options, poisson, "160", "10"], "far_neighbours")
    assert not faults, "\n".join(faults)


def a_page_shows_times_and_messages(runner):
    needs_combray(runner)
    code, output, _ = start(runner, 2, "late_receives", "--profile")
    assert code == 0, output
    assert re.search(r"^combray profile: \S*profiles late_receives, 2 ranks on 1 machine, ", output, re.M), output
    # A rank that has waited long under load asks the other one about it.
    assert re.search(r"^Messages: 1[5-9], 15 MiB in all$", output, re.M), output
    assert "most from rank 0 to 1 15 MiB in 15" in output, output
    assert re.search(r"^ +0 +1 .* receives late, MPI_Send in late_receives", output, re.M), output
    assert len(output.splitlines()) < 60, output


def all_is_written_to_a_file(runner):
    needs_combray(runner)
    data, page = runner.build / "profile.json", runner.build / "profile.html"
    for file in (data, page):
        if file.exists():
            os.remove(file)
        code, output, _ = start(runner, 3, "balanced", f"--profile={file}")
        assert code == 0 and "computing" in output, output
    told = json.loads(data.read_text())
    assert [rank["rank"] for rank in told["ranks"]] == [0, 1, 2], told
    for rank, split in zip(told["ranks"], told["times"]):
        assert abs(sum(split.values()) - rank["seconds"]) < 0.01 * rank["seconds"], (rank["seconds"], split)
        calls = {call["function"]: call["calls"] for call in rank["calls"]}
        assert calls["MPI_Allreduce"] == 20, calls
        assert ["contexts", 0] != rank["variables"][0], rank
    text = page.read_text()
    assert text.startswith("<!doctype html>") and "http" not in text, text[:500]
    code, output, _ = start(runner, 2, "balanced", "--profile=profile.txt")
    assert code != 0 and "ends in .json or .html" in output, output


def slower(runner, states, file, slowed):
    """Runs a program of which a part is slow, and returns the names of what was slower than before, by its cost."""
    job = ["env", f"XDG_STATE_HOME={states}", f"SLOWED={slowed}", *runner.mpiexec, "--oversubscribe", "--profile",
           str(file), "-n", "2", str(runner.build / "slowed_later")]
    code, output, _ = run(job, timeout=60)
    assert code == 0, output
    history = json.loads(file.read_text())["history"]
    return output, history["runs"], [one["subject"] for one in history["slower"]]


@alone("measures times")
def what_became_slower_is_reported(runner):
    needs_combray(runner)
    combray = os.path.join(os.path.dirname(runner.mpiexec[0]), "combray")
    with tempfile.TemporaryDirectory(dir=runner.build) as folder:
        states, file = os.path.join(folder, "states"), pathlib.Path(folder, "profile.json")
        for number in range(8):
            output, runs, _ = slower(runner, states, file, "")
            assert runs == number, output
        assert "lower than in 7 earlier runs" in output, output
        for slowed, first in (("assembly", {"phase": "assembly"}), ("large", {"phase": "solve"})):
            for _ in range(ATTEMPTS):
                output, _, subjects = slower(runner, states, file, slowed)
                if first in subjects[:3]:
                    break
            assert first in subjects[:3] and f"phase {first['phase']}" in output, (slowed, subjects, output)
        # Only the operations of one size were slow.
        sizes = [one["call"]["bytes_max"] for one in subjects if "call" in one]
        assert sizes == [32768], (subjects, output)
        assert "MPI_Allreduce in main (slowed_later.c), to 32 KiB" in output, output
        listed = ["env", f"XDG_STATE_HOME={states}", combray, "history"]
        code, output, _ = run(listed, timeout=20)
        assert code == 0 and re.search(r"^ +1\d .*slowed_later \(2 ranks on 1 machine", output, re.M), output
        code, output, _ = run([*listed, "slowed_later"], timeout=20)
        assert code == 0 and "phase assembly" in output and "to 32 KiB" in output and "computing" in output, output
        code, output, _ = run([*listed, "--json"], timeout=20)
        assert code == 0 and len(json.loads(output)) == 1, output[:500]
        # A file that is damaged costs one run.
        damaged = sorted(pathlib.Path(states).rglob("*.json"))[3]
        damaged.write_text("{")
        code, output, _ = run(listed, timeout=20)
        assert code == 0 and "[1 unusable]" in output, output
        code, output, _ = run([*listed, "--forget", "slowed_later"], timeout=20)
        assert code == 0 and not list(pathlib.Path(states).rglob("*.json")), output
        code, output, _ = run([*listed, "slowed_later"], timeout=20)
        assert code != 0 and "no program whose path or arguments contain" in output, output
        # The user may forbid it.
        job = ["env", f"XDG_STATE_HOME={states}", *runner.mpiexec, "-x", "COMBRAY_HISTORY=never", "--oversubscribe",
               "--profile", "-n", "2", str(runner.build / "slowed_later")]
        code, output, _ = run(job, timeout=60)
        assert code == 0 and "earlier runs" not in output and not list(pathlib.Path(states).rglob("*.json")), output


@contextlib.contextmanager
def counted_energy(folder, watts):
    """A folder of counters in the form of the kernel, of a package that takes this power all the time, and of its cores,
    which are a part of it."""
    for zone, name in (("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "core")):
        place = pathlib.Path(folder, zone)
        place.mkdir()
        for file, text in (("name", name), ("max_energy_range_uj", 10**12), ("energy_uj", 0)):
            (place / file).write_text(f"{text}\n")
    ended = threading.Event()

    def count():
        begun = time.monotonic()
        while not ended.wait(0.002):
            for zone in ("intel-rapl:0", "intel-rapl:0:0"):
                # Written over: a reader never finds an empty file.
                with open(pathlib.Path(folder, zone, "energy_uj"), "r+") as file:
                    file.write(f"{int((time.monotonic() - begun) * watts * 1e6)}\n")

    counter = threading.Thread(target=count)
    counter.start()
    try:
        yield
    finally:
        ended.set()
        counter.join()


@alone("a counter must be written each 2 ms")
def energy_is_reported_by_rank_and_phase(runner):
    """Energy is divided by processor time, and a rank that waits takes none: its wait sleeps."""
    needs_combray(runner)
    watts, file = 50.0, runner.build / "energy.json"
    with tempfile.TemporaryDirectory(dir=runner.build) as folder, counted_energy(folder, watts):
        job = ["env", f"COMBRAY_ENERGY_COUNTERS={folder}", *runner.mpiexec, "--oversubscribe"]
        code, output, _ = run([*job, "--profile", str(file), "-n", "2", str(runner.build / "energy")], timeout=60)
        assert code == 0, output
        code, page, _ = run([*job, "--profile", "-n", "2", str(runner.build / "energy")], timeout=60)
        assert code == 0, page
    told = json.loads(file.read_text())
    # The counter is written every 2 ms, or later on a busy machine.
    slack = 0.1 * max(rank["seconds"] for rank in told["ranks"])
    for rank in told["ranks"]:
        assert abs(rank["machine_joules"] / watts - rank["seconds"]) < slack, rank
        assert [phase["name"] for phase in rank["phases"]] == ["even", "uneven"], rank["phases"]
        for phase in rank["phases"]:
            assert abs(phase["machine_joules"] / watts - phase["seconds"]) < slack, rank["phases"]
    whole = re.search(r"^energy of processors and memory: ([\d.]+) J in ", page, re.M)
    ranks = {rank: float(joules) for rank, joules in re.findall(r"^ *(\d) +([\d.]+) J +[\d.]+ W +\d+ %", page, re.M)}
    phases = {name: float(joules) for joules, name in re.findall(r"^ *([\d.]+) J +\d+ % +[\d.]+ W +(even|uneven)$", page, re.M)}
    assert whole and set(ranks) == {"0", "1"} and set(phases) == {"even", "uneven"}, page
    assert abs(sum(ranks.values()) - float(whole[1])) < 0.02 * float(whole[1]), page
    # Rank 1 uses 0.2 of 1 s of processor time. With a wait that spins it would use half.
    assert ranks["1"] < 0.3 * sum(ranks.values()), page


def nothing_is_reported_without_it(runner):
    needs_combray(runner)
    code, output, _ = start(runner, 2, "balanced")
    assert (code, output) == (0, ""), output


SCENARIOS = [
    advice_names_the_cause,
    reasons_why_examples_are_slow_are_reported,
    examples_in_wrong_places_are_reported,
    a_page_shows_times_and_messages,
    all_is_written_to_a_file,
    what_became_slower_is_reported,
    energy_is_reported_by_rank_and_phase,
    nothing_is_reported_without_it,
]
