"""Programs with functions that have names of the C library: Combray's libraries do not call them.

The names are those that the libraries refer to, as `nm` lists them, so that the table is never old.
"""

import contextlib
import pathlib
import re
import shutil
import subprocess
import tempfile

from harness.scenarios import Skip, needs_combray, run

from .binaries import MPICH, OPEN_MPI

SOURCE = pathlib.Path(__file__).parents[1] / "c/own_functions.c"

# References that the library leaves unchanged (crates/sys/src/own_functions.rs): an allocator,
# which a program may bring, variables, and the functions by which it finds the others; and
# getauxval, which the crate rustix looks up at run time among all loaded libraries.
KEPT = {"malloc", "calloc", "realloc", "free", "posix_memalign", "environ", "stderr", "dl_iterate_phdr", "dlsym", "dlopen",
        "dlclose", "getauxval"}

# Names that the compiler itself makes calls to in the program.
OF_COMPILER = {"memcpy", "memmove", "memset", "memcmp"}


def names_of(library, count_min=100):
    """What a library refers to in the C library; names that begin with _ are not the program's to define."""
    listed = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True)
    if listed.returncode != 0:
        raise Skip(f"needs nm: {listed.stderr}")
    names = set(re.findall(r" [UwV] ([A-Za-z]\w*)@GLIBC", listed.stdout))
    assert len(names) > count_min, f"{library} refers to {sorted(names)}"
    return sorted(names - KEPT - OF_COMPILER)


def library_of(runner, pattern="libmpi_abi.so.1"):
    needs_combray(runner)
    folder = pathlib.Path(shutil.which(runner.mpiexec[0])).parents[1] / "lib"
    found = sorted(folder.glob(pattern))
    if not found:
        raise Skip(f"{pattern} is not installed")
    return found[0]


def compiler_of(other):
    """The Fortran library of another MPI, whose programs run on ours of that name."""
    compiler = other / "bin/mpicc"
    if not compiler.exists():
        raise Skip(f"no {other.name} (scripts/setup.sh test installs it)")
    return [compiler]


@contextlib.contextmanager
def compiled(compiler, names, layer=None):
    """The program with functions of these names, and with a library for Fortran."""
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/own_functions"
        functions = " ".join(f"OWN({name})" for name in names)
        # The linker shows libraries those functions of the program to which they refer; this, all.
        options = ["-O1", "-fno-builtin", "-Wl,--export-dynamic", f"-DOWN_FUNCTIONS={functions}",
                   f'-DFILE_NAME="{folder}/file"']
        # What the layer refers to is in our library; the program may be linked with the other one.
        with_layer = []
        if layer:
            # The functions that it calls are in our library; the program may be linked with the
            # other one.
            with_layer = ["-DWITH_FORTRAN", layer, f"-Wl,-rpath,{layer.parent}", "-Wl,--unresolved-symbols=ignore-in-shared-libs"]
        made = subprocess.run([*compiler, *options, "-o", program, SOURCE, *with_layer], capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        yield program


def are_not_called(runner, names, compiler, layer=None):
    with compiled(compiler, names, layer) as program:
        code, output, _ = run([*runner.mpiexec, "-n", "2", program], timeout=60)
        assert code == 0, f"exit code {code}\n{output}"


def all_of_them_are_skipped(runner):
    are_not_called(runner, names_of(library_of(runner)), runner.mpicc)


def one_alone_is_skipped(runner):
    """One of these hung MPI_Init; many programs have a function of the name of the second."""
    needs_combray(runner)
    for name in ("sendmsg", "log"):
        are_not_called(runner, [name], runner.mpicc)


def all_are_skipped_in_programs_for_mpich(runner):
    are_not_called(runner, names_of(library_of(runner, "combray/mpich/libmpi.so.12")), compiler_of(MPICH))


def all_are_skipped_in_programs_for_open_mpi(runner):
    are_not_called(runner, names_of(library_of(runner, "combray/open-mpi/libmpi.so.40")), compiler_of(OPEN_MPI))


def layers_for_fortran_skip_them(runner):
    layers = [("combray/fortran/*/libcombray_fortran.so", lambda: runner.mpicc),
              ("combray/mpich/libmpifort.so.12", lambda: compiler_of(MPICH)),
              ("combray/open-mpi/libmpi_mpifh.so.40", lambda: compiler_of(OPEN_MPI))]
    for pattern, compiler in layers:
        layer = library_of(runner, pattern)
        are_not_called(runner, names_of(layer, count_min=8), compiler(), layer)


SCENARIOS = [all_of_them_are_skipped, one_alone_is_skipped, all_are_skipped_in_programs_for_mpich,
             all_are_skipped_in_programs_for_open_mpi, layers_for_fortran_skip_them]
