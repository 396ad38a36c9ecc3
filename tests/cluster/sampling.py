"""`combray sample` over two hosts, and jobs that start from its stored results."""

import json
import os
import pathlib
import subprocess

from harness import PREFIX, ROOT, TESTS
from harness.scenarios import alone

HERE = TESTS / "cluster"
COMBRAY = PREFIX / "bin" / "combray"
BOX = pathlib.Path(os.environ.get("COMBRAY_BOX", ROOT / "build" / "box"))
RATES = {"eth0": "800mbit", "eth1": "200mbit"}
SAMPLE_SECONDS_MAX = 120


def combray(*words):
    command = [HERE / "box", "on", "box1", COMBRAY, *words]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=SAMPLE_SECONDS_MAX)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}"
    return done.stdout


def shape(rates):
    for host in ("box1", "box2"):
        for interface, rate in rates.items():
            subprocess.run([HERE / "box", "rate", host, interface, rate], check=True)


@alone("measures how fast the interfaces are")
def figures_are_kept_and_used(runner):
    """Each interface has its figures, a job reads them, and a damaged file is warned of."""
    # Emulated hosts have their caches in the box.
    kept = [BOX / "cache" / "combray" / f"rails-{host}.json" for host in ("box1", "box2")]
    shape(RATES)
    try:
        output = combray("sample", "--hosts", "box1,box2", "--launch-agent", HERE / "rsh")
    finally:
        shape({interface: "0" for interface in RATES})
    try:
        assert "tcp:eth0" in output and "tcp:eth1" in output, output
        assert all(path.exists() for path in kept), output
        rails = json.loads(kept[0].read_text())["rails"]
        fast, slow = (rails[f"tcp:{interface}"]["bytes_per_us"][-1] for interface in RATES)
        assert 40 < fast <= 110 and 10 < slow <= 28 and fast > 2 * slow, (fast, slow, output)
        kept[0].write_text("nonsense")
        output = combray("bench", "--hosts", "box1,box2", "--launch-agent", HERE / "rsh",
                         "pingpong", "--sizes", "8", "--batches", "3")
        assert output.count("rails-box1.json is not a file of combray sample") == 1, output
    finally:
        for path in kept:
            path.unlink(missing_ok=True)


SCENARIOS = [figures_are_kept_and_used]
