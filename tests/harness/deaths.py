"""The processes of jobs that are killed on purpose: who they are, what they do, and what they leave behind."""

import os
import pathlib
import shutil
import subprocess
import time

from harness.scenarios import END_SECONDS_MAX, processes_of, traces

# Messages that users get from a job that failed.
LINES_SHOWN = 40


def of_box(folder, host):
    """The processes of an emulated host of the box in this folder, without the one that keeps it."""
    keeper = (pathlib.Path(folder) / f"{host}.pid").read_text().strip()
    network, found = os.readlink(f"/proc/{keeper}/ns/net"), []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(entry / "ns" / "net") == network and entry.name != keeper:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def all_processes():
    """The parent and the name of each living process."""
    found = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            before, after = (entry / "stat").read_text().rsplit(")", 1)
        except OSError:
            continue
        found[int(entry.name)] = (int(after.split()[1]), before.split("(", 1)[1])
    return found


def descendants(root):
    """The living processes below one, with their names."""
    processes = all_processes()
    found, below = {}, {root}
    while below:
        below = {process for process, (parent, _) in processes.items() if parent in below and process not in found}
        found.update((process, processes[process][1]) for process in below)
    return found


def with_agent(below, host):
    """The process that the launcher started for a host (`agent` becomes it) and its descendants,
    with their names."""
    agents = {process: name for process, name in below.items() if runs_agent(process, host)}
    return agents | {process: name for agent in agents for process, name in descendants(agent).items()}


def runs_agent(process, host):
    try:
        words = pathlib.Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        node = f"COMBRAY_NODE={host}".encode() in pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return node and b"agent" in words


def send(processes, number):
    """Sends a signal; those that were there."""
    sent = []
    for process in processes:
        try:
            os.kill(process, number)
            sent.append(process)
        except ProcessLookupError:
            continue
    return sent


def stacks(program):
    """What each process of a job is doing, where there is a debugger."""
    if not shutil.which("gdb"):
        return f"processes {processes_of(program)} are there, and no gdb"
    told = []
    for process in processes_of(program):
        command = ["gdb", "-p", str(process), "-batch", "-ex", "bt 25"]
        frames = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
        told += [f"process {process}:", *(line for line in frames.splitlines() if line.startswith("#"))]
    return "\n".join(told)


def shown(output):
    return "\n".join(output.splitlines()[-LINES_SHOWN:])


def left_behind(before):
    """What the jobs left: other jobs of this machine come and go, what stays for a while counts."""
    deadline = time.monotonic() + END_SECONDS_MAX
    left = traces() - before
    while left and time.monotonic() < deadline:
        time.sleep(0.1)
        left &= traces()
    return sorted(left)
