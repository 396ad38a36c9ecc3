"""The machine: its properties, other running programs, and how near its two cores are."""

import os
import platform
import resource
import subprocess
import time

from .libraries import PROGRAMS, PROGRAMS_FOLDER, run_quietly

CROSSING = PROGRAMS_FOLDER / "crossing"


def restrict_to_two_cores() -> list:
    """Binds this process, and so all that it starts, to two cores; returns them."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, cores)
    return cores


def compile_probe() -> None:
    """The program that measures the machine without a library."""
    PROGRAMS_FOLDER.mkdir(parents=True, exist_ok=True)
    compiler = os.environ.get("CC", "cc")
    run_quietly([compiler, "-O2", "-std=c11", "-pthread", PROGRAMS / "crossing.c", "-o", CROSSING])


def crossing_nanoseconds(cores: list):
    """Time of a cache line from core to core, or None where there are not two, or where others keep
    them so busy that it cannot be measured."""
    if len(cores) < 2:
        return None
    try:
        done = subprocess.run([str(CROSSING), *map(str, cores)], text=True, capture_output=True,
                              timeout=60)
    except subprocess.TimeoutExpired:
        return None
    return float(done.stdout) if done.returncode == 0 else None


def processor_name() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def busy_share(seconds: float = 1.0) -> dict:
    """Shares of all cores' time that others used, or that the host took away, just now."""
    before = _processor_times()
    time.sleep(seconds)
    spent = [after - start for after, start in zip(_processor_times(), before)]
    total = sum(spent) or 1
    idle = spent[3] + spent[4]
    steal = spent[7] if len(spent) > 7 else 0
    return {"busy": (total - idle - steal) / total, "stolen": steal / total}


def _processor_times() -> list:
    with open("/proc/stat", encoding="utf-8") as file:
        # The last two columns, guests, are part of the first two already.
        return [int(word) for word in file.readline().split()[1:9]]


class OthersWatch:
    """Measures which share of the cores other programs used since it was created: the use of all
    programs, without that of this process and of all child processes for which it waited."""

    def __init__(self):
        self.ticks, self.own = _processor_times(), self._own_seconds()

    @staticmethod
    def _own_seconds() -> float:
        return sum(usage.ru_utime + usage.ru_stime for usage in
                   map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))

    def share(self) -> float:
        spent = [after - start for after, start in zip(_processor_times(), self.ticks)]
        per_second = os.sysconf("SC_CLK_TCK")
        total = sum(spent) / per_second
        busy = total - (spent[3] + spent[4] + spent[7]) / per_second
        return max(0.0, busy - (self._own_seconds() - self.own)) / total if total else 0.0


def describe(cores: list) -> dict:
    return {
        "host": platform.node(),
        "kernel": platform.release(),
        "processor": processor_name(),
        "cores_of_the_machine": os.cpu_count(),
        "cores_used": cores,
    }


def load() -> dict:
    return {"load_average": list(os.getloadavg()), **busy_share()}
