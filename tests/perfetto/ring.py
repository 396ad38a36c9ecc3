"""Sends messages around a ring and prints what it has sent, as known.c does. The ranges that it names with NVTX are phases:
"phase NAME TIMES" for each of them."""

import nvtx
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
out, buffer = bytearray(800), bytearray(800)
with nvtx.annotate("ring"):
    for turn in range(50):
        world.Sendrecv(out, (rank + 1) % size, 1000, buffer, (rank - 1) % size, 1000)
        if turn == 24:
            with nvtx.annotate("sums", domain="solver"):
                world.allreduce(rank)
        world.allreduce(rank)
print(f"sent {rank} 50 {50 * 800}\nphase {rank} ring 2\nphase {rank} sums 1", flush=True)
