"""Instructions per call: out of what callgrind writes, beside what was recorded."""

import re
from dataclasses import dataclass

# A figure may be so much above the recorded one: what differs from run to run is less.
TOLERANCE = 0.01

# The name that the program gave a dump, and how many instructions that holds.
DUMP = re.compile(r"^desc: Trigger: Client Request: (.+)$(?:.|\n)*?^totals: (\d+)$", re.M)
# What the dumps of the program cost by themselves.
EMPTY = "nothing"


@dataclass(frozen=True)
class Recorded:
    """`tools` holds name -> version of all that decides how many instructions a call has."""

    tools: dict
    counts: dict


def dumps(text: str) -> list:
    """(name, instructions) of each dump, in their order."""
    return [(name, int(count)) for name, count in DUMP.findall(text)]


def alone(text: str) -> dict:
    """Case -> instructions per iteration: each ran so many times, and then more often."""
    counts = {}
    for name, count in dumps(text):
        case, _, times = name.rpartition(" ")
        counts.setdefault(case, []).append((int(times), count))
    return {f"self: {case}": (more - few) / (more_times - few_times)
            for case, ((few_times, few), (more_times, more)) in counts.items() if case != EMPTY}


def in_turns(*texts: str) -> dict:
    """Case -> instructions of one call: the tenth part of the turns had fewer, if any. Most had as
    many; a turn that met the rare (a ring that begins again, a peer that came late) has more."""
    counts = {}
    for text in texts:
        for name, count in dumps(text):
            counts.setdefault(name, []).append(count)
    usual = {name: sorted(values)[len(values) // 10] for name, values in counts.items()}
    empty = usual.pop(EMPTY)
    return {f"two: {name}": float(count - empty) for name, count in usual.items()}


def parse_recorded(text: str) -> Recorded:
    tools, counts = {}, {}
    for line in text.splitlines():
        name, _, value = line.partition("\t")
        if name.startswith("# "):
            tools[name[2:]] = value
        elif value:
            counts[name] = float(value)
    return Recorded(tools, counts)


def recorded_text(recorded: Recorded) -> str:
    lines = [f"# {name}\t{version}" for name, version in recorded.tools.items()]
    lines += [f"{name}\t{count:.1f}" for name, count in recorded.counts.items()]
    return "\n".join(lines) + "\n"


def table(recorded: dict, found: dict) -> list:
    width = max(map(len, found))
    lines = [f"{'instructions of':<{width}}  {'recorded':>9}  {'now':>9}  ratio"]
    for name, now in found.items():
        before = recorded.get(name)
        beside = f"{before:9.1f}  {now:9.1f}  {now / before:5.3f}" if before else f"{'-':>9}  {now:9.1f}      -"
        lines.append(f"{name:<{width}}  {beside}")
    return lines


def failures(recorded: dict, found: dict) -> list:
    """Figures that became larger, and figures that exist on one side only."""
    texts = [f"{name}: {found[name]:.1f} instructions, {recorded[name]:.1f} recorded"
             for name in found if name in recorded and found[name] > (1 + TOLERANCE) * recorded[name]]
    texts += [f"{name} is not recorded: bench/instructions --record" for name in found if name not in recorded]
    texts += [f"{name} is recorded, but was not counted" for name in recorded if name not in found]
    return texts
