"""Programs in Python: messages show the lines of the program, whoever holds the interpreter's lock."""

import pathlib
import re
import sys

from harness.scenarios import needs_combray, run

# A call by CDLL releases the interpreter's lock, one by PyDLL keeps it.
PROGRAM = """\
import ctypes, sys, threading, time

library, how, kind = sys.argv[1:]
mpi = getattr(ctypes, kind)(library)
WORLD = ctypes.c_void_p(int(0x101))
BYTE = ctypes.c_void_p(int(0x247))

def send_nowhere():
    mpi.MPI_Send(None, 0, BYTE, 77, 0, WORLD)

def receive_nothing():
    mpi.MPI_Recv(None, 0, BYTE, 0, 5, WORLD, None)

def compute():
    while True: pass

def trace(frame, event, value):
    if frame.f_code.co_filename == "<string>":
        print("code of the library runs", flush=True)

mpi.MPI_Init(None, None)
if how == "busy":
    threading.Thread(target=compute, daemon=True).start()
if how == "traced":
    sys.settrace(trace)
if how == "wait":
    receive_nothing()
else:
    send_nowhere()
"""


def lines_of(runner, how, kind, *options):
    needs_combray(runner)
    program = runner.build / "lines.py"
    program.write_text(PROGRAM)
    library = pathlib.Path(runner.mpicc[0]).parent.parent / "lib" / "libmpi_abi.so.1"
    job = [*runner.mpiexec, "-n", "1", *options, sys.executable, str(program), str(library), how, kind]
    return run(job, timeout=60.0)[:2]


def number_of(call):
    return 1 + next(index for index, line in enumerate(PROGRAM.splitlines()) if call in line)


def an_error_shows_the_lines_of_the_program(runner):
    inner, outer = number_of("mpi.MPI_Send("), number_of("    send_nowhere()")
    for how, kind in (("wrong", "CDLL"), ("wrong", "PyDLL"), ("busy", "CDLL")):
        code, output = lines_of(runner, how, kind)
        expected = f"Called by send_nowhere (lines.py:{inner}), <module> (lines.py:{outer})."
        assert code not in (0, 124) and expected in output, f"{how}, {kind}: exit code {code}\n{output}"


def a_call_with_the_lock_runs_no_code_of_python(runner):
    code, output = lines_of(runner, "traced", "PyDLL")
    assert code not in (0, 124) and "Called by send_nowhere (lines.py:" in output, f"exit code {code}\n{output}"
    assert "code of the library runs" not in output, output


def a_report_about_a_hang_shows_the_line_of_the_program(runner):
    line = number_of("mpi.MPI_Recv(")
    for kind in ("CDLL", "PyDLL"):
        code, output = lines_of(runner, "wait", kind, "--timeout", "3")
        assert code == 124, f"{kind}: exit code {code}\n{output}"
        assert re.search(rf"called by receive_nothing \(lines.py:{line}\)", output), f"{kind}\n{output}"


SCENARIOS = [an_error_shows_the_lines_of_the_program, a_call_with_the_lock_runs_no_code_of_python,
             a_report_about_a_hang_shows_the_line_of_the_program]
