"""Jobs on two hosts whose network interfaces are cut, or slowed, or whose processes die."""

import ctypes.util
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

from harness import TESTS, jobs
from harness.scenarios import Skip, places

BOX = str(TESTS / "cluster" / "box")
# Slow enough that a message of 8 MiB takes a tenth of a second and is cut in its middle.
RATES = {"eth0": "500mbit", "eth1": "300mbit"}
TRANSFER_SECONDS = 3
# From the start of the launcher on, until the transfer is well under way.
UNDERWAY_SECONDS = 1.5
# An interface that is silent for so long is given up, and used again after this time when it works
# again.
LOST_SECONDS, RESTORED_SECONDS_MAX = 4, 10
CONNECTED_SECONDS_MAX = 10
# A job that lost a rail, or a process, has to notice and to go on, or to end, within this.
END_SECONDS_MAX = 30.0


class Transfer:
    """Two hosts of a box of its own, and a job on them that something happens to."""

    def __init__(self, runner, folder):
        self.environment = ["env", f"COMBRAY_BOX={folder}"]
        self.mpiexec, self.build, self.program = runner.mpiexec, runner.build, str(runner.build / "transfer")
        self.rates, self.hosts = list(RATES.values()), 2
        # What the program is started by.
        self.wrapper = []
        self.folder = pathlib.Path(folder)

    def living(self):
        """The processes of the job, and whether they are on box2."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.readlink(entry / "exe") == self.program:
                    environment = (entry / "environ").read_bytes().split(b"\0")
                    if self.environment[1].encode() in environment:
                        found[int(entry.name)] = b"COMBRAY_NODE=box2" in environment
            except OSError:
                continue
        return found

    def stop_there_for_a_while(self):
        """Longer than silence is borne, the processes on box2."""
        there = [pid for pid, is_there in self.living().items() if is_there]
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in there:
                os.kill(pid, number)
            time.sleep(TRIAL_SECONDS if number == signal.SIGSTOP else 0)

    def box(self, *words):
        """Does something to the box; gives what that prints."""
        return subprocess.run([*self.environment, BOX, *words], check=True, stdout=subprocess.PIPE, text=True).stdout

    def rate(self, interface, rate):
        for host in ("box1", "box2"):
            self.box("rate", host, interface, rate)

    def disturbed(self, disturb, seconds=TRANSFER_SECONDS, pause=0, rest=0, is_awaited=True):
        """Runs a transfer, disturbs it while it is underway; returns its exit code and output. If
        its end is not awaited, it is ended afterwards, and its code is None if it had not ended
        before."""
        self.box("up", str(self.hosts), *self.rates)
        process = jobs.start([*self.environment, *self.mpiexec, "-n", "2", *self.wrapper, self.program,
                              seconds, pause, rest])
        try:
            time.sleep(UNDERWAY_SECONDS)
            assert process.poll() is None, f"ended too early:\n{process.communicate()[0]}"
            disturb()
            if not is_awaited:
                code = process.poll()
                return code, jobs.end(process)
            output, _ = process.communicate(timeout=seconds + END_SECONDS_MAX)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end after {seconds + END_SECONDS_MAX} s\n{jobs.end(process)}") from None
        finally:
            self.box("down")


def transfer(function):
    """Gives the scenario a transfer on hosts of its own."""
    def scenario(runner):
        with tempfile.TemporaryDirectory(prefix="rails-", dir=runner.build) as folder:
            function(Transfer(runner, folder))

    scenario.__name__ = function.__name__
    return places(4)(scenario)


def went_on(code, output):
    assert code == 0, f"exit code {code}\n{output}"
    assert re.search(r"^\d+ rounds of", output, re.M), output


def is_warned_of(output, interface):
    """One warning for each process that noticed."""
    lines = [line for line in output.splitlines() if interface in line and "ombray" in line]
    assert 1 <= len(lines) <= 2, f"{len(lines)} warnings of {interface}\n{output}"


def lost_in_the_middle(transfer, interface):
    code, output = transfer.disturbed(lambda: transfer.box("cut", "box2", interface))
    went_on(code, output)
    is_warned_of(output, interface)


@transfer
def first_rail_lost_in_the_middle(transfer):
    lost_in_the_middle(transfer, "eth0")


@transfer
def second_rail_lost_in_the_middle(transfer):
    lost_in_the_middle(transfer, "eth1")


@transfer
def lost_rail_in_a_pause(transfer):
    """A later message finds no other underway, and cannot even be sent."""
    code, output = transfer.disturbed(lambda: transfer.box("cut", "box2", "eth0"), seconds=0, pause=2)
    went_on(code, output)
    is_warned_of(output, "eth0")


@transfer
def rail_that_comes_back(transfer):
    def cut_and_heal():
        transfer.box("cut", "box1", "eth1")
        time.sleep(0.3)
        transfer.box("heal")

    code, output = transfer.disturbed(cut_and_heal)
    went_on(code, output)


@transfer
def rail_that_is_restored(transfer):
    """One that was given up is used again, also by messages that are underway, and the job outlives the loss of the
    other one then."""
    def lose_one_after_the_other():
        transfer.box("cut", "box1", "eth1")
        time.sleep(LOST_SECONDS)
        transfer.box("heal")
        time.sleep(RESTORED_SECONDS_MAX)
        transfer.box("cut", "box1", "eth0")

    code, output = transfer.disturbed(lose_one_after_the_other, seconds=LOST_SECONDS + RESTORED_SECONDS_MAX + TRANSFER_SECONDS)
    went_on(code, output)
    is_warned_of(output, "eth1")
    assert "all interfaces are used again" in output, output


@transfer
def libfabric_rail_that_is_restored(transfer):
    """Its connection is reset, and made again; the job outlives the loss of the other interface then."""
    if not ctypes.util.find_library("fabric"):
        raise Skip("there is no libfabric")
    transfer.environment += ["COMBRAY_NET=ofi:tcp:eth1,tcp:eth0", f"COMBRAY_HOST_TIMEOUT={SILENCE_S}"]

    def reset_and_cut():
        deadline = time.monotonic() + CONNECTED_SECONDS_MAX
        # On a loaded machine the connection may not be there yet.
        while "ESTAB" not in transfer.box("on", "box2", "ss", "-Ktn", "dst", "10.77.1.0/24"):
            if time.monotonic() > deadline:
                raise Skip("this system does not end connections")
            time.sleep(0.2)
        time.sleep(RESTORED_SECONDS_MAX)
        transfer.box("cut", "box1", "eth0")

    code, output = transfer.disturbed(reset_and_cut, seconds=RESTORED_SECONDS_MAX + TRANSFER_SECONDS)
    went_on(code, output)
    assert "over ofi:tcp:eth1: " in output and "all interfaces are used again" in output, output


@transfer
def libfabric_rail_that_never_connects(transfer):
    """It is given up beside another one, which another driver connects."""
    if not ctypes.util.find_library("fabric"):
        raise Skip("there is no libfabric")
    transfer.environment += ["COMBRAY_NET=ofi:tcp:eth1,tcp:eth0", f"COMBRAY_HOST_TIMEOUT={SILENCE_S}"]
    losing = "tc qdisc replace dev eth1 root tbf rate 8kbit burst 10 limit 10"
    transfer.wrapper = ["sh", "-c", f'[ "$COMBRAY_NODE" != box2 ] || {losing}; exec "$@"', "sh"]
    code, output = transfer.disturbed(lambda: None)
    went_on(code, output)
    assert "over ofi:tcp:eth1: " in output, output


@transfer
def slower_rail_in_the_middle(transfer):
    code, output = transfer.disturbed(lambda: transfer.rate("eth0", "20mbit"))
    went_on(code, output)


@transfer
def last_message_of_a_rank_in_finalize_over_slow_rails(transfer):
    """2 MB, for the last of which a rank waits, and asks the sender whether it comes: the answer is sooner there."""
    transfer.rates, transfer.program = ["4mbit", "500kbit"], str(transfer.build / "left_early")
    transfer.wrapper = ["sh", "-c", 'exec "$1" stream', "sh"]
    code, output = transfer.disturbed(lambda: None)
    assert code == 0 and output.count("is done") == 2, f"exit code {code}\n{output}"


# The shortest silence that can be configured, and how long a living machine is tested.
SILENCE_S, TRIAL_SECONDS = 2, 7


def with_short_silence(function):
    """Gives the scenario hosts with one interface, between which silence is noticed soon."""
    def scenario(transfer):
        transfer.rates = [RATES["eth0"]]
        transfer.environment.append(f"COMBRAY_HOST_TIMEOUT={SILENCE_S}")
        function(transfer)

    scenario.__name__ = function.__name__
    return scenario


@transfer
@with_short_silence
def only_path_cut(transfer):
    """The job ends, and its message names the silent machine, and for how long it was silent."""
    code, output = transfer.disturbed(lambda: transfer.box("cut", "box2", "eth0"), seconds=60)
    assert code != 0, f"exit code 0\n{output}"
    told = re.search(r"rank [01] cannot be reached: over eth0: nothing was received from "
                     r"box[12] \(10[.]77[.]0[.][12]\) for ([0-9]+) s", output)
    assert told and int(told[1]) >= SILENCE_S, output


@transfer
@with_short_silence
def machine_dead_when_the_last_message_is_sent(transfer):
    """Taking leave waits until the other machine has it, and no longer than silence is borne. The launcher's own
    connection stands."""
    transfer.rates, transfer.program = list(RATES.values()), str(transfer.build / "last_message")
    transfer.environment.append("COMBRAY_NET=eth1")
    _, output = transfer.disturbed(lambda: transfer.box("cut", "box2", "eth1"))
    told = re.search(r"rank 1 can no longer be reached .*nothing was received from box2 \(10[.]77[.]1[.]2\) for [0-9]+ s.*"
                     r"the last messages to it may be lost", output)
    left = re.search(r"^rank 0 has left after ([0-9.]+) s", output, re.M)
    assert told and left and float(left[1]) < 3 * SILENCE_S, output


@transfer
@with_short_silence
def stopped_process_is_no_dead_machine(transfer):
    code, output = transfer.disturbed(transfer.stop_there_for_a_while)
    went_on(code, output)


@transfer
@with_short_silence
def slow_network_is_no_dead_machine(transfer):
    """8 KB/s, where gigabits were."""
    def slow():
        transfer.rate("eth0", "64kbit")
        time.sleep(TRIAL_SECONDS)

    code, output = transfer.disturbed(slow, is_awaited=False)
    assert code is None, f"it has ended with {code}\n{output}"


@transfer
def killed_process(transfer):
    """The others end as well, on all hosts, and nothing is left of the job."""
    def kill():
        for pid, there in transfer.living().items():
            if there:
                os.kill(pid, signal.SIGKILL)

    code, output = transfer.disturbed(kill, seconds=60)
    assert code != 0, f"exit code 0\n{output}"
    assert not transfer.living(), f"processes are left: {transfer.living()}\n{output}"


SCENARIOS = [first_rail_lost_in_the_middle, second_rail_lost_in_the_middle, lost_rail_in_a_pause,
             rail_that_comes_back, rail_that_is_restored, libfabric_rail_that_is_restored,
             libfabric_rail_that_never_connects, slower_rail_in_the_middle, killed_process,
             last_message_of_a_rank_in_finalize_over_slow_rails, only_path_cut, machine_dead_when_the_last_message_is_sent,
             stopped_process_is_no_dead_machine, slow_network_is_no_dead_machine]
