"""Systems that refuse something: calls, memory, descriptors, /proc, room for output.

A job uses another mechanism, or reports what was refused, by which part of the system, and what to
do. Nothing crashes, and no process waits for ever.
"""

import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

from harness.scenarios import END_SECONDS_MAX, Skip, needs_combray, program, run, start, wait_until_gone

# Two ways in which filters of system calls refuse: what containers do, and what old kernels do.
ERRORS = ("EPERM", "ENOSYS")


def refused(runner, *what, mode="traffic", count=3, options=()):
    """A job to whose launcher and processes the system refuses something: exit code, output."""
    command = [str(runner.build / "refuse"), *what, "--", *runner.mpiexec, *options, "-n", str(count),
               program(runner), mode]
    code, output, _ = run(command, timeout=60)
    check_words(output)
    return code, output


def check_words(output):
    """What no refusal may lead to: a crash of ours."""
    for word in ("panicked", "SIGSEGV", "SIGBUS", "SIGABRT", "stack backtrace"):
        assert word not in output, f"{word}:\n{output}"


def works_without(runner, *calls):
    needs_combray(runner)
    for error in ERRORS:
        code, output = refused(runner, *(f"{call}={error}" for call in calls))
        assert code == 0, f"{calls} with {error}: exit code {code}\n{output}"


def is_reported(runner, call, *words):
    """The job ends, and its message names the call, what refuses it, and what to do."""
    needs_combray(runner)
    for error in ERRORS:
        code, output = refused(runner, f"{call}={error}")
        assert code not in (0, 125), f"{call} with {error}: exit code {code}\n{output}"
        for word in (call, "container", *words):
            assert re.search(word, output), f"{call} with {error}: the message does not say {word}:\n{output}"


def no_process_vm_readv(runner):
    works_without(runner, "process_vm_readv", "process_vm_writev")


def no_membarrier(runner):
    works_without(runner, "membarrier")


def no_pidfd_open(runner):
    works_without(runner, "pidfd_open")


def no_getrandom(runner):
    works_without(runner, "getrandom")


def no_affinity(runner):
    works_without(runner, "sched_getaffinity", "sched_setaffinity")
    # Two have cores enough to be bound.
    for options in ((), ("--bind-to", "core")):
        code, output = refused(runner, "sched_getaffinity=EPERM", count=2, options=options)
        assert code == 0 or options and "sched_getaffinity" in output, f"exit code {code}\n{output}"


def no_setaffinity(runner):
    """The default binding was not requested: its refusal is a note; the refusal of a requested
    binding is an error."""
    needs_combray(runner)
    for error in ERRORS:
        refusal = f"sched_setaffinity={error}"
        for options in ((), ("--bind-to", "none"), ("--report-bindings",), ("-map-by", ":oversubscribe")):
            code, output = refused(runner, refusal, count=2, options=options)
            assert code == 0, f"{options}: exit code {code}\n{output}"
            assert ("sched_setaffinity" in output) == ("none" not in options), f"{options}\n{output}"
            assert output.count("They start unbound") <= 1, f"{options}\n{output}"
        for options in (("--bind-to", "core"), ("--map-by", "core"), ("--bind-to", "hwthread")):
            code, output = refused(runner, refusal, count=1, options=options)
            for word in ("sched_setaffinity", "container"):
                assert code not in (0, 125) and word in output, f"{options}: exit code {code}, not {word}\n{output}"


def no_memfd_create(runner):
    is_reported(runner, "memfd_create", "shared segment")


def no_epoll(runner):
    is_reported(runner, "epoll_create1")


def no_signalfd(runner):
    needs_combray(runner)
    for error in ERRORS:
        code, output = refused(runner, f"signalfd4={error}")
        assert code not in (0, 125) and "signalfd" in output and "container" in output, f"{code}\n{output}"


def no_prctl(runner):
    is_reported(runner, "prctl")


def no_subreaper(runner):
    """Emulators know other uses of prctl, but not this one: the job runs, and processes whose own parents
    live end with it."""
    works_without(runner, "PR_SET_CHILD_SUBREAPER")
    with tempfile.TemporaryDirectory(dir=runner.build) as folder:
        sleeper = pathlib.Path(folder).resolve() / "sleeper"
        subprocess.run(["cp", shutil.which("sleep"), sleeper], check=True)
        command = [str(runner.build / "refuse"), "PR_SET_CHILD_SUBREAPER=EINVAL", "--", *runner.mpiexec, "-n", "2", "--timeout", "1",
                   "sh", "-c", '"$0" 60 & echo started; wait', str(sleeper)]
        code, output, _ = run(command, timeout=60)
        assert code == 124 and output.count("started\n") == 2, f"exit code {code}\n{output}"
        check_words(output)
        wait_until_gone(sleeper)


def no_process_groups(runner):
    is_reported(runner, "setpgid")


def no_pipes(runner):
    is_reported(runner, "pipe2")


def no_socket_pairs(runner):
    is_reported(runner, "socketpair")


def no_dev(runner):
    code, output = in_namespace(runner, "mount -t tmpfs none /dev", "hello")
    assert code == 0 or "/dev" in output, f"exit code {code}\n{output}"
    # Programs that use no file there work.
    command = shlex.join([*runner.mpiexec, "-n", "2", "sh", "-c", "cat; echo here"])
    code, output, _ = run(["unshare", "-m", "sh", "-c", f"mount -t tmpfs none /dev && exec {command}"], timeout=60)
    assert code == 0 and output.count("here") == 2, f"exit code {code}\n{output}"


def little_stack(runner):
    """The launcher works with a small stack; a program may need a larger one, and `echo` does not."""
    needs_combray(runner)
    command = shlex.join([*runner.mpiexec, "-n", "2", "echo", "here"])
    for kibibytes in (64, 128):
        code, output, _ = run(["sh", "-c", f"ulimit -s {kibibytes} && exec {command}"], timeout=60)
        check_words(output)
        assert code == 0 and output.count("here") == 2, f"{kibibytes} KiB: exit code {code}\n{output}"


def in_namespace(runner, setup, mode="traffic"):
    """A job in a mount namespace of its own, after `setup`."""
    needs_combray(runner)
    command = shlex.join([*runner.mpiexec, "-n", "3", program(runner), mode])
    made = subprocess.run(["unshare", "-m", "true"], capture_output=True, text=True)
    if made.returncode != 0:
        raise Skip(f"needs namespaces: {made.stderr.strip()}")
    code, output, _ = run(["unshare", "-m", "sh", "-c", f"{setup} && exec {command}"], timeout=60)
    check_words(output)
    return code, output


def no_proc(runner):
    """Then processes do not know with which others they could share memory; they use the network.
    """
    code, output = in_namespace(runner, "mount -t tmpfs none /proc")
    assert code == 0, f"exit code {code}\n{output}"


def full_dev_shm(runner):
    code, output = in_namespace(
        runner, "mount -t tmpfs -o size=4k none /dev/shm && { cat /dev/zero > /dev/shm/full 2>/dev/null; true; }")
    assert code == 0, f"exit code {code}\n{output}"


def few_descriptors(runner):
    needs_combray(runner)
    worked = 0
    for count in (4, 6, 8, 10, 14, 20, 28, 64):
        code, output = refused(runner, f"descriptors={count}")
        worked += code == 0
        assert code == 0 or "ulimit -n" in output, f"{count} descriptors: exit code {code}\n{output}"
    assert 0 < worked < 8, "some limits suffice, and some do not"


def little_address_space(runner):
    needs_combray(runner)
    worked = 0
    for mebibytes in (48, 96, 4096):
        code, output = refused(runner, f"address_space={mebibytes << 20}")
        worked += code == 0
        assert code == 0 or len(output.strip()) > 40, f"{mebibytes} MiB: exit code {code} without a word\n{output}"
    assert worked > 0, output


def small_files(runner):
    needs_combray(runner)
    for size in (0, 100_000):
        code, output = refused(runner, f"file_size={size}")
        assert code not in (0, 125, 153) and "ulimit -f" in output, f"{size}: exit code {code}\n{output}"


def no_locked_memory(runner):
    needs_combray(runner)
    code, output = refused(runner, "locked_memory=0")
    assert code == 0, f"exit code {code}\n{output}"


def output_to_a_full_disk(runner):
    """The failure is reported, also by the exit code; the job does not go on without a reader."""
    needs_combray(runner)
    command = [*runner.mpiexec, "-n", "3", program(runner), "lines"]
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert ended.returncode != 0, "the output is lost, and the exit code says that all went well"
    assert "cannot be written" in ended.stderr and "No space left" in ended.stderr, ended.stderr
    check_words(ended.stderr)


def closed_output(runner):
    """Programs run as they do with /dev/null."""
    needs_combray(runner)
    command = shlex.join([*runner.mpiexec, "-n", "3", program(runner), "hello"])
    for closed in (">&-", "2>&-", "<&-", ">&- 2>&- <&-"):
        code, output, _ = run(["sh", "-c", f"{command} {closed}"], timeout=60)
        assert code == 0, f"{closed}: exit code {code}\n{output}"
        check_words(output)


class ControlGroup:
    """A control group that a scenario makes, if it may: of version 2, or of one controller of version 1."""

    def __init__(self, controller):
        top = pathlib.Path("/sys/fs/cgroup")
        self.is_unified = (top / "cgroup.controllers").exists()
        self.path = (top if self.is_unified else top / controller) / f"combray-test-{os.getpid()}-{id(self)}"

    def __enter__(self):
        try:
            self.path.mkdir()
        except OSError as error:
            raise Skip(f"may make no control group: {error}") from None
        return self

    def __exit__(self, *_):
        deadline = time.monotonic() + END_SECONDS_MAX
        while True:
            for process in (self.path / "cgroup.procs").read_text().split():
                os.kill(int(process), signal.SIGKILL)
            try:
                return self.path.rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def freeze(self):
        self._write(*(("cgroup.freeze", "1") if self.is_unified else ("freezer.state", "FROZEN")))

    def thaw(self):
        self._write(*(("cgroup.freeze", "0") if self.is_unified else ("freezer.state", "THAWED")))

    def limit_memory(self, size):
        self._write("memory.max" if self.is_unified else "memory.limit_in_bytes", str(size))

    def give_cores(self, cores):
        if not self.is_unified:
            self._write("cpuset.mems", (self.path.parent / "cpuset.mems").read_text())
        self._write("cpuset.cpus", cores)

    def _write(self, name, value):
        try:
            (self.path / name).write_text(value)
        except OSError as error:
            raise Skip(f"may not write {name}: {error}") from None

    def start(self, command, output):
        """The command, whose processes are all in the group from the beginning."""
        into = f"echo $$ > {self.path}/cgroup.procs && exec {shlex.join(command)}"
        return subprocess.Popen(["sh", "-c", into], stdout=output, stderr=subprocess.STDOUT)


def goes_well(job, output):
    """Waits for a job that was started with this file for its output."""
    code = job.wait(timeout=60)
    output.seek(0)
    text = output.read().decode(errors="replace")
    assert code == 0, f"exit code {code}\n{text}"
    check_words(text)


def frozen_control_group(runner):
    """A job that is frozen goes on as if nothing had happened."""
    needs_combray(runner)
    with ControlGroup("freezer") as group, tempfile.TemporaryFile() as output:
        job = group.start([*runner.mpiexec, "-n", "3", program(runner), "traffic"], output)
        try:
            for _ in range(3):
                group.freeze()
                time.sleep(0.2)
                group.thaw()
                time.sleep(0.05)
        finally:
            group.thaw()
        goes_well(job, output)


def shrinking_control_group(runner):
    """A job goes on when all its cores but one are taken away, and later given back."""
    needs_combray(runner)
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise Skip("there is one core only")
    all_cores = ",".join(map(str, cores))
    with ControlGroup("cpuset") as group, tempfile.TemporaryFile() as output:
        group.give_cores(all_cores)
        job = group.start([*runner.mpiexec, "-n", "3", program(runner), "traffic"], output)
        for _ in range(3):
            time.sleep(0.1)
            group.give_cores(str(cores[-1]))
            time.sleep(0.2)
            group.give_cores(all_cores)
        goes_well(job, output)


def clock_that_jumps(runner):
    """The time of day of launcher and processes goes back and forth by hours."""
    needs_combray(runner)
    library = runner.build / "clock_jumping.so"
    if not library.exists():
        raise Skip("clock_jumps was not compiled")
    command = [*runner.mpiexec, "--timeout", "600", "-n", "3", program(runner), "traffic"]
    code, output, _ = run(command, timeout=60, env=dict(os.environ, LD_PRELOAD=str(library)))
    assert code == 0, f"exit code {code}\n{output}"
    check_words(output)


def small_control_group(runner):
    """A group with too little memory: a process is killed, and that is reported with the likely
    cause."""
    needs_combray(runner)
    with ControlGroup("memory") as group, tempfile.TemporaryFile() as output:
        group.limit_memory(12 << 20)
        job = group.start([*runner.mpiexec, "-n", "3", program(runner), "traffic"], output)
        code = job.wait(timeout=60)
        output.seek(0)
        text = output.read().decode(errors="replace")
        # The kernel may kill the launcher itself, which cannot report anything then.
        assert code == 0 or code == -signal.SIGKILL or re.search(r"SIGKILL", text), f"exit code {code}\n{text}"
        check_words(text)


SCENARIOS = [
    no_process_vm_readv,
    no_membarrier,
    no_pidfd_open,
    no_getrandom,
    no_affinity,
    no_setaffinity,
    no_memfd_create,
    no_epoll,
    no_signalfd,
    no_prctl,
    no_subreaper,
    no_process_groups,
    no_pipes,
    no_socket_pairs,
    no_dev,
    little_stack,
    no_proc,
    full_dev_shm,
    few_descriptors,
    little_address_space,
    small_files,
    no_locked_memory,
    output_to_a_full_disk,
    closed_output,
    frozen_control_group,
    shrinking_control_group,
    small_control_group,
    clock_that_jumps,
]
