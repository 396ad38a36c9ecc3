"""Jobs on two hosts whose network interfaces are cut, or slowed, or whose processes die.

Each function takes the runner of tests/run, whose launcher starts processes on box1 and box2; an
AssertionError is a failure.
"""

import os
import pathlib
import re
import signal
import subprocess
import time

BOX = str(pathlib.Path(__file__).resolve().parent / "box")
# Slow enough that a message of 8 MiB takes a tenth of a second and is cut in its middle.
RATES = {"eth0": "500mbit", "eth1": "300mbit"}
TRANSFER_SECONDS = 3
# From the start of the launcher on, until the transfer is well under way.
UNDERWAY_SECONDS = 1.5
# A job that lost a rail, or a process, has to notice and to go on, or to end, within this.
END_SECONDS_MAX = 30.0


class Skip(Exception):
    """The scenario cannot be played here."""


def box(*words):
    subprocess.run([BOX, *words], check=True)


def shape(rates):
    for host in ("box1", "box2"):
        for interface, rate in rates.items():
            box("rate", host, interface, rate)


def disturbed(runner, disturb, seconds=TRANSFER_SECONDS, pause=0):
    """Run a transfer, disturb it under way; gives its exit code and output."""
    command = [*runner.mpiexec, "-n", "2", str(runner.build / "transfer"), str(seconds), str(pause)]
    shape(RATES)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace",
                               start_new_session=True)
    try:
        time.sleep(UNDERWAY_SECONDS)
        assert process.poll() is None, f"ended too early:\n{process.communicate()[0]}"
        disturb()
        output, _ = process.communicate(timeout=seconds + END_SECONDS_MAX)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        time.sleep(1)
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        raise AssertionError(f"no end after {seconds + END_SECONDS_MAX} s\n{output}") from None
    finally:
        box("heal")
        shape({interface: "0" for interface in RATES})


def went_on(code, output):
    assert code == 0, f"exit code {code}\n{output}"
    assert re.search(r"^\d+ rounds of", output, re.M), output


def is_warned_of(output, interface):
    """One warning for each process that noticed."""
    lines = [line for line in output.splitlines() if interface in line and "ombray" in line]
    assert 1 <= len(lines) <= 2, f"{len(lines)} warnings of {interface}\n{output}"


def lost_rail_in_the_middle(runner):
    for interface in RATES:
        code, output = disturbed(runner, lambda: box("cut", "box2", interface))
        went_on(code, output)
        is_warned_of(output, interface)


def lost_rail_in_a_pause(runner):
    """What is posted later finds nothing underway, and cannot even be sent."""
    code, output = disturbed(runner, lambda: box("cut", "box2", "eth0"), seconds=0, pause=2)
    went_on(code, output)
    is_warned_of(output, "eth0")


def rail_that_comes_back(runner):
    def cut_and_heal():
        box("cut", "box1", "eth1")
        time.sleep(0.3)
        box("heal")

    code, output = disturbed(runner, cut_and_heal)
    went_on(code, output)


def slower_rail_in_the_middle(runner):
    def slow():
        for host in ("box1", "box2"):
            box("rate", host, "eth0", "20mbit")

    code, output = disturbed(runner, slow)
    went_on(code, output)


def killed_process(runner):
    """The others end as well, on all hosts, and nothing is left of the job."""
    path = str(runner.build / "transfer")

    def living():
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.readlink(entry / "exe") == path:
                    environment = (entry / "environ").read_bytes().split(b"\0")
                    found[int(entry.name)] = b"COMBRAY_NODE=box2" in environment
            except OSError:
                continue
        return found

    def kill():
        for pid, there in living().items():
            if there:
                os.kill(pid, signal.SIGKILL)

    code, output = disturbed(runner, kill, seconds=60)
    assert code != 0, f"exit code 0\n{output}"
    assert not living(), f"processes are left: {living()}\n{output}"


SCENARIOS = [lost_rail_in_the_middle, lost_rail_in_a_pause, rail_that_comes_back, slower_rail_in_the_middle,
             killed_process]
