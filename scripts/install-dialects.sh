#!/usr/bin/env bash
# Installs the libraries for programs that were built for other MPIs (docs/user/binaries.md) from a
# folder in which they were built: scripts/install-dialects.sh PREFIX FOLDER
set -euo pipefail
if [ $# -ne 2 ]; then
    echo "usage: scripts/install-dialects.sh PREFIX FOLDER" >&2
    exit 2
fi
# A new file in place of the old: a program that runs keeps the library that it has mapped.
install_new() {
    mkdir -p "$(dirname "$2")"
    install -m 755 "$1" "$2.new"
    mv -f "$2.new" "$2"
}
mpich=$1/lib/combray/mpich
install_new "$2/libmpi_mpich.so" "$mpich/libmpi.so.12"
# As Debian and others call it, and as programs ask for it that look for no version.
ln -sfn libmpi.so.12 "$mpich/libmpich.so.12"
ln -sfn libmpi.so.12 "$mpich/libmpi.so"
open_mpi=$1/lib/combray/open-mpi
install_new "$2/libmpi_open_mpi.so" "$open_mpi/libmpi.so.40"
