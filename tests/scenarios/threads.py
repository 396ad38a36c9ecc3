"""Threads of the library, seen from outside: `combray topo --threads`, and the timeline of a run."""

import json
import subprocess
import tempfile
import time
from pathlib import Path

from harness.scenarios import END_SECONDS_MAX, needs_combray, run

from .hangs import command


def threads_of_a_job_are_shown_where_they_are(runner):
    needs_combray(runner)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = [*runner.mpiexec, "-n", "2", "-x", f"COMBRAY_THREADS_TIMELINE={folder}/run.json",
                 str(runner.build / "threads_seen")]
        launcher = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    text=True)
        try:
            assert launcher.stdout.readline() == "ready\n"
            topo = [command(runner), "topo", "--job", str(launcher.pid), "--threads"]
            told = look(topo, lambda output: output.count(" waiting, 0 that have lent") == 2
                        and output.count("waits together") == 0)
            for rank in (0, 1):
                assert f"Threads of rank {rank} (process " in told and "scheduler cache" in told, told
            for census in (process["workers"][0] for process in json.loads(look([*topo, "--json"]))["processes"]):
                assert census["alive"] == 41 and len(census["processors"]) == 1, census
                # A thread that waits in MPI polls for messages now and then.
                assert census["waiting"] in (40, 41), census
            picture = folder / "threads.svg"
            look([*topo, "--output", str(picture)])
            assert "idle" in picture.read_text() or "receives" in picture.read_text()
        finally:
            launcher.stdin.close()
            output = launcher.stdout.read()
            code = launcher.wait(60)
        assert code == 0, output
        files = sorted(folder.glob("run.*.json"))
        assert len(files) == 2, files
        for file in files:
            events = json.loads(file.read_text())["traceEvents"]
            spans = [event for event in events if event["ph"] == "X"]
            gate = [span for span in spans if span["name"] == "waits at the gate"]
            # Each thread runs until it waits, and from then on until it ends.
            assert len(gate) >= 80 and all(span["cat"].startswith("bubble ") for span in gate), gate[:3]
            assert any(span["name"] == "receives" and "cat" not in span for span in spans)
            spans.sort(key=lambda span: span["ts"])
            # In microseconds since 1970, of which a fraction is lost.
            overlaps = [pair for pair in zip(spans, spans[1:]) if pair[0]["ts"] + pair[0]["dur"] > pair[1]["ts"] + 1]
            assert not overlaps, overlaps[:3]


def look(words, fits=lambda output: True):
    """What a command prints, once it fits."""
    deadline = time.monotonic() + END_SECONDS_MAX
    while True:
        code, output, _ = run(words)
        assert code == 0, output
        if fits(output) or time.monotonic() > deadline:
            return output
        time.sleep(0.1)


SCENARIOS = [threads_of_a_job_are_shown_where_they_are]
