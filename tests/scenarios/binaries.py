"""Programs that were compiled for MPICH and Open MPI: they find Combray's library, or a message
says what prevents it."""

import os
import pathlib
import subprocess
import threading

from harness import ROOT, TESTS
from harness.scenarios import Skip, needs_combray, run

MPICH = ROOT / "build" / "hydra"
OPEN_MPI = ROOT / "build" / "openmpi"
# Open MPI 4.1, whose header has the interface in C++.
OPEN_MPI_4 = ROOT / "build" / "debian" / "openmpi"
JOB = TESTS / "c" / "job.c"
LOADER = """
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
    void *mpi = dlopen("%s", RTLD_NOW | RTLD_LOCAL);
    if (!mpi) return puts(dlerror()), 2;
    int (*init)(int *, char ***) = (int (*)(int *, char ***))dlsym(mpi, "MPI_Init");
    int (*rank)(void *, int *) = (int (*)(void *, int *))dlsym(mpi, "MPI_Comm_rank");
    int (*finalize)(void) = (int (*)(void))dlsym(mpi, "MPI_Finalize");
    int own = -1;
    init(&argc, &argv);
    rank(%s, &own);
    printf("loaded by rank %%d\\n", own);
    return finalize();
}
"""


def folder_of(runner, library=MPICH):
    """Where the programs of these scenarios lie; they need a library's header, which may not be there."""
    needs_combray(runner)
    if not (library / "include" / "mpi.h").exists():
        raise Skip(f"no {library.name} (scripts/setup.sh test installs it)")
    folder = runner.build / "binaries"
    folder.mkdir(exist_ok=True)
    return folder


def compile_c(target, source, *flags):
    """Compile a file, or text, with the system's compiler; gives the program."""
    # Under a name of its own first, as another scenario may run the program.
    new = f"{target}.{threading.get_ident()}"
    words = ["gcc", "-x", "c", str(source) if isinstance(source, pathlib.Path) else "-", *flags, "-o", new]
    text = None if isinstance(source, pathlib.Path) else source
    done = subprocess.run(words, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    os.replace(new, target)
    return str(target)


def for_mpich(target, *flags, source=JOB, library=MPICH):
    return compile_c(target, source, f"-I{library}/include", *flags, "-x", "none", f"-L{library}/lib", "-lmpi",
                     "-Wl,--unresolved-symbols=ignore-in-shared-libs")


def for_open_mpi(target, *flags, source):
    return for_mpich(target, *flags, source=source, library=OPEN_MPI)


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
        # A newer kind of library folder in the program is searched after the launcher's folder.
        "runpath": [f"-Wl,--enable-new-dtags,-rpath,{MPICH}/lib"],
    }
    for name, flags in kinds.items():
        program = for_mpich(folder / name, *flags)
        code, output, _ = plainly(runner, "-n", 2, program, "hello")
        assert code == 0 and "rank 1 of 2" in output, f"{name}: {code}\n{output}"
        code, output, _ = run(combray(runner, "info", program))
        assert code == 0 and "libmpi.so.12" in output, output


# Other libraries have large counts of partitions under the name for small ones.
LARGE_PARTITIONS = """
#include <mpi.h>
int main(int argc, char **argv) {
    MPI_Count counts[] = {5, (MPI_Count)1 << 31, ((MPI_Count)1 << 32) + 1};
    MPI_Datatype nothing;
    MPI_Request requests[2];
    int data;
    MPI_Init(&argc, &argv);
    MPI_Type_contiguous(0, MPI_INT, &nothing);
    MPI_Type_commit(&nothing);
    for (int i = 0; i < 3; i++) {
        MPI_Psend_init(&data, 1, counts[i], nothing, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &requests[0]);
        MPI_Precv_init(&data, 1, counts[i], nothing, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &requests[1]);
        MPI_Startall(2, requests);
        MPI_Pready(0, requests[0]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        for (int j = 0; j < 2; j++) MPI_Request_free(&requests[j]);
    }
    MPI_Type_free(&nothing);
    return MPI_Finalize();
}
"""


def counts_of_partitions_are_large(runner):
    for library in (MPICH, OPEN_MPI):
        folder = folder_of(runner, library)
        program = for_mpich(folder / f"partitions-{library.name}", source=LARGE_PARTITIONS, library=library)
        code, output, _ = plainly(runner, "-n", 1, program)
        assert code == 0, f"{library.name}: {code}\n{output}"


# Datatypes that MPICH's header still has: they mark the bounds of a structure.
BOUNDS = """
#include <mpi.h>
#include <stdio.h>
static int wrong;
static void check(int count, MPI_Datatype types[], MPI_Aint places[], MPI_Aint lower, MPI_Aint extent) {
    int lengths[] = {1, 1, 1, 1, 1, 1};
    MPI_Datatype made[2];
    MPI_Type_create_struct(count, lengths, places, types, &made[0]);
    MPI_Type_struct(count, lengths, places, types, &made[1]);
    for (int i = 0; i < 2; i++) {
        MPI_Aint low, long_;
        int size;
        MPI_Type_get_extent(made[i], &low, &long_);
        MPI_Type_size(made[i], &size);
        if (low != lower || long_ != extent || size != 4) printf("%ld %ld %d\\n", (long)low, (long)long_, size), wrong++;
        MPI_Type_free(&made[i]);
    }
}
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    check(3, (MPI_Datatype[]){MPI_LB, MPI_INT, MPI_UB}, (MPI_Aint[]){-8, 0, 32}, -8, 40);
    check(2, (MPI_Datatype[]){MPI_INT, MPI_UB}, (MPI_Aint[]){4, 32}, 4, 28);
    check(2, (MPI_Datatype[]){MPI_LB, MPI_INT}, (MPI_Aint[]){0, 8}, 0, 12);
    check(5, (MPI_Datatype[]){MPI_UB, MPI_LB, MPI_LB, MPI_INT, MPI_UB}, (MPI_Aint[]){8, 0, -4, 0, 12}, -4, 16);
    MPI_Finalize();
    return wrong;
}
"""


def removed_datatypes_of_mpich_mark_bounds(runner):
    program = for_mpich(folder_of(runner) / "bounds", source=BOUNDS)
    code, output, _ = plainly(runner, "-n", 1, program)
    assert code == 0, f"{code}\n{output}"


# Handles of Open MPI are addresses: of the library's objects, or of the copies that a program has.
OF_OPEN_MPI = """
#include <mpi.h>
#include <stdio.h>
static int wrong;
static void fail(int line, const char *what) { wrong++; printf("line %d: %s\\n", line, what); }
#define CHECK(condition) ((condition) ? (void)0 : fail(__LINE__, #condition))
static void add(void *in, void *out, int *count, MPI_Datatype *type) {
    CHECK(*type == MPI_INT);
    for (int i = 0; i < *count; i++) ((int *)out)[i] += ((int *)in)[i];
}
static void heard(MPI_Comm *comm, int *code, ...) { (void)code; CHECK(*comm == MPI_COMM_SELF); wrong -= 100; }
static int copied(MPI_Comm comm, int key, void *state, void *value, void *copy, int *flag) {
    (void)key; (void)state; (void)value; (void)copy;
    CHECK(comm == MPI_COMM_WORLD);
    return *flag = 0, MPI_SUCCESS;
}
int main(int argc, char **argv) {
    int rank, size, one = 1, sum = 0, flag, key, class;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Datatype types[] = {MPI_CHAR, MPI_INT, MPI_DOUBLE, MPI_BYTE, MPI_AINT, MPI_UINT64_T, MPI_DOUBLE_INT, MPI_PACKED,
                            MPI_LONG_LONG, MPI_CXX_BOOL, MPI_C_DOUBLE_COMPLEX, MPI_INTEGER, MPI_2REAL, MPI_COUNT};
    for (unsigned i = 0; i < sizeof types / sizeof *types; i++) {
        int integers, addresses, others, combiner;
        CHECK(MPI_Type_f2c(MPI_Type_c2f(types[i])) == types[i]);
        CHECK(!MPI_Type_get_envelope(types[i], &integers, &addresses, &others, &combiner));
        CHECK(combiner == MPI_COMBINER_NAMED);
        MPI_Datatype pair[2] = {MPI_INT, types[i]}, made, found[2];
        int lengths[2] = {1, 2}, contents[3];
        MPI_Aint places[2] = {0, 64}, told[2];
        CHECK(!MPI_Type_create_struct(2, lengths, places, pair, &made));
        CHECK(!MPI_Type_get_contents(made, 3, 2, 2, contents, told, found));
        CHECK(found[0] == MPI_INT && found[1] == types[i]);
        CHECK(!MPI_Type_free(&made) && made == MPI_DATATYPE_NULL);
    }
    MPI_Op op;
    MPI_Op_create(add, 1, &op);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, op, MPI_COMM_WORLD);
    CHECK(sum == size);
    MPI_Op_free(&op);
    CHECK(op == MPI_OP_NULL);
    // A request that is over at once, one that is not, and none.
    MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[3];
    int got = 0;
    MPI_Irecv(&got, 1, MPI_INT, (rank + 1) % size, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&one, 1, MPI_INT, (rank + size - 1) % size, 3, MPI_COMM_WORLD, &requests[2]);
    CHECK(requests[0] != MPI_REQUEST_NULL && requests[2] != MPI_REQUEST_NULL);
    MPI_Waitall(3, requests, statuses);
    CHECK(got == 1 && statuses[0].MPI_SOURCE == (rank + 1) % size && statuses[0].MPI_TAG == 3);
    for (int i = 0; i < 3; i++) CHECK(requests[i] == MPI_REQUEST_NULL);
    // What the library calls gets the program's handles.
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(heard, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    MPI_Send(&one, -1, MPI_INT, 0, 0, MPI_COMM_SELF);
    CHECK(wrong == -100);
    wrong = 0;
    MPI_Comm_create_keyval(copied, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, &one);
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    void *value;
    MPI_Comm_get_attr(copy, key, &value, &flag);
    CHECK(!flag);
    MPI_Comm_free(&copy);
    CHECK(copy == MPI_COMM_NULL);
    // What is no handle is told, and followed nowhere.
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm bad[] = {(MPI_Comm)0, (MPI_Comm)1, (MPI_Comm)0x101, (MPI_Comm)&one, (MPI_Comm)-1L, (MPI_Comm)MPI_INT,
                      MPI_COMM_NULL};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(!MPI_Error_class(MPI_Comm_size(bad[i], &size), &class));
        CHECK(class == MPI_ERR_COMM);
    }
    MPI_Finalize();
    if (!wrong) printf("rank %d has its handles\\n", rank);
    return wrong;
}
"""


def programs_of_open_mpi_run_as_they_are(runner):
    folder = folder_of(runner, OPEN_MPI)
    kinds = {
        "open": ["-O2"],
        # Predefined handles are copies in the program.
        "open-fixed": ["-no-pie", "-fno-pie"],
        "open-lazy": ["-Wl,-z,lazy"],
        # They are in the library.
        "open-pic": ["-fPIC", "-mno-direct-extern-access"],
    }
    for name, flags in kinds.items():
        program = for_open_mpi(folder / name, *flags, source=OF_OPEN_MPI)
        code, output, _ = plainly(runner, "-n", 2, program)
        assert code == 0 and "rank 1 has its handles" in output and "Symbol" not in output, f"{name}: {code}\n{output}"
        code, output, _ = run(combray(runner, "info", program))
        assert code == 0 and "libmpi.so.40" in output, output


def a_library_loaded_later_is_found(runner):
    """Loads the library as Python does, whose extension modules the launcher does not inspect."""
    folder = folder_of(runner)
    worlds = {
        "libmpi.so.12": "(void *)0x44000000",
        "libmpi.so.40": 'dlsym(mpi, "ompi_mpi_comm_world")',
    }
    for library, world in worlds.items():
        program = compile_c(folder / f"loads-{library}", LOADER % (library, world), "-x", "none", "-ldl")
        code, output, _ = plainly(runner, "-n", 2, program)
        assert code == 0 and "loaded by rank 1" in output, f"{library}: {output}"


UNVERSIONED = """
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
    void *first = dlopen("%s", RTLD_NOW | RTLD_LOCAL), *mpi = dlopen("libmpi.so", RTLD_NOW | RTLD_GLOBAL);
    if (!first || !mpi) return puts(dlerror()), 2;
    if (dlsym(mpi, "PMPI_Init") != dlsym(first, "PMPI_Init")) return puts("two libraries"), 3;
    int (*init)(int *, char ***) = (int (*)(int *, char ***))dlsym(mpi, "MPI_Init");
    int (*finalize)(void) = (int (*)(void))dlsym(mpi, "MPI_Finalize");
    if (init(&argc, &argv) || finalize()) return 4;
    puts("one library");
    return 0;
}
"""


def a_name_without_a_version_leads_to_the_library_of_the_program(runner):
    """As GPAW and Rmpi load libmpi.so beside what they are linked with."""
    folder = folder_of(runner, OPEN_MPI)
    for name, library in {"libmpi.so.12": MPICH, "libmpi.so.40": OPEN_MPI}.items():
        source = UNVERSIONED % name
        loads = compile_c(folder / f"unversioned-{name}", source, "-x", "none", "-ldl")
        # The library that the name resolves to without Combray shows which library the program
        # expects.
        code, output, _ = plainly(runner, "-n", 2, loads, LD_LIBRARY_PATH=f"{library}/lib")
        assert code == 0 and output.count("one library") == 2, f"{name} loaded later: {output}"
        linked = for_mpich(folder / f"unversioned-linked-{name}", "-Wl,--no-as-needed", source=source, library=library)
        for force in ([], ["--force-library"]):
            code, output, _ = plainly(runner, *force, "-n", 2, linked)
            assert code == 0 and output.count("one library") == 2, f"{name}, linked, {force}: {output}"


TOOL = """
#include <mpi.h>
#include <stdio.h>
int MPI_Finalize(void) { int rank; PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    printf("tool of rank %d\\n", rank); fflush(stdout); return PMPI_Finalize(); }
"""
HELLO = """
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("rank %d of %d\\n", rank, size);
    return MPI_Finalize();
}
"""


def calls_of_programs_of_other_libraries_can_be_interposed(runner):
    for name, library in {"mpich": MPICH, "open-mpi": OPEN_MPI}.items():
        folder = folder_of(runner, library)
        tool = for_mpich(folder / f"tool-{name}.so", "-shared", "-fPIC", source=TOOL, library=library)
        program = for_mpich(folder / f"watched-{name}", source=HELLO, library=library)
        code, output, _ = plainly(runner, "-n", 2, "env", f"LD_PRELOAD={tool}", program)
        assert code == 0 and "tool of rank 1" in output and "rank 1 of 2" in output, f"{name}: {output}"


IN_CXX = """
#include <mpi.h>
#include <cstdio>
#include <vector>
int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    std::vector<int> all(size);
    MPI_Allgather(&rank, 1, MPI_INT, all.data(), 1, MPI_INT, MPI_COMM_WORLD);
    if (all.back() == size - 1) std::printf("rank %d of %d in C++\\n", rank, size);
    std::fflush(stdout);
    if (argc > 1) MPI::Win().Free();
    return MPI_Finalize();
}
"""


def programs_in_cxx_of_open_mpi_run_as_they_are(runner):
    """All that include the header of Open MPI 4.1 refer to the old interface in C++, which few call."""
    needs_combray(runner)
    if not (OPEN_MPI_4 / "complete").exists():
        raise Skip("no Open MPI 4.1 (scripts/setup.sh test unpacks it)")
    root = OPEN_MPI_4 / "root/usr/lib/x86_64-linux-gnu"
    folder = runner.build / "binaries"
    folder.mkdir(exist_ok=True)
    program = folder / "in-cxx"
    words = ["g++", f"-I{root}/openmpi/include", "-x", "c++", "-", "-x", "none", f"-L{root}", "-l:libmpi_cxx.so.40",
             "-l:libmpi.so.40", "-Wl,--unresolved-symbols=ignore-in-shared-libs", "-o", str(program)]
    done = subprocess.run(words, input=IN_CXX, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    code, output, _ = plainly(runner, "-n", 2, program)
    assert code == 0 and "rank 1 of 2 in C++" in output, output
    code, output, _ = plainly(runner, "-n", 2, program, "called")
    assert code != 0 and "calls the C++ interface of MPI" in output, output


def a_program_that_brings_its_own_library_is_reported(runner):
    folder = folder_of(runner)
    program = for_mpich(folder / "brings", f"-Wl,--disable-new-dtags,-rpath,{MPICH}/lib")
    code, output, _ = run(combray(runner, "info", program))
    assert code == 0 and f"{MPICH}/lib/libmpi.so.12" in output and "--force-library" in output, output
    code, output, _ = plainly(runner, "-n", 1, program, "hello")
    assert "brings its own libmpi.so.12" in output, output
    code, output, _ = plainly(runner, "--force-library", "-n", 2, program, "hello")
    assert code == 0 and "rank 1 of 2" in output and "brings" not in output, output


def stub(folder, soname):
    return compile_c(folder / soname, "int PMPI_Init(int *a, char ***b) { (void)a; (void)b; return 0; }\n"
                     "int MPI_Init(int *a, char ***b) { return PMPI_Init(a, b); }\n",
                     "-shared", "-fPIC", f"-Wl,-soname,{soname}")


def what_cannot_be_stood_in_for_is_told(runner):
    folder = folder_of(runner)
    main = "int MPI_Init(int *, char ***); int main(void) { return MPI_Init(0, 0); }\n"
    unknown = compile_c(folder / "unknown", main, "-x", "none", stub(folder, "libmpi.so.20"),
                        f"-Wl,-rpath,{folder}")
    code, output, _ = plainly(runner, "-n", 1, unknown)
    assert code == 0 and f"{unknown} needs libmpi.so.20" in output and "mpicc" in output, output

    newer = compile_c(folder / "newer", main, "-x", "none", stub(folder, "libmpi_abi.so.2"), f"-Wl,-rpath,{folder}")
    code, output, _ = plainly(runner, "-n", 1, newer)
    assert code == 0 and f"{newer} needs libmpi_abi.so.2" in output and "it has libmpi_abi.so.1," in output, output

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


BOTH = """
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    if (!dlopen("%s", RTLD_NOW | RTLD_LOCAL)) return puts(dlerror()), 2;
    MPI_Init(&argc, &argv);
    puts("it goes on");
    return MPI_Finalize();
}
"""


def a_second_library_in_a_process_is_reported(runner):
    folder = folder_of(runner)
    # Loaded by the program itself, as by a module of Python: one of our own kind, and any.
    for name, other in {"later": stub(folder, "libmpi.so.20"),
                        "another": runner.mpiexec[0].replace("bin/mpiexec", "lib/combray/open-mpi/libmpi.so.40")}.items():
        program = for_mpich(folder / name, source=BOTH % other)
        code, output, _ = plainly(runner, "-n", 1, program)
        assert code != 0 and "build all of them for one library" in output and "it goes on" not in output, output
        # Combray's own file is not the stranger.
        if name == "another":
            assert "two libraries of Combray, one for the ABI of MPICH and libmpi.so.40" in output, output
            assert other not in output, output
        else:
            assert f"loaded another MPI library, {other}" in output, output


FLOATS = """
#include <mpi.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
    int rank, size, bytes, length;
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    _Float16 own[3] = {(_Float16)(rank + 0.5), (_Float16)-rank, 2}, sum[3], most[3];
    MPI_Allreduce(own, sum, 3, MPIX_C_FLOAT16, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(own, most, 3, MPIX_C_FLOAT16, MPI_MAX, MPI_COMM_WORLD);
    MPI_Type_size(MPIX_C_FLOAT16, &bytes);
    MPI_Type_get_name(MPIX_C_FLOAT16, name, &length);
    int is_right = sum[0] == (_Float16)(size * size / 2.0) && sum[2] == 2 * size && most[0] == (_Float16)(size - 0.5)
        && most[1] == 0 && bytes == 2 && !strcmp(name, "MPIX_C_FLOAT16");
    if (is_right) printf("rank %d has short floats\\n", rank);
    return MPI_Finalize();
}
"""


def programs_of_mpich_have_numbers_of_16_bits(runner):
    program = for_mpich(folder_of(runner) / "floats", source=FLOATS)
    code, output, _ = plainly(runner, "-n", 3, program)
    assert code == 0 and output.count("has short floats") == 3, output


SCENARIOS = [
    programs_of_mpich_run_as_they_are,
    programs_of_open_mpi_run_as_they_are,
    a_library_loaded_later_is_found,
    a_name_without_a_version_leads_to_the_library_of_the_program,
    calls_of_programs_of_other_libraries_can_be_interposed,
    programs_in_cxx_of_open_mpi_run_as_they_are,
    counts_of_partitions_are_large,
    removed_datatypes_of_mpich_mark_bounds,
    a_program_that_brings_its_own_library_is_reported,
    what_cannot_be_stood_in_for_is_told,
    a_second_library_in_a_process_is_reported,
    programs_of_mpich_have_numbers_of_16_bits,
]
