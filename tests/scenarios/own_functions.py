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

SOURCE = pathlib.Path(__file__).parents[1] / "c/own_functions.c"

# What the library leaves as it is (crates/sys/src/own_functions.rs): an allocator, which a program
# may bring, a variable, and the functions by which it finds the others; and getauxval, which the
# crate rustix looks up at run time among all that there is.
KEPT = {"malloc", "calloc", "realloc", "free", "posix_memalign", "environ", "dl_iterate_phdr", "dlsym", "dlopen", "dlclose",
        "getauxval"}

# Names that the compiler itself makes calls to in the program.
OF_COMPILER = {"memcpy", "memmove", "memset", "memcmp"}


def names_of(library):
    """What a library refers to in the C library; names that begin with _ are not the program's to define."""
    listed = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True)
    if listed.returncode != 0:
        raise Skip(f"needs nm: {listed.stderr}")
    names = set(re.findall(r" [UwV] ([A-Za-z]\w*)@GLIBC", listed.stdout))
    assert len(names) > 100, f"{library} refers to {sorted(names)}"
    return sorted(names - KEPT - OF_COMPILER)


def library_of(runner):
    needs_combray(runner)
    prefix = pathlib.Path(shutil.which(runner.mpiexec[0])).parents[1]
    return prefix / "lib/libmpi_abi.so.1"


@contextlib.contextmanager
def compiled(compiler, names):
    """The program with functions of these names."""
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/own_functions"
        functions = " ".join(f"OWN({name})" for name in names)
        # The linker shows libraries those functions of the program to which they refer; this, all.
        options = ["-O1", "-fno-builtin", "-Wl,--export-dynamic", f"-DOWN_FUNCTIONS={functions}",
                   f'-DFILE_NAME="{folder}/file"']
        made = subprocess.run([*compiler, *options, "-o", program, SOURCE], capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        yield program


def are_not_called(runner, names):
    with compiled(runner.mpicc, names) as program:
        code, output, _ = run([*runner.mpiexec, "-n", "2", program], timeout=60)
        assert code == 0, f"exit code {code}\n{output}"


def all_of_them_are_skipped(runner):
    are_not_called(runner, names_of(library_of(runner)))


def one_alone_is_skipped(runner):
    """One of these hung MPI_Init; many programs have a function of the name of the second."""
    for name in ("sendmsg", "log"):
        are_not_called(runner, [name])


SCENARIOS = [all_of_them_are_skipped, one_alone_is_skipped]
