#!/usr/bin/env bash
# The main job: unmodified C and Python MPI programs, run by the library in build/prefix.
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=$PWD/build/prefix

# Bold on a terminal, plain in a file.
bold='' plain=''
if [ -t 1 ]; then
    bold=$(printf '\033[1m') plain=$(printf '\033[0m')
fi
step() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }

mkdir -p build/demo
step "1. A C program, compiled by Combray's mpicc: mpicc examples/hello.c -o hello"
"$prefix/bin/mpicc" -O2 examples/hello.c -o build/demo/hello
step "2. It runs as four processes: mpirun -n 4 ./hello"
"$prefix/bin/mpirun" -n 4 build/demo/hello
step "3. mpi4py, built from its source package for the MPI standard ABI"
MPICC="$prefix/bin/mpicc" MPIEXEC="$prefix/bin/mpiexec" tests/mpi4py/run --build-only
step "4. A Python program on three processes: mpirun -n 3 python examples/ring.py"
"$prefix/bin/mpirun" -n 3 build/mpi4py/venv/bin/python examples/ring.py
step "5. Two emulated hosts, with interfaces of 1170 and 850 Mbit/s: large messages take both"
box=tests/cluster/box
export COMBRAY_BOX=$PWD/build/box-demo
if why=$("$box" check 2>&1); then
    trap '"$box" down' EXIT
    "$box" up 2 1170mbit 850mbit
    bench=("$box" on box1 "$prefix/bin/combray" bench --hosts box1,box2 --launch-agent "$PWD/tests/cluster/rsh")
    measure=(--pin-ranks --batches 5 pingpong --sizes 1M,8M,32M)
    echo "combray bench --hosts box1,box2 pingpong"
    "${bench[@]}" "${measure[@]}"
    step "6. The same over the first interface alone: COMBRAY_NET=eth0"
    "${bench[@]}" -x COMBRAY_NET=eth0 "${measure[@]}"
else
    echo "left out: $why"
fi
step "That was Combray. Your own programs: build/prefix/bin/mpicc and build/prefix/bin/mpirun"
