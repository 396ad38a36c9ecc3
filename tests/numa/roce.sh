#!/usr/bin/env bash
# What is looked at inside of the emulated machine (tests/numa/vm) about fast networks: RDMA in
# software (rdma_rxe) over its two interfaces, by libfabric's provider verbs. Prints "ok NAME",
# "FAILED NAME", or "skipped: REASON". With an argument, also those files of mpi4py's suite that it,
# a regular expression, names. All is emulated on the machine's own few processors: of test_rma, the
# 18 tests that use no network take 80 s of Python. Four processes that wait, each taking itself to
# have a processor, would keep these from each other: so waits sleep soon (COMBRAY_PREFER=compute).
# test_cco_vec and test_cco_nb_vec take five minutes each, test_rma takes seventeen.
cd "$(dirname "$(realpath "$0")")/../.." || exit 1
bin=build/prefix/bin

skip() {
    echo "skipped: $1"
    exit 0
}

# Runs a command: prints "ok" if it succeeds, otherwise its output.
succeeds() {
    local name=$1 output
    shift
    if output=$("$@" 2>&1); then
        echo "ok $name"
    else
        printf 'FAILED %s\n%s\n' "$name" "$output"
    fi
}

command -v rdma >/dev/null || skip "there is no rdma: install iproute2"
compgen -G '/usr/lib/*/libibverbs/librxe-*' >/dev/null || skip "libibverbs has no rxe: install ibverbs-providers"
for module in crc32_generic rdma_rxe rdma_ucm ib_uverbs; do
    modprobe -d "$KERNEL_FOLDER" $module || skip "the kernel has no $module"
done
# By the node that they are near: the interface, and the adapter that is made of it.
declare -A interface adapter
for name in $(ls /sys/class/net); do
    [ "$name" != lo ] || continue
    read -r node </sys/class/net/"$name"/device/../numa_node
    interface[$node]=$name adapter[$node]=rxe$node
    ip address add 10.$((node + 1)).0.1/24 dev "$name"
    ip link set "$name" up
    rdma link add rxe"$node" type rxe netdev "$name" || skip "no adapter can be made of $name"
done
until [ "$(rdma link | grep -c 'state ACTIVE')" -eq 2 ]; do sleep 0.1; done

sent() { cat /sys/class/infiniband/"$1"/ports/1/hw_counters/sent_pkts; }

# Two processes that take themselves to be on two machines.
pair() {
    COMBRAY_NET=$1 timeout 60 $bin/mpiexec -n 1 -env COMBRAY_NODE=a "${@:2}" : -n 1 -env COMBRAY_NODE=b "${@:2}"
}

found() {
    local all node
    all=$(COMBRAY_NET=ofi $bin/combray info)
    for node in 0 2; do
        grep -q "ofi:verbs:${adapter[$node]} (between machines; near NUMA node $node," <<<"$all" || { echo "$all"; return 1; }
    done
    # An adapter is there once, although libfabric also makes something of its datagrams.
    ! grep -q 'dgram' <<<"$all" || { echo "$all"; return 1; }
}
succeeds adapters_have_places found

near() {
    local all
    all=$(COMBRAY_NET=ofi:verbs timeout 60 $bin/mpiexec -n 2 -env COMBRAY_NODE=a build/numa/near : \
        -n 2 -env COMBRAY_NODE=b build/numa/near 2>&1)
    [ "$(sed 's/, helper.*//' <<<"$all")" = "rank 0: rail on node 0 at 10
rank 1: rail on node 0 at 16
rank 2: rail on node 2 at 10
rank 3: rail on node 2 at 16" ] || { echo "$all"; return 1; }
}
succeeds near_adapter near

# Small and large messages, both ways at once, over both adapters.
both() {
    local first second
    first=$(sent rxe0) second=$(sent rxe2)
    pair ofi:verbs build/numa/transfer 1 0 0 || return 1
    # A round is 16 MiB, in packets of 1 KiB.
    echo "sent: $(($(sent rxe0) - first)) and $(($(sent rxe2) - second)) packets"
    [ $(($(sent rxe0) - first)) -gt 2000 ] && [ $(($(sent rxe2) - second)) -gt 2000 ]
}
succeeds both_adapters both

succeeds windows pair ofi:verbs build/numa/rma_active

beside_tcp() {
    local first before after
    first=$(sent rxe0)
    before=$(awk '/lo:/ { print $2 }' /proc/net/dev)
    pair "ofi:verbs:rxe0,tcp:${interface[2]}" build/numa/transfer 1 0 0 || return 1
    after=$(awk '/lo:/ { print $2 }' /proc/net/dev)
    echo "sent: $(($(sent rxe0) - first)) packets, and $((after - before)) bytes by TCP"
    [ $(($(sent rxe0) - first)) -gt 1000 ] && [ $((after - before)) -gt 1000000 ]
}
succeeds beside_tcp beside_tcp

lost() {
    (sleep 3; ip link set "${interface[2]}" down) &
    local all status
    all=$(pair ofi:verbs build/numa/transfer 5 0 0 2>&1)
    status=$?
    wait
    echo "$all"
    [ $status -eq 0 ] && grep -q "over ofi:verbs:rxe2: .*the job goes on over the other interfaces" <<<"$all"
}

if [ -n "${1-}" ]; then
    cat >/tmp/each-apart <<END
#!/bin/bash
exec $PWD/$bin/mpiexec "\$1" "\$2" sh -c 'COMBRAY_NODE=n\$COMBRAY_RANK exec "\$0" "\$@"' "\${@:3}"
END
    chmod +x /tmp/each-apart
    export MPIEXEC=/tmp/each-apart COMBRAY_NET=ofi:verbs COMBRAY_PREFER=compute
    # Each by itself, so that there are results before one that does not end.
    for file in build/mpi4py/mpi4py-*/test/test_*.py; do
        file=$(basename "$file" .py)
        [[ $file =~ $1 ]] || continue
        started=$SECONDS
        if output=$(tests/mpi4py/run -n 4 --deadline 1400 --timeout-factor 6 --only "^$file\$" 2>&1); then
            echo "ok mpi4py $file: $(tail -n 1 <<<"$output"), in $((SECONDS - started)) s"
        else
            printf 'FAILED mpi4py %s, after %d s\n%s\n' "$file" $((SECONDS - started)) "$output"
        fi
    done
    unset MPIEXEC COMBRAY_NET COMBRAY_PREFER
fi
succeeds one_lost_underway lost
