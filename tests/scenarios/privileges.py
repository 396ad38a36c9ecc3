"""Programs with more rights than the user who starts them, and the launcher with such rights: an ordinary user sets
the environment, and must gain nothing by that."""

import contextlib
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import tempfile

from harness.scenarios import Skip, needs_combray, program, run

# A user and a group without any rights.
NOBODY = 65534
# Leaves a mark with the rights of the process that loads it.
FOREIGN_CODE = r"""
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void loaded(void) { close(open(MARK, O_CREAT | O_WRONLY, 0600)); }
"""
# Names under which hwloc, libfabric and PMIx search for libraries in a folder.
PLUGINS = ("hwloc_foreign.so", "libforeign-fi.so", "libpmix.so.2")
VICTIM_TEXT = "what an ordinary user must not overwrite\n"
CAP_NET_RAW = 13


def set_user_id(path):
    os.chmod(path, 0o4755)


def set_group_id(path):
    os.chmod(path, 0o2755)


def with_capability(path):
    """As `setcap cap_net_raw+ep` does it (struct vfs_cap_data of version 2)."""
    words = (0x02000000 | 1, 1 << CAP_NET_RAW, 0, 0, 0)
    try:
        os.setxattr(path, "security.capability", struct.pack("<5I", *words))
    except OSError as cause:
        raise Skip(f"files cannot have capabilities here: {cause}") from None


class Attack:
    """A folder with a privileged copy of a program, code of a stranger, and a file of the administrator."""

    def __init__(self, folder):
        self.folder = folder
        self.mark = folder / "marks" / "loaded"
        self.victim = folder / "marks" / "victim"
        self.mark.parent.mkdir()
        self.mark.parent.chmod(0o777)
        source = folder / "foreign.c"
        source.write_text(FOREIGN_CODE)
        for name in PLUGINS:
            subprocess.run(["cc", "-shared", "-fPIC", f'-DMARK="{self.mark}"', "-o", folder / name, source], check=True)

    def privileged(self, path, give):
        copy = self.folder / f"privileged-{give.__name__}"
        subprocess.run(["cp", "-L", path, copy], check=True)
        give(copy)
        return copy

    def environments(self):
        """What a user may set in order to have code loaded or a file written."""
        folder, victim = str(self.folder), str(self.victim)
        pmix = {"PMIX_NAMESPACE": "job", "PMIX_RANK": "0"}
        yield pmix | {"COMBRAY_PMIX_LIBRARY": f"{folder}/libpmix.so.2"}
        (self.folder / "lib").mkdir(exist_ok=True)
        shutil.copy(self.folder / "libpmix.so.2", self.folder / "lib")
        for name in ("PMIX_PREFIX", "OPAL_PREFIX", "PRTE_PREFIX"):
            yield pmix | {name: folder}
        yield {"LD_PRELOAD": f"{folder}/libpmix.so.2", "LD_LIBRARY_PATH": folder}
        yield {"HWLOC_PLUGINS_PATH": folder, "HWLOC_COMPONENTS_VERBOSE": "1"}
        yield {"FI_PROVIDER_PATH": folder, "COMBRAY_NET": "ofi:tcp:lo", "COMBRAY_NODE": "elsewhere"}
        for name in ("COMBRAY_RECORD", "COMBRAY_PROFILE", "COMBRAY_THREADS_TIMELINE"):
            yield {name: victim}
        yield {"XDG_CACHE_HOME": str(self.mark.parent), "HOME": str(self.mark.parent)}

    def check(self, command, environment, in_job=False):
        """Runs a command as an ordinary user; nothing of the administrator's was touched."""
        self.victim.write_text(VICTIM_TEXT)
        self.victim.chmod(0o600)
        self.mark.unlink(missing_ok=True)
        everything = {"PATH": os.environ["PATH"]} | environment
        code, output, _ = run(command, cwd="/", env=everything, user=NOBODY, group=NOBODY, extra_groups=[])
        told = f"{command}, {environment}: exit code {code}\n{output}"
        # The launcher of a job is the user's own program, which may load what the user likes.
        is_own = in_job and self.mark.exists() and self.mark.stat().st_uid == NOBODY
        assert is_own or not self.mark.exists(), f"foreign code was loaded: {told}"
        assert self.victim.read_text() == VICTIM_TEXT, f"a file was overwritten: {told}"
        # The launcher of a job stores what it has measured of this machine for the user.
        written = set(os.listdir(self.mark.parent)) - {"victim", "loaded"} - ({"combray"} if in_job else set())
        assert not written, f"{written} was written: {told}"
        return code, output


@contextlib.contextmanager
def attack(runner):
    needs_combray(runner)
    if os.geteuid() != 0:
        raise Skip("only the administrator can make programs of other users")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="privileges-", dir="/tmp"))
    try:
        if os.statvfs(folder).f_flag & os.ST_NOSUID:
            raise Skip(f"{folder} is mounted nosuid")
        folder.chmod(0o755)
        yield Attack(folder)
    finally:
        shutil.rmtree(folder)


def privileged_programs_believe_no_variable(runner):
    with attack(runner) as attempt:
        for give in (set_user_id, set_group_id, with_capability):
            copy = attempt.privileged(program(runner), give)
            code, output = attempt.check([copy, "hello"], {})
            assert code == 0 and "rank 0 of 1" in output, f"{give.__name__}: {output}"
            for environment in attempt.environments():
                code, output = attempt.check([copy, "hello"], environment)
                assert code == 0 or "PMIX_RANK" in environment, f"{give.__name__}, {environment}: {output}"
                if "COMBRAY_RECORD" in environment:
                    assert "COMBRAY_RECORD is ignored" in output, output


def privileged_programs_believe_no_variable_in_a_job(runner):
    with attack(runner) as attempt:
        copy = attempt.privileged(program(runner), set_user_id)
        for environment in attempt.environments():
            command = [*runner.mpiexec, "-n", "2", copy, "hello"]
            if "LD_PRELOAD" in environment or "PMIX_RANK" in environment:
                continue
            code, output = attempt.check(command, environment, in_job=True)
            is_network = "FI_PROVIDER_PATH" in environment
            assert code == 0 or is_network, f"{environment}: {output}"


def the_command_refuses_to_run_with_more_rights(runner):
    with attack(runner) as attempt:
        command = shutil.which(runner.mpiexec[0])
        for give in (set_user_id, set_group_id, with_capability):
            copy = attempt.privileged(os.path.realpath(command), give)
            for environment in ({}, *attempt.environments()):
                code, output = attempt.check([copy, "run", "-n", "2", program(runner), "hello"], environment)
                assert code == 2 and "more rights than the user" in output, f"{give.__name__}: {code}\n{output}"


# An ordinary user's forged offer: in place of a job, or of a process that reports its job.
STRANGER = r"""
import json, mmap, os, socket, struct, sys, time
kind = sys.argv[1]
if kind in ("huge", "rude"):
    escapes = "\x1b]0;owned\x07\x9b2J\nforged line"
    identity = {"job": escapes, "rank": 0, "size": 2**32 - 2 if kind == "huge" else 2, "hosts": 1, "here": [0, 1],
                "host": sys.argv[2], "program": escapes, "joined": 2**64 - 1}
    text = json.dumps(identity).encode()
    memory = os.memfd_create("combray-asks-2")
    os.truncate(memory, 2**32 if kind == "huge" else 2**17)
    os.pwrite(memory, text, 4096 + 8)
    os.pwrite(memory, struct.pack("<Q", len(text)), 4096)
    os.pwrite(memory, struct.pack("<i", os.getpid()), 128)
    print("ready", flush=True)
    time.sleep(1000)
listener = socket.socket(socket.AF_UNIX)
listener.bind("\0combray-job/%d/%d" % (os.geteuid(), os.getpid()))
listener.listen(0 if kind == "full" else 8)
if kind == "full":
    waiting = []
    for _ in range(8):
        one = socket.socket(socket.AF_UNIX)
        one.setblocking(False)
        one.connect_ex(listener.getsockname())
        waiting.append(one)
# A name that is no text must not hide the others.
odd = socket.socket(socket.AF_UNIX)
odd.bind(b"\0combray-job/\xff\xfe%d" % os.getpid())
print("ready", flush=True)
while True:
    if kind == "full":
        time.sleep(1000)
    peer, _ = listener.accept()
    try:
        request = peer.recv(16)
        while kind == "drips":
            peer.send(b" ")
            time.sleep(0.5)
        while kind == "floods":
            peer.send(b" " * 65536)
        summary = {"job": 1, "program": "\x1b]0;owned\x07\x9b2J\nforged line", "ranks": 1, "hosts": 1, "seconds": 1.0}
        report = summary | {"causes": ["\x1b[31mred"], "ranks": []}
        peer.send(json.dumps(report if request == b"report\n" else summary).encode())
    except OSError:
        pass
    peer.close()
"""


@contextlib.contextmanager
def stranger(kind):
    command = ["python3", "-c", STRANGER, kind, socket.gethostname()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd="/", user=NOBODY, group=NOBODY, extra_groups=[])
    try:
        assert process.stdout.readline() == "ready\n", f"{kind}: the stranger does not start"
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def the_administrator_asks_jobs_of_strangers(runner):
    """`combray ps` ends in time, needs little memory, and gives a terminal nothing to obey, whatever is offered to it."""
    needs_combray(runner)
    if os.geteuid() != 0:
        raise Skip("only the administrator asks jobs of other users")
    command = [shutil.which(runner.mpiexec[0]).replace("mpiexec", "combray"), "ps"]
    # Address space for the program, and not for the offered memory.
    limited = ["sh", "-c", 'ulimit -v 4000000; exec "$@"', "sh", *command]
    kinds = ("polite", "rude", "huge", "full", "drips", "floods")
    with contextlib.ExitStack() as stack:
        pids = {kind: stack.enter_context(stranger(kind)) for kind in kinds}
        code, output, seconds = run(limited, timeout=60)
        check_listing(output, pids)
        assert code == 0, f"exit code {code} after {seconds:.1f} s\n{output}"
        for kind, pid in list(pids.items())[:3]:
            code, output, seconds = run([*limited, str(pid)], timeout=60)
            assert code in (0, 2) and is_plain(output), f"{kind}: exit code {code}\n{output!r}"


def check_listing(output, pids):
    assert is_plain(output), f"a terminal obeys this: {output!r}"
    listed = {int(word) for line in output.splitlines() for word in line.split()[:1] if word.isdigit()}
    assert {pids["polite"], pids["rude"]} <= listed, f"jobs are missing\n{output}"
    assert 1 not in listed and "forged line" not in output.split("\n"), f"the stranger chose what is shown\n{output}"
    assert "did not answer" in output, output


def is_plain(text):
    return not any(ord(letter) < 32 and letter != "\n" or 127 <= ord(letter) < 160 for letter in text)


SCENARIOS = [
    the_administrator_asks_jobs_of_strangers,
    the_command_refuses_to_run_with_more_rights,
    privileged_programs_believe_no_variable,
    privileged_programs_believe_no_variable_in_a_job,
]
