#!/usr/bin/env bash
# The checks of `combray bench nearness` inside of the emulated machine (tests/numa/vm): it finds
# costs again that were made up for each distance, and names the choices that processes then make.
# Prints "ok NAME" or "FAILED NAME". All is emulated on the machine's own few processors: waits
# sleep soon (COMBRAY_PREFER=compute), and the made-up costs are far above the real ones.
set -o pipefail
cd "$(dirname "$(realpath "$0")")/../.." || exit 1
bin=build/prefix/bin
export COMBRAY_PREFER=compute

# By the node that they are near.
declare -A interface
for name in $(ls /sys/class/net); do
    [ "$name" != lo ] || continue
    read -r node </sys/class/net/"$name"/device/../numa_node
    interface[$node]=$name
    ip address add 10.$((node + 1)).0.1/24 dev "$name"
    ip link set "$name" up
done

# The costs of memory by which the library decides whether it moves.
export XDG_CACHE_HOME=/tmp/cache
mkdir -p $XDG_CACHE_HOME/combray
python3 tests/numa/invented 10:100 16:220 22:340 28:460 >"$XDG_CACHE_HOME/combray/rails-$(hostname).json"

made_up=10:8000:30000,16:12800:48000,22:17600:66000,28:22400:84000
timeout 600 $bin/combray bench nearness --made-up "$made_up" --rails "shm,tcp:${interface[2]}" --json >/tmp/nearness 2>/tmp/faults ||
    { echo "FAILED nearness"; cat /tmp/faults; exit; }
# What processes that are bound to each node in turn choose in a job must be as the tool says.
timeout 120 $bin/mpiexec -n 2 -env COMBRAY_NODE=a build/numa/near : -n 2 -env COMBRAY_NODE=b build/numa/near 2>&1 |
    python3 tests/numa/found_again.py /tmp/nearness "$made_up" "${interface[0]}" "${interface[2]}"
