"""`combray run --profile` tells where the time of a job went, and what would help."""

import json
import os
import re

from harness.scenarios import alone, needs_combray, run

# Others may use the machine while times are measured: so often a program is tried.
ATTEMPTS = 3
# By the argument of tests/c/profiles.c: the number of processes, and the cause that is told first.
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
            causes = [one["cause"] for one in json.loads(file.read_text())["advice"]]
            if causes[:1] == [cause]:
                break
        else:
            faults.append(f"{name}: {causes}\n{output}")
    assert not faults, "\n".join(faults)


def a_page_tells_times_and_messages(runner):
    needs_combray(runner)
    code, output, _ = start(runner, 2, "late_receives", "--profile")
    assert code == 0, output
    assert re.search(r"^combray profile: \S*profiles late_receives, 2 ranks on 1 machine, ", output, re.M), output
    assert re.search(r"^Messages: 15, 15 MiB in all$", output, re.M), output
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


def nothing_is_told_without_it(runner):
    needs_combray(runner)
    code, output, _ = start(runner, 2, "balanced")
    assert (code, output) == (0, ""), output


SCENARIOS = [advice_names_the_cause, a_page_tells_times_and_messages, all_is_written_to_a_file,
             nothing_is_told_without_it]
