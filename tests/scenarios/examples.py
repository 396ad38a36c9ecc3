"""Programs of examples/: built and run, they check their own results."""

import os
import pathlib
import subprocess
import tempfile

from harness import ROOT
from harness.scenarios import Skip, needs_combray, places, run

EXAMPLES = ROOT / "examples"


def build(runner, name, *sources, native=True, extra=()):
    """Compile an example, that uses combray.h if `native`; gives the program."""
    if native and not runner.header("combray.h").exists():
        raise Skip("needs combray.h, which this library does not have")
    program = runner.build / name
    flags = ["-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", *extra]
    files = [str(EXAMPLES / source) for source in sources]
    code, output, _ = run([*runner.mpicc, *flags, *files, "-o", str(program), "-lm"])
    assert code == 0, output
    return str(program)


def start(runner, count, *command):
    code, output, _ = run([*runner.mpiexec, "-n", str(count), *command], timeout=60)
    assert code == 0, f"{count} processes: exit code {code}\n{output}"
    return output


def remote_calls(runner):
    """Services on objects of other processes, many calls underway at once."""
    program = build(runner, "remote_call", "remote_call/remote_call.c", "remote_call/demo.c")
    for count in (2, 3, 4):
        output = start(runner, count, program)
        assert "all results are right" in output, output


def page_server(runner):
    """Pages that are fetched, changed and written back by all processes at once."""
    program = build(runner, "page_server", "page_server.c")
    for count, page_bytes, rounds in ((1, 8192, 50), (2, 8192, 200), (2, 65536, 30), (3, 64, 100), (4, 8192, 50)):
        output = start(runner, count, program, str(page_bytes), str(rounds))
        assert "all pages are right" in output, output


def shortest_paths(runner):
    """Floyd and Warshall with broadcasts of rows, checked by Dijkstra."""
    program = build(runner, "asp", "asp.c", native=False)
    for count, vertices in ((1, 60), (2, 200), (3, 97), (4, 128)):
        output = start(runner, count, program, str(vertices))
        assert "all distances are right" in output, output


def poisson(runner):
    """Jacobi iterations with halos of subarrays, whose exact result is known."""
    program = build(runner, "poisson3d", "poisson3d.c", native=False)
    for count, points, iterations in ((1, 12, 30), (2, 33, 50), (3, 16, 40), (4, 24, 40)):
        output = start(runner, count, program, str(points), str(iterations))
        assert "all points are right" in output, output


@places(8)
def recorded_matrix(runner):
    """--record writes how much each rank sent to each other rank, also where only some programs
    record."""
    needs_combray(runner)
    program = build(runner, "poisson3d_recorded", "poisson3d.c", native=False)
    file = runner.build / "poisson3d.matrix"
    start(runner, 8, "--record", str(file), program, "24", "40")
    lines = [line.split("#")[0].split() for line in file.read_text().splitlines()]
    head, *rows = [line for line in lines if line]
    assert head == ["ranks", "8"], head
    sent = {(int(row[0]), int(row[1])): (int(row[2]), int(row[3])) for row in rows}
    # Each process has three neighbours in the grid, and sends each a face of doubles 40 times.
    faces = 40 * 12 * 12 * 8
    for one in range(8):
        for other in range(8):
            bytes_sent = sent.get((one, other), (0, 0))[0]
            expected = (one ^ other) in (1, 2, 4)
            assert (bytes_sent >= faces) == expected, f"{one} sent {bytes_sent} bytes to {other}"
    # The order that is computed from it can be run. With several hosts, the file contains them,
    # too.
    mpiexec, hosts = list(runner.mpiexec), ["localhost"]
    if "--hosts" in mpiexec:
        at = mpiexec.index("--hosts")
        hosts = mpiexec[at + 1].split(",")
        del mpiexec[at:at + 2]
    slots = ",".join(f"{host}:{8 // len(hosts) + 1}" for host in hosts)
    ranks = runner.build / "poisson3d.ranks"
    combray = pathlib.Path(runner.mpicc[0]).with_name("combray")
    words = [str(combray), "place", "--matrix", str(file), "--hosts", slots, "--rankfile", str(ranks)]
    code, output, _ = run(words)
    assert code == 0 and "packed" in output, output
    told = [line.split()[1].split("=") for line in ranks.read_text().splitlines()]
    assert [int(rank) for rank, _ in told] == list(range(8)), told
    assert {host for _, host in told} == set(hosts), told
    code, output, _ = run([*mpiexec, "--rankfile", str(ranks), program, "16", "4"], timeout=60)
    assert code == 0 and "8 processes" in output and "all points are right" in output, output
    told = ["-n", "1", "-x", f"COMBRAY_RECORD={runner.build}/some", program, "8", "2"]
    other = ["-n", "1", program, "8", "2"]
    for parts in ([*told, ":", *other], [*other, ":", *told]):
        code, output, _ = run([*runner.mpiexec, *parts], timeout=60)
        assert code == 0, output
    file.unlink()
    start(runner, 2, "--record", "/nonexistent/matrix", program, "8", "2")


def hybrid_barrier(runner):
    """A barrier over all threads of all processes, that no thread leaves too early."""
    program = build(runner, "hybrid_barrier", "hybrid_barrier.c", native=False, extra=["-fopenmp"])
    for count, threads in ((1, 3), (2, 1), (2, 4), (3, 2)):
        # Threads that spin between two barriers would keep each other from the cores.
        words = ["env", f"OMP_NUM_THREADS={threads}", "OMP_WAIT_POLICY=passive"]
        output = start(runner, count, *words, program, "100")
        assert output.count(" 0 violations") == 2, output


@places(4)
def block_service(runner):
    """A service and its clients, without a launcher; one client is killed while it writes."""
    needs_combray(runner)
    program = build(runner, "block_service", "block_service.c")
    with tempfile.TemporaryDirectory(prefix="block-service-") as folder:
        file = f"{folder}/uri"

        def begin(*words, **variables):
            return subprocess.Popen([program, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                    env=os.environ | variables)
        service = begin("serve", file, "3")
        parts = [begin("use", file, "300"), begin("use", file, "300", COMBRAY_NODE="other"), begin("use", file, "999999999")]
        try:
            outputs = [part.communicate(timeout=120)[0] for part in parts[:2]]
            parts[2].kill()
            told = service.communicate(timeout=120)[0]
        finally:
            for part in (service, *parts):
                part.kill()
                part.wait()
        assert outputs == ["300 rounds were right\n"] * 2, outputs
        assert "blocks were right; 1 clients were lost" in told, told


SCENARIOS = [remote_calls, page_server, shortest_paths, poisson, recorded_matrix,
             hybrid_barrier, block_service]
