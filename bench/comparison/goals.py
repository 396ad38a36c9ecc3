"""The project's goals, on one machine and between hosts, as data and as verdicts."""

from dataclasses import dataclass

from . import cells
from .places import LONG_FRAMES, PLAIN, THREE_RAILS, TWO_RAILS
from .running import Key, Measurements

BANDWIDTH_SIZES = [1 << exponent for exponent in range(16, 24)]  # 64 KiB to 8 MiB
SMALL_SIZES = [1 << exponent for exponent in range(6, 13)]  # 64 B to 4 KiB
VECTORS = ("blocks of 8 B", "blocks of 64 B", "blocks of 1024 B", "blocks of 8 B, stride 256")
APPLICATIONS = ("asp", "poisson")
SUBJECT = "combray"
BEFORE = "before"  # another state of it, beside which it stands but which is no peer
FASTEST_RAIL = "combray/eth0"

# kind: (at least rather than at most, the unit of the limit)
KINDS = {
    "latency": (False, ""), "rate": (True, ""), "bandwidth": (True, ""),  # beside the best other
    "usual time": (False, ""), "usual rate": (True, ""),    # library; these by medians
    "splits": (True, " of the best split"),
    "growth": (True, " of fewer threads"),
    "twin": (False, " of its twin"),                        # beside what was measured with it
    "peer and twin": (False, ", and of its twin"),           # the worse of both
    "above twin": (False, " µs above its twin"),
    "rail": (False, " of the faster rail alone"),
    "time": (False, " µs"),
    "speed": (True, " MB/s"),
    "seen": (False, " seen"),                               # of what could be hidden
}


@dataclass(frozen=True)
class Goal:
    """`kind` is the kind of comparison, `limit` the bound that it must keep."""

    kind: str
    limit: float

    @property
    def at_least(self) -> bool:
        return KINDS[self.kind][0]

    @property
    def text(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.limit:.3g}{KINDS[self.kind][1]}"

    def reached(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit


def goal_of(key: Key):
    """The goal that a figure has to reach, or None."""
    if key.benchmark == "indexed" and key.variant == "indexed":
        return Goal("twin", 1.1 if key.place else 1.05)
    if key.benchmark == "overlap":
        # What plain sockets hide is the floor, and has no goal.
        return None if "sockets" in key.variant else Goal("seen", 0.1)
    return {"": goal_on_one_machine, PLAIN.name: goal_between_hosts,
            LONG_FRAMES.name: goal_between_hosts, TWO_RAILS.name: goal_of_two_rails,
            THREE_RAILS.name: goal_of_three_rails}[key.place](key)


def goal_on_one_machine(key: Key):
    if key.benchmark == "pingpong" and key.size == 8:
        return Goal("latency", 0.75)
    if key.benchmark == "pingpong" and key.size in SMALL_SIZES:
        return Goal("latency", 0.9)
    if key.benchmark in ("pingpong", "pingping") and key.size in BANDWIDTH_SIZES:
        return Goal("bandwidth", 1.1)
    if key.benchmark == "threads":
        return {4: Goal("usual rate", 2.0), 8: Goal("growth", 0.95)}.get(key.value)
    if key.benchmark == "vector" and key.variant in VECTORS:
        return Goal("peer and twin", 1.0)
    figures = {("rate", 8): Goal("rate", 1.5), ("rate", 512): Goal("rate", 1.0),
               ("rate", 4096): Goal("rate", 1.0), ("self", 8): Goal("time", 0.15),
               ("pages", 8 << 10): Goal("latency", 0.7)}
    if (key.benchmark, key.size) in figures:
        return figures[key.benchmark, key.size]
    if key.benchmark == "segments" and (key.size, key.value) == (4, 16):
        return Goal("latency", 0.5)
    if key.benchmark in APPLICATIONS and key.variant == "communication":
        return Goal("usual time", 1.0)
    if cells.is_cell(key):
        return Goal("usual time", cells.CELL_LIMIT)
    if cells.is_call(key):
        return Goal("usual time", cells.CALL_LIMIT)
    if cells.is_of_file(key):
        return Goal("usual time", cells.FILE_LIMIT)
    return None


def goal_between_hosts(key: Key):
    figures = {
        ("sockets", "MPI", 8): Goal("above twin", 0.5),
        ("sockets", "MPI", 8 << 20): Goal("twin", 1 / 0.95),
        ("rate", "", 8): Goal("rate", 10),
        ("pages", "", 8 << 10): Goal("latency", 0.4),
        ("pages", "", 64 << 10): Goal("latency", 0.9),
    }
    if key.benchmark == "segments":
        return {(4, 16): Goal("latency", 0.2), (64, 64): Goal("time", 8)}.get(
            (key.size, key.value))
    if key.benchmark == "saturation" and key.value == cells.SPLITS[-1][1]:
        return Goal("splits", 0.9)
    return figures.get((key.benchmark, key.variant, key.size))


def goal_of_two_rails(key: Key):
    if key.benchmark == "pingpong" and key.size >= 8 << 20:
        return Goal("speed", 240)
    if key.benchmark == "pingpong" and key.size < 32 << 10:
        return Goal("rail", 1.05)
    return None


def goal_of_three_rails(key: Key):
    if key.benchmark == "pingpong" and key.size >= 8 << 20:
        return Goal("speed", 0.95 * THREE_RAILS.payload_limit)
    return None


def is_variation(name: str) -> bool:
    return "/" in name


def best_peer(measurements: Measurements, key: Key, figure=Measurements.best):
    """(name, microseconds) of the fastest library that is not the subject, or None. Libraries
    with settings by hand stand beside it only."""
    times = [(figure(measurements, key, name), name) for name in measurements.samples[key]
             if name not in (SUBJECT, BEFORE) and not is_variation(name)]
    return min(times)[::-1] if times else None


def ratio(measurements: Measurements, key: Key, figure=Measurements.best):
    """The subject beside the best peer: times as times, rates and bandwidths as such."""
    mine, peer = figure(measurements, key, SUBJECT), best_peer(measurements, key, figure)
    if mine is None or peer is None or not mine or not peer[1]:
        return None
    goal = goal_of(key)
    inverted = goal is not None and goal.at_least
    return peer[1] / mine if inverted else mine / peer[1]


def ratio_to_before(measurements: Measurements, key: Key, figure=Measurements.median):
    """Its time beside that of the other state of it. The usual times are compared: the better of two
    ratios would hide what became slower only sometimes."""
    mine, before = figure(measurements, key, SUBJECT), figure(measurements, key, BEFORE)
    return mine / before if mine and before else None


def judged_value(measurements: Measurements, key: Key):
    """What the goal speaks about: a ratio to the best peer or to something else, or a figure."""
    goal = goal_of(key)
    mine = measurements.best(key, SUBJECT)
    if goal is None or mine is None:
        return None
    if goal.kind in ("twin", "seen"):
        return measurements.ratio_to_twin(key, SUBJECT)
    if goal.kind == "peer and twin":
        values = ratio(measurements, key), measurements.ratio_to_twin(key, SUBJECT)
        return None if None in values else max(values)
    if goal.kind == "above twin":
        found = measurements.ratio_to_twin(key, SUBJECT)
        return mine - mine / found if found else None
    if goal.kind == "rail":
        alone = measurements.best(key, FASTEST_RAIL)
        return mine / alone if alone else None
    if goal.kind == "time":
        return mine
    if goal.kind == "speed":
        # A burst that the shaping lets through flatters single batches: the usual one counts.
        return key.size / measurements.median(key, SUBJECT)
    if goal.kind == "splits":
        return evenness(measurements, key)
    if goal.kind == "growth":
        return growth(measurements, key)
    if goal.kind in ("usual time", "usual rate"):
        # With more processes than cores the best batch is one in which no process had to wait.
        return ratio(measurements, key, Measurements.median)
    return ratio(measurements, key)


def growth(measurements: Measurements, key: Key):
    """The least that the rate of all threads ever was beside the highest with fewer of them."""
    rates = sorted((other.value, other.value / measurements.median(other, SUBJECT))
                   for other in measurements.samples
                   if other._replace(value=key.value) == key
                   and measurements.median(other, SUBJECT))
    return min((rate / max(fewer for _, fewer in rates[:index])
                for index, (_, rate) in enumerate(rates) if index), default=None)


def evenness(measurements: Measurements, key: Key):
    """The bandwidth of the slowest split into processes and threads, beside the fastest; usual ones."""
    times = [measurements.median(other, SUBJECT) for other in measurements.samples
             if (other.benchmark, other.size, other.place) == (key.benchmark, key.size, key.place)]
    times = [time for time in times if time]
    return min(times) / max(times) if len(times) == len(cells.SPLITS) else None


def verdict(measurements: Measurements, key: Key) -> str:
    """"reached", "not reached", "not measured", or nothing where there is no goal."""
    goal = goal_of(key)
    if goal is None:
        return ""
    value = judged_value(measurements, key)
    if value is None:
        return "not measured"
    return "reached" if goal.reached(value) else "not reached"
