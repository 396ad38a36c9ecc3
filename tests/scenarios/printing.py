"""All that ranks have printed arrives unchanged, however they end, at a terminal, in a pipe and in
a file."""

import concurrent.futures
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from harness.scenarios import needs_combray, places, run

SOURCES = pathlib.Path(__file__).parent / "printing"
ENDS = ("crash", "error", "abort", "time limit", "kill", "interrupt")
OUTPUTS = ("pipe", "file", "terminal")
RANKS = 2
# How many jobs run side by side, and how long one may take.
JOBS, SECONDS_MAX = 4, 60
# The first time limit is for a quiet machine; where a rank has not printed all by then, the next.
TIME_LIMITS = (2, 8, 32)


def programs(runner):
    """By language: the words that start the program."""
    folder, wrappers = runner.build / "printing", pathlib.Path(runner.mpicc[0]).parent
    folder.mkdir(exist_ok=True)
    found = {}
    for language, compiler, source, flags in (("C", "mpicc", "lines.c", []), ("C++", "mpicxx", "lines.c", ["-x", "c++"]),
                                              ("Fortran", "mpifort", "lines.f90", [])):
        real = {"C": "gcc", "C++": "g++", "Fortran": "gfortran"}[language]
        if shutil.which(real) and (wrappers / compiler).exists():
            found[language] = [compiled(wrappers / compiler, SOURCES / source, folder / language, *flags)]
    library = next(path for path in (wrappers.parent / "lib").glob("libmpi_abi.so*"))
    found["Python"] = [sys.executable, str(SOURCES / "lines.py"), str(library)]
    return found


def compiled(compiler, source, built, *flags):
    code, output, _ = run([str(compiler), *flags, str(source), "-o", str(built)], timeout=SECONDS_MAX)
    assert code == 0, output
    return str(built)


@contextlib.contextmanager
def outlet(kind, folder):
    """Where a launcher writes: what to give it, and a function that returns all that came."""
    if kind == "file":
        with open(folder / "output", "wb") as file:
            yield file, lambda: (folder / "output").read_bytes()
        return
    reader, writer = os.pipe() if kind == "pipe" else os.openpty()
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        read = thread.submit(read_all, reader)
        closed = []

        def all_of_it():
            closed.append(os.close(writer))
            return read.result()
        try:
            yield writer, all_of_it
        finally:
            if not closed:
                os.close(writer)
    os.close(reader)


def read_all(descriptor):
    pieces = []
    # The end of a terminal is an error.
    with contextlib.suppress(OSError):
        while piece := os.read(descriptor, 65536):
            pieces.append(piece)
    return b"".join(pieces)


def wait_for(condition, job):
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline and job.poll() is None, "the ranks do not come to their end"
        time.sleep(0.02)


def printed_before(runner, words, what, kind, limit):
    """Runs a job that ends in the given way; returns its output, its errors, and whether all ranks
    had printed before."""
    options = ["--timeout", str(limit)] if what == "time limit" else []
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="combray-printing-")))
        output, all_of_it = stack.enter_context(outlet(kind, folder))
        errors = stack.enter_context(tempfile.TemporaryFile())
        # The user's own setting for Python would hide the launcher's.
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        job = subprocess.Popen([*runner.mpiexec, *options, "-n", str(RANKS), *words, what, str(folder)], env=variables,
                               stdin=subprocess.DEVNULL, stdout=output, stderr=errors, start_new_session=True)
        stack.callback(job.kill)
        have_printed = [folder / str(rank) for rank in range(RANKS)]
        if what in ("kill", "interrupt"):
            wait_for(lambda: all(path.exists() for path in have_printed), job)
            if what == "kill":
                os.kill(int(have_printed[1].read_text()), signal.SIGKILL)
            else:
                job.send_signal(signal.SIGINT)
        assert job.wait(SECONDS_MAX) != 0, "exit code 0"
        errors.seek(0)
        return all_of_it().decode(), errors.read().decode(), all(path.exists() for path in have_printed)


def faults_of(runner, language, words, what, kind):
    """The fault in the output of such a job, or None."""
    for limit in TIME_LIMITS:
        try:
            output, errors, is_whole = printed_before(runner, words, what, kind, limit)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            return [f"{language}, {what}, {kind}: {error}"]
        if is_whole:
            break
    lines = output.replace("\r\n", "\n").splitlines()
    expected = [f"rank {rank} line {number}" for rank in range(RANKS) for number in range(3)]
    expected += ["before MPI_Init"] * RANKS
    if sorted(lines) != sorted(expected):
        return [f"{language}, {what}, {kind}: printed\n{output}\nerrors\n{errors}"]
    lost = [rank for rank in range(RANKS) if f"rank {rank} error\n" not in errors]
    return [f"{language}, {what}, {kind}: errors of ranks {lost} are lost\n{errors}"] * bool(lost)


@places(JOBS * RANKS)
def what_was_printed_arrives_whatever_the_end(runner):
    needs_combray(runner)
    cases = [(runner, language, words, what, kind) for language, words in programs(runner).items()
             for what in ENDS for kind in OUTPUTS]
    with concurrent.futures.ThreadPoolExecutor(JOBS) as threads:
        faults = [fault for found in threads.map(lambda case: faults_of(*case), cases) for fault in found]
    assert not faults, "\n".join(faults)


def bytes_arrive_unchanged(runner):
    needs_combray(runner)
    folder = runner.build / "printing"
    folder.mkdir(exist_ok=True)
    program = compiled(runner.mpicc[0], SOURCES / "bytes.c", folder / "bytes")
    alone = subprocess.run([program], stdout=subprocess.PIPE, check=True, timeout=SECONDS_MAX).stdout
    assert len(alone) == 1 << 20
    for kind in OUTPUTS:
        with tempfile.TemporaryDirectory(prefix="combray-printing-") as place:
            with outlet(kind, pathlib.Path(place)) as (output, all_of_it):
                code = subprocess.run([*runner.mpiexec, "-n", "1", program], stdin=subprocess.DEVNULL, stdout=output,
                                      check=False, timeout=SECONDS_MAX).returncode
                came = all_of_it()
        # The launcher's own terminal, not that of the rank, changes the ends of lines.
        came = came.replace(b"\r\n", b"\n") if kind == "terminal" else came
        assert code == 0 and came == alone, f"{kind}: {code}, {len(came)} of {len(alone)} bytes"


SCENARIOS = [what_was_printed_arrives_whatever_the_end, bytes_arrive_unchanged]
