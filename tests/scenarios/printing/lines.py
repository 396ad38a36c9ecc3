"""The program of lines.c, in Python: the library is called directly, with the numbers of the
standard's binary interface."""

import ctypes
import os
import signal
import sys

WORLD, INT, ANY_SOURCE, NO_STATUS = ctypes.c_void_p(0x101), ctypes.c_void_p(0x209), -1, None
library, what, folder = sys.argv[1:]
print("before MPI_Init")
mpi = ctypes.CDLL(library)
mpi.MPI_Init(None, None)
number = ctypes.c_int()
mpi.MPI_Comm_rank(WORLD, ctypes.byref(number))
rank = number.value
for line in range(3):
    print("rank", rank, "line", line)
print("rank", rank, "error", file=sys.stderr)
with open(f"{folder}/part-{rank}", "w", encoding="utf8") as file:
    file.write(str(os.getpid()))
os.rename(f"{folder}/part-{rank}", f"{folder}/{rank}")
mpi.MPI_Barrier(WORLD)
if rank == 0 and what == "crash":
    os.kill(os.getpid(), signal.SIGSEGV)
if rank == 0 and what == "error":
    mpi.MPI_Send(ctypes.byref(number), 1, INT, 77, 0, WORLD)
if rank == 0 and what == "abort":
    mpi.MPI_Abort(WORLD, 3)
mpi.MPI_Recv(ctypes.byref(number), 1, INT, ANY_SOURCE, 0, WORLD, NO_STATUS)
mpi.MPI_Finalize()
