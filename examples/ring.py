"""Who runs where, over which transport, and how fast; then a token goes round the ring.

    mpirun -n 3 python ring.py

A plain mpi4py program: nothing in it knows Combray but one info key, "combray_transport".
"""

import os

from mpi4py import MPI

LATENCY_ROUNDS = 500
BANDWIDTH_ROUNDS = 20
BANDWIDTH_BYTES = 4 << 20


def cores():
    """The cores that this process may use, as ranges: "0-1,4"."""
    ranges = []
    for core in sorted(os.sched_getaffinity(0)):
        if ranges and ranges[-1][1] == core - 1:
            ranges[-1][1] = core
        else:
            ranges.append([core, core])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def transport(comm):
    info = comm.Get_info()
    try:
        return info.Get("combray_transport") or "unknown"
    finally:
        info.Free()


def one_way_seconds(comm, buffer, rounds, other):
    """Seconds for one message of this buffer one way, between rank 0 and the other."""
    rank = comm.Get_rank()
    peer = other if rank == 0 else 0
    start = 0.0
    # A few rounds first that do not count: the ways are made on first use.
    for number in range(-10, rounds):
        if number == 0:
            start = MPI.Wtime()
        if rank == 0:
            comm.Send(buffer, peer)
        comm.Recv(buffer, peer)
        if rank != 0:
            comm.Send(buffer, peer)
    return (MPI.Wtime() - start) / rounds / 2


def show_table(comm):
    rank, size = comm.Get_rank(), comm.Get_size()
    places = comm.gather((MPI.Get_processor_name(), os.getpid(), cores()))
    if rank == 0:
        version = MPI.Get_library_version().splitlines()[0]
        print(f"{size} processes, {version}, transport: {transport(comm)}\n")
        print(f"{'rank':>5}  {'host':<20} {'pid':>8}  {'cores':<10} {'latency to 0':>14} {'bandwidth to 0':>16}")
    for other in range(size):
        comm.Barrier()
        speed = f"{'-':>14} {'-':>16}"
        if other > 0 and rank in (0, other):
            latency = one_way_seconds(comm, bytearray(8), LATENCY_ROUNDS, other)
            large = one_way_seconds(comm, bytearray(BANDWIDTH_BYTES), BANDWIDTH_ROUNDS, other)
            speed = f"{latency * 1e6:>11.2f} us {BANDWIDTH_BYTES / large / 1e9:>11.2f} GB/s"
        if rank == 0:
            host, pid, mask = places[other]
            print(f"{other:>5}  {host:<20.20} {pid:>8}  {mask:<10} {speed}", flush=True)


def pass_token(comm):
    """Any Python object travels: here a list that each process adds its rank to."""
    rank, size = comm.Get_rank(), comm.Get_size()
    if rank == 0:
        comm.send([0], (rank + 1) % size)
        print(f"\nThe token went round: {comm.recv(source=size - 1)}")
    else:
        token = comm.recv(source=rank - 1)
        comm.send([*token, rank], (rank + 1) % size)
    total = comm.allreduce(rank)
    if rank == 0:
        print(f"The sum of all ranks, by MPI_Allreduce: {total}")


if __name__ == "__main__":
    show_table(MPI.COMM_WORLD)
    if MPI.COMM_WORLD.Get_size() > 1:
        pass_token(MPI.COMM_WORLD)
