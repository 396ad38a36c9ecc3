"""The project's goals on one machine, as data and as verdicts."""

from dataclasses import dataclass

from .running import Measurements

BANDWIDTH_SIZES = [1 << exponent for exponent in range(16, 24)]  # 64 KiB to 8 MiB
SUBJECT = "combray"


@dataclass(frozen=True)
class Goal:
    """`kind` says what is compared, `limit` what it has to keep to."""

    kind: str
    limit: float

    @property
    def at_least(self) -> bool:
        return self.kind in ("rate", "bandwidth")

    @property
    def text(self) -> str:
        sign = "≥" if self.at_least else "≤"
        unit = {"self": " µs", "indexed": " of contiguous"}.get(self.kind, "")
        return f"{sign} {self.limit:g}{unit}"

    def reached(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit


def goal_of(key: tuple):
    """The goal that a figure has to reach, or None."""
    benchmark, variant, processes, size, _ = key
    if benchmark == "pingpong" and size == 8:
        return Goal("latency", 1.0)
    if benchmark == "pingpong" and size in BANDWIDTH_SIZES:
        return Goal("bandwidth", 0.95)
    if benchmark == "rate" and size == 8:
        return Goal("rate", 1.0)
    if benchmark == "indexed" and variant == "indexed":
        return Goal("indexed", 1.1)
    if benchmark == "self" and size == 8:
        return Goal("self", 0.15)
    if processes in (4, 8) and (benchmark == "barrier" or (benchmark, size) == ("allreduce", 8)):
        return Goal("collective", 1.5)
    return None


def best_peer(measurements: Measurements, key: tuple):
    """(name, microseconds) of the fastest library that is not the subject, or None."""
    times = [(measurements.best(key, name), name) for name in measurements.samples[key]
             if name != SUBJECT]
    return min(times)[::-1] if times else None


def ratio(measurements: Measurements, key: tuple):
    """The subject beside the best peer: times as times, rates and bandwidths as such."""
    mine, peer = measurements.best(key, SUBJECT), best_peer(measurements, key)
    if mine is None or peer is None or not mine or not peer[1]:
        return None
    goal = goal_of(key)
    inverted = goal is not None and goal.at_least
    return peer[1] / mine if inverted else mine / peer[1]


def judged_value(measurements: Measurements, key: tuple):
    """What the goal speaks about: a ratio to the best peer, to contiguous data, or a time."""
    goal = goal_of(key)
    if goal is None:
        return None
    if goal.kind == "indexed":
        return measurements.ratio_to_contiguous(key, SUBJECT)
    if goal.kind == "self":
        return measurements.best(key, SUBJECT)
    return ratio(measurements, key)


def verdict(measurements: Measurements, key: tuple) -> str:
    """"reached", "not reached", "not measured", or nothing where there is no goal."""
    goal = goal_of(key)
    if goal is None:
        return ""
    value = judged_value(measurements, key)
    if value is None:
        return "not measured"
    return "reached" if goal.reached(value) else "not reached"
