"""The end of a comparison on one machine: a line for each goal, and what the machine can do."""

from dataclasses import dataclass
from typing import Callable

from . import cells, goals
from .running import FLOOR_WAYS, LIMIT_SIZES, Key, Measurements
from .table import cell_ratios, floor_text, label, size_text

SHOWN_WORST = 12
SHOWN_WAYS = tuple(way for ways in FLOOR_WAYS.values() for way in ways)
FLOOR_LIMIT = 1.25


@dataclass(frozen=True)
class Line:
    """What stands in one line: all figures with a goal that `is_about` accepts."""

    number: int
    title: str
    is_about: Callable[[Key], bool]


LINES = (
    Line(1, "latency, 8 B", lambda key: key.benchmark == "pingpong" and key.size == 8),
    Line(1, "latency, 64 B to 4 KiB",
         lambda key: key.benchmark == "pingpong" and key.size in goals.SMALL_SIZES),
    Line(1, "message rate, 8 B", lambda key: key.benchmark == "rate" and key.size == 8),
    Line(1, "message rate, 512 B and 4 KiB",
         lambda key: key.benchmark == "rate" and key.size > 8),
    Line(0, "threads, 4", lambda key: key.benchmark == "threads" and key.value == 4),
    Line(0, "threads, 1 to 8", lambda key: key.benchmark == "threads" and key.value == 8),
    Line(2, "bandwidth, ping-pong",
         lambda key: key.benchmark == "pingpong" and key.size in goals.BANDWIDTH_SIZES),
    Line(2, "bandwidth, ping-ping", lambda key: key.benchmark == "pingping"),
    Line(3, "16 segments of 4 B", lambda key: key.benchmark == "segments"),
    Line(3, "three pages of 8 KiB", lambda key: key.benchmark == "pages"),
    Line(4, "indexed type", lambda key: key.benchmark == "indexed"),
    Line(4, "vectors", lambda key: key.benchmark == "vector"),
    Line(6, "collectives, each cell", cells.is_cell),
    Line(0, "calls", lambda key: cells.is_call(key) and key.benchmark == "calls"),
    Line(0, "one-sided calls", lambda key: cells.is_call(key) and key.benchmark == "rma"),
    Line(0, "files", cells.is_of_file),
    Line(6, "overlap with computing", lambda key: key.benchmark == "overlap"),
    Line(7, "communication of examples", lambda key: key.benchmark in goals.APPLICATIONS),
    Line(0, "message to oneself", lambda key: key.benchmark == "self"),
)


def text_of(line: Line, measurements: Measurements) -> str:
    """The worst figure, how many reach the goal, and the verdict; empty without figures."""
    judged = {key: (goals.goal_of(key), goals.judged_value(measurements, key))
              for key in measurements.samples
              if not key.place and line.is_about(key) and goals.goal_of(key)}
    judged = {key: pair for key, pair in judged.items() if pair[1] is not None}
    if not judged:
        return ""
    goal = next(iter(judged.values()))[0]
    choose = min if goal.at_least else max
    worst = choose(judged, key=lambda key: judged[key][1])
    reached = sum(goal.reached(value) for goal, value in judged.values())
    mean = cells.geometric_mean([value for _, value in judged.values()])
    found = f"{judged[worst][1]:.2f}" if len(judged) == 1 else (
        f"mean {mean:.2f}, worst {judged[worst][1]:.2f} ({label(worst)}"
        f"{', ' + size_text(worst.size) if worst.size else ''}), "
        f"{reached} of {len(judged)} reached")
    verdict = "reached" if reached == len(judged) else "not reached"
    return row(line.number, line.title, goal.text, verdict, found)


def row(number: int, title: str, goal: str, verdict: str, found: str) -> str:
    return f"{number or '':>2}  {title:<26} {goal:<24} {verdict:<12} {found}"


# Of which cells the geometric mean has a goal: number, title, those cells, limit.
MEANS = ((6, "collectives, all cells", cells.is_cell, cells.MEAN_LIMIT),
         (0, "calls, all of both", cells.is_call, cells.CALLS_MEAN_LIMIT),
         (0, "files, all of them", cells.is_of_file, cells.FILES_MEAN_LIMIT))


def means_of_cells(measurements: Measurements) -> list:
    texts = []
    for number, title, is_about, limit in MEANS:
        ratios = list(cell_ratios(measurements, is_about).values())
        if ratios:
            mean = cells.geometric_mean(ratios)
            texts.append(row(number, title, f"≤ {limit}",
                             "reached" if mean <= limit else "not reached",
                             f"geometric mean {mean:.2f} of {len(ratios)} cells"))
    return texts


def speed(size: int, microseconds) -> str:
    return f"{size / microseconds * 1e-3:.1f}" if microseconds else "-"


def print_limits(measurements: Measurements) -> None:
    """What the machine allows, as times and as the speed of the best way, and Combray's time beside
    that."""
    if not any(measurements.limits.values()):
        return
    print("\nThe shortest times that any library could reach now, in µs (combray-bench limits), "
          "and Combray's time as a multiple of them")
    crossings = [crossing for samples in measurements.limits.values() for sample in samples
                 for crossing in sample.crossings_ns]
    if crossings:
        print(f"(a cache line crossed in {min(crossings):.0f} to {max(crossings):.0f} ns)")
    print(f"\n{'size':>8}" + "".join(way.rjust(12) for way in SHOWN_WAYS)
          + "".join(f"{benchmark}, GB/s".rjust(20) for benchmark in FLOOR_WAYS))
    for size in LIMIT_SIZES:
        texts = [f"{size_text(size):>8}"]
        for way in SHOWN_WAYS:
            limit = measurements.limit(way, size)
            texts.append((f"{limit:.3f}" if limit else "-").rjust(12))
        for benchmark in FLOOR_WAYS:
            key = Key(benchmark, "", 2, size, None, "")
            texts.append(f"{floor_text(measurements, key) or '-'}  "
                         f"{speed(size, measurements.floor(key)):>6}".rjust(20))
        print("".join(texts))


def means_of_floors(measurements: Measurements) -> list:
    """A line for each benchmark: how far from what any library could reach."""
    texts = []
    for benchmark in FLOOR_WAYS:
        found = {key: measurements.best(key, goals.SUBJECT) / measurements.floor(key)
                 for key in measurements.samples if key.benchmark == benchmark
                 and measurements.floor(key) and measurements.best(key, goals.SUBJECT)}
        if not found:
            continue
        worst = max(found, key=found.get)
        reached = sum(ratio <= FLOOR_LIMIT for ratio in found.values())
        texts.append(row(0, f"{benchmark}, of the floor", f"≤ {FLOOR_LIMIT}",
                         "reached" if reached == len(found) else "not reached",
                         f"mean {cells.geometric_mean(list(found.values())):.2f}, worst "
                         f"{found[worst]:.2f} ({size_text(worst.size)}), "
                         f"{reached} of {len(found)} reached"))
    return texts


def print_guidelines(measurements: Measurements) -> None:
    """Comparisons of which one side was slower in every round, beyond its noise."""
    if not measurements.guidelines:
        return
    violated = {found: records for found, records in measurements.guidelines.items()
                if all(record["violated"] for record in records)}
    print("\nPerformance guidelines that Combray does not keep\n" if violated else "")
    for (processes, size, text), records in violated.items():
        record = records[-1]
        print(f"{processes:>4} processes {size_text(size):>10}  {text:<48}"
              f"{record['slow_us']:>10.2f} µs against {record['fast_us']:.2f} µs, "
              f"noise {record['noise_us']:.2f} µs")
    print()
    print(row(6, "performance guidelines", "≤ 0 violations",
              "not reached" if violated else "reached",
              f"{len(violated)} violations in {len(measurements.guidelines)} comparisons"))


def print_before(measurements: Measurements, title: str) -> None:
    """How times have changed since the other state of Combray: the mean, then the worst. Usual
    times decide; the result for the shortest times stands beside them."""
    ratios = {key: goals.ratio_to_before(measurements, key) for key in measurements.samples}
    ratios = {key: ratio for key, ratio in ratios.items() if ratio is not None}
    if not ratios:
        return
    shortest = {key: goals.ratio_to_before(measurements, key, Measurements.best) for key in ratios}
    mean = cells.geometric_mean(list(ratios.values()))
    mean_of_shortest = cells.geometric_mean(list(filter(None, shortest.values())))
    print(f"\nMedian times beside those before (best times), {title}: geometric mean {mean:.3f} "
          f"({mean_of_shortest:.3f}) of {len(ratios)} figures; "
          f"{sum(ratio > 1.08 for ratio in ratios.values())} above 1.08")
    for key in sorted(ratios, key=ratios.get, reverse=True)[:SHOWN_WORST]:
        size = f", {size_text(key.size)}" if key.size else ""
        best = f"({shortest[key]:.3f})" if shortest[key] else "(-)"
        print(f"    {ratios[key]:.3f} {best}  {label(key)}{size}, {key.processes} processes")


def print_phases(measurements: Measurements) -> None:
    for title, phase in measurements.phases():
        print_before(phase, title)
    for title, phase in measurements.phases():
        texts = [text for text in (*(text_of(line, phase) for line in LINES),
                                   *means_of_cells(phase), *means_of_floors(phase)) if text]
        if not texts:
            continue
        print_limits(phase)
        print(f"\nGoals on one machine, {title}\n")
        for text in sorted(texts, key=lambda text: text[:2].strip() or "9"):
            print(text)
    print_guidelines(measurements)
