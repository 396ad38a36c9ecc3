"""Runs the benchmark: all libraries in turn, round after round, each with a time limit."""

import json
import os
import re
import signal
import statistics
import subprocess
import time
import uuid
from dataclasses import dataclass
from typing import NamedTuple

from . import leftovers, machine
from .libraries import Library, LibraryError, say
from .places import ONE_MACHINE, Cluster, OneMachine, PlaceError

MARK = "COMBRAY_COMPARE_MARK"

# What an application prints of each repetition.
TIMES = re.compile(r"communication ([\d.]+) ms, computation ([\d.]+) ms")

# Cores count as near while a cache line crosses within this multiple of the shortest time.
NEAR_FACTOR = 1.5

# The ways by which any library can move messages (see bench/programs/limits.c), by benchmark.
FLOOR_WAYS = {"pingpong": ("cells", "fetch", "jointly"), "pingping": ("both cells", "both fetch")}
LIMIT_SIZES = [8, 64, 256, *(1 << exponent for exponent in range(10, 24))]  # to 8 MiB


@dataclass(frozen=True)
class Part:
    """One start of the program: so many processes, these benchmarks, these options; there; with
    these variations beside the libraries."""

    processes: int
    benchmarks: tuple
    options: tuple = ()
    place: OneMachine | Cluster = ONE_MACHINE
    variations: tuple = ()
    libraries: tuple = ()  # the only ones that run it; empty: all
    pinned: bool = True  # the benchmark binds its processes
    application: str = ""  # a program of examples/ instead of the benchmark

    @property
    def title(self) -> str:
        where = f"{self.place.title}: " if self.place.title else ""
        return f"{where}{self.processes} processes: {' '.join(self.benchmarks)}"

    def wants(self, library: Library) -> bool:
        if self.libraries:
            return library.name in self.libraries
        return "/" not in library.name or library.name in self.variations


class Key(NamedTuple):
    """What one figure is about."""

    benchmark: str
    variant: str
    processes: int
    size: int
    value: int | None
    place: str


def run_marked(environ: dict, command: list, seconds: float) -> tuple:
    """Runs a command within the limit: its output, and why it failed or None. Processes that it
    leaves behind are ended, and no others."""
    mark = uuid.uuid4().hex
    files_before = leftovers.shared_files()
    process = subprocess.Popen(command, env={**environ, MARK: mark}, text=True, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               start_new_session=True)
    failure = None
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        failure = f"not finished after {seconds:g} s; ended"
    finally:
        end_marked(mark)
    if failure:
        process.kill()
        output, errors = process.communicate()
    elif process.returncode != 0:
        lines = (errors + output).strip().splitlines()
        reason = next((line for line in lines if "combray-bench: " in line),
                      lines[0] if lines else "no output")
        failure = f"ended with {process.returncode}: {reason}"
    if failure:
        leftovers.remove_new_files(files_before)
    return output, failure


def marked_processes(mark: str) -> list:
    """Processes whose environment carries the mark: those that this run started."""
    found = []
    wanted = f"{MARK}={mark}".encode()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if wanted in file.read().split(b"\0"):
                    found.append(int(entry))
        except OSError:
            continue
    return found


def end_marked(mark: str) -> None:
    for sign, patience in ((signal.SIGTERM, 2.0), (signal.SIGKILL, 2.0)):
        deadline = time.monotonic() + patience
        remaining = marked_processes(mark)
        for pid in remaining:
            try:
                os.kill(pid, sign)
            except ProcessLookupError:
                pass
        while remaining and time.monotonic() < deadline:
            time.sleep(0.05)
            remaining = marked_processes(mark)
        if not remaining:
            return


def parse(output: str) -> list:
    """The JSON lines of a run; launchers may put lines of their own between them."""
    return [json.loads(line) for line in output.splitlines()
            if line.startswith('{"record"') and line.endswith("}")]


def parse_application(output: str, part: Part) -> list:
    """Records in this form from the readable output of an application of examples/: its library in
    the first line, and the times of each repetition in one."""
    lines = output.splitlines()
    found = [tuple(map(float, match.groups())) for match in map(TIMES.fullmatch, lines) if match]
    if not found or not lines[-1].endswith("are right"):
        return []
    records = [{"record": "header", "library": lines[0].partition(" processes, ")[2]}]
    for variant, times in zip(("communication", "computation"), zip(*found)):
        records.append({"record": "result", "benchmark": part.benchmarks[0], "variant": variant,
                        "processes": part.processes, "bytes": 0, "min_us": min(times) * 1e3,
                        "median_us": statistics.median(times) * 1e3})
    return records


def check_header(library: Library, records: list) -> str:
    headers = [record for record in records if record["record"] == "header"]
    if not headers:
        raise LibraryError("printed no header")
    version = headers[0]["library"]
    if library.version_word not in version:
        raise LibraryError(f"another library answered: {version}")
    return version


def transport_of(records: list) -> dict:
    evidence = next((record for record in records if record["record"] == "transport"), None)
    if evidence is None:
        raise LibraryError("showed no evidence of its transport")
    return evidence


def key_of(record: dict, place: str) -> Key:
    return Key(record["benchmark"], record["variant"], record["processes"], record["bytes"],
               record.get("value"), place)


@dataclass(frozen=True)
class Sample:
    """One figure of one round. `crossings_ns` is what a cache line needed from core to core
    before and after the run; empty where there is one core, or where it does not matter."""

    min_us: float
    median_us: float
    ratio: float | None
    crossings_ns: tuple
    system_calls: int | None = None  # that read or write, of all processes, if they were counted
    processor_us: float | None = None  # of all processes


class Measurements:
    """All figures of all rounds, and what went wrong."""

    def __init__(self):
        self.samples = {}  # Key -> library name -> list of samples, one per round
        self.versions = {}
        self.transports = {}  # (library name, place) -> what the program saw of it
        self.failures = {}  # library name -> list of sentences
        self.notes = {}  # library name -> what the program left out, as sentences
        self.crossings = {}  # library name -> list of nanoseconds
        self.guidelines = {}  # (processes, bytes, text) -> records of all rounds
        self.limits = {}  # (way, bytes) -> list of samples: what the machine itself can do

    def add(self, library: Library, records: list, place: str, crossings_ns: tuple) -> None:
        self.crossings.setdefault(library.name, []).extend(crossings_ns)
        for record in records:
            if record["record"] == "guideline":
                found = record["processes"], record["bytes"], record["guideline"]
                self.guidelines.setdefault(found, []).append(record)
            if record["record"] == "result":
                by_library = self.samples.setdefault(key_of(record, place), {})
                by_library.setdefault(library.name, []).append(
                    Sample(record["min_us"], record["median_us"],
                           record.get("ratio_to_twin"), crossings_ns,
                           record.get("system_calls"), record.get("processor_us")))

    def add_limits(self, records: list, crossings_ns: tuple) -> None:
        """Each size also has the crossing time that was measured beside it."""
        for record in records:
            if record["record"] == "limit":
                self.limits.setdefault((record["way"], record["bytes"]), []).append(
                    Sample(record["us"], record["us"], None,
                           (*crossings_ns, record["crossing_ns"])))

    def limit(self, way: str, size: int):
        """The shortest time of the machine itself for a message, in microseconds, or None."""
        return min((sample.min_us for sample in self.limits.get((way, size), [])), default=None)

    def floor(self, key: Key):
        """The shortest time that any library could reach for this figure, or None."""
        if key.place or key.variant:
            return None
        times = [self.limit(way, key.size) for way in FLOOR_WAYS.get(key.benchmark, ())]
        return min(filter(None, times), default=None)

    def note(self, library: Library, part: Part, records: list) -> None:
        """Stores the program's notes about what it left out."""
        notes = self.notes.setdefault(library.name, [])
        for record in records:
            if record["record"] == "note":
                sentence = f"{part.processes} processes: {record['text']}"
                if sentence not in notes:
                    notes.append(sentence)

    def fail(self, library: Library, part: Part, error: Exception) -> None:
        sentence = f"{part.title}: {error}"
        say(f"  {library.title} failed, {sentence}")
        sentences = self.failures.setdefault(library.name, [])
        if sentence not in sentences:
            sentences.append(sentence)

    def is_near(self, sample: Sample):
        """Whether the cores were as near to each other as they came in this run (see crossing.c);
        None where that changed during the run."""
        shortest = min((min(values) for values in self.crossings.values() if values), default=0)
        found = {crossing <= NEAR_FACTOR * shortest for crossing in sample.crossings_ns}
        return None if len(found) > 1 else found != {False}

    def phases(self) -> list:
        """(title, measurements) for rounds with the cores as near as they came in this run, for the
        others, and for figures that neither has of all libraries: two times from different phases
        cannot compare the libraries."""
        near, far, mixed = Measurements(), Measurements(), Measurements()
        for key, by_library in self.samples.items():
            split = {phase: {name: [sample for sample in samples if self.is_near(sample) is flag]
                             for name, samples in by_library.items()}
                     for phase, flag in ((near, True), (far, False))}
            complete = [phase for phase, found in split.items() if all(found.values())]
            for phase in complete:
                phase.samples[key] = split[phase]
            if not complete:
                mixed.samples[key] = by_library
        for key, samples in self.limits.items():
            for phase, flag in ((near, True), (far, False), (mixed, None)):
                phase.limits[key] = [sample for sample in samples
                                     if flag is None or self.is_near(sample) is flag]
        return [(phase.title(prefix), phase)
                for prefix, phase in (("", near), ("", far), ("MIXED, run again: ", mixed))
                if phase.samples]

    def title(self, prefix: str) -> str:
        """How far apart the cores were, as a heading."""
        crossings = [crossing for by_library in self.samples.values()
                     for samples in by_library.values() for sample in samples
                     for crossing in sample.crossings_ns]
        if not crossings:
            return "however near the cores are"
        return f"{prefix}a cache line crossed in {min(crossings):.0f} to {max(crossings):.0f} ns"

    def best(self, key: tuple, name: str):
        """The smallest time of all rounds in microseconds, or None."""
        samples = self.samples.get(key, {}).get(name, [])
        return min((sample.min_us for sample in samples), default=None)

    def median(self, key: tuple, name: str):
        """The median over the rounds of the median over the batches, in microseconds."""
        medians = [sample.median_us for sample in self.samples.get(key, {}).get(name, [])]
        return statistics.median(medians) if medians else None

    def system_calls(self, key: tuple, name: str):
        """How many the library made in the usual round, or None."""
        counts = [sample.system_calls for sample in self.samples.get(key, {}).get(name, [])
                  if sample.system_calls is not None]
        return round(statistics.median(counts)) if counts else None

    def processor(self, key: tuple, name: str):
        """Microseconds of processor time, of all processes, in the usual round, or None."""
        times = [sample.processor_us for sample in self.samples.get(key, {}).get(name, [])
                 if sample.processor_us is not None]
        return statistics.median(times) if times else None

    def ratio_to_twin(self, key: tuple, name: str):
        """The median over the rounds: both times of a round were measured under equal conditions of
        the machine."""
        ratios = [sample.ratio for sample in self.samples.get(key, {}).get(name, [])
                  if sample.ratio is not None]
        return statistics.median(ratios) if ratios else None


def command_of(library: Library, part: Part, wants_transport: bool) -> list:
    if part.application:
        return part.place.command(library, part.processes, list(part.options), part.application)
    transport = ["--transport"] if wants_transport else []
    pinning = [part.place.pinning] if part.pinned else []
    return part.place.command(library, part.processes,
                              [*transport, "--json", *pinning, *part.options,
                               *part.benchmarks])


def measure_once(measurements: Measurements, library: Library, part: Part, cores: list,
                 seconds: float) -> None:
    place = part.place
    wants_transport = part.processes == 2 and not part.application and \
        (library.name, place.name) not in measurements.transports
    before = machine.crossing_nanoseconds(cores) if place.feels_cores else None
    output, failure = run_marked(place.environ(library),
                                 command_of(library, part, wants_transport), seconds)
    after = machine.crossing_nanoseconds(cores) if place.feels_cores else None
    if failure:
        place.reset()
    records = parse_application(output, part) if part.application else parse(output)
    if failure and not records:
        raise LibraryError(failure)
    measurements.versions[library.name] = check_header(library, records)
    if wants_transport:
        evidence = transport_of(records)
        place.check(evidence)
        measurements.transports[library.name, place.name] = evidence
    # What came before a failure was verified as everything else, and counts.
    crossings = tuple(value for value in (before, after) if value is not None)
    measurements.add(library, records, place.name, crossings)
    measurements.note(library, part, records)
    if failure:
        raise LibraryError(failure)


def measure_limits(measurements: Measurements, library: Library, cores: list,
                   seconds: float) -> None:
    """What any library could reach now. The library only starts the program and shares memory."""
    part = Part(2, ("limits",), ("--sizes", ",".join(map(str, LIMIT_SIZES))))
    before = machine.crossing_nanoseconds(cores)
    output, failure = run_marked(part.place.environ(library), command_of(library, part, False),
                                 seconds)
    after = machine.crossing_nanoseconds(cores)
    measurements.add_limits(parse(output),
                            tuple(value for value in (before, after) if value is not None))
    if failure:
        say(f"  the limits of the machine were not all measured: {failure}")


def run_rounds(libraries: list, parts: list, rounds: int, cores: list,
               seconds: float) -> Measurements:
    """Every part with every library in turn, `rounds` times: A B C D A B C D ... A library that
    fails a part twice is not run on that part again."""
    measurements = Measurements()
    strikes = {}
    for number in range(1, rounds + 1):
        for part in parts:
            say(f"round {number} of {rounds}, {part.title}")
            if part.place == ONE_MACHINE and set(part.benchmarks) & set(FLOOR_WAYS):
                measure_limits(measurements, libraries[0], cores, seconds)
            for library in filter(part.wants, libraries):
                if strikes.get((library.name, part), 0) >= 2:
                    continue
                try:
                    measure_once(measurements, library, part, cores, seconds)
                except (LibraryError, PlaceError, OSError, ValueError) as error:
                    strikes[library.name, part] = strikes.get((library.name, part), 0) + 1
                    measurements.fail(library, part, error)
    return measurements
