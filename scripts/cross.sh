#!/usr/bin/env bash
# Runs a command of this repository for 64-bit ARM on a machine with another processor:
#     scripts/cross.sh scripts/install.sh build/arm/prefix
#     scripts/cross.sh cargo test -p queues
#     scripts/cross.sh build/arm/prefix/bin/mpirun -n 2 build/arm/hello
# Compilers are Debian's cross compilers (gcc-aarch64-linux-gnu); ARM programs run under QEMU
# (qemu-user-static), also where other programs start them. For that the kernel gets QEMU as the
# interpreter of ARM programs in a user namespace, so nothing changes for the rest of the machine.
# Needs Linux 6.7, or an interpreter that is registered for the whole machine.
set -euo pipefail
if [ $# -eq 0 ]; then
    echo "usage: scripts/cross.sh COMMAND..." >&2
    exit 2
fi
triplet=aarch64-linux-gnu
export CARGO_BUILD_TARGET=aarch64-unknown-linux-gnu
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$triplet-gcc
export CC=$triplet-gcc CXX=$triplet-g++ FC=$triplet-gfortran HOST_CC=gcc
# What mpicc and its relatives call.
export COMBRAY_CC=$CC COMBRAY_CXX=$CXX COMBRAY_FC=$FC
# Where QEMU finds the loader and the libraries of ARM programs.
export QEMU_LD_PREFIX=${QEMU_LD_PREFIX-/usr/$triplet}

# Programs begin with these bytes; the version of the system and the kind of file may differ.
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
# F: the emulator is opened now, so that it is found in any root folder.
interpreter=":combray-arm:M::$magic:$mask:$(command -v qemu-aarch64-static || true):F"
# shellcheck disable=SC2016
register='
binfmt=/proc/sys/fs/binfmt_misc
mount -t binfmt_misc none "$binfmt" && printf "%s" "$0" >"$binfmt/register" || exit 77
exec "$@"'
if [ "$(uname -m)" = aarch64 ] || grep -qs enabled /proc/sys/fs/binfmt_misc/qemu-aarch64; then
    exec "$@"
fi
exec unshare --user --map-root-user --mount sh -c "$register" "$interpreter" "$@"
