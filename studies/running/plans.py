"""The studies: which programs are started how, at three sizes."""

from dataclasses import dataclass, field

SIZES = ("test", "quick", "full")
ROUNDS = {"test": 1, "quick": 4, "full": 5}


@dataclass(frozen=True)
class Start:
    """One start of a study's program. All starts of a size must have results with the same bits, if
    the program prints them. `label` stands before the names of its cases."""

    processes: int
    threads: int
    arguments: tuple

    @property
    def label(self) -> str:
        return f"{self.processes}x{self.threads}"


@dataclass(frozen=True)
class Study:
    name: str
    title: str
    starts: dict  # size -> list of Start
    # Not empty: the program ends a process of its own, and only these libraries continue then:
    # their names, and the options of their launchers by which they do.
    survivors: dict = field(default_factory=dict)
    unit: str = "ms"
    part: str = "communication"  # the figure in brackets

    @property
    def source(self) -> str:
        return f"{self.name}/{self.name}.c"


def starts(shapes: list, words: dict) -> dict:
    """For each size, every (processes, threads, first arguments) with the size's further ones."""
    return {size: [Start(processes, threads, tuple(map(str, (*first, *words[size]))))
                   for processes, threads, first in shapes] for size in SIZES}


def poisson() -> Study:
    shapes = [(2, 1, ("mpi",)), (2, 1, ("overlap",)), (4, 1, ("mpi",)), (4, 1, ("overlap",)),
              (2, 2, ("funneled",)), (2, 2, ("multiple",))]
    # Points, iterations, repetitions.
    words = {"test": (17, 12, 1), "quick": (64, 50, 2), "full": (96, 100, 3)}
    return Study("poisson", "Poisson 3D: four versions, five ways of the halo", starts(shapes, words))


def hydro() -> Study:
    shapes = [(1, 1, ()), (1, 2, ()), (2, 1, ()), (4, 1, ()), (2, 2, ())]
    # Cells along an edge, steps, repetitions.
    words = {"test": (40, 6, 1), "quick": (300, 30, 2), "full": (1000, 50, 2)}
    return Study("hydro", "HYDRO-like Godunov solver: decompositions in 1D and 2D", starts(shapes, words))


def wavefront() -> Study:
    shapes = [(1, 2, ()), (2, 1, ()), (4, 1, ()), (2, 2, ())]
    # Columns along an edge, sweeps, repetitions.
    words = {"test": (128, 5, 1), "quick": (1024, 20, 2), "full": (4096, 20, 2)}
    return Study("wavefront", "Wavefront: blocks in a pipeline of processes and threads", starts(shapes, words))


def sparse() -> Study:
    shapes = [(processes, 1, ()) for processes in (1, 2, 4)]
    # Rows and columns of the mesh, iterations, repetitions.
    words = {"test": (40, 10, 1), "quick": (300, 30, 2), "full": (1000, 50, 2)}
    return Study("sparse", "Sparse matrix times vector: neighbours of a graph", starts(shapes, words))


def hashtable() -> Study:
    shapes = [(processes, 1, ()) for processes in (1, 2, 4)]
    # Keys of each process, those underway at the same time, repetitions.
    words = {"test": (500, 16, 1), "quick": (3000, 64, 2), "full": (50000, 64, 2)}
    return Study("hashtable", "Hash table by one-sided atomic operations", starts(shapes, words))


def multizone() -> Study:
    # The first argument is the number of outer threads.
    shapes = [(1, 1, (1,)), (1, 4, (1,)), (1, 4, (2,)), (1, 4, (4,)), (2, 2, (1,)), (2, 2, (2,)), (4, 1, (1,))]
    # Points along an edge, steps, repetitions.
    words = {"test": (24, 3, 1), "quick": (96, 20, 2), "full": (160, 40, 3)}
    return Study("multizone", "Multi-zone solver: even and uneven zones, outer and inner threads", starts(shapes, words))


def halo() -> Study:
    # With Open MPI partitioned messages do not end here: in starts of their own they cost no
    # other figures.
    shapes = [(processes, threads, (ways,)) for ways in ("whole", "parts") for processes, threads in ((1, 1), (2, 1), (2, 2), (4, 1))]
    # Numbers along an edge, exchanges, repetitions.
    words = {"test": (20, 20, 1), "quick": (512, 300, 2), "full": (1000, 2000, 3)}
    return Study("halo", "Halo exchange in nine ways", starts(shapes, words))


def loop() -> Study:
    shapes = [(1, 1, ()), (1, 2, ()), (1, 4, ()), (2, 1, ()), (2, 2, ()), (4, 1, ())]
    # Length of the array, iterations, repetitions.
    words = {"test": (101, 50, 1), "quick": (1000, 2000, 2), "full": (1000, 100000, 2)}
    return Study("loop", "Fine- and coarse-grain loops: regions, barriers, small reductions", starts(shapes, words))


def bfs() -> Study:
    shapes = [(processes, 1, ()) for processes in (1, 2, 4)]
    # Logarithm of the number of vertices, searches, repetitions.
    words = {"test": (8, 3, 1), "quick": (14, 4, 2), "full": (18, 4, 2)}
    return Study("bfs", "Breadth-first search: three ways to end a level", starts(shapes, words))


def cholesky() -> Study:
    shapes = [(1, 1, ()), (1, 2, ()), (2, 1, ()), (2, 2, ()), (4, 1, ())]
    # Tiles, numbers along the edge of a tile, repetitions.
    words = {"test": (6, 12, 1), "quick": (12, 64, 2), "full": (24, 96, 3)}
    return Study("cholesky", "Cholesky factorisation: a graph of tasks over processes and threads", starts(shapes, words))


def checkpoint() -> Study:
    shapes = [(processes, 1, ()) for processes in (1, 2, 4)]
    # Numbers along an edge, checkpoints, repetitions.
    words = {"test": (40, 2, 1), "quick": (800, 4, 2), "full": (2000, 8, 3)}
    return Study("checkpoint", "Checkpoints in one file, and restart", starts(shapes, words))


def survivor() -> Study:
    shapes = [(processes, 1, ()) for processes in (2, 4)]
    # Points, groups of iterations, repetitions.
    words = {"test": (400, 4, 1), "quick": (20000, 20, 2), "full": (200000, 40, 2)}
    return Study("survivor", "A solver that survives a killed process", starts(shapes, words),
                 {"combray": ("--keep-going",), "openmpi": ("--with-ft", "ulfm")})


def memory() -> Study:
    shapes = [(1, 1, ()), (1, 4, ()), (2, 2, ()), (4, 1, ()), (16, 1, ())]
    # Numbers along an edge, width of the halo.
    words = {"test": (64, 2), "quick": (1000, 4), "full": (2000, 8)}
    return Study("memory", "Memory of a job on one machine", starts(shapes, words), unit="MB", part="library")


def overlap() -> Study:
    shapes = [(processes, 1, (length,)) for processes in (2, 4) for length in (65536, 1048576)]
    # Rounds, repetitions.
    words = {"test": (3, 1), "quick": (50, 2), "full": (300, 3)}
    return Study("overlap", "Communication beside computation", starts(shapes, words), part="not hidden")


def migration() -> Study:
    shapes = [(processes, 1, ()) for processes in (1, 2, 4)]
    # Blocks along an edge, phases, steps of a phase, repetitions.
    words = {"test": (8, 4, 3, 1), "quick": (48, 10, 10, 2), "full": (128, 12, 20, 3)}
    return Study("migration", "Adaptive mesh whose blocks migrate", starts(shapes, words))


def composite() -> Study:
    shapes = [(processes, 1, ()) for processes in (3, 5)]
    # Numbers along an edge, frames, repetitions.
    words = {"test": (48, 4, 1), "quick": (256, 30, 2), "full": (512, 100, 3)}
    return Study("composite", "Simulation, analysis and drawing in one job", starts(shapes, words))


STUDIES = {study.name: study for study in (poisson(), hydro(), wavefront(), sparse(), hashtable(), multizone(), halo(), loop(),
                                           bfs(), cholesky(), checkpoint(), survivor(), memory(), overlap(), migration(),
                                           composite())}
