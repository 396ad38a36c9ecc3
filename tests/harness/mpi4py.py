"""mpi4py as the tests use it: its source, an environment in which it is installed, the files that
are left out."""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tarfile

from . import ROOT

VERSION = "4.1.2"


class LeftOut:
    """The patterns of left-out.txt: a file name, or file.Class.test with wildcards, then a reason. A pattern
    may be of one wheel only, which is named in brackets behind it."""

    def __init__(self, path, wheel=None):
        self.patterns = {}
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            pattern, _, reason = line.partition(":")
            if not reason.strip():
                sys.exit(f"{path}:{number}: no reason is given")
            pattern, _, only = pattern.strip().partition(" ")
            if not only or only == f"[{wheel}]":
                self.patterns[pattern] = reason.strip()

    def file(self, name):
        return name in self.patterns

    def tests(self):
        return [pattern for pattern in self.patterns if "." in pattern]


class Wheel:
    """mpi4py's released wheel, which was built for other MPI libraries and runs with ours of that kind."""

    def __init__(self, kind, prefix):
        self.folder = ROOT / "build" / "mpi4py-wheel" / kind
        self.python = self.folder / "venv" / "bin" / "python"
        self.tests = self.folder / f"mpi4py-{VERSION}" / "test"
        folder, name = {"mpich": ("mpich", "libmpi.so.12"), "openmpi": ("open-mpi", "libmpi.so.40")}[kind]
        self.variables = {"MPI4PY_LIBMPI": str(prefix / "lib/combray" / folder / name)}
        self.before = []  # words before Python

    def make(self):
        stamp = self.folder / "installed"
        if stamp.exists() and stamp.read_text() == VERSION:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        quietly([sys.executable, "-m", "venv", "--clear", str(self.folder / "venv")])
        pip = [str(self.python), "-m", "pip", "--disable-pip-version-check"]
        quietly([*pip, "install", "--only-binary", ":all:", f"mpi4py=={VERSION}", "numpy"])
        unpack_source(pip, self.folder)
        stamp.write_text(VERSION)


def unpack_source(pip, folder):
    """Unpacks mpi4py's source package, with its tests, in a folder that keeps it."""
    archive = folder / f"mpi4py-{VERSION}.tar.gz"
    if not archive.exists():
        quietly([*pip, "download", "--no-deps", "--no-binary", "mpi4py", "--dest", str(folder), f"mpi4py=={VERSION}"])
    shutil.rmtree(folder / f"mpi4py-{VERSION}", ignore_errors=True)
    with tarfile.open(archive) as source:
        source.extractall(folder)


def quietly(command, environment=None):
    """Runs a command that must succeed; prints its output if it does not."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{shlex.join(command)} failed:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")


def beyond_the_standard(header):
    """The calls and error classes for programs that survive failures that a header has."""
    text = header.read_text() if header.exists() else ""
    return sorted(set(re.findall(r"\bMPIX_(?:Comm|ERR)_\w+", text)))


class Build:
    """mpi4py's source and an environment in which it is installed, under build/mpi4py."""

    def __init__(self, mpicc):
        self.mpicc = mpicc
        self.folder = pathlib.Path(os.environ.get("MPI4PY_BUILD", ROOT / "build" / "mpi4py"))
        self.python = self.folder / "venv" / "bin" / "python"
        self.tests = self.folder / f"mpi4py-{VERSION}" / "test"
        self.stamp = self.folder / "built-with"
        self.variables = {}
        self.before = []  # words before Python

    def make(self):
        header = pathlib.Path(shutil.which(self.mpicc) or sys.exit(
            f"tests/mpi4py/run: {self.mpicc} does not exist: run `make build`, or set MPICC"
        )).resolve().parent.parent / "include" / "mpi.h"
        # The standard ABI makes one build good for every library: only another header needs a new
        # one.
        wanted = f"{VERSION} {self.mpicc} {header.stat().st_size if header.exists() else 0}"
        if self.stamp.exists() and self.stamp.read_text() == wanted:
            return
        print(f"building mpi4py {VERSION} from source with {self.mpicc} (some minutes)", flush=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        quietly([sys.executable, "-m", "venv", "--clear", str(self.folder / "venv")])
        pip = [str(self.python), "-m", "pip", "--disable-pip-version-check"]
        unpack_source(pip, self.folder)
        defined = [f"-DPyMPI_HAVE_{name}=1" for name in beyond_the_standard(header)]
        environment = dict(os.environ, MPICC=self.mpicc, MPI4PY_BUILD_MPIABI="1",
                           MPI4PY_BUILD_BACKEND="setuptools", CFLAGS=" ".join(["-O0 -g0", *defined]))
        # Without pip's cache: a wheel there may have been built with another library's header.
        quietly([*pip, "install", "--no-cache-dir", str(self.tests.parent)], environment)
        quietly([*pip, "install", "numpy"])
        self.stamp.write_text(wanted)
