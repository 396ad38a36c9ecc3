"""Programs that were compiled for another MPI, which is installed and found first without Combray's launcher: they
use Combray's library however they are started, or the job fails with a message."""

import os
import pathlib
import shlex
import sys

from harness.scenarios import Skip, needs_combray, run

from .binaries import MPICH, OPEN_MPI, OPEN_MPI_4, compile_c

DEBIAN = "root/usr/lib/x86_64-linux-gnu"
# The libraries of other installations, as a user has them in LD_LIBRARY_PATH.
OTHERS = [OPEN_MPI_4 / DEBIAN, OPEN_MPI_4.with_name("mpich") / DEBIAN, OPEN_MPI / "lib", MPICH / "lib"]
HELLO = """
#include <mpi.h>
#include <stdio.h>
#include <string.h>
int hello(void) {
    int rank, size, length;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Init(0, 0);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_library_version(version, &length);
    printf("rank %d of %d with %s\\n", rank, size, strstr(version, "Combray") ? "Combray" : "another library");
    fflush(stdout);
    return MPI_Finalize();
}
"""
MAIN = "int main(void) { return hello(); }\n"
LOADING = """
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
    void *plugin = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
    if (!plugin) return puts(dlerror()), 2;
    return ((int (*)(void))dlsym(plugin, "hello"))();
}
"""
# Later than the launcher reports ranks that have not joined the job.
LATE_SECONDS = 9
CONSOLE_SCRIPT = """#!{python}
import os
os.execv({program!r}, [{program!r}])
"""
PYTHON_SCRIPT = """
import ctypes, sys
sys.exit(ctypes.CDLL({plugin!r}).hello())
"""


class Kind:
    """A binary interface: its header, its library, and an installation of another implementation."""

    def __init__(self, runner, name, folder):
        prefix = pathlib.Path(runner.mpiexec[0]).parent.parent
        header, library, self.other = {
            "mpich": (MPICH, "libmpi.so.12", MPICH),
            "open-mpi": (OPEN_MPI, "libmpi.so.40", OPEN_MPI),
            "standard": (prefix, "libmpi_abi.so.1", MPICH),
        }[name]
        own = prefix / "lib" if name == "standard" else prefix / "lib/combray" / name
        self.own = own / library
        self.name, self.folder, self.include = name, folder, f"-I{header}/include"
        self.link = ["-x", "none", f"-L{self.other}/lib", f"-l:{library}", "-Wl,--unresolved-symbols=ignore-in-shared-libs"]

    def program(self, name, *flags):
        return compile_c(self.folder / f"{name}-{self.name}", HELLO + MAIN, self.include, *self.link, *flags)

    def plugin(self):
        target = self.folder / f"plugin-{self.name}.so"
        return compile_c(target, HELLO, self.include, "-shared", "-fPIC", *self.link)

    def with_rpath(self):
        """A program whose own folder of libraries comes before those that a launcher can set."""
        return self.program("rpath", f"-Wl,--disable-new-dtags,-rpath,{self.other}/lib")

    def in_prefix(self):
        """A program of a prefix as conda lays it out: the path to the prefix's libraries, among which is none of MPI,
        comes before those that a launcher can set."""
        folder = self.folder / f"conda-{self.name}"
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        (folder / "lib").mkdir(exist_ok=True)
        program = self.program("of-conda", "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../lib")
        os.replace(program, folder / "bin/program")
        return folder / "bin/program"

    def script(self, name, text):
        path = self.folder / f"{name}-{self.name}"
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    def ways(self):
        """The words that start the program, by the name of the way."""
        program, plugin = self.program("plain"), self.plugin()
        loading = compile_c(self.folder / "loading", LOADING, "-x", "none", "-ldl")
        return {
            "direct": [program],
            "env": ["env", "A=1", program],
            "nice": ["nice", program],
            "shell": ["sh", "-c", f"true; {shlex.quote(program)}; exit $?"],
            "script with exec": [self.script("script", f"#!/bin/sh\nexec {shlex.quote(program)}\n")],
            "script in a script": ["sh", self.script("outer", f"sh {self.script('inner', program)}\n")],
            "Python": [sys.executable, self.script("python.py", PYTHON_SCRIPT.format(plugin=plugin))],
            "console script": [self.script("console", CONSOLE_SCRIPT.format(python=sys.executable, program=program))],
            "RUNPATH": [self.program("runpath", f"-Wl,--enable-new-dtags,-rpath,{self.other}/lib")],
            "plug-in": [loading, plugin],
            "prefix of conda": [self.in_prefix()],
        }


def kinds(runner):
    needs_combray(runner)
    for library in (MPICH, OPEN_MPI):
        if not (library / "include" / "mpi.h").exists():
            raise Skip(f"no {library.name} (scripts/setup.sh test installs it)")
    folder = runner.build / "starting"
    folder.mkdir(exist_ok=True)
    return [Kind(runner, name, folder) for name in ("mpich", "open-mpi", "standard")]


def beside_others(runner, *words, **more):
    """A job where the user's LD_LIBRARY_PATH has other installations of MPI."""
    environment = dict(os.environ, LD_LIBRARY_PATH=os.pathsep.join(map(str, OTHERS)), **more)
    return run([*runner.mpiexec, *map(str, words)], env=environment, timeout=60)


def every_way_of_starting_leads_to_combray(runner):
    for kind in kinds(runner):
        for way, words in kind.ways().items():
            code, output, _ = beside_others(runner, "-n", 2, *words)
            lines = sorted(line for line in output.splitlines())
            expected = [f"rank {rank} of 2 with Combray" for rank in range(2)]
            assert code == 0 and lines == expected, f"{kind.name}, {way}: {code}\n{output}"


def a_library_that_a_program_brings_is_replaced_on_request(runner):
    for kind in kinds(runner):
        program = kind.with_rpath()
        for words in ([program], ["env", "A=1", program], ["sh", "-c", f"true; {program}"]):
            code, output, _ = beside_others(runner, "--force-library", "-n", 2, *words)
            assert code == 0 and output.count("of 2 with Combray") == 2, f"{kind.name}, {words}: {code}\n{output}"


def ranks_that_run_alone_fail_the_job(runner):
    """Open MPI finds no other process without its own launcher, and reports success."""
    kind = kinds(runner)[1]
    program = kind.with_rpath()
    for words in ([program], ["sh", "-c", f"true; {program}"], ["sh", kind.script("lone", f"{program}\nexit 0\n")]):
        code, output, _ = beside_others(runner, "-n", 2, *words)
        assert code == 1 and "with another library" in output, f"{words}: {code}\n{output}"
        for part in ("libmpi.so.40", "runs alone, as rank 0 of 1", "has not joined the job of 2 ranks", f"LD_PRELOAD={kind.own}"):
            assert part in output, f"{words}: no {part!r}\n{output}"
        assert output.count("runs alone") == 1, output
        code, output, _ = beside_others(runner, "-x", f"LD_PRELOAD={kind.own}", "-n", 2, *words)
        assert code == 0 and output.count("of 2 with Combray") == 2, f"the remedy, {words}: {code}\n{output}"
    # One that takes long is reported while it runs.
    long = compile_c(kind.folder / "long", HELLO + "#include <unistd.h>\nint main(void) { return hello() + (int)sleep(60); }\n",
                     kind.include, *kind.link, f"-Wl,--disable-new-dtags,-rpath,{kind.other}/lib")
    code, output, _ = beside_others(runner, "--timeout", LATE_SECONDS, "-n", 2, "sh", "-c", f"true; {long}")
    assert code not in (0, 1) and output.count("runs alone") == 1, f"{code}\n{output}"
    # A single rank runs alone as it should.
    code, output, _ = beside_others(runner, "-n", 1, "sh", "-c", f"true; {program}")
    assert code == 0 and "rank 0 of 1" in output and "runs alone" not in output, output


def programs_that_use_no_mpi_run_without_a_message(runner):
    kind = kinds(runner)[2]
    linked = compile_c(kind.folder / "linked-only", "#include <unistd.h>\nint main(void) { return usleep(400000); }\n",
                       "-x", "none", "-Wl,--no-as-needed", *kind.link)
    for words in (["hostname"], ["sh", "-c", "sleep 0.4; echo done"], [linked]):
        code, output, _ = beside_others(runner, "-n", 2, *words)
        assert code == 0 and "combray" not in output.lower(), f"{words}: {code}\n{output}"


def the_users_choice_for_python_is_kept(runner):
    kind = kinds(runner)[0]
    show = ["sh", "-c", 'echo "library=$MPI4PY_LIBMPI interface=$MPI4PY_MPIABI"']
    code, output, _ = beside_others(runner, "-n", 2, *show)
    prefix = kind.own.parents[3]
    assert code == 0 and output.count(f"library={prefix}/lib/combray/") == 2, output
    for name in ("MPI4PY_LIBMPI", "MPI4PY_MPIABI"):
        code, output, _ = beside_others(runner, "-n", 2, *show, **{name: "mine"})
        assert code == 0 and output.count("mine") == 2 and "/combray/" not in output, output


def processes_of_agents_find_combray_too(runner):
    """The agents of two other hosts run on this machine."""
    kind = kinds(runner)[1]
    reach = kind.script("reach", '#!/bin/sh\nshift\nexec sh -c "$*"\n')
    options = ["--launch-agent", reach, "--hosts", "one:1,two:1", "-n", 2]
    for program, expected in ((kind.program("plain"), 0), (kind.with_rpath(), 1)):
        code, output, _ = beside_others(runner, *options, "sh", "-c", f"true; {program}")
        assert code == expected and ("runs alone" in output) == bool(expected), f"{code}\n{output}"
        assert expected or output.count("of 2 with Combray") == 2, output


def another_installation_of_combray_that_the_user_chose_is_kept(runner):
    kind = kinds(runner)[2]
    chosen = kind.folder / "chosen"
    chosen.mkdir(exist_ok=True)
    (chosen / kind.own.name).unlink(missing_ok=True)
    (chosen / kind.own.name).symlink_to(kind.own)
    show = ["sh", "-c", 'echo "$LD_LIBRARY_PATH"']
    for given, has_own in ((chosen, False), (MPICH / "lib", True)):
        code, output, _ = run([*runner.mpiexec, "-n", "1", *show], env=dict(os.environ, LD_LIBRARY_PATH=str(given)))
        folders = output.strip().split(":")
        assert code == 0 and folders[-1] == str(given), output
        assert (str(kind.own.parent) in folders) == has_own, output


SCENARIOS = [
    processes_of_agents_find_combray_too,
    every_way_of_starting_leads_to_combray,
    a_library_that_a_program_brings_is_replaced_on_request,
    ranks_that_run_alone_fail_the_job,
    programs_that_use_no_mpi_run_without_a_message,
    the_users_choice_for_python_is_kept,
    another_installation_of_combray_that_the_user_chose_is_kept,
]
