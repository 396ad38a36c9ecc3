"""`combray sample` over two hosts, and jobs that start from what it has kept.

Each function takes the runner of tests/run; an AssertionError is a failure.
"""

import json
import os
import pathlib
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
COMBRAY = HERE.parent.parent / "build" / "prefix" / "bin" / "combray"
RATES = {"eth0": "800mbit", "eth1": "200mbit"}
SAMPLE_SECONDS_MAX = 120


def combray(cache, *words):
    command = [HERE / "box", "on", "box1", COMBRAY, *words]
    done = subprocess.run(command, env=dict(os.environ, XDG_CACHE_HOME=str(cache)), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=SAMPLE_SECONDS_MAX)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}"
    return done.stdout


def shape(rates):
    for host in ("box1", "box2"):
        for interface, rate in rates.items():
            subprocess.run([HERE / "box", "rate", host, interface, rate], check=True)


def figures_are_kept_and_used(runner):
    """Each interface has its figures, a job reads them, and a damaged file is warned of."""
    with tempfile.TemporaryDirectory() as folder:
        shape(RATES)
        try:
            output = combray(folder, "sample", "--hosts", "box1,box2", "--launch-agent",
                             HERE / "rsh")
        finally:
            shape({interface: "0" for interface in RATES})
        assert "tcp:eth0" in output and "tcp:eth1" in output, output
        path = pathlib.Path(folder) / "combray" / "rails-box1.json"
        rails = json.loads(path.read_text())["rails"]
        fast, slow = (rails[f"tcp:{interface}"]["bytes_per_us"][-1] for interface in RATES)
        assert 40 < fast <= 110 and 10 < slow <= 28 and fast > 2 * slow, (fast, slow, output)
        path.write_text("nonsense")
        output = combray(folder, "bench", "--hosts", "box1,box2", "--launch-agent", HERE / "rsh",
                         "pingpong", "--sizes", "8", "--batches", "3")
        assert output.count("rails-box1.json is no file of combray sample") == 1, output


SCENARIOS = [figures_are_kept_and_used]
