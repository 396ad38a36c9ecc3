"""Files of one name that processes see differently, as on hosts that do not share a file system; processes that
are killed amid a write."""

import subprocess
import tempfile

from harness.scenarios import Skip, check_survivors, needs_combray, run

from . import hosts

# Each process gets a disk of its own there, which no other process sees.
FOLDER = "/mnt"
OWN_DISK = f"mount -t tmpfs none {FOLDER} && echo $COMBRAY_RANK > {FOLDER}/data"
PROGRAM = 'exec "$0" "$@"'


def own_disks(runner):
    """Words that start the program with a disk of its own; at their end the program and its argument."""
    needs_combray(runner)
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        raise Skip("no right to make mount namespaces")
    program = str(runner.build / "files_elsewhere")
    return ["unshare", "-m", "sh", "-c", f"{OWN_DISK} && {PROGRAM}", program, f"{FOLDER}/data"]


def different_files_are_reported(command):
    code, output, _ = run(command, timeout=60.0)
    assert code == 0 and output.startswith("not the same: "), output
    assert f'"{FOLDER}/data" is not the same file on all hosts: rank 0 on ' in output, output
    return output


def processes_with_different_files_are_reported(runner):
    words = own_disks(runner)
    for count in (2, 3):
        different_files_are_reported([*runner.mpiexec, "-n", str(count), *words])
    # And those that have one file are not.
    with tempfile.TemporaryDirectory() as folder:
        code, output, _ = run([*runner.mpiexec, "-n", "3", words[-2], f"{folder}/data"])
    assert code == 0 and output.startswith("the same: "), output


def hosts_with_different_files_are_reported(runner):
    words = own_disks(runner)
    with hosts.hosts(runner, 2) as here:
        output = different_files_are_reported(here.job("box1:1,box2:1", *words))
        assert "rank 0 on box1 and rank 1 on box2" in output, output


def who_is_killed_amid_a_write_holds_up_nobody(runner):
    needs_combray(runner)
    faults = f"LD_PRELOAD={runner.build / 'files_faulty.so'}"
    cases = [(3, what) for what in ("atomic", "nonblocking", "sieving", "shared", "owner", "aggregator", "member")]
    for count, what in [*cases, (2, "atomic"), (5, "sieving"), (5, "aggregator")]:
        words = ["--keep-going", "-n", str(count), "env", faults, str(runner.build / "files_survivors"), what]
        code, output, _ = run([*runner.mpiexec, *words])
        assert code == 137, f"{what}: exit code {code}\n{output}"
        victim = 0 if what == "owner" else count - 1
        check_survivors(output, set(range(count)) - {victim}, what)
        assert f"rank {victim} survives" not in output, f"{what}\n{output}"


SCENARIOS = [
    processes_with_different_files_are_reported,
    hosts_with_different_files_are_reported,
    who_is_killed_amid_a_write_holds_up_nobody,
]
