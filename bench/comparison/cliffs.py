"""Finds steps in series of times whose points are near each other."""

from dataclasses import dataclass

LIMIT = 1.5  # the time of a point over that of its neighbour, beyond what the message itself explains


@dataclass(frozen=True)
class Step:
    """From one point of a series to the next."""

    axis: str
    before: float
    after: float
    ratio: float


def steps(axis: str, series: dict) -> list:
    """The steps of a series {x: microseconds}. A message that is longer by some factor may take
    longer by this factor; all other times are those of one message of equal length. A message is
    not compared with one far from it."""
    found = []
    points = sorted(series)
    for before, after in zip(points, points[1:]):
        growth = after / before if axis == "size" else 1.0
        found.append(Step(axis, before, after, series[after] / series[before] / growth))
    return found


def falls(axis: str, series: dict) -> list:
    """The steps downwards: what costs less although it is more could always have cost less."""
    points = sorted(series)
    return [Step(axis, before, after, series[before] / series[after])
            for before, after in zip(points, points[1:])] if axis == "size" else []


def cliffs(measured: dict, peers: list) -> list:
    """(step, reason or None) of all steps above the limit in `measured`, {axis: {x: us}}. The
    reason says which peer has a step at the same place, too, or is no faster there."""
    found = []
    for axis, series in measured.items():
        for step in steps(axis, series) + falls(axis, series):
            if step.ratio > LIMIT:
                found.append((step, excuse(step, series, peers)))
    return found


def excuse(step: Step, series: dict, peers: list):
    """Why a step is no cliff of this library alone, or None."""
    high = step.after if series[step.after] > series[step.before] else step.before
    for name, others in peers:
        other = others.get(step.axis, {})
        if step.before not in other or step.after not in other:
            continue
        low, top = sorted((other[step.before], other[step.after]))
        if top / low > LIMIT:
            return f"{name} has it, too"
        if other[high] >= series[high]:
            return f"{name} is no faster behind it"
    return None
