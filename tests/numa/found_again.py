"""Checks what `combray bench nearness --json` has found on the emulated machine (tests/numa/nearness.sh), and on standard
input the lines of four processes of near.c, of which each is bound to the node of its rank.

Arguments: the file, the costs that were made up, and the interfaces near nodes 0 and 2. Prints "ok NAME" or "FAILED NAME"
with the reasons."""

import json
import re
import sys

DISTANCES = [[10, 16, 22, 28], [16, 10, 28, 22], [22, 28, 10, 16], [28, 22, 16, 10]]
TOLERANCE = 0.1
CORES_OF_NODE = 2
# After how many reads 8 MiB move: moving costs 4000 ns for a KiB, a read saves 20 ns for each unit
# of distance beyond 10 (tests/numa/invented). Powers of two are tried.
MOVES = {16: 64, 22: 32, 28: 16}

found = json.load(open(sys.argv[1]))
costs = {int(distance): (float(single), float(kib))
         for distance, single, kib in (entry.split(":") for entry in sys.argv[2].split(","))}
interfaces = {0: sys.argv[3], 2: sys.argv[4]}


def report(name, faults):
    print(f"FAILED {name}\n" + "\n".join(faults[:8]) if faults else f"ok {name}", flush=True)


def is_near(value, expected):
    return value is not None and abs(value - expected) <= TOLERANCE * expected


def of_matrix(matrix, expected):
    """The values, and the ratio of the farthest and the nearest ones, that are not as expected."""
    faults, by_expected = [], {}
    for process, row in zip(matrix["processes"], matrix["values"]):
        for memory, value in zip(matrix["memories"], row):
            wanted = expected(process, memory)
            by_expected.setdefault(wanted, []).append(value)
            if not is_near(value, wanted):
                faults.append(f"{matrix['subject']}: from node {process}, memory on {memory}: {value}, not {wanted:.4g} {matrix['unit']}")
    if not faults:
        middle = {wanted: sorted(values)[len(values) // 2] for wanted, values in by_expected.items()}
        low, high = min(middle), max(middle)
        if not is_near(middle[high] / middle[low], high / low):
            faults.append(f"{matrix['subject']}: the ratio is {middle[high] / middle[low]:.2f}, not {high / low:.2f}")
        if len(middle) != len(costs):
            faults.append(f"{matrix['subject']}: {len(middle)} levels")
    return faults


def memory_faults():
    faults = [] if found["nodes"] == [0, 1, 2, 3] and found["distances"] == DISTANCES else [f"{found['nodes']}, {found['distances']}"]
    for matrix in found["memory"]:
        def expected(process, memory):
            single, kib = costs[DISTANCES[process][memory]]
            threads = CORES_OF_NODE if "all cores" in matrix["subject"] else 1
            return single if matrix["is_time"] else threads * 1024 / kib
        faults += of_matrix(matrix, expected)
    return faults if len(found["memory"]) == 5 else [*faults, f"{len(found['memory'])} subjects"]


def rail_faults(rail):
    """A message costs by the distance of the process from the interface, its data by that of the memory."""
    where = {f"tcp:{name}": node for node, name in interfaces.items()}.get(rail["name"])
    if rail["node"] != where or rail["obstacle"] or len(rail["measured"]) != 3:
        return [f"{rail['name']}: on node {rail['node']}, not {where}; {rail['obstacle']}; {len(rail['measured'])} subjects"]
    place, faults = where or 0, []
    for matrix in rail["measured"]:
        def expected(process, memory):
            # A message has the latency of 250 accesses, and is reported in microseconds.
            return costs[DISTANCES[process][place]][0] / 4 if matrix["is_time"] else 1024 / costs[DISTANCES[memory][place]][1]
        faults += of_matrix(matrix, expected)
    return faults


def decision_faults():
    faults = []
    for node, decision in enumerate(found["decisions"]):
        near = node // 2 * 2
        expected = {"node": node, "interface": [interfaces[near], DISTANCES[node][near]], "buffers": near if node == near else None,
                    "moves": [[far, MOVES[DISTANCES[node][far]]] for far in range(4) if far != node]}
        faults += [f"node {node}: {key} is {decision[key]}, not {value}" for key, value in expected.items() if decision[key] != value]
    return faults if len(found["decisions"]) == 4 else [f"{len(found['decisions'])} decisions"]


def choice_faults(lines):
    """What the processes of a job have chosen must be what the tool has named for their nodes."""
    chosen = re.findall(r"^rank (\d): rail on node (\S+) at (\S+), helper on \S+, buffers on (no node|\d+),", lines, re.MULTILINE)
    if [rank for rank, *_ in chosen] != ["0", "1", "2", "3"]:
        return [lines]
    faults = []
    for (rank, *choice), decision in zip(chosen, found["decisions"]):
        name, distance = decision["interface"] or (None, None)
        place = next((node for node, interface in interfaces.items() if interface == name), None)
        buffers = "no node" if decision["buffers"] is None else str(decision["buffers"])
        if choice != [str(place), str(distance), buffers]:
            faults.append(f"rank {rank}: chose {choice}, the tool says {[place, distance, buffers]}")
    return faults


report("nearness_memory", memory_faults())
for rail in found["rails"]:
    report(f"nearness_{rail['name'].partition(':')[0]}", rail_faults(rail))
if [rail["name"] for rail in found["rails"]] != ["shm", f"tcp:{interfaces[2]}"]:
    report("nearness_rails", [str([rail["name"] for rail in found["rails"]])])
report("nearness_decisions", decision_faults())
report("nearness_choices", choice_faults(sys.stdin.read()))
