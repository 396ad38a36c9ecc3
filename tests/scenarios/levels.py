"""Collective operations over the levels of a machine that is pretended: the processes are
configured as being in packages, NUMA nodes and behind caches of their own."""

import json
import pathlib
import re
import tempfile

from harness import TESTS
from harness.scenarios import needs_combray, places, run

# Two packages of two NUMA nodes, each for two processes that share a cache.
EIGHT = "0.0.0*2,0.1.1*2,1.2.2*2,1.3.3*2"
# The machine above, but neighbours are in different packages.
SCATTERED = "0.0.0,1.2.2,0.1.1,1.3.3,0.0.0,1.2.2,0.1.1,1.3.3"
FOUR_ALIKE = "0.0.0*4"
AS_IF_EACH_HAD_A_CORE = ["-x", "COMBRAY_CORES=8"]
OPERATIONS = ["barrier", "bcast", "gather", "scatter", "allgather", "allgatherv", "alltoall", "reduce",
              "allreduce", "reduce_scatter"]


def play(runner, parts, *arguments, options=(), variables=(), program="levels"):
    """Processes that pretend to be in these parts, eight or as many as there are in the only one."""
    needs_combray(runner)
    executable = runner.build / program
    problem = runner.compile(TESTS / "c" / f"{program}.c", executable)
    assert not problem, problem
    count = "8" if "," in parts else parts.partition("*")[2]
    options = [*options, "-x", f"COMBRAY_PARTS={parts}", "-n", count]
    command = ["env", *variables, *runner.mpiexec, *options, str(executable), *arguments]
    code, output, _ = run(command, timeout=60.0)
    assert code == 0, f"{' '.join(command)}: exit code {code}\n{output}"


@places(8)
def data_goes_down_levels(runner):
    with tempfile.TemporaryDirectory() as folder:
        for parts, ways in [(EIGHT, {(0, 4), (0, 2), (4, 6), (0, 1), (2, 3), (4, 5), (6, 7)}),
                            (SCATTERED, {(0, 1), (0, 2), (1, 3), (0, 4), (1, 5), (2, 6), (3, 7)})]:
            matrix = pathlib.Path(folder) / "matrix"
            play(runner, parts, "0", options=["--record", str(matrix)],
                 variables=["COMBRAY_BOARDS=never", "COMBRAY_COLLECTIVES=bcast:hierarchical"])
            rows = [line.split() for line in matrix.read_text().splitlines()[2:]]
            # What belongs to the end of the job are a few messages.
            found = {(int(row[0]), int(row[1])) for row in rows if int(row[3]) >= 40}
            assert found == ways, f"{parts}: {sorted(found)}"


@places(8)
def all_operations_go_over_levels(runner):
    wanted = "COMBRAY_COLLECTIVES=" + ",".join(f"{one}:hierarchical" for one in OPERATIONS)
    for parts in (EIGHT, SCATTERED):
        play(runner, parts, variables=["COMBRAY_BOARDS=never", wanted])


@places(8)
def pieces_of_a_broadcast_go_down_all_levels_at_once(runner):
    pieces = ["COMBRAY_BOARDS=never", "COMBRAY_COLLECTIVES=bcast:hierarchical-pieces"]
    for parts in (EIGHT, SCATTERED):
        play(runner, parts, program="collectives_data", variables=pieces)


@places(8)
def boards_go_by_parts(runner):
    """A machine where a crossing between packages takes so long that the prediction chooses by it.
    """
    with tempfile.TemporaryDirectory() as folder:
        host = pathlib.Path("/proc/sys/kernel/hostname").read_text().strip()
        costs = {"package_line_ns": 1000000, "numa_line_ns": 10000}
        samples = {"version": 1, "host": host, "rails": {}, "costs": costs}
        kept = pathlib.Path(folder) / "combray"
        kept.mkdir()
        name = re.sub(r"[^A-Za-z0-9._-]", "_", host)
        (kept / f"rails-{name}.json").write_text(json.dumps(samples))
        for parts in (EIGHT, SCATTERED):
            play(runner, parts, options=AS_IF_EACH_HAD_A_CORE,
                 variables=[f"XDG_CACHE_HOME={folder}"])


@places(4)
def portions_are_carried_out_for_all(runner):
    """Where processes outnumber cores there are none."""
    play(runner, FOUR_ALIKE, options=AS_IF_EACH_HAD_A_CORE, program="collectives_portions")


SCENARIOS = [data_goes_down_levels, all_operations_go_over_levels, boards_go_by_parts,
             pieces_of_a_broadcast_go_down_all_levels_at_once, portions_are_carried_out_for_all]
