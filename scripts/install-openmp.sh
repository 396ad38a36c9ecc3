#!/usr/bin/env bash
# Links the library of OpenMP (crate openmp) from an archive in a folder in which it was built, and
# installs it: scripts/install-openmp.sh PREFIX FOLDER
# The linker gives its symbols the versions that programs ask for, which rustc cannot.
set -euo pipefail
if [ $# -ne 2 ]; then
    echo "usage: scripts/install-openmp.sh PREFIX FOLDER" >&2
    exit 2
fi
crate=$(cd "$(dirname "$0")/../crates/openmp" && pwd)
to=$1/lib/combray/openmp
mkdir -p "$to"
# Threads of the library run its code until the process ends.
${CC:-cc} -O2 -fPIC -shared -o "$to/libgomp.so.1.new" "$crate/src/former.c" \
    -Wl,--whole-archive "$2/libcombray_openmp.a" -Wl,--no-whole-archive \
    -Wl,--gc-sections,-z,nodelete,-z,defs,-z,now,-soname,libgomp.so.1 \
    -Wl,--version-script,"$crate/libgomp.map" -lpthread -ldl
# A new file in place of the old: a program that runs keeps the library that it has mapped.
mv -f "$to/libgomp.so.1.new" "$to/libgomp.so.1"
# The name that GCC links with -fopenmp.
ln -sfn libgomp.so.1 "$to/libgomp.so"
