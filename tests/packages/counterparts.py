"""The files of Debian's packages of Open MPI and MPICH, by the rows of the table in docs/user/packages.md, which names for
each the counterpart of Combray or the reason why there is none."""

import re

PACKAGES = ("openmpi-bin", "libopenmpi-dev", "mpich", "libmpich-dev")
# The folders of headers, modules and libraries, in which many files are links or copies.
HEADERS = r"(?:usr/lib/[\w-]+/(?:openmpi/include|fortran/gfortran-mod-\d+/(?:openmpi|mpich))|usr/include/[\w-]+/mpich)"
LIBRARIES = r"usr/lib/[\w-]+/(?:openmpi/lib/|mpich/lib/|fortran/gfortran/)?"
# The first words of rows of the table, and the files that they are about.
ROWS = {
    "`mpirun`, `mpiexec`": [r"usr/bin/mpi(?:run|exec|cc|cxx|c\+\+|CC|fort|f77|f90)\.(?:openmpi|mpich)", r"usr/bin/(?:mpiexec\.hydra|orterun)"],
    "include folder `mpi`": [HEADERS + r"/(?:mpi|mpi-ext)\.h", r"usr/include/[\w-]+/openmpi", r"usr/lib/[\w-]+/mpich/include", LIBRARIES + r"libmpi(?:ch)?\.so"],
    "`mpif-*.h`": [HEADERS + r"/(?:mpif[\w-]*|mpio|mpiof|mpi_proto|mpi_portable_platform|mpicxx)\.h"],
    "`libmpi++.so`": [LIBRARIES + r"libmpi(?:ch)?_?cxx\.(?:so|a)", HEADERS + r"/openmpi/ompi/mpi/cxx/.*"],
    "`libmpifort.so`": [LIBRARIES + r"libmpi(?:ch)?(?:fort|_mpifh|_usempi_ignore_tkr|_usempif08)(?:-gfortran)?\.so"],
    "`ompi*.pc`": [LIBRARIES + r"pkgconfig/(?:ompi[\w-]*|mpich)\.pc"],
    "modules `mpi`": [HEADERS + r"/p?mpi_?\w*\.mod"],
    "static libraries": [LIBRARIES + r"libmpich(?:fort)?\.a"],
    "`ompi_info`": [r"usr/bin/(?:ompi_info|mpichversion)"],
    "`mpivars`": [r"usr/bin/mpivars"],
    "daemons and their tools": [r"usr/bin/(?:orted|orte-clean|orte-server|ompi-clean|ompi-server|hydra_\w+|parkill)"],
    "`/etc/openmpi`": [r"etc/openmpi/openmpi-(?:default-hostfile|mca-params\.conf)"],
    "`openmpi-totalview.tcl`": [r"etc/openmpi/openmpi-totalview\.tcl"],
    "`mpijavac`": [r"usr/bin/mpijavac(?:\.pl)?", LIBRARIES + r"libmpi_java\.so", HEADERS + r"/openmpi/ompi/mpi/java/.*"],
    "SHMEM": [r"usr/bin/(?:osh|shmem)\w*(?:\+\+)?", LIBRARIES + r"liboshmem\.so", HEADERS + r"/(?:mpp/)?p?shmem[\w-]*\.f?h", HEADERS + r"/openshmem/.*",
              HEADERS + r"/openmpi/oshmem/.*"],
    "parts of Open MPI and MPICH": [r"usr/bin/(?:opal_wrapper|opalcc|opalc\+\+|ortecc|orte-info)", LIBRARIES + r"(?:libopen-pal|libopen-rte|libmca_\w+|libmpl|libopa)\.so",
                                    LIBRARIES + r"pkgconfig/(?:opal|orte)\.pc", HEADERS + r"/openmpi/(?:(?:ompi/(?!mpi/(?:cxx|java))|opal/|orte/|mpiext/).*|\w+\.h)"],
    "`aggregate_profile`": [r"usr/bin/(?:aggregate_profile|profile2mat)", LIBRARIES + r"libompitrace\.so"],
    "man pages of commands": [r"usr/share/man/man1/.*"],
    "other documents": [r"usr/share/(?:doc|lintian|bug)/.*", r"usr/share/man/man7/.*"],
}


def without_counterpart(files):
    """The files that no row is about, and the rows that are about none of the files."""
    patterns = {row: re.compile("|".join(f"(?:{one})" for one in some)) for row, some in ROWS.items()}
    used = {file: [row for row, pattern in patterns.items() if pattern.fullmatch(file)] for file in files}
    rows = {row for some in used.values() for row in some}
    return [file for file, some in used.items() if not some], sorted(set(ROWS) - rows)
