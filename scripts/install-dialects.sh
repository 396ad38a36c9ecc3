#!/usr/bin/env bash
# Installs the libraries for programs that were built for other MPIs (docs/user/binaries.md) from a
# folder in which they were built: scripts/install-dialects.sh PREFIX FOLDER
set -euo pipefail
if [ $# -ne 2 ]; then
    echo "usage: scripts/install-dialects.sh PREFIX FOLDER" >&2
    exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sources=$(cd "$(dirname "$0")/../fortran" && pwd)

# A new file in place of the old: a program that runs keeps the library that it has mapped.
install_new() {
    mkdir -p "$(dirname "$2")"
    install -m 755 "$1" "$2.new"
    mv -f "$2.new" "$2"
}

# The Fortran interfaces of a dialect. Programs bring their own modules, so no Fortran compiler is
# needed: fortran_interface DIALECT C_LIBRARY LIBRARY
fortran_interface() {
    local dialect=$1 objects=() flags=() object name
    local twice=(generated/entries special former) once=(callbacks support "$1/variables" "$1/modules")
    if [ -e "$sources/$dialect/array.h" ]; then
        twice+=(generated/entries_f08 descriptors)
        once+=(sections kept)
    fi
    compile() {
        objects+=("$work/$dialect-${#objects[@]}.o")
        ${CC:-cc} -O1 -fPIC -I"$sources" -I"$sources/$dialect" -c "$sources/$1.c" -o "${objects[-1]}" "${@:2}"
    }
    for name in "${twice[@]}"; do
        compile "$name"
        compile "$name" -DCOMBRAY_PROFILING
    done
    for name in "${once[@]}"; do
        compile "$name"
    done
    # Functions that the standard defines, which are in a module for mpi_f08, as gfortran names it.
    for object in comm type win; do
        for name in dup_fn null_copy_fn null_delete_fn; do
            flags+=("-Wl,--defsym=__mpi_f08_callbacks_MOD_mpi_${object}_$name=mpi_${object}_${name}_")
        done
    done
    flags+=("-Wl,--defsym=__mpi_f08_callbacks_MOD_mpi_conversion_fn_null=mpi_conversion_fn_null_")
    # Functions that are found at the first call only could be the program's
    # (combray_skip_own_functions).
    # A program may need this library only, and find it by a path of its own.
    ${CC:-cc} -shared -o "$work/$dialect.so" "${objects[@]}" "$2" "${flags[@]}" \
        -Wl,-z,defs,-z,now,--enable-new-dtags,-rpath,'$ORIGIN',-soname,"$(basename "$3")"
    install_new "$work/$dialect.so" "$3"
}

mpich=$1/lib/combray/mpich
install_new "$2/libmpi_mpich.so" "$mpich/libmpi.so.12"
# The name that Debian and others use, and that programs without a version number load.
ln -sfn libmpi.so.12 "$mpich/libmpich.so.12"
ln -sfn libmpi.so.12 "$mpich/libmpi.so"
# Programs in C++ load these, mostly without calling their former content.
ln -sfn libmpi.so.12 "$mpich/libmpicxx.so.12"
ln -sfn libmpi.so.12 "$mpich/libmpichcxx.so.12"
fortran_interface mpich "$mpich/libmpi.so.12" "$mpich/libmpifort.so.12"
ln -sfn libmpifort.so.12 "$mpich/libmpichfort.so.12"
open_mpi=$1/lib/combray/open-mpi
install_new "$2/libmpi_open_mpi.so" "$open_mpi/libmpi.so.40"
ln -sfn libmpi.so.40 "$open_mpi/libmpi.so"
ln -sfn libmpi.so.40 "$open_mpi/libmpi_cxx.so.40"
fortran_interface open_mpi "$open_mpi/libmpi.so.40" "$open_mpi/libmpi_mpifh.so.40"
# Programs that use modules also load these.
ln -sfn libmpi_mpifh.so.40 "$open_mpi/libmpi_usempi_ignore_tkr.so.40"
ln -sfn libmpi_mpifh.so.40 "$open_mpi/libmpi_usempif08.so.40"
