"""The emulated hosts themselves: what they share, how launchers reach them, what remains of them.
"""

import os
import pathlib
import signal
import subprocess
import tempfile
import time

from harness import TESTS
from harness.scenarios import END_SECONDS_MAX

BOX = str(TESTS / "cluster" / "box")
UP_SECONDS_MAX = 10.0


class Box:
    """A box of its own, beside the one in which the tests run."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder) / "box"
        self.environment = dict(os.environ, COMBRAY_BOX=str(self.folder))

    def __call__(self, *words, **more):
        done = subprocess.run([BOX, *words], env=self.environment, text=True, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
        return done.returncode, done.stdout.strip()

    def start(self, *words):
        return subprocess.Popen([BOX, *words], env=self.environment, start_new_session=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)

    def living(self):
        """Processes that have to do with this box, by their arguments."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.fsencode(self.folder) in (
                        entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return found


def own_box(function):
    """Gives the scenario a box, and sees that nothing is left of it."""
    def scenario(_runner):
        with tempfile.TemporaryDirectory() as folder:
            box = Box(folder)
            try:
                function(box)
            finally:
                box("down")
            # A process that was killed may take a moment to end.
            deadline = time.monotonic() + END_SECONDS_MAX
            while (left := box.living()) and time.monotonic() < deadline:
                time.sleep(0.02)
            assert not left, f"processes are left: {left}"
            assert not box.folder.exists(), "its folder is left"

    scenario.__name__ = function.__name__
    return scenario


@own_box
def eight_hosts_in_seconds(box):
    started = time.monotonic()
    code, output = box("up", "8", "1gbit", "0")
    seconds = time.monotonic() - started
    assert code == 0 and seconds < UP_SECONDS_MAX, f"{code} after {seconds:.1f} s: {output}"
    assert box("hosts")[1].split() == [f"box{number}" for number in range(1, 9)]
    for host in ("box1", "box8"):
        assert box("on", host, "sh", "-c", "hostname; echo $COMBRAY_NODE")[1] == f"{host}\n{host}"
    code, output = box("on", "box1", "touch", "/dev/shm/combray-box-test")
    assert code == 0, output
    assert box("on", "box2", "test", "-e", "/dev/shm/combray-box-test")[0] == 1
    assert not os.path.exists("/dev/shm/combray-box-test")


@own_box
def agent_like_ssh(box):
    box("up", "2", "0")
    code, output = box("rsh", "-x", "-o", "BatchMode=yes", "root@box2", "echo", "$HOME;", "exit 3")
    assert (code, output) == (3, os.environ.get("HOME", "/root")), f"{code}: {output}"
    assert box("rsh", "box2", "cat", input="told\n") == (0, "told")
    code, output = box("rsh", "box3", "true")
    assert code == 255 and "no host box3" in output, f"{code}: {output}"
    # From host to host, as launchers do.
    assert box("on", "box1", BOX, "rsh", "box2", "hostname") == (0, "box2")


@own_box
def crash_leaves_nothing_for_ever(box):
    for patience in (0.05, 0.1, 0.2):
        process = box.start("up", "6", "0")
        time.sleep(patience)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    code, output = box("up", "2", "0")
    assert code == 0, f"exit code {code}: {output}"
    job = box.start("on", "box2", "sleep", "1000")
    time.sleep(0.2)
    code, output = box("up", "3", "0")
    assert code == 0, f"exit code {code}: {output}"
    assert job.wait(5) != 0, "what ran on a host of the old box lives on"
    assert len(box.living()) == 4, f"three hosts and their switch, not {box.living()}"


@own_box
def mistakes_are_reported(box):
    for words, expected in (
        (("up", "0", "0"), "no number of hosts"),
        (("up", "2", "fast"), "no rate"),
        (("on", "box1", "true"), "no host box1"),
        (("cut", "box1", "eth0"), "no host box1"),
    ):
        code, output = box(*words)
        assert code != 0 and expected in output, f"{words}: {code}: {output}"
    box("up", "2", "0")
    code, output = box("cut", "box1", "eth7")
    assert code == 2 and "no interface eth7" in output, f"{code}: {output}"


SCENARIOS = [eight_hosts_in_seconds, agent_like_ssh, crash_leaves_nothing_for_ever,
             mistakes_are_reported]
