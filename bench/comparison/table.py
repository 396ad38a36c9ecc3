"""What people read at the end."""

from . import goals
from .running import Measurements


def size_text(size: int) -> str:
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def label(key: tuple) -> str:
    benchmark, variant, processes, size, value = key
    words = [benchmark]
    if benchmark == "rate":
        words.append(f"window {value}")
    elif benchmark == "segments":
        words.append(f"{value} messages")
    elif benchmark == "indexed":
        words.append(f"{variant} ×{value}")
    elif variant:
        words.append(variant)
    if processes > 2:
        words.append(f"{processes} processes")
    return ", ".join(words)


def figure(measurements: Measurements, key: tuple, name: str) -> str:
    """"best (median)" in the unit that the benchmark is about."""
    best, median = measurements.best(key, name), measurements.median(key, name)
    if best is None:
        return "-"
    benchmark, _, _, size, value = key
    if benchmark == "rate" and best > 0 and median > 0:
        return f"{value / best:.2f} ({value / median:.2f}) M/s"
    if benchmark == "pingpong" and size >= 1 << 16:
        return f"{size / best * 1e-3:.2f} ({size / median * 1e-3:.2f}) GB/s"
    if benchmark == "indexed" and key[1] == "indexed":
        return f"{best:.1f} µs, {measurements.ratio_to_contiguous(key, name):.2f}"
    digits = 3 if best < 100 else 1
    return f"{best:.{digits}f} ({median:.{digits}f}) µs"


def ratio_text(measurements: Measurements, key: tuple) -> str:
    value = goals.ratio(measurements, key)
    return "-" if value is None else f"{value:.2f}"


def rows(measurements: Measurements, libraries: list) -> list:
    head = ["benchmark", "size", *(library.title for library in libraries), "ratio", "goal", ""]
    body = []
    for key in measurements.samples:
        goal = goals.goal_of(key)
        body.append([label(key), size_text(key[3]),
                     *(figure(measurements, key, library.name) for library in libraries),
                     ratio_text(measurements, key), goal.text if goal else "",
                     goals.verdict(measurements, key)])
    return [head, *body]


def print_table(measurements: Measurements, libraries: list) -> None:
    lines = rows(measurements, libraries)
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for number, line in enumerate(lines):
        cells = [cell.ljust(width) if column in (0, len(line) - 1) else cell.rjust(width)
                 for column, (cell, width) in enumerate(zip(line, widths))]
        print("  ".join(cells).rstrip())
        if number == 0:
            print("-" * (sum(widths) + 2 * (len(widths) - 1)))


# Above this share of the cores, what other programs do decides more than the libraries.
QUIET_SHARE = 0.05


def print_machine(machine: dict, before: dict, after: dict, others: float) -> None:
    print(f"Machine    {machine['host']}, {machine['processor']}, Linux {machine['kernel']}, "
          f"{machine['cores_of_the_machine']} cores, used: "
          f"{', '.join(map(str, machine['cores_used']))}")
    for word, load in (("Before", before), ("After", after)):
        average = " ".join(f"{value:.2f}" for value in load["load_average"])
        print(f"{word:<10} load average {average}; other programs used {load['busy']:.0%} "
              f"of the cores, the host took {load['stolen']:.0%}")
    print(f"{'During':<10} other programs used {others:.0%} of the cores"
          + ("" if others <= QUIET_SHARE else
             ": NOT AT REST, believe no ratio and run again when it is"))


def print_libraries(measurements: Measurements, libraries: list) -> None:
    for library in libraries:
        version = measurements.versions.get(library.name, "did not run")
        print(f"{library.title:<10} {version}")
        transport = measurements.transports.get(library.name)
        if transport:
            print(f"           shared memory: {transport['shared_mappings']} mappings in common, "
                  f"{transport['loopback_bytes']:.0f} of {transport['payload_bytes']:.0f} bytes "
                  f"over the loopback interface")
        crossings = measurements.crossings.get(library.name)
        if crossings:
            print(f"           a cache line crossed in {min(crossings):.0f} to "
                  f"{max(crossings):.0f} ns around its runs")
        for failure in measurements.failures.get(library.name, []):
            print(f"           FAILED {failure}")


def goals_text(measurements: Measurements) -> str:
    verdicts = [goals.verdict(measurements, key) for key in measurements.samples]
    counts = {word: verdicts.count(word) for word in ("reached", "not reached", "not measured")}
    return (f"goals: {counts['reached']} reached, {counts['not reached']} not reached, "
            f"{counts['not measured']} not measured")


def print_phases(measurements: Measurements, libraries: list) -> None:
    for title, phase in measurements.phases():
        print(f"\n== {title}; {goals_text(phase)}\n")
        print_table(phase, libraries)
    print("\nTimes are the best of all rounds (in brackets the median); the ratio is Combray to "
          "the best other library, of rates and bandwidths where the goal says ≥.")
