"""Where every operation, size and number of processes is a cell: collectives, and single calls."""

import math

from .running import Key

COLLECTIVES = ("barrier", "bcast", "gather", "scatter", "allgather", "alltoall", "reduce",
               "allreduce", "reduce_scatter_block", "gatherv", "scatterv", "allgatherv",
               "alltoallv", "reduce_scatter", "scan", "exscan")
SIZES = (8, 1 << 10, 64 << 10, 1 << 20)
# The cells of a quick comparison: latencies only.
QUICK, QUICK_SIZES = ("barrier", "allreduce"), (8,)

# Numbers of threads of each process, and the messages that each has underway.
THREADS, THREADS_WINDOW = "1,2,4,8", 64

# Processes on each host and threads of each, with as many threads in all.
SPLITS = ((4, 1), (2, 2), (1, 4))
# Messages that each of them has underway (see bench/programs/threads.c).
SATURATION_WINDOW = 4

CELL_LIMIT, MEAN_LIMIT = 1.2, 0.8

# Calls that programs have in their loops (see bench/programs/sweep.h), and with how many
# processes at most.
CALLS, CALLS_PROCESSES_MAX = ("calls", "rma"), 4
CALL_LIMIT, CALLS_MEAN_LIMIT = 1.1, 0.7

# Input and output (see bench/programs/files.c).
FILES = ("file_blocks", "file_array", "file_records", "file_holes", "file_checkpoint",
         "file_gigabyte", "file_fresh")
# Benchmarks whose iterations take long even with a good library.
LARGE_FILES = ("file_gigabyte", "file_fresh")
FILE_LIMIT, FILES_MEAN_LIMIT = 1.2, 0.9


def is_cell(key: Key) -> bool:
    return key.benchmark in COLLECTIVES and not key.place


def is_call(key: Key) -> bool:
    return key.benchmark in CALLS and not key.place


def is_of_file(key: Key) -> bool:
    return key.benchmark in FILES and not key.place


def geometric_mean(values: list) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))
