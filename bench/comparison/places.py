"""Where the libraries are compared: on this machine, or between emulated hosts."""

import os
import subprocess
from dataclasses import dataclass

from .libraries import REPOSITORY, Library, LibraryError

BOX = REPOSITORY / "tests" / "cluster" / "box"
RSH = REPOSITORY / "tests" / "cluster" / "rsh"
BOXES_FOLDER = REPOSITORY / "build" / "box-compare"

# Of the bytes that an Ethernet interface is shaped to, those that TCP carries: headers of Ethernet,
# IP and TCP (with its timestamps) go with each 1448.
PAYLOAD_SHARE = 1448 / 1514


class PlaceError(Exception):
    """A place cannot be made; the text is the reason."""


class OneMachine:
    """Processes beside each other, over shared memory."""

    name = title = ""
    pinning = "--pin"
    # Whether times depend on how near the cores are to each other (see crossing.c).
    feels_cores = True

    def open(self) -> None:
        pass

    close = reset = open

    def command(self, library: Library, processes: int, arguments: list,
                program: str = "combray-bench") -> list:
        return [str(library.prefix / library.launch[0]), *library.launch[1:], "-n", str(processes),
                str(library.program(program)), *arguments]

    def environ(self, library: Library) -> dict:
        return {**library.environ(), **library.environment}

    def check(self, evidence: dict) -> None:
        """Raises unless two processes had memory in common and kept off the network."""
        if evidence["shared_mappings"] < 1:
            raise LibraryError(
                "does not use shared memory: the processes have no mapping in common")
        if evidence["loopback_bytes"] > 0.05 * evidence["payload_bytes"]:
            raise LibraryError(
                f"does not use shared memory: {evidence['loopback_bytes']:.0f} bytes of "
                f"{evidence['payload_bytes']:.0f} went over the loopback interface")


@dataclass(frozen=True)
class Cluster:
    """Hosts that tests/cluster/box emulates; `rates` shape their interfaces, in Mbit/s, 0 not; `mtu`
    is how many bytes a packet may have."""

    name: str
    title: str
    rates: tuple
    hosts: int = 2
    mtu: int = 1500
    pinning = "--pin-ranks"

    @property
    def feels_cores(self) -> bool:
        """Shaped interfaces are slower than any transfer between cores."""
        return not any(self.rates)

    @property
    def payload_limit(self) -> float:
        """MB/s that all interfaces together can carry of a program's data."""
        return sum(self.rates) / 8 * PAYLOAD_SHARE

    @property
    def rails(self) -> list:
        return [f"eth{number}" for number in range(len(self.rates))]

    def _box_environ(self) -> dict:
        return {"COMBRAY_BOX": str(BOXES_FOLDER / self.name)}

    def _box(self, *words: str) -> None:
        done = subprocess.run([str(BOX), *words], env={**os.environ, **self._box_environ()},
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise PlaceError(done.stdout.strip())

    def open(self) -> None:
        rates = (f"{rate}mbit" if rate else "0" for rate in self.rates)
        self._box("up", str(self.hosts), *rates)
        self._box("mtu", str(self.mtu))

    # Making it anew ends whatever still runs on the hosts.
    reset = open

    def close(self) -> None:
        self._box("down")

    def command(self, library: Library, processes: int, arguments: list,
                program: str = "combray-bench") -> list:
        hosts = [f"box{number}" for number in range(1, self.hosts + 1)]
        share = processes // self.hosts
        known = {"rsh": str(RSH), "hosts": ",".join(hosts), "share": str(share),
                 "slots": ",".join(f"{host}:{share}" for host in hosts),
                 "rails": ",".join(self.rails)}
        launch = [word.format(**known) for word in library.remote_launch]
        return [str(BOX), "on", hosts[0], str(library.prefix / launch[0]), *launch[1:],
                "-n", str(processes), str(library.program(program)), *arguments]

    def environ(self, library: Library) -> dict:
        return {**library.environ(), **library.remote_environment, **self._box_environ()}

    def check(self, evidence: dict) -> None:
        """Raises unless the data went through the network: the hosts have one kernel in common."""
        if evidence["shared_mappings"] > 0:
            raise LibraryError("the emulated hosts have memory in common")
        if evidence["network_bytes"] < 0.45 * evidence["payload_bytes"]:
            raise LibraryError(
                f"does not use the network: only {evidence['network_bytes']:.0f} bytes of "
                f"{evidence['payload_bytes'] / 2:.0f} came by it")


ONE_MACHINE = OneMachine()
PLAIN = Cluster("plain", "two hosts, one interface each, unshaped", (0,))
LONG_FRAMES = Cluster("long-frames", "two hosts, one interface each, unshaped, frames of 9000 bytes",
                      (0,), mtu=9000)
TWO_RAILS = Cluster("two-rails", "two hosts, interfaces of 1170 and 850 Mbit/s", (1170, 850))
THREE_RAILS = Cluster("three-rails", "two hosts, interfaces of 1000, 600 and 300 Mbit/s",
                      (1000, 600, 300))
SLOW = Cluster("slow", "two hosts, one interface each of 2 Gbit/s", (2000,))
CLUSTERS = (PLAIN, LONG_FRAMES, TWO_RAILS, THREE_RAILS, SLOW)
