"""Processes whose /proc/PID/fd is closed to each other: tests/c/closed_proc.c, started by an ordinary user, who
may inspect fewer processes than root; and processes between which no descriptors can be passed either."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

from harness.scenarios import END_SECONDS_MAX, Skip, needs_combray, run

# No user has this number.
USER = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]


@contextlib.contextmanager
def for_everybody(runner, mode=0o755):
    """The program at a place where an ordinary user can start it."""
    needs_combray(runner)
    if os.geteuid() != 0:
        raise Skip("needs root, to become another user")
    launcher = shutil.which(runner.mpiexec[0])
    if subprocess.run([*USER, launcher, "--version"], capture_output=True).returncode != 0:
        raise Skip(f"{launcher} cannot be started by others")
    # Other users cannot read the folder of the tests.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        program = pathlib.Path(folder) / "closed_proc"
        shutil.copy(runner.build / "closed_proc", program)
        program.chmod(mode)
        os.chmod(folder, 0o755)
        yield str(program)


def works(runner, *command):
    code, output, _ = run([*USER, *runner.mpiexec, "-n", "3", *command], timeout=60, env=dict(os.environ, HOME="/tmp"))
    assert code == 0, f"{command}: exit code {code}\n{output}"


def who_forbids_tracing_is_reached(runner):
    with for_everybody(runner) as program:
        for mode in ("nobody", "all", "odd", "later"):
            works(runner, program, mode)


def executables_that_cannot_be_read_are_reached(runner):
    with for_everybody(runner, mode=0o711) as program:
        works(runner, program, "nobody")


def executables_with_capabilities_are_reached(runner):
    with for_everybody(runner) as program:
        given = subprocess.run(["setcap", "cap_net_bind_service+p", program], capture_output=True, text=True)
        if given.returncode != 0:
            raise Skip(f"needs file capabilities: {given.stderr.strip()}")
        # A capability that the user can never have would keep the program from starting.
        allowed = [word for word in USER if not word.startswith("--bounding-set")]
        command = [*allowed, *runner.mpiexec, "-n", "3", program, "nobody"]
        code, output, _ = run(command, timeout=60, env=dict(os.environ, HOME="/tmp"))
        assert code == 0, f"exit code {code}\n{output}"


def each_in_its_own_user_namespace_is_reached(runner):
    with for_everybody(runner) as program:
        if subprocess.run([*USER, "unshare", "-Uc", "true"], capture_output=True).returncode != 0:
            raise Skip("needs user namespaces")
        for options in (["-Uc"], ["-Ur"], ["-U"], ["-Ucp", "--fork", "--mount-proc"]):
            works(runner, "unshare", *options, program, "nobody")
        works(runner, "sh", "-c", 'test "$PMI_RANK" = 1 && exec unshare -Uc "$0" nobody; exec "$0" nobody', program)


@contextlib.contextmanager
def two_networks():
    """The words that start a program in each of two network namespaces with a cable between them."""
    names = [f"combray-{os.getpid()}-{end}" for end in "ab"]
    ip = lambda *words: subprocess.run(["ip", *words], capture_output=True, text=True)
    if ip("netns", "add", names[0]).returncode != 0:
        raise Skip("needs network namespaces")
    try:
        made = [ip("netns", "add", names[1]), ip("-n", names[0], "link", "add", "eth0", "type", "veth", "peer", "name",
                                                 "eth0", "netns", names[1])]
        for number, name in enumerate(names, 1):
            made += [ip("-n", name, "addr", "add", f"10.99.7.{number}/24", "dev", "eth0"),
                     ip("-n", name, "link", "set", "eth0", "up")]
        if any(one.returncode != 0 for one in made):
            raise Skip("needs a pair of interfaces: " + " ".join(one.stderr for one in made))
        end = time.monotonic() + END_SECONDS_MAX
        while not all("state UP" in ip("-n", name, "link", "show", "eth0").stdout for name in names):
            assert time.monotonic() < end, "the interfaces do not come up"
            time.sleep(0.01)
        yield [["ip", "netns", "exec", name] for name in names]
    finally:
        for name in names:
            ip("netns", "delete", name)


def the_network_is_used_where_no_descriptor_can_be_passed(runner):
    with for_everybody(runner) as program, two_networks() as (one, other):
        inside = ["unshare", "-Uc", program, "nobody"]
        code, output, _ = run([*runner.mpiexec, "-n", "1", *one, *inside, ":", "-n", "1", *other, *inside], timeout=60)
        assert code == 0, f"exit code {code}\n{output}"
        # Without a network between them the error explains why they can share no memory.
        alone = ["unshare", "-Ucn", program, "nobody"]
        code, output, _ = run([*runner.mpiexec, "-n", "2", *alone], timeout=60)
        for words in ("/proc/PID/fd is closed", "different network namespaces", "no network interface"):
            assert code != 0 and words in output, f"exit code {code}, not told: {words}\n{output}"


SCENARIOS = [
    who_forbids_tracing_is_reached,
    executables_that_cannot_be_read_are_reached,
    executables_with_capabilities_are_reached,
    each_in_its_own_user_namespace_is_reached,
    the_network_is_used_where_no_descriptor_can_be_passed,
]
