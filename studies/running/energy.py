"""What starts cost beside time: the processor time of their processes, and the energy of the machine."""

import os
import resource
from dataclasses import dataclass
from pathlib import Path

# The folder that profiles use, too.
COUNTERS = Path(os.environ.get("COMBRAY_ENERGY_COUNTERS") or "/sys/class/powercap")


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
        counted = set()
        # The same package may be found through its registers in memory, too: intel-rapl-mmio:0.
        zones = sorted(counters.glob("*"), key=lambda zone: (not zone.name.startswith("intel-rapl:"), zone))
        dies_count_packages = is_of_amd()
        for zone in zones:
            try:
                what = subject(zone, dies_count_packages)
                largest = int((zone / "max_energy_range_uj").read_text())
                if what is not None and what not in counted:
                    self.zones.append((zone / "energy_uj", largest, read(zone / "energy_uj")))
                    counted.add(what)
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


def subject(zone: Path, dies_count_packages: bool) -> str | None:
    """What a zone counts: a package, or the memory of one. Cores are contained in packages, whole systems are rare."""
    name = (zone / "name").read_text().strip()
    if name == "dram":
        outer = zone.with_name(zone.name.rpartition(":")[0] or zone.name)
        try:
            package = subject(outer, dies_count_packages) if outer != zone else None
        except OSError:
            package = None
        return f"dram of {package or zone}"
    if not name.startswith("package"):
        return None
    return name.partition("-die-")[0] if dies_count_packages else name


def is_of_amd() -> bool:
    """Whether the counter of each die counts the whole package."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return False
    vendor = next((line for line in lines if line.startswith("vendor_id")), "")
    return vendor.endswith(("AuthenticAMD", "HygonGenuine"))


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
