"""The toolchain of GCC and Combray; it belongs to easybuild/toolchains."""

from easybuild.toolchains.gcc import GccToolchain
from easybuild.toolchains.mpi.combray import Combray


class Gcombray(GccToolchain, Combray):
    """GCC and Combray."""

    NAME = "gcombray"
    SUBTOOLCHAIN = GccToolchain.NAME
