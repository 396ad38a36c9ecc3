"""Programs that were compiled for MPICH: they find Combray's library, and what is in the way is told."""

import os
import pathlib
import subprocess

from harness import ROOT, TESTS
from harness.scenarios import Skip, needs_combray, run

MPICH = ROOT / "build" / "hydra"
JOB = TESTS / "c" / "job.c"
LOADER = """
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
    void *mpi = dlopen("libmpi.so.12", RTLD_NOW | RTLD_LOCAL);
    if (!mpi) return puts(dlerror()), 2;
    int (*init)(int *, char ***) = (int (*)(int *, char ***))dlsym(mpi, "MPI_Init");
    int (*rank)(int, int *) = (int (*)(int, int *))dlsym(mpi, "MPI_Comm_rank");
    int (*finalize)(void) = (int (*)(void))dlsym(mpi, "MPI_Finalize");
    int own = -1;
    init(&argc, &argv);
    rank(0x44000000, &own);
    printf("loaded by rank %d\\n", own);
    return finalize();
}
"""


def folder_of(runner):
    """Where the programs of these scenarios lie; they need MPICH's header, which may not be there."""
    needs_combray(runner)
    if not (MPICH / "include" / "mpi.h").exists():
        raise Skip("no MPICH (scripts/setup.sh test installs it)")
    folder = runner.build / "binaries"
    folder.mkdir(exist_ok=True)
    return folder


def compile_c(target, source, *flags):
    """Compile a file, or text, with the system's compiler; gives the program."""
    words = ["gcc", "-x", "c", str(source) if isinstance(source, pathlib.Path) else "-", *flags, "-o", str(target)]
    text = None if isinstance(source, pathlib.Path) else source
    done = subprocess.run(words, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return str(target)


def for_mpich(target, *flags, source=JOB):
    return compile_c(target, source, f"-I{MPICH}/include", *flags, "-x", "none", f"-L{MPICH}/lib", "-lmpi",
                     "-Wl,--unresolved-symbols=ignore-in-shared-libs")


def combray(runner, *words):
    return [str(pathlib.Path(runner.mpiexec[0]).with_name("combray")), *map(str, words)]


def plainly(runner, *words, **more):
    """A job without the variables that could help it."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    return run([*runner.mpiexec, *map(str, words)], env=dict(environment, **more), timeout=60)


def programs_of_mpich_run_as_they_are(runner):
    folder = folder_of(runner)
    kinds = {
        "plain": [],
        "fixed": ["-no-pie", "-fno-pie"],
        "lazy": ["-Wl,-z,lazy"],
        # A newer kind of folder in the program comes after what the launcher says.
        "runpath": [f"-Wl,--enable-new-dtags,-rpath,{MPICH}/lib"],
    }
    for name, flags in kinds.items():
        program = for_mpich(folder / name, *flags)
        code, output, _ = plainly(runner, "-n", 2, program, "hello")
        assert code == 0 and "rank 1 of 2" in output, f"{name}: {code}\n{output}"
        code, output, _ = run(combray(runner, "info", program))
        assert code == 0 and "libmpi.so.12" in output, output


def a_library_loaded_later_is_found_if_that_is_asked_for(runner):
    """As by Python, whose extension modules the launcher does not know."""
    folder = folder_of(runner)
    program = compile_c(folder / "loader", LOADER, "-x", "none", "-ldl")
    code, output, _ = plainly(runner, "--force-library", "-n", 2, program)
    assert code == 0 and "loaded by rank 1" in output, output


def calls_of_a_program_of_mpich_can_be_interposed(runner):
    folder = folder_of(runner)
    tool = for_mpich(folder / "tool.so", "-shared", "-fPIC", source="""
#include <mpi.h>
#include <stdio.h>
int MPI_Finalize(void) { int rank; PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    printf("tool of rank %d\\n", rank); fflush(stdout); return PMPI_Finalize(); }
""")
    program = for_mpich(folder / "watched")
    code, output, _ = plainly(runner, "-n", 2, "env", f"LD_PRELOAD={tool}", program, "hello")
    assert code == 0 and "tool of rank 1" in output and "rank 1 of 2" in output, output


def a_program_that_brings_its_own_library_is_told_of(runner):
    folder = folder_of(runner)
    program = for_mpich(folder / "brings", f"-Wl,--disable-new-dtags,-rpath,{MPICH}/lib")
    code, output, _ = run(combray(runner, "info", program))
    assert code == 0 and f"{MPICH}/lib/libmpi.so.12" in output and "--force-library" in output, output
    code, output, _ = plainly(runner, "-n", 1, program, "hello")
    assert "brings its own libmpi.so.12" in output, output
    code, output, _ = plainly(runner, "--force-library", "-n", 2, program, "hello")
    assert code == 0 and "rank 1 of 2" in output and "brings" not in output, output


def stub(folder, soname):
    return compile_c(folder / soname, "int MPI_Init(int *a, char ***b) { (void)a; (void)b; return 0; }\n",
                     "-shared", "-fPIC", f"-Wl,-soname,{soname}")


def what_cannot_be_stood_in_for_is_told(runner):
    folder = folder_of(runner)
    main = "int MPI_Init(int *, char ***); int main(void) { return MPI_Init(0, 0); }\n"
    unknown = compile_c(folder / "unknown", main, "-x", "none", stub(folder, "libmpi.so.20"),
                        f"-Wl,-rpath,{folder}")
    code, output, _ = plainly(runner, "-n", 1, unknown)
    assert code == 0 and f"{unknown} wants libmpi.so.20" in output and "mpicc" in output, output

    both = compile_c(folder / "both", main, "-x", "none", "-Wl,--no-as-needed", stub(folder, "libmpi.so.12"),
                     stub(folder, "libmpi_abi.so.1"), f"-Wl,-rpath,{folder}")
    code, output, _ = run(combray(runner, "info", both))
    assert code == 0 and "libmpi.so.12 and libmpi_abi.so.1" in output and "only" in output, output

    closed = compile_c(folder / "static", "int PMPI_Init(void) { return 0; } int main(void) { return PMPI_Init(); }\n",
                       "-static")
    code, output, _ = plainly(runner, "-n", 1, closed)
    assert code == 0 and "statically linked" in output and closed in output, output

    foreign = folder / "foreign"
    bytes_of = bytearray(pathlib.Path(unknown).read_bytes())
    # The machine's number in the header: that of RISC-V.
    bytes_of[18:20] = (243).to_bytes(2, "little")
    foreign.write_bytes(bytes_of)
    foreign.chmod(0o755)
    code, output, _ = plainly(runner, "-n", 1, foreign)
    assert code != 0 and "RISC-V" in output and str(foreign) in output, output


SCENARIOS = [
    programs_of_mpich_run_as_they_are,
    a_library_loaded_later_is_found_if_that_is_asked_for,
    calls_of_a_program_of_mpich_can_be_interposed,
    a_program_that_brings_its_own_library_is_told_of,
    what_cannot_be_stood_in_for_is_told,
]
