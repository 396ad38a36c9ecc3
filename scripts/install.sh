#!/usr/bin/env bash
# Builds the libraries and the command, and installs them:
#     scripts/install.sh PREFIX [PROFILE [--for-tests]]
# PROFILE is one of cargo's: release if it is not given; quick, for trying a change; dev. With
# --for-tests only libmpi_abi.so.1 has that profile. The command and the libraries for programs that
# were built for other MPIs are compiled as unit tests are, so that they share what those compile;
# target/for-tests.sha256 lists them, as they are nothing for packages, and all that has another
# profile than release.
# Nothing in the prefix names its own place, so it can be moved afterwards.
set -euo pipefail
if [ $# -lt 1 ] || [ $# -gt 3 ] || [ "${3:---for-tests}" != --for-tests ]; then
    echo "usage: scripts/install.sh PREFIX [PROFILE [--for-tests]]" >&2
    exit 2
fi
cd "$(dirname "$0")/.."
mkdir -p "$1"
prefix=$(cd "$1" && pwd)
profile=${2:-release}
# For another processor (scripts/cross.sh) cargo has a folder beside.
target=${CARGO_TARGET_DIR:-target}${CARGO_BUILD_TARGET:+/$CARGO_BUILD_TARGET}
built=$target/${profile/#dev/debug}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

# Builds of sources with changes that are not released say so in --version.
if [ -z "$(sed -n '/^## Unreleased/,/^## [0-9]/p' CHANGELOG.md | sed -n '/^-/p')" ]; then
    export RELEASED_COMBRAY=1
fi
# Released files contain no folder names of this machine, and are identical from every folder.
compile_optimised() (
    if [ "$profile" = release ]; then
        separator=$'\x1f'
        CARGO_ENCODED_RUSTFLAGS=${CARGO_ENCODED_RUSTFLAGS-${RUSTFLAGS:+${RUSTFLAGS// /$separator}}}
        CARGO_ENCODED_RUSTFLAGS+=${CARGO_ENCODED_RUSTFLAGS:+$separator}--remap-path-prefix=$PWD=/combray
        CARGO_ENCODED_RUSTFLAGS+=$separator--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo
        export CARGO_ENCODED_RUSTFLAGS
    fi
    exec cargo build --profile "$@"
)
libraries=(--package mpi-abi --package mqs)
others_built=(--package mpi-abi-mpich --package mpi-abi-open-mpi --package openmp)
if [ $# -eq 3 ]; then
    compile_optimised "$profile" "${libraries[@]}"
    # The whole workspace, as for unit tests: a part of it uses fewer features of libraries.
    cargo build --workspace
    others=$target/debug command=$target/debug
elif [ "$profile" = release ]; then
    compile_optimised release "${libraries[@]}" "${others_built[@]}"
    compile_optimised command --package cli
    others=$target/release command=$target/command
else
    compile_optimised "$profile" "${libraries[@]}" "${others_built[@]}" --package cli
    others=$built command=$built
fi

mkdir -p "$prefix"/{bin,include,lib/pkgconfig,lib/cmake/combray,lib/combray,share/combray,share/doc/combray/docs/{user,internals}}
# A new file in place of the old: a program that runs keeps the library that it has mapped.
install_new() { install -m "$1" "$2" "$3.new" && mv -f "$3.new" "$3"; }
install_new 755 "$built/libmpi_abi.so" "$prefix/lib/libmpi_abi.so.1"
ln -sfn libmpi_abi.so.1 "$prefix/lib/libmpi_abi.so"
# The name in makefiles; programs load libmpi_abi.so.1.
ln -sfn libmpi_abi.so.1 "$prefix/lib/libmpi.so"
# Early programs of the standard ABI were linked with this name.
ln -sfn libmpi_abi.so.1 "$prefix/lib/libmpi_abi.so.0"
# What debuggers load to see message queues; the libraries find it from their own place.
install_new 755 "$built/libcombray_mqs.so" "$prefix/lib/combray/libcombray_mqs.so"
scripts/install-dialects.sh "$prefix" "$others"
scripts/install-openmp.sh "$prefix" "$others"
install_new 755 "$command/combray" "$prefix/bin/combray"
rm -f "$target/for-tests.sha256"
if [ "$profile" != release ]; then
    sha256sum "$prefix"/bin/combray "$prefix"/lib/libmpi_abi.so.1 "$prefix"/lib/combray/*.so "$prefix"/lib/combray/*/lib{mpi,gomp}.so.* >"$target/for-tests.sha256"
elif [ $# -eq 3 ]; then
    sha256sum "$prefix"/bin/combray "$prefix"/lib/combray/*/lib{mpi,gomp}.so.* >"$target/for-tests.sha256"
fi
for name in mpicc mpicxx mpic++ mpiCC mpifort mpif77 mpif90 mpirun mpiexec; do
    ln -sfn combray "$prefix/bin/$name"
done
install -m 644 crates/mpi-abi/include/{mpi.h,mpi-ext.h,mpi_fortran.h,combray.h,combray_threads.h} fortran/generated/mpif.h "$prefix/include/"
# The files that are compiled for each Fortran compiler (docs/user/fortran.md).
mkdir -p "$prefix/lib/combray/fortran/source"
install -m 644 fortran/*.{c,h,f90} fortran/standard/*.{c,h} fortran/generated/*.{c,f90} "$prefix/lib/combray/fortran/source/"
# The templates in packaging/ find their prefix from their own place; only the version is filled in.
fill() { sed "s/@VERSION@/$version/g" "$1" >"$2"; }
# Build systems ask for the names of other libraries, too.
for name in mpi mpi-c mpi-cxx ompi ompi-c ompi-cxx mpich; do
    fill packaging/mpi.pc.in "$prefix/lib/pkgconfig/$name.pc"
    sed -i "s/@NAME@/$name/" "$prefix/lib/pkgconfig/$name.pc"
done
fill packaging/combray.pc.in "$prefix/lib/pkgconfig/combray.pc"
fill packaging/combray-config.cmake.in "$prefix/lib/cmake/combray/combray-config.cmake"
fill packaging/combray-config-version.cmake.in "$prefix/lib/cmake/combray/combray-config-version.cmake"
mkdir -p "$prefix/share/modulefiles/combray"
fill packaging/modulefile.in "$prefix/share/modulefiles/combray/$version"
fill packaging/modulefile.lua.in "$prefix/share/modulefiles/combray/$version.lua"
for part in user internals; do
    install -m 644 docs/$part/*.md "$prefix/share/doc/combray/docs/$part/"
done
install -m 644 docs/user/*.png "$prefix/share/doc/combray/docs/user/"
install -m 644 crates/cli/fonts/LICENSE "$prefix/share/doc/combray/LICENSE-DejaVu"
# GCC links files of these two names for -fsanitize=thread (mpicc --check-accesses).
mkdir -p "$prefix/lib/combray/accesses"
${CC:-cc} -O2 -fPIC -Wno-builtin-declaration-mismatch -c crates/mpi-abi/accesses/accesses.c -o "$prefix/lib/combray/accesses/accesses.o"
echo "/* Nothing. */" > "$prefix/lib/combray/accesses/libtsan_preinit.o"
echo "INPUT(accesses.o)" > "$prefix/lib/combray/accesses/libtsan.so"
# Ranges of NVTX become phases.
${CC:-cc} -O2 -std=gnu11 -Wall -Wextra -fPIC -shared -fvisibility=hidden crates/mpi-abi/annotations/nvtx.c -o "$prefix/lib/combray/libcombray-nvtx.so" -ldl
install -m 644 packaging/combray.supp "$prefix/share/combray/"
install -m 644 README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT "$prefix/share/doc/combray/"
"$prefix/bin/combray" manual "$prefix/share"
# On this machine's processor, whatever the libraries are built for.
task() { env -u CARGO_BUILD_TARGET cargo run --quiet --package xtask -- "$@"; }
task man-pages "$prefix/share"
task installed-pages "$prefix/share/doc/combray"
# It finds the library from its own place, as the wrapper's programs do not.
make --no-print-directory -s -B -C bench/programs MPICC="${CC:-cc} -I$prefix/include" \
    LIBS="-L$prefix/lib -lmpi_abi '-Wl,-rpath,\$\$ORIGIN/..'" OUT="$prefix/lib/combray/combray-bench"
make --no-print-directory -s -B -C bench/tally INCLUDE="$prefix/include" OUT="$prefix/lib/combray/libcombray-tally.so"
if command -v "${FC:-gfortran}" >/dev/null; then
    "$prefix/bin/combray" fortran --compiler "${FC:-gfortran}"
fi
echo "Combray $version is installed in $prefix"
