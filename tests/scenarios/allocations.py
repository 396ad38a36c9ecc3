"""`combray run` inside allocations: of a real Slurm, of quotas of control groups."""

import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

from harness.scenarios import (
    END_SECONDS_MAX, Skip, needs, needs_combray, own_copy, program, run, wait_until_gone,
)

from . import doctor as doctor_scenarios, managers

WHERE = ["sh", "-c", "echo $PMI_RANK/$PMI_SIZE $COMBRAY_NODE"]
GROUPS = pathlib.Path("/sys/fs/cgroup")


def inside(runner, *request, command="salloc"):
    """A command inside an allocation of Slurm that this request gets."""
    managers.slurm_is_up()
    slurm = [*managers.BOX, "on", "box1", "env", f"SLURM_CONF={managers.slurm_configuration()}"]
    return [*slurm, command, *(["-Q"] if command == "salloc" else []), *request]


def lines_of(runner, request, *words):
    """The output of ranks in such an allocation, and the launcher's messages."""
    code, output, _ = run([*inside(runner, *request), *runner.mpiexec, *words])
    assert code == 0, f"exit code {code}\n{output}"
    ranks = sorted(line for line in output.splitlines() if re.match(r"\d+/", line))
    return ranks, output


def expected(*hosts):
    return [f"{rank}/{len(hosts)} {host}" for rank, host in enumerate(hosts)]


@needs("slurm")
def salloc_gives_hosts_and_slots(runner):
    needs_combray(runner)
    for request, words, hosts in (
        (["-N2", "--ntasks-per-node=2"], [], ["box1"] * 2 + ["box2"] * 2),
        (["-N2", "-n3"], [], ["box1"] * 2 + ["box2"]),
        (["-N2", "-c2"], [], ["box1", "box2"]),
        (["-N2", "-c2"], ["-n", "4"], ["box1"] * 2 + ["box2"] * 2),
        (["-N2", "-n4"], ["-n", "2", "--map-by", "node"], ["box1", "box2"]),
        (["-N2", "-n4"], ["--hosts", "box2:2"], ["box2"] * 2),
    ):
        ranks, output = lines_of(runner, request, "--display-allocation", *words, *WHERE)
        assert ranks == expected(*hosts), f"{request} {words}:\n{output}"
        assert re.search(r"Slurm job \d+: box.* by srun", output), output
    code, output, _ = run([*inside(runner, "-N2", "-n2"), *runner.mpiexec, "-n", "9", *WHERE])
    assert code == 2 and "slots for 2" in output, f"{code}\n{output}"


@needs("slurm")
def processes_are_spawned_in_free_slots_of_the_allocation(runner):
    """Each host has four cores. Without our launcher, the root's own host comes first."""
    needs_combray(runner)
    places = str(runner.build / "spawned_places")
    step = ["srun", "--overlap", "-N2", "-n2", "-m", "cyclic", "--mpi=pmi2"]
    # The root is the second of two processes of a step, or the only process, without launcher.
    for words, first, both in ((step, "box2", "box2 box2 box2 box1 box1 box1"), ([], "box1", "box1 box1 box1 box1 box2 box2")):
        code, output, _ = run([*inside(runner, "-N2", "-n8"), *words, places, "3", "6"])
        assert code == 0 and f"children: {first} {first} {first}\n" in output, f"exit code {code}\n{output}"
        assert re.search(rf"children: {both}$", output, re.MULTILINE) and "share slots" not in output, output


def the_universe_is_the_allocation_of_other_systems(runner):
    """Of PBS and LSF there are only variables and files here. A process without launcher counts their slots."""
    with tempfile.TemporaryDirectory(prefix="combray-nodes-") as folder:
        nodes = pathlib.Path(folder, "nodes")
        nodes.write_text("a\na\nb\n")
        for variable, value, slots in (("PBS_NODEFILE", nodes, 3), ("LSB_DJOB_HOSTFILE", nodes, 3),
                                       ("LSB_MCPU_HOSTS", "a 4 b 2", 6), ("LSB_HOSTS", "a a b b", 4)):
            code, output, _ = run(["env", f"{variable}={value}", runner.build / "spawned_places"])
            assert code == 0 and f"universe: {slots}\n" in output, f"{variable}={value}: exit code {code}\n{output}"


@needs("slurm")
def the_doctor_looks_at_all_hosts_of_an_allocation(runner):
    needs_combray(runner)
    doctor = [doctor_scenarios.command_of(runner), "doctor"]
    code, output, _ = run([*inside(runner, "-N2", "-n4"), *doctor],
                          env=doctor_scenarios.environment_of(runner), timeout=120.0)
    assert code == 0 and re.search(r"ok +allocation +Slurm job \d+: 4 slots on 2 hosts", output), output
    found = doctor_scenarios.findings(output.split("Between the hosts")[1])
    assert {subject: mark for subject, (mark, _) in found.items()} == {
        "versions": "ok", "networks": "ok", "trial job": "ok"}, output
    # The question about a step of a job goes to the step's own host.
    code, output, _ = run([*inside(runner, "-N1", "-n1", command="srun"), *doctor],
                          env=doctor_scenarios.environment_of(runner), timeout=120.0)
    assert code == 0 and re.search(r"ok +allocation +Slurm job \d+: 1 slot on 1 host$", output, re.M), output


@needs("slurm")
def messages_cross_the_allocation(runner):
    needs_combray(runner)
    _, output = lines_of(runner, ["-N2", "-n4"], program(runner), "traffic")
    code, output, _ = run([*inside(runner, "-N2", "-n4"), *runner.mpiexec, program(runner), "exit3"])
    assert code == 3 and re.search("rank 3 .*on box2", output), f"{code}\n{output}"


@needs("slurm")
def steps_of_one_batch_job_run_side_by_side(runner):
    needs_combray(runner)
    with tempfile.TemporaryDirectory(dir=runner.build) as folder:
        script, output = pathlib.Path(folder, "script"), pathlib.Path(folder, "output")
        start = " ".join(map(str, runner.mpiexec))
        # Each waits until the other has begun.
        meet = f"touch {folder}/$0; until [ -e {folder}/$1 ]; do sleep 0.1; done; echo $PMI_RANK/$PMI_SIZE $COMBRAY_NODE"
        script.write_text(f"#!/bin/sh\n{start} sh -c '{meet}' a b &\n"
                          f"{start} -n 2 --map-by node sh -c '{meet}' b a &\nwait\n"
                          f"srun -N1 -n1 -w box2 {start} -n 2 --map-by node sh -c '{meet}' a b\n")
        script.chmod(0o755)
        code, told, _ = run([*inside(runner, "-N2", "-n3", "-W", "-o", output, script, command="sbatch")],
                            timeout=60.0)
        text = output.read_text()
        assert code == 0, f"{code}: {told}{text}"
        ranks = sorted(line for line in text.splitlines() if re.match(r"\d+/", line))
        pair = expected("box1", "box2")
        assert ranks == sorted([*expected("box1", "box1", "box2"), *pair, *pair]), text


@needs("slurm")
def nothing_is_left_of_a_cancelled_job(runner):
    needs_combray(runner)
    with tempfile.TemporaryDirectory(dir=runner.build) as folder:
        copy = own_copy(runner, folder)
        script, output = pathlib.Path(folder, "script"), pathlib.Path(folder, "output")
        start = " ".join(map(str, runner.mpiexec))
        script.write_text(f"#!/bin/sh\n{start} {copy} wait\n")
        code, number, _ = run(inside(runner, "--parsable", "-N2", "-n4", "-o", output, script, command="sbatch"))
        assert code == 0, number
        try:
            deadline = time.monotonic() + 60.0
            while not output.exists() or output.read_text().count("waiting") < 4:
                assert time.monotonic() < deadline, "the job did not start"
                time.sleep(0.05)
        finally:
            code, told, _ = run([*inside(runner, command="scancel"), number.strip()])
        assert code == 0, told
        wait_until_gone(copy)


@needs("slurm")
def a_revoked_allocation_is_reported_in_the_words_of_slurm(runner):
    needs_combray(runner)
    with tempfile.TemporaryDirectory(dir=runner.build) as folder:
        copy = own_copy(runner, folder)
        job = subprocess.Popen([*inside(runner, "-N2", "-n2"), "sh", "-c", 'echo "$SLURM_JOB_ID"; exec "$@"', "sh", *runner.mpiexec, copy, "wait"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            lines = []
            while sum("waiting" in line for line in lines) < 2:
                lines.append(job.stdout.readline())
                assert lines[-1], f"the job did not start: {lines}"
            number = next(line.strip() for line in lines if line.strip().isdigit())
            code, told, _ = run([*inside(runner, command="scancel"), number])
            assert code == 0, told
            said = job.communicate(timeout=60)[0]
        finally:
            # salloc gives its allocation back when it is asked to end.
            job.terminate()
            job.communicate()
        assert "CANCELLED" in said and "frame" not in said, said
        wait_until_gone(copy)


@needs("slurm")
def a_killed_launcher_leaves_nothing_in_the_allocation(runner):
    needs_combray(runner)
    with tempfile.TemporaryDirectory(dir=runner.build) as folder:
        copy = own_copy(runner, folder)
        launch = f'exec "$@" & echo $! > {folder}/launcher; wait'
        job = subprocess.Popen(
            [*inside(runner, "-N2", "-n4"), "sh", "-c", launch, "sh", *runner.mpiexec, copy, "wait"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            for _ in range(4):
                line = job.stdout.readline()
                assert "waiting" in line, f"the job did not start: {line}"
            os.kill(int(pathlib.Path(folder, "launcher").read_text()), signal.SIGKILL)
            wait_until_gone(copy)
        finally:
            job.kill()
            job.communicate()


def quotas_of_control_groups_count(runner):
    """A group that grants the time of one core, of either version."""
    needs_combray(runner)
    version_1 = GROUPS / "cpu"
    base, limit, value = (version_1, "cpu.cfs_quota_us", "100000") if version_1.is_dir() else \
        (GROUPS, "cpu.max", "100000 100000")
    group = base / f"combray-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        raise Skip(f"no control groups can be made: {error}") from None
    try:
        try:
            (group / limit).write_text(value)
        except OSError as error:
            raise Skip(f"control groups limit no processor time here: {error}") from None
        join = f'echo $$ > {group}/cgroup.procs && exec "$@"'
        command = ["sh", "-c", join, "sh", *runner.mpiexec, "--display-allocation", "echo", "here"]
        code, output, _ = run(command)
        assert code == 0 and output.count("here") == 1, f"{code}: more than one process\n{output}"
    finally:
        deadline = time.monotonic() + END_SECONDS_MAX
        while True:
            try:
                group.rmdir()
                break
            except OSError:
                assert time.monotonic() < deadline, f"{group} is still in use"
                time.sleep(0.05)


SCENARIOS = [
    salloc_gives_hosts_and_slots,
    processes_are_spawned_in_free_slots_of_the_allocation,
    the_universe_is_the_allocation_of_other_systems,
    the_doctor_looks_at_all_hosts_of_an_allocation,
    messages_cross_the_allocation,
    steps_of_one_batch_job_run_side_by_side,
    nothing_is_left_of_a_cancelled_job,
    a_revoked_allocation_is_reported_in_the_words_of_slurm,
    a_killed_launcher_leaves_nothing_in_the_allocation,
    quotas_of_control_groups_count,
]
