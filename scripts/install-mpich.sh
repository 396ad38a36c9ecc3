#!/usr/bin/env bash
# Installs the library for programs that were built for MPICH and its relatives (docs/binaries.md)
# from a folder in which it was built: scripts/install-mpich.sh PREFIX FOLDER
set -euo pipefail
if [ $# -ne 2 ]; then
    echo "usage: scripts/install-mpich.sh PREFIX FOLDER" >&2
    exit 2
fi
mpich=$1/lib/combray/mpich
mkdir -p "$mpich"
# A new file in place of the old: a program that runs keeps the library that it has mapped.
install -m 755 "$2/libmpi_mpich.so" "$mpich/libmpi.so.12.new"
mv -f "$mpich/libmpi.so.12.new" "$mpich/libmpi.so.12"
# As Debian and others call it, and as programs ask for it that look for no version.
ln -sfn libmpi.so.12 "$mpich/libmpich.so.12"
ln -sfn libmpi.so.12 "$mpich/libmpi.so"
