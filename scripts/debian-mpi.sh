#!/usr/bin/env bash
# Unpacks another MPI of Debian into build/debian/NAME, beside the system's own files, and makes
# compiler wrappers for it: scripts/debian-mpi.sh NAME PACKAGE ...
# Programs that they link load that library by name; at run time only Combray's has the name.
set -euo pipefail
name=$1
shift
cd "$(dirname "$0")/.."
folder=$PWD/build/debian/$name
[ ! -e "$folder/complete" ] || exit 0
echo "Unpacking Debian's $* into build/debian/$name"
rm -rf "$folder"
mkdir -p "$folder/packages" "$folder/root" "$folder/bin"
download() { (cd "$folder/packages" && apt-get download -qq "$@") >/dev/null 2>&1; }
if ! download "$@" && ! { apt-get update -qq >/dev/null 2>&1 && download "$@"; }; then
    echo "Debian's $name could not be installed: its programs in Fortran will be skipped" >&2
    exit 0
fi
for package in "$folder"/packages/*.deb; do
    dpkg -x "$package" "$folder/root"
done
rm -r "$folder/packages"
find "$folder/root" -name "*.a" -delete
usr=$folder/root/usr
libraries=$usr/lib/$(gcc -print-multiarch)
case $name in
mpich)
    include=$usr/include/$(gcc -print-multiarch)/mpich modules=$include
    fortran=(-l:libmpichfort.so.12) c=(-l:libmpich.so.12)
    ;;
openmpi)
    include=$libraries/openmpi/include modules=$(echo "$libraries"/fortran/gfortran-mod-*/openmpi)
    fortran=(-l:libmpi_usempif08.so.40 -l:libmpi_usempi_ignore_tkr.so.40 -l:libmpi_mpifh.so.40) c=(-l:libmpi.so.40)
    ;;
esac
# What the library itself needs is not there.
common=(-Wl,--unresolved-symbols=ignore-in-shared-libs)
wrapper() {
    local path=$folder/bin/$1
    shift
    printf '#!/bin/sh\nexec %s "$@" %s\n' "$1" "${*:2}" >"$path"
    chmod +x "$path"
}
wrapper mpicc "gcc -I$include" "-L$libraries" "${c[@]}" "${common[@]}"
wrapper mpifort "gfortran -I$include -I$modules" "-L$libraries" "${fortran[@]}" "${c[@]}" "${common[@]}"
touch "$folder/complete"
