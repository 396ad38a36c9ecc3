"""The C programs of tests/c: how their heads are parsed, and how they are compiled."""

import pathlib
import re
import shlex
import subprocess
import threading

from . import TESTS

CFLAGS = ["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Wno-deprecated-declarations"]
# Under a checking tool a program runs with one number of processes, if it can be with so few.
CHECKED_PROCESSES_MAX = 3


class Program:
    """One C source and the settings in its head (tests/README.md)."""

    def __init__(self, source, build):
        self.head = source.read_text().split("#include", 1)[0]
        self.name = source.stem
        self.source = source
        self.executable = build / source.stem
        self.counts = [int(n) for n in self._words("run").split()]
        self.night_counts = [int(n) for n in self._words("at night").split()]
        self.timeout = float(self._words("timeout") or 30)
        self.memory_gib = float(self._words("memory") or 0)
        preload = self._words("preload")
        self.preload = source.with_name(preload) if preload else None
        # One run with each of these as the argument.
        self.arguments = self._words("each").split() or [None]
        # Why it cannot run on several hosts, or beside other jobs, if so.
        self.one_machine = self._words("one machine")
        self.alone = self._words("alone")
        # Differs between machines, so that it is worth its time on hosts as well.
        self.is_for_hosts = self._says("hosts")
        self.checkers = self._words("checkers").split()
        self.flags = ["-pthread"] * self._says("thread") + ["-fopenmp"] * self._says("openmp")
        self.is_native = self._says("combray.h")
        # A shared library without which it cannot run, and Debian's package that has it.
        library = self._words("library").split()
        if len(library) not in (0, 2):
            raise ValueError(f"{source}: a line of the head begins with 'library:' and names no library and package")
        self.library, self.package = library or (None, None)

    def _words(self, key):
        found = re.search(rf"^// {key}: *(.*)$", self.head, re.M)
        return found.group(1).strip() if found else ""

    def _says(self, word):
        return re.search(rf"^// {re.escape(word)}$", self.head, re.M) is not None

    @property
    def preload_library(self):
        return self.executable.with_name(self.preload.stem + ".so")

    def is_named_in(self, words):
        """Whether the program, or the library that is loaded before it, is among these words."""
        return self.name in words or bool(self.preload) and bool({self.preload.stem, self.preload_library.name} & words)

    def checked_count(self):
        """With how many processes it runs under a checking tool."""
        few = [count for count in self.counts if count <= CHECKED_PROCESSES_MAX]
        return max(few) if few else min(self.counts)


class Compiler:
    """Compiles, with the wrapper of the tested library, each program that is older than its
    sources."""

    def __init__(self, mpicc):
        self.mpicc = mpicc

    def header(self, name):
        """A header of the library that is tested."""
        return pathlib.Path(self.mpicc[0]).resolve().parent.parent / "include" / name

    def has_native(self):
        return self.header("combray.h").exists()

    def lacks(self, problem):
        """What of MPI 5.0 a program names that the header, of an older version, does not have; none if it is something
        else that is wrong."""
        header = self.header("mpi.h")
        if not header.exists() or "MPI_ABI_VERSION" in header.read_text(errors="replace"):
            return None
        found = re.search(r"(?:implicit declaration of function|undefined reference to|type name|error:) "
                          r"[‘`'](P?MPIX?_\w+)[’'](?! from)", problem)
        return found[1] if found else None

    def compile(self, source, target, flags=()):
        """Returns the fault, or None."""
        wrapper = pathlib.Path(self.mpicc[0])
        inputs = [source, *(TESTS / "c").glob("*.h")] + ([wrapper] if wrapper.exists() else [])
        inputs += [header for header in map(self.header, ("mpi.h", "combray.h", "combray_threads.h")) if header.exists()]
        stamp = target.with_name(target.name + ".with")
        same = stamp.exists() and stamp.read_text() == shlex.join(self.mpicc)
        if same and target.exists() and all(
            target.stat().st_mtime >= path.stat().st_mtime for path in inputs
        ):
            return None
        # Under a name of its own first, as two scenarios may compile it concurrently.
        new = target.with_name(f"{target.name}.{threading.get_ident()}")
        command = [*self.mpicc, *CFLAGS, *flags, str(source), "-o", str(new), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            target.unlink(missing_ok=True)
            return f"{shlex.join(command)}\n{done.stdout}{done.stderr}"
        new.rename(target)
        stamp.write_text(shlex.join(self.mpicc))
        return None

    def compile_program(self, program):
        if program.is_native and not self.has_native():
            return None
        problem = self.compile(program.source, program.executable, program.flags)
        if not problem and program.preload:
            # One that stands for another library has that one's name.
            flags = ["-shared", "-fPIC", "-pthread", f"-Wl,-soname,{program.preload.stem}"]
            problem = self.compile(program.preload, program.preload_library, flags)
        return problem
