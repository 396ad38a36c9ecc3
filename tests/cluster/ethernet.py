"""Jobs on hosts that talk over plain Ethernet, while interfaces are cut, processes stopped, and strangers listen."""

import re
import subprocess
import time

from harness import TESTS

from cluster.rails import (BOX, RATES, RESTORED_SECONDS_MAX, SILENCE_S, TRANSFER_SECONDS, TRIAL_SECONDS, is_warned_of,
                           transfer, went_on)

STRANGER = str(TESTS / "cluster" / "stranger")
# How long an interface is down, and how long a stranger is at work.
DOWN_SECONDS, STRANGER_SECONDS = 2, 4
# Longer than any timer but that of silence, which can be made longer.
LONG_DOWN_SECONDS, LONG_SILENCE_S = 10, 20


def over(networks, rates=None, silence=None):
    """Gives the scenario hosts with these interfaces, and the choice of networks."""
    def mark(function):
        def scenario(transfer):
            transfer.rates = rates or [RATES["eth0"]]
            transfer.environment.append(f"COMBRAY_NET={networks}")
            if silence:
                transfer.environment.append(f"COMBRAY_HOST_TIMEOUT={silence}")
            function(transfer)

        scenario.__name__ = function.__name__
        return scenario
    return mark


@transfer
@over("ether")
def interface_down_and_up(transfer):
    """Nothing is lost, and a short outage causes no warning."""
    def cut_and_heal():
        transfer.box("cut", "box2", "eth0")
        time.sleep(DOWN_SECONDS)
        transfer.box("heal")

    code, output = transfer.disturbed(cut_and_heal, seconds=TRIAL_SECONDS)
    went_on(code, output)
    assert "eth0" not in output, output


@transfer
@over("ether", silence=LONG_SILENCE_S)
def only_interface_down_for_long(transfer):
    """Up to the timeout for silence, nothing is lost, and there is no warning."""
    def cut_and_heal():
        transfer.box("cut", "box2", "eth0")
        time.sleep(LONG_DOWN_SECONDS)
        transfer.box("heal")

    code, output = transfer.disturbed(cut_and_heal, seconds=LONG_DOWN_SECONDS + TRANSFER_SECONDS)
    went_on(code, output)
    assert "eth0" not in output, output


def lost_and_restored(transfer, give_back):
    """An interface is lost and comes back, and the job outlives the loss of the other one then."""
    def lose_one_after_the_other():
        transfer.box("cut", "box2", "eth1")
        time.sleep(LONG_DOWN_SECONDS)
        give_back()
        time.sleep(RESTORED_SECONDS_MAX)
        transfer.box("cut", "box1", "eth0")

    seconds = LONG_DOWN_SECONDS + RESTORED_SECONDS_MAX + TRANSFER_SECONDS
    code, output = transfer.disturbed(lose_one_after_the_other, seconds=seconds)
    went_on(code, output)
    is_warned_of(output, "eth1")
    assert "all interfaces are used again" in output, output


@transfer
@over("ether", rates=list(RATES.values()), silence=SILENCE_S)
def interface_lost_and_restored(transfer):
    lost_and_restored(transfer, lambda: transfer.box("heal"))


@transfer
@over("ether", rates=list(RATES.values()), silence=SILENCE_S)
def interface_lost_and_replaced(transfer):
    lost_and_restored(transfer, lambda: transfer.box("replace", "box2", "eth1"))


@transfer
@over("ether", silence=LONG_SILENCE_S)
def only_interface_replaced(transfer):
    """The socket of a process is one of another interface then, with another address."""
    code, output = transfer.disturbed(lambda: transfer.box("replace", "box2", "eth0"), seconds=TRIAL_SECONDS)
    went_on(code, output)
    assert "eth0" not in output, output


@transfer
@over("ether", silence=SILENCE_S)
def only_ethernet_cut(transfer):
    code, output = transfer.disturbed(lambda: transfer.box("cut", "box2", "eth0"), seconds=60)
    assert code != 0, f"exit code 0\n{output}"
    assert re.search(r"over eth0: neither rank [01] nor the kernel of its machine has answered for", output), output


@transfer
@over("ether", silence=SILENCE_S)
def stopped_process_answers_by_its_system(transfer):
    code, output = transfer.disturbed(transfer.stop_there_for_a_while)
    went_on(code, output)


@transfer
@over("ether:eth0,tcp:eth1", rates=list(RATES.values()))
def ethernet_lost_beside_tcp(transfer):
    transfer.environment.append(f"COMBRAY_HOST_TIMEOUT={SILENCE_S}")
    code, output = transfer.disturbed(lambda: transfer.box("cut", "box2", "eth0"), seconds=TRIAL_SECONDS)
    went_on(code, output)
    assert "eth0" in output, output


@transfer
@over("ether", rates=list(RATES.values()))
def interface_lost_at_the_start(transfer):
    """When the launcher has opened its sockets, and the processes do not use them yet."""
    transfer.wrapper = ["sh", "-c", '[ "$COMBRAY_NODE" != box2 ] || ip link set eth1 down; exec "$@"', "sh"]
    code, output = transfer.disturbed(lambda: None)
    went_on(code, output)


@transfer
@over("ether", rates=list(RATES.values()))
def interface_half_open_at_the_end(transfer):
    """A process that receives nothing on one interface, as the peer has left meanwhile, has
    received the goodbye on the other."""
    def mute():
        transfer.box("mute", "box1", "eth1")
        time.sleep(2 * DOWN_SECONDS)
        transfer.box("rate", "box1", "eth1", RATES["eth1"])

    code, output = transfer.disturbed(mute, seconds=0, rest=1.5 * DOWN_SECONDS)
    went_on(code, output)


@transfer
@over("ether")
def processes_without_privilege(transfer):
    """Their launchers have the sockets opened."""
    transfer.wrapper = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    code, output = transfer.disturbed(lambda: None)
    went_on(code, output)


@transfer
@over("ether:eth1", rates=["0", "0"])
def frames_lost_doubled_and_overtaken(transfer):
    """All arrives once and in order, whatever becomes of single frames."""
    told = []

    def disturb():
        # Of a thousand frames, so many are lost, doubled, overtaken.
        for kinds in [("50", "0", "0"), ("0", "200", "0"), ("0", "0", "200"), ("20", "20", "20"), ("0", "0", "0")]:
            told.append(transfer.box("weather", "eth1", *kinds))
            time.sleep(1)

    code, output = transfer.disturbed(disturb, seconds=20)
    went_on(code, output)
    assert "eth1" not in output, output
    counts = [[int(number) for number in re.findall(r"(\d+) (?:frames passed|lost|doubled|late)", text)] for text in told[1:]]
    for (passed, *happened), kinds in zip(counts, [[0], [1], [2], [0, 1, 2]]):
        assert passed > 1000 and all((happened[kind] > 10) == (kind in kinds) for kind in range(3)), told


@transfer
@over("ether", rates=["0"])
def strangers_put_nothing_in(transfer):
    """A third host receives everything, as the bridge is a hub, and sends it again, changed and
    unchanged."""
    heard, sent, _ = beside_stranger(transfer)
    assert heard > 1000 and sent > 1000, (heard, sent)


@transfer
@over("ether", rates=["0"])
def strangers_flood(transfer):
    """As fast as a third host can, which is faster than the job."""
    _, sent, refused = beside_stranger(transfer, "flood")
    assert sent > 10_000 * STRANGER_SECONDS, sent
    assert refused > sent / 10, (refused, sent)


def beside_stranger(transfer, *how):
    """How many frames a stranger received and sent, and how many the job refused."""
    strangers = []
    transfer.hosts = 3

    def disturb():
        keeper = (transfer.folder / "switch.pid").read_text().strip()
        subprocess.run(["nsenter", "-t", keeper, "-n", "ip", "link", "set", "bridge0", "type", "bridge",
                        "ageing_time", "0"], check=True)
        strangers.append(subprocess.run(
            [*transfer.environment, BOX, "on", "box3", STRANGER, "eth0", str(STRANGER_SECONDS), *how],
            check=True, capture_output=True, text=True).stdout)

    code, output = transfer.disturbed(disturb, seconds=STRANGER_SECONDS + 3)
    went_on(code, output)
    found = re.search(r"stranger: (\d+) heard, (\d+) sent", strangers[0])
    refused = sum(int(count) for count in re.findall(r"rank \d has refused (\d+)", output))
    return int(found[1]), int(found[2]), refused


SCENARIOS = [interface_down_and_up, only_interface_down_for_long, interface_lost_and_restored,
             interface_lost_and_replaced, only_interface_replaced, only_ethernet_cut,
             stopped_process_answers_by_its_system, ethernet_lost_beside_tcp, interface_lost_at_the_start,
             interface_half_open_at_the_end, processes_without_privilege, frames_lost_doubled_and_overtaken,
             strangers_put_nothing_in, strangers_flood]
