"""`combray doctor`: a machine that is fit, and faults made on purpose, each named with its remedy."""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile

from harness import scenarios
from harness.scenarios import Skip, needs_combray, run

from . import hosts as emulated


def command_of(runner):
    """The command beside the launcher."""
    needs_combray(runner)
    return str(pathlib.Path(shutil.which(runner.mpiexec[0])).with_name("combray"))


def environment_of(runner, **changes):
    """The environment of a user who has this installation first in PATH, and no allocation."""
    folder = str(pathlib.Path(command_of(runner)).parent)
    kept = {name: value for name, value in os.environ.items()
            if not re.match(r"SLURM|PBS|LSB|COMBRAY_(?!BOX)|LD_", name)}
    return {**kept, "PATH": f"{folder}:{kept['PATH']}", **changes}


def findings(output):
    """By subject: mark, and all of its text in one line."""
    found = {}
    subject = None
    for line in output.splitlines():
        head = re.match(r"  (ok|note|slow|FAULT) +(\S.*?)(?:  +(\S.*))?$", line)
        if head:
            subject = head[2]
            found[subject] = (head[1], head[3] or "")
        elif subject and line.startswith("     "):
            mark, text = found[subject]
            found[subject] = (mark, f"{text} {line.strip()}")
        else:
            subject = None
    return found


def graphics_processors_are_listed(runner):
    for name, driver in [("libcuda.so.1", "CUDA 12.4"), ("libamdhip64.so.6", "HIP 6.3")]:
        found, output = with_devices(runner, name)
        mark, text = found.get("graphics processors", ("nothing", ""))
        assert mark == "ok" and f"Device 1 of no machine (2 GiB, 0000:18:00.0); {driver}" in text, output
        assert found.get("memory of other graphics processors") == ("ok", "all access each other's"), output
        found, output = with_devices(runner, name, FAKE_DEVICE_PEERS="0", CUDA_VISIBLE_DEVICES="0,1")
        mark, text = found.get("graphics processors", ("nothing", ""))
        assert mark == "note" and "CUDA_VISIBLE_DEVICES=0,1" in text, output
        mark, text = found.get("memory of other graphics processors", ("nothing", ""))
        assert mark == "note" and "0000:18:00.0 not that of 0000:17:00.0" in text, output
    found, output = with_devices(runner, "libcuda.so.1", FAKE_DEVICE_MODE="3")
    mark, text = found.get("processes of a graphics processor", ("nothing", ""))
    assert mark == "note" and "only one at a time may use 0000:17:00.0, 0000:18:00.0" in text, output


def errors_of_drivers_are_named(runner):
    functions = {
        "libcuda.so.1": ["cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGetName", "cuDeviceGetPCIBusId",
                         "cuDeviceTotalMem_v2", "cuDeviceGetAttribute", "cuDeviceCanAccessPeer"],
        "libamdhip64.so.6": ["hipRuntimeGetVersion", "hipGetDeviceCount", "hipDeviceGetName", "hipDeviceGetPCIBusId",
                             "hipDeviceTotalMem", "hipDeviceCanAccessPeer"],
    }
    error = {"libcuda.so.1": "CUDA_ERROR_UNKNOWN", "libamdhip64.so.6": "hipErrorUnknown"}
    for name, all_of_them in functions.items():
        for function in all_of_them:
            found, output = with_devices(runner, name, FAKE_DEVICE_FAIL=f"{function},-1")
            mark, text = found.get("graphics processors", ("nothing", ""))
            words = f"{function.removesuffix('_v2')} of {name.removesuffix('.6')} returned {error[name]}"
            assert mark == "note" and words in text, f"without {function}:\n{output}"
    # An error that the driver has no name for.
    for name, failing in [("libcuda.so.1", "cuDeviceGetName,-1;cuGetErrorName,-1"),
                          ("libamdhip64.so.6", "hipDeviceGetName,-1;hipGetErrorName,-1")]:
        found, output = with_devices(runner, name, FAKE_DEVICE_FAIL=failing)
        assert "DeviceGetName of lib" in output and "returned error 999" in found["graphics processors"][1], output


def with_devices(runner, name, **changes):
    """The findings of the doctor with a library in place of a vendor's, and its output."""
    with tempfile.TemporaryDirectory() as folder:
        os.symlink((runner.build / f"{name}.so").resolve(), pathlib.Path(folder) / name)
        environment = environment_of(runner, LD_LIBRARY_PATH=folder, **changes)
        _, output, _ = run([command_of(runner), "doctor"], env=environment, timeout=90)
    return findings(output), output


def is_named(runner, subject, mark, *words, before=(), code=None, **changes):
    """Checks that the doctor prints this mark for the subject, what is wrong, and what to do."""
    got, output, _ = run([*before, command_of(runner), "doctor"], env=environment_of(runner, **changes), timeout=90)
    shown, text = findings(output).get(subject, ("nothing", ""))
    assert shown == mark, f"{subject} is marked {shown}, not {mark}\n{output}"
    assert "-> " in text, f"no remedy:\n{output}"
    for word in words:
        assert re.search(word, text), f"{subject} does not say {word!r}:\n{output}"
    expected = (1 if mark == "FAULT" else 0) if code is None else code
    assert got == expected, f"exit code {got}\n{output}"
    return output


def refuse(runner, *what):
    return [str(runner.build / "refuse"), *what, "--"]


def in_namespace(setup):
    made = subprocess.run(["unshare", "-m", "true"], capture_output=True, text=True)
    if made.returncode != 0:
        raise Skip(f"needs namespaces: {made.stderr.strip()}")
    return ["unshare", "-m", "sh", "-c", f'{setup} && exec "$0" "$@"']


def a_fit_machine(runner):
    code, output, _ = run([command_of(runner), "doctor"], env=environment_of(runner))
    found = findings(output)
    assert code == 0 and "Fit for jobs" in output and "FAULT" not in output, output
    for subject in ("cores", "memory", "open files", "clock", "shared memory", "commands", "trial job"):
        assert subject in found, f"nothing of {subject}\n{output}"
    for subject in ("shared memory", "commands", "trial job", "open files"):
        assert found[subject][0] == "ok", output
    code, output, _ = run([command_of(runner), "doctor", "--json"], env=environment_of(runner))
    assert code == 0 and '"findings"' in output and len(output.splitlines()) == 1, output


def reading_of_others_is_refused(runner):
    for error in ("EPERM", "ENOSYS"):
        is_named(runner, "single copy", "slow", "process_vm_readv", "copied twice", "SYS_PTRACE|ptrace_scope",
                 before=refuse(runner, f"process_vm_readv={error}"))


def binding_is_refused(runner):
    for error in ("EPERM", "ENOSYS"):
        output = is_named(runner, "binding", "slow", "sched_setaffinity", "container", "--bind-to none",
                          before=refuse(runner, f"sched_setaffinity={error}"))
        assert findings(output)["trial job"][0] == "ok", output


def memory_cannot_be_shared(runner):
    is_named(runner, "shared memory", "FAULT", "memfd_create", "container", before=refuse(runner, "memfd_create=EPERM"))


def proc_is_not_mounted(runner):
    before = in_namespace("mount -t tmpfs none /proc")
    got, output, _ = run([*before, command_of(runner), "doctor"], env=environment_of(runner))
    assert got != 0 and "/proc" in output and "mount" in output, f"{got}\n{output}"


def files_must_be_small(runner):
    output = is_named(runner, "file size", "note", "limited to 0 MiB", "ulimit -f unlimited", code=1,
                      before=refuse(runner, "file_size=100000"))
    assert findings(output)["shared memory"][0] == "FAULT", output


def few_open_files(runner):
    is_named(runner, "open files", "FAULT", r"34 \(ulimit -Hn\)", "enough to start 0", "nofile",
             before=refuse(runner, "descriptors=34"))


def little_address_space(runner):
    is_named(runner, "address space", "note", "2048 MiB", "ulimit -v unlimited",
             before=refuse(runner, f"address_space={2048 << 20}"))


def another_launcher_comes_first(runner):
    with tempfile.TemporaryDirectory(dir=runner.build) as folder:
        other = pathlib.Path(folder, "mpiexec.hydra")
        other.write_text("#!/bin/sh\nexit 1\n")
        other.chmod(0o755)
        pathlib.Path(folder, "mpirun").symlink_to(other)
        path = f"{folder}:{environment_of(runner)['PATH']}"
        is_named(runner, "commands", "FAULT", "mpirun is another MPI's", "mpiexec.hydra", "export PATH=", PATH=path)


def another_library_comes_first(runner):
    library = pathlib.Path(command_of(runner)).parent.parent / "lib" / "libmpi_abi.so.1"
    with tempfile.TemporaryDirectory(dir=runner.build) as folder:
        shutil.copy(library, folder)
        is_named(runner, "library", "FAULT", re.escape(folder), "export LD_LIBRARY_PATH=", LD_LIBRARY_PATH=folder)


def one_core_only(runner):
    if os.cpu_count() < 2:
        raise Skip("needs two cores")
    one = min(os.sched_getaffinity(0))
    is_named(runner, "cores", "note", r"1 of \d+ hardware threads", "taskset", before=["taskset", "-c", str(one)])


def cores_are_not_reported(runner):
    is_named(runner, "cores", "slow", "sched_getaffinity", "container", before=refuse(runner, "sched_getaffinity=EPERM"))


def no_such_network(runner):
    is_named(runner, "network", "FAULT", "no interface", "unset COMBRAY_NET", COMBRAY_NET="nosuch0")
    is_named(runner, "network", "FAULT", "10.0.0.0/99", "COMBRAY_NET", COMBRAY_NET="10.0.0.0/99")


def variables_with_errors(runner):
    is_named(runner, "variables", "note", "did you mean COMBRAY_STRATEGY", "combray info", COMBRAY_STRATEGI="auto")
    is_named(runner, "host timeout", "FAULT", "COMBRAY_HOST_TIMEOUT", COMBRAY_HOST_TIMEOUT="soon")


def the_clock_is_a_device(runner):
    source = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
    with tempfile.NamedTemporaryFile("w", dir=runner.build) as file:
        file.write("hpet\n")
        file.flush()
        if not os.path.exists(source):
            raise Skip("the system does not name its clock")
        is_named(runner, "clock", "slow", "hpet", "tsc",
                 before=in_namespace(f"mount --bind {shlex.quote(file.name)} {source}"))


def an_allocation_that_cannot_be_used(runner):
    # PATH has no program that could start processes there.
    path = environment_of(runner)["PATH"].split(":")
    path = ":".join(folder for folder in path if not os.path.exists(f"{folder}/srun"))
    is_named(runner, "allocation", "FAULT", "--hosts", PBS_NODEFILE="/nowhere/at/all", PATH=path)


def system_calls_of_the_launcher_are_refused(runner):
    is_named(runner, "trial job", "FAULT", "signalfd", "container", before=refuse(runner, "signalfd4=EPERM"))


def of_hosts(runner, here, hosts):
    command = [command_of(runner), "doctor", "--hosts", hosts, "--launch-agent", str(emulated.RSH)]
    code, output, _ = run([*here.environment, *command], env=environment_of(runner), timeout=120)
    return code, output


def several_hosts(runner):
    needs_combray(runner)
    with emulated.hosts(runner, 2) as here:
        code, output = of_hosts(runner, here, "box1,box2")
        found = findings(output.split("Between the hosts")[1])
        assert {subject: mark for subject, (mark, _) in found.items()} == {
            "versions": "ok", "networks": "ok", "trial job": "ok"}, output
        assert code == 0 or "FAULT" in output, output
        assert re.search(r"^box1$", output, re.M) and re.search(r"^box2$", output, re.M), output
        code, output = of_hosts(runner, here, "box1,box9")
        assert code == 1 and re.search("FAULT +reach", output) and "ssh box9 true" in output, output
        cut = subprocess.run([*here.command("on", "box2"), "ip", "link", "set", "eth0", "down"],
                             capture_output=True, text=True)
        assert cut.returncode == 0, cut.stderr
        code, output = of_hosts(runner, here, "box1,box2")
        between = findings(output.split("Between the hosts")[1])
        assert code == 1 and between["networks"][0] == "FAULT" and "box2 uses no interface" in output, output
        assert "ip link set eth0 up" in " ".join(output.split()), output


SCENARIOS = [
    a_fit_machine,
    graphics_processors_are_listed,
    errors_of_drivers_are_named,
    reading_of_others_is_refused,
    binding_is_refused,
    memory_cannot_be_shared,
    proc_is_not_mounted,
    files_must_be_small,
    few_open_files,
    little_address_space,
    another_launcher_comes_first,
    another_library_comes_first,
    one_core_only,
    cores_are_not_reported,
    no_such_network,
    variables_with_errors,
    the_clock_is_a_device,
    an_allocation_that_cannot_be_used,
    system_calls_of_the_launcher_are_refused,
    several_hosts,
]
