#!/usr/bin/env bash
# The checks inside of the emulated machine (tests/numa/vm): prints "ok NAME" or "FAILED NAME".
cd "$(dirname "$(realpath "$0")")/../.." || exit 1
bin=build/prefix/bin
program=build/numa/placed

expect() {
    local name=$1 expected=$2 found=$3
    if [ "$found" = "$expected" ]; then
        echo "ok $name"
    else
        printf 'FAILED %s\nexpected:\n%s\nfound:\n%s\n' "$name" "$expected" "$found"
    fi
}

# Names of interfaces and sizes of memory are the kernel's own.
tree=$($bin/combray topo)
expect discovery "4 packages, 4 NUMA nodes, 8 threads" \
    "$($bin/combray topo --json | python3 -c '
import json, sys
counts = {}
def visit(one):
    counts[one["kind"]] = counts.get(one["kind"], 0) + 1
    for name in ("children", "memories"):
        for inside in one.get(name, []): visit(inside)
visit(json.load(sys.stdin)["tree"])
print("%d packages, %d NUMA nodes, %d threads" % (counts["package"], counts["NUMA node"], counts["thread"]))')"
expect distances "$(cat tests/numa/distances)" "$(grep -A5 '^Distances' <<<"$tree" | tail -n 4)"
expect interfaces "network NUMA node 0
network NUMA node 2" "$(awk '$2 == "network" { print $2, $3, $4, $5 }' <<<"$tree")"

bindings() { sed -n 's/^combray: \(rank .*\)/\1/p' | sort; }
each_on_its_node="rank 0: package 0, NUMA node 0, cores 0-1 (hardware threads 0-1)
rank 1: package 1, NUMA node 1, cores 2-3 (hardware threads 2-3)
rank 2: package 2, NUMA node 2, cores 4-5 (hardware threads 4-5)
rank 3: package 3, NUMA node 3, cores 6-7 (hardware threads 6-7)"
expect default_binding "$each_on_its_node" "$($bin/mpiexec -n 4 --report-bindings true 2>&1 | bindings)"
expect bind_to_numa "$each_on_its_node" \
    "$($bin/mpiexec -n 4 --map-by numa --bind-to numa --report-bindings true 2>&1 | bindings)"
expect bind_to_core "rank 0: package 0, NUMA node 0, core 0 (hardware threads 0)
rank 1: package 1, NUMA node 1, core 2 (hardware threads 2)" \
    "$($bin/mpiexec -n 2 --map-by numa --bind-to core --report-bindings true 2>&1 | bindings)"
# Two processes on each node: data crosses once to each other one.
COMBRAY_BOARDS=never COMBRAY_COLLECTIVES=bcast:hierarchical timeout 60 $bin/mpiexec -n 8 --record /tmp/levels \
    build/numa/levels 0
expect levels "0 1
0 2
0 4
0 6
2 3
4 5
6 7" "$(awk '$1 ~ /^[0-9]/ && $4 >= 40 { print $1, $2 }' /tmp/levels | sort)"
# One job checks everything, as starting one takes long here. The memory costs are invented, as all
# memory of this machine costs the same.
export XDG_CACHE_HOME=/tmp/cache
mkdir -p $XDG_CACHE_HOME/combray
python3 tests/numa/invented 10:100 20:300 >"$XDG_CACHE_HOME/combray/rails-$(hostname).json"
found=$($bin/mpiexec -n 4 $program 2>&1)
for what in bound allocated interleaved windows split migrated touched used copied; do
    expect "$what" "$what: well" "$(grep "^$what: " <<<"$found")"
done
unset XDG_CACHE_HOME

expect bubbles "near_memory: well
memory_follows: well" "$(timeout 60 $bin/mpiexec -n 1 --bind-to none build/numa/bubbles 2>&1)"

# A team of one thread for each node, in which each thread opens a team: all stay on that node.
expect teams "teams: 12 of 12 outer threads, 24 of 24 threads, 1536 of 1536 pages on their node" \
    "$(OMP_PLACES=cores OMP_PROC_BIND=spread,close timeout 60 $bin/combray openmp build/numa/teams 2>&1)"

# A team of two threads for each node, each of which opens a team; the first two have most of the
# work, and all memory is on one node at first.
expect uneven_teams "uneven: heavy teams apart, 8 of 8 teams together, 512 of 512 pages with their team, 0 refused, EPERM outside" \
    "$(timeout 60 $bin/combray openmp build/numa/teams uneven 2>&1)"

expect reordered "8 edges between nodes, 4 when reordered" \
    "$($bin/mpiexec -n 8 --map-by numa --bind-to core build/numa/near ring 2>&1)"

# Two machines of two processes each, as these take it to be; the interfaces get addresses of two
# networks.
network=1
for interface in $(awk '$2 == "network" { print $1 }' <<<"$tree"); do
    ip address add 10.$network.0.1/24 dev "$interface"
    ip link set "$interface" up
    network=$((network + 1))
done
near() {
    timeout 60 $bin/mpiexec "$@" -n 2 -env COMBRAY_NODE=a build/numa/near : -n 2 -env COMBRAY_NODE=b build/numa/near 2>&1
}
expect near_interface "rank 0: rail on node 0 at 10, helper on 0-1, buffers on 0, 2 at the interface
rank 1: rail on node 0 at 16, helper on 2-3, buffers on no node, 2 at the interface
rank 2: rail on node 2 at 10, helper on 4-5, buffers on 2, 2 at the interface
rank 3: rail on node 2 at 16, helper on 6-7, buffers on no node, 2 at the interface" "$(near)"
# A process that may run anywhere goes near an interface, in turn near one and the other.
expect free_to_choose "2 rail on node 0 at 10, helper on 0-1, buffers on 0, 0 at the interface
2 rail on node 2 at 10, helper on 4-5, buffers on 2, 0 at the interface" \
    "$(near --bind-to none | sed 's/rank .: //' | sort | uniq -c | sed 's/^ *//')"
# Of each machine the process that is near an interface speaks for it, whatever its rank: here 1 and
# 3.
cat >/tmp/ranks <<END
rank 0=localhost slot=2-3
rank 1=localhost slot=0-1
rank 2=localhost slot=6-7
rank 3=localhost slot=4-5
END
near --rankfile /tmp/ranks --record /tmp/matrix -x COMBRAY_COLLECTIVES=allreduce:hierarchical >/tmp/near
expect elected_leaders "1 3
3 1" "$(awk '$1 ~ /^[0-9]/ && ($1 < 2) != ($2 < 2) && $4 >= 100 { print $1, $2 }' /tmp/matrix | sort)$(grep -v '^rank' /tmp/near)"
