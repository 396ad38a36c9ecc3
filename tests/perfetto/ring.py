"""Sends messages around a ring and prints what it has sent, as known.c does."""

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
out, buffer = bytearray(800), bytearray(800)
for _ in range(50):
    world.Sendrecv(out, (rank + 1) % size, 1000, buffer, (rank - 1) % size, 1000)
    world.allreduce(rank)
print("sent", rank, 50, 50 * 800, flush=True)
