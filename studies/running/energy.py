"""What starts cost beside time: the processor time of their processes, and the energy of the machine."""

import resource
from dataclasses import dataclass
from pathlib import Path

COUNTERS = Path("/sys/class/powercap")


@dataclass(frozen=True)
class Used:
    """Processor time in seconds, and energy in joules, which few machines report."""

    seconds: float = 0.0
    joules: float | None = None

    def __add__(self, other: "Used") -> "Used":
        known = [one.joules for one in (self, other) if one.joules is not None]
        return Used(self.seconds + other.seconds, sum(known) if known else None)


class Meter:
    """Counts from its creation on."""

    def __init__(self, counters: Path = COUNTERS):
        self.zones = []
        for zone in sorted(counters.glob("*")):
            try:
                name = (zone / "name").read_text().strip()
                largest = int((zone / "max_energy_range_uj").read_text())
                # Those of cores are contained in packages, those of whole systems are rare.
                if name.startswith("package") or name == "dram":
                    self.zones.append((zone / "energy_uj", largest, read(zone / "energy_uj")))
            except (OSError, ValueError):
                continue
        self.begun = processor_seconds()

    def used(self) -> Used:
        joules = None
        for counter, largest, before in self.zones:
            try:
                passed = read(counter) - before
            except (OSError, ValueError):
                continue
            joules = (joules or 0.0) + (passed if passed >= 0 else passed + largest) / 1e6
        return Used(processor_seconds() - self.begun, joules)


def read(counter: Path) -> int:
    return int(counter.read_text())


def processor_seconds() -> float:
    """That of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def sentence(by_title: dict) -> str:
    """What each library used in the starts that all libraries have made."""
    if not by_title:
        return ""
    text = "processor time: " + ", ".join(f"{title} {used.seconds:.1f} s" for title, used in by_title.items())
    known = {title: used.joules for title, used in by_title.items() if used.joules is not None}
    if known:
        text += "; energy: " + ", ".join(f"{title} {joules:.0f} J" for title, joules in known.items())
    return text + "\n"
