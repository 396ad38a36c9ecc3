"""The programs that call every routine for another library's modules: only with the routines it has."""

import pathlib
import re
import subprocess

# By binding: the library of the other MPI that has the routines, and how it names one. `{}` is the
# name in small letters; those with large counts end in "_c" here and not there.
SYMBOLS = {
    ("mpich", "calls"): ("libmpichfort.so.12", ["pmpi_{}_"], []),
    ("mpich", "calls_f08"): ("libmpichfort.so.12", ["mpi_{}_f08_", "mpi_{}_f08ts_"],
                             ["mpi_{}_f08_large_", "mpi_{}_f08ts_large_"]),
    ("openmpi", "calls"): ("libmpi_mpifh.so.40", ["mpi_{}_"], []),
    ("openmpi", "calls_f08"): ("libmpi_usempif08.so.40", ["mpi_{}_f08_"], []),
}
# What the other library declares otherwise than the standard, or not at all.
ODD = {
    # An integer in the place of the flag.
    ("mpich", "every_mpi"): {"parrived"},
    # The counts have another kind, as in MPI 4.0.
    ("mpich", "every_mpi_f08"): {"psend_init", "precv_init"},
    # Not declared.
    ("mpich", "every_mpif"): {"aint_add", "aint_diff"},
}
# The libraries of ours.
LIBRARIES = {"mpich": "mpich/libmpi.so.12", "openmpi": "open-mpi/libmpi.so.40"}
FORTRAN_LIBRARIES = {"mpich": "mpich/libmpifort.so.12", "openmpi": "open-mpi/libmpi_mpifh.so.40"}
# The folders of the Fortran layer.
DIALECTS = {"mpich": "mpich", "openmpi": "open_mpi"}


# Beyond every version of the standard.
OWN_OF_MPICH = {f"mpi_delete_error_{what}_f08_" for what in ("class", "code", "string")}


def missing(family, root, own):
    """Gives the names of routines that the other library has and ours lacks."""
    libraries = {SYMBOLS[key][0] for key in SYMBOLS if key[0] == family}
    theirs = set().union(*(symbols_of(next(pathlib.Path(root).rglob(library))) for library in libraries))
    # Two underscores at the end are those of a compiler of 1999.
    routines = {name for name in theirs if re.fullmatch(r"p?mpi_\w+[^_]_", name)}
    return sorted(routines - symbols_of(own) - OWN_OF_MPICH)


def symbols_of(library):
    done = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True)
    return {line.split()[-1].split("@")[0].lower() for line in done.stdout.splitlines()}


def write_for(family, source, root, folder):
    """Writes the calls of a program for the routines that a library has; returns the folder to
    search first."""
    name = re.search(r"include '(calls\w*)\.inc'", source.read_text()).group(1)
    library, plain, large = SYMBOLS[family, name]
    known = symbols_of(next(pathlib.Path(root).rglob(library)))

    odd = ODD.get((family, source.stem), set())

    def is_known(routine):
        if routine in odd:
            return False
        patterns, routine = (large, routine[:-2]) if routine.endswith("_c") else (plain, routine)
        return any(pattern.format(routine) in known for pattern in patterns)

    text = (source.parent / f"{name}.inc").read_text()
    pattern = re.compile(r"\n  subroutine call_(\w+)\(pass\)\n.*?\n  end subroutine call_\1\n", re.S)
    text = pattern.sub(lambda found: found.group(0) if is_known(found.group(1)) else "", text)
    call = re.compile(r"    call call_(\w+)\(pass\)\n")
    text = call.sub(lambda found: found.group(0) if is_known(found.group(1)) else "", text)
    text = re.sub(r"\b(P?MPI_\w+)_c\(", r"\1(", text)
    # The names for tools, which are only linked, are those of the other library.
    text = re.sub(r"    case \(3\)\n.*?    end select\n", "    end select\n", text, flags=re.S)
    (folder / f"{name}.inc").write_text(text)
    copied = folder / source.name
    copied.write_text(source.read_text())
    return copied
