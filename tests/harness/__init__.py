"""What the runners of the tests share: jobs, the pool that runs them side by side, programs, results.

A runner puts the folder above this one (tests/) into its search path; that is all it needs.
"""

import os
import pathlib
import shlex
import sys

sys.dont_write_bytecode = True

TESTS = pathlib.Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
PREFIX = ROOT / "build" / "prefix"


def compiler():
    """The words of the compiler wrapper: those of MPICC, else the installed one."""
    return shlex.split(os.environ.get("MPICC", str(PREFIX / "bin" / "mpicc")))


def launcher():
    """The words of the launcher: those of MPIEXEC, else the installed one."""
    return shlex.split(os.environ.get("MPIEXEC", str(PREFIX / "bin" / "mpiexec")))
