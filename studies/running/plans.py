"""The studies: which programs are started how, at three sizes."""

from dataclasses import dataclass

SIZES = ("test", "quick", "full")
ROUNDS = {"test": 1, "quick": 2, "full": 5}


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


STUDIES = {study.name: study
           for study in (poisson(), hydro(), wavefront(), sparse(), hashtable())}
