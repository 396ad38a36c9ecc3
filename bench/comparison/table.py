"""The readable output at the end."""

from . import cells, goals, places
from .running import Key, Measurements


def size_text(size: int) -> str:
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def label(key: Key) -> str:
    """What a figure is about, without its size."""
    words = [key.benchmark]
    if key.benchmark == "rate":
        words.append(f"window {key.value}")
    elif key.benchmark == "segments":
        words.append(f"{key.value} messages")
    elif key.benchmark == "pages":
        words.append(f"{key.value} requests")
    elif key.benchmark == "threads":
        words.append(f"{key.value}, {key.variant}")
    elif key.benchmark == "indexed":
        words.append(f"{key.variant} ×{key.value}")
    elif key.variant:
        words.append(key.variant)
    if key.processes > 2 and key.benchmark != "saturation":
        words.append(f"{key.processes} processes")
    return ", ".join(words)


def shows_bandwidth(key: Key) -> bool:
    large = key.benchmark in ("pingpong", "pingping", "sockets") and key.size >= 1 << 16
    return large or key.benchmark == "saturation"


def bytes_of(key: Key) -> int:
    """All that is underway in one figure."""
    threads = cells.SPLITS[0][0] * cells.SPLITS[0][1]
    return key.size * (threads * cells.SATURATION_WINDOW if key.benchmark == "saturation" else 1)


def figure(measurements: Measurements, key: Key, name: str) -> str:
    """"best (median)" in the unit that the benchmark is about."""
    best, median = measurements.best(key, name), measurements.median(key, name)
    if best is None:
        return "-"
    if key.benchmark == "overlap":
        return f"{100 * (1 - measurements.ratio_to_twin(key, name)):.0f} % of {median:.0f} µs"
    messages = {"rate": key.value, "threads": (key.value or 0) * cells.THREADS_WINDOW}
    if key.benchmark in messages and best > 0 and median > 0:
        count = messages[key.benchmark]
        return f"{count / best:.2f} ({count / median:.2f}) M/s"
    if shows_bandwidth(key):
        size = bytes_of(key)
        processor = measurements.processor(key, name) if key.place else None
        return f"{size / best * 1e-3:.3g} ({size / median * 1e-3:.3g}) GB/s" + \
            (f", {processor / size * 1e3:.2f} ns/B" if processor else "")
    if measurements.ratio_to_twin(key, name) is not None:
        return f"{best:.1f} µs, {measurements.ratio_to_twin(key, name):.2f} of twin"
    if key.benchmark in goals.APPLICATIONS:
        return f"{best * 1e-3:.2f} ({median * 1e-3:.2f}) ms"
    digits = 3 if best < 100 else 1
    return f"{best:.{digits}f} ({median:.{digits}f}) µs"


def ratio_text(measurements: Measurements, key: Key) -> str:
    best = goals.ratio(measurements, key)
    median = goals.ratio(measurements, key, Measurements.median)
    return "-" if best is None or median is None else f"{best:.2f} ({median:.2f})"


def floor_text(measurements: Measurements, key: Key) -> str:
    """Combray's shortest time as a multiple of the shortest that any library could reach."""
    mine, floor = measurements.best(key, goals.SUBJECT), measurements.floor(key)
    return f"{mine / floor:.2f}" if mine and floor else ""


def rows(measurements: Measurements, libraries: list, keys: list) -> list:
    head = ["benchmark", "size", *(library.title for library in libraries), "ratio", "of floor",
            "goal", ""]
    body = []
    for key in keys:
        goal = goals.goal_of(key)
        body.append([label(key), size_text(key.size) if key.size else "-",
                     *(figure(measurements, key, library.name) for library in libraries),
                     ratio_text(measurements, key), floor_text(measurements, key),
                     goal.text if goal else "", goals.verdict(measurements, key)])
    return [head, *body]


def print_table(measurements: Measurements, libraries: list, place: str) -> None:
    """The figures of one place, with a column for each library that has some."""
    keys = [key for key in measurements.samples if key.place == place]
    shown = [library for library in libraries if not goals.is_variation(library.name)
             or any(library.name in measurements.samples[key] for key in keys)]
    lines = rows(measurements, shown, keys)
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for number, line in enumerate(lines):
        cells = [cell.ljust(width) if column in (0, len(line) - 1) else cell.rjust(width)
                 for column, (cell, width) in enumerate(zip(line, widths))]
        print("  ".join(cells).rstrip())
        if number == 0:
            print("-" * (sum(widths) + 2 * (len(widths) - 1)))


def cell_ratios(measurements: Measurements, is_about) -> dict:
    """Key -> ratio of the medians to the best peer, of all such cells that have one."""
    ratios = {key: goals.judged_value(measurements, key)
              for key in measurements.samples if is_about(key)}
    return {key: ratio for key, ratio in ratios.items() if ratio is not None}


def print_cells(measurements: Measurements) -> None:
    """Ratios of the collectives, a line for each operation and a column for each number of
    processes and size; then the results of the goals for all of them."""
    ratios = cell_ratios(measurements, cells.is_cell)
    if not ratios:
        return
    columns = sorted({(key.processes, key.size) for key in ratios if key.benchmark != "barrier"})
    columns = columns or sorted({(key.processes, key.size) for key in ratios})
    by_place = {}
    for key, ratio in ratios.items():
        # A barrier has no size: it stands with the smallest.
        size = key.size or min(size for number, size in columns if number == key.processes)
        by_place[key.benchmark, key.processes, size] = ratio
    print("\nCollectives: ratio of the medians to the best other library, "
          "by processes and size\n")
    heads = [f"{number}: {size_text(size)}".replace("iB", "") for number, size in columns]
    width = max(map(len, heads)) + 2
    print(" " * 21 + "".join(head.rjust(width) for head in heads))
    for name in cells.COLLECTIVES:
        found = [by_place.get((name, *column)) for column in columns]
        if any(found):
            print(f"{name:<21}" + "".join(
                ("" if ratio is None else f"{ratio:.2f}").rjust(width) for ratio in found))
    print_cells_judged(measurements, ratios)


def print_cells_judged(measurements: Measurements, ratios: dict) -> None:
    mean = cells.geometric_mean(list(ratios.values()))
    best = cells.geometric_mean([goals.ratio(measurements, key) for key in ratios])
    above = sorted(((ratio, key) for key, ratio in ratios.items() if ratio > cells.CELL_LIMIT),
                   reverse=True)
    print(f"\nGeometric mean of {len(ratios)} cells: {mean:.2f} (of the best batches "
          f"{best:.2f}); goal ≤ {cells.MEAN_LIMIT}: "
          f"{'reached' if mean <= cells.MEAN_LIMIT else 'not reached'}")
    print(f"Cells above {cells.CELL_LIMIT}: {len(above) or 'none'}")
    for ratio, key in above:
        peer, microseconds = goals.best_peer(measurements, key, Measurements.median)
        mine = measurements.median(key, goals.SUBJECT)
        print(f"  {ratio:5.2f}  {label(key)}, {size_text(key.size)}: "
              f"{mine:.2f} µs, {peer} {microseconds:.2f} µs")


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
        for (name, place), transport in measurements.transports.items():
            if name == library.name:
                print(f"           {place or 'one machine'}: "
                      f"{transport['shared_mappings']} mappings in common; of "
                      f"{transport['payload_bytes']:.0f} bytes there and back "
                      f"{transport['loopback_bytes']:.0f} came over the loopback interface, "
                      f"{transport['network_bytes']:.0f} over others")
        crossings = measurements.crossings.get(library.name)
        if crossings:
            print(f"           a cache line crossed in {min(crossings):.0f} to "
                  f"{max(crossings):.0f} ns around its runs")
        for failure in measurements.failures.get(library.name, []):
            print(f"           FAILED {failure}")
        for note in measurements.notes.get(library.name, []):
            print(f"           {note}")


def goals_text(measurements: Measurements) -> str:
    verdicts = [goals.verdict(measurements, key) for key in measurements.samples]
    counts = {word: verdicts.count(word) for word in ("reached", "not reached", "not measured")}
    return (f"goals: {counts['reached']} reached, {counts['not reached']} not reached, "
            f"{counts['not measured']} not measured")


def print_phases(measurements: Measurements, libraries: list) -> None:
    for title, phase in measurements.phases():
        print(f"\n== {title}; {goals_text(phase)}")
        for place in (places.ONE_MACHINE, *places.CLUSTERS):
            if any(key.place == place.name for key in phase.samples):
                print(f"\n{place.title}\n" if place.title else "")
                print_table(phase, libraries, place.name)
        print_cells(phase)
    print("\nTimes are the best of all rounds (in brackets the median), ratios too; the ratio is "
          "Combray to the best other library, of rates and bandwidths where the goal says ≥.")
