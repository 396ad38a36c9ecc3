#!/usr/bin/env bash
# Everything that CI runs, one step after another; all steps run, then the closing lines of each
# runner are shown again. Fails if one failed.
set -uo pipefail
cd "$(dirname "$0")/.."
logs=build/test-logs
mkdir -p "$logs"
rm -f "$logs"/*
failed=()
number=0

step() {
    local name=$1 started=$SECONDS log
    shift
    number=$((number + 1))
    log="$logs/$number"
    printf '\n=== %s: %s\n' "$name" "$*"
    if timeout 1500 "$@" 2>&1 | tee "$log"; then
        printf '=== %s: ok after %d s\n' "$name" $((SECONDS - started))
    else
        printf '=== %s: FAILED after %d s\n' "$name" $((SECONDS - started))
        failed+=("$name")
    fi
    printf '%s\n' "$name" >"$log.name"
}

step format cargo fmt --all --check
step clippy cargo clippy --workspace --all-targets --quiet -- -D warnings
step units cargo test --workspace --quiet --no-fail-fast
step models env RUSTFLAGS='--cfg loom' cargo test -p queues --lib --release --target-dir target/loom models
step docs env RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --quiet
step generated cargo xtask codegen --check
step install scripts/install.sh "$PWD/build/prefix"
# Building mpi4py keeps one core busy for two minutes, in which other tests mostly wait. What goes wrong
# is told when it is built again for its step.
tests/mpi4py/run --build-only >"$logs/mpi4py-build" 2>&1 &
building=$!
step installed tests/install/run
step programs tests/run
step numa tests/numa/run
step hosts tests/cluster/run programs
step random tests/random/run
wait "$building"
step mpi4py tests/mpi4py/run
# On three hosts it takes three more minutes, and is left to whoever changes something there.
step mpi4py-hosts tests/cluster/run mpi4py --hosts 2
step demos tests/mpi4py/demos
for tool in address threads memory; do
    step "$tool" tests/checkers/run "$tool"
done

# The sum of what all runners counted: "test result: ok. 3 passed; 0 failed; 1 ignored" of cargo,
# "3 passed, 0 failed, 1 skipped" of ours.
printf '\n=== Summary after %d s\n' "$SECONDS"
for ((i = 1; i <= number; i++)); do
    sed -nE 's/^(test result: [a-zA-Z]+\. )?([0-9]+) passed[;,] ([0-9]+) failed([;,] ([0-9]+) (ignored|skipped))?.*/\2 \3 \5/p' \
        "$logs/$i" | awk -v name="$(cat "$logs/$i.name")" '
        { passed += $1; failed += $2; skipped += $3; lines++ }
        END { if (lines) printf "%-12s %6d passed, %4d failed, %4d skipped\n", name, passed, failed, skipped }' |
        tee -a "$logs/total"
done
for name in "${failed[@]+"${failed[@]}"}"; do
    echo "FAILED: $name"
done
awk -v steps=${#failed[@]} '{ passed += $2; failed += $4; skipped += $6 }
    END { if (steps > 0 && failed == 0) failed = steps
          printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }' "$logs/total" /dev/null
[ ${#failed[@]} -eq 0 ]
