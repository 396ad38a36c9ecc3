"""Combray as an MPI library of EasyBuild's toolchains; it belongs to easybuild/toolchains/mpi.

Its wrappers take the options of MPICH's and the variables of MPICH and Open MPI for compilers.
"""

from easybuild.toolchains.mpi.mpich import Mpich

TC_CONSTANT_COMBRAY = "Combray"


class Combray(Mpich):
    """MPI by Combray."""

    MPI_MODULE_NAME = ["Combray"]
    MPI_FAMILY = TC_CONSTANT_COMBRAY
    # Programs are linked with the standard's library.
    MPI_LIBRARY_NAME = "mpi_abi"
