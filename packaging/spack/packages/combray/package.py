"""Combray for Spack, built from a folder with its sources:

    spack repo add FOLDER/packaging/spack
    spack dev-build -d FOLDER combray@main

An installed prefix can be named as an external package (docs/user/packages.md).
"""

import os
import re

from spack.package import *


class Combray(Package):
    """Combray is a communication runtime for clusters of hierarchical machines: an MPI 5.0 library
    with the standard ABI, a launcher and compiler wrappers."""

    executables = ["^combray$"]
    license("Apache-2.0 OR MIT")

    # It is in no archive from which Spack could fetch it: see the head of this file.
    version("main")

    provides("mpi@:5.0")

    # Binaries that were built with MPICH run with this package in its place.
    can_splice("mpich@3.4:4", when="@main")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    # The Fortran interfaces are compiled where there is a compiler.
    depends_on("fortran", type="build")
    # Cargo fetches the crates of Cargo.lock: the build needs the network, or a vendored folder.
    depends_on("rust@1.90:", type="build")
    depends_on("gmake", type="build")
    # Both are loaded by name when a program starts, which runs without them too. The path to them
    # is in the libraries (setup_build_environment).
    depends_on("hwloc@2:", type=("build", "run"))
    depends_on("libfabric@1.14:", type=("build", "run"))

    @classmethod
    def determine_version(cls, exe):
        found = re.search(r"combray (\S+)", Executable(exe)("--version", output=str, error=str))
        return found.group(1) if found else None

    def setup_build_environment(self, env):
        for name in ("hwloc", "libfabric"):
            env.append_flags("RUSTFLAGS", f"-C link-arg=-Wl,-rpath,{self.spec[name].prefix.lib}")

    def install(self, spec, prefix):
        Executable("scripts/install.sh")(prefix)
        # Spliced binaries look in the folder of libraries for those of MPICH.
        for name in ("libmpi.so.12", "libmpifort.so.12", "libmpicxx.so.12"):
            os.symlink(join_path("combray", "mpich", name), join_path(prefix, "lib", name))

    def setup_run_environment(self, env):
        self.name_wrappers(env)

    def setup_dependent_build_environment(self, env, dependent_spec):
        self.name_wrappers(env)
        # The wrappers call Spack's compilers where those build something.
        env.set("COMBRAY_CC", dependent_spec.package.module.spack_cc)
        env.set("COMBRAY_CXX", dependent_spec.package.module.spack_cxx)
        env.set("COMBRAY_FC", dependent_spec.package.module.spack_fc)

    def setup_dependent_package(self, module, dependent_spec):
        self.spec.mpicc = join_path(self.prefix.bin, "mpicc")
        self.spec.mpicxx = join_path(self.prefix.bin, "mpicxx")
        self.spec.mpifc = join_path(self.prefix.bin, "mpifort")
        self.spec.mpif77 = join_path(self.prefix.bin, "mpif77")

    def name_wrappers(self, env):
        """The variables by which build systems find an MPI."""
        for variable, name in (("MPICC", "mpicc"), ("MPICXX", "mpicxx"), ("MPIF77", "mpif77"), ("MPIF90", "mpif90")):
            env.set(variable, join_path(self.prefix.bin, name))
