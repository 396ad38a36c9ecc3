#!/usr/bin/env bash
# Runs the tests of the crates whose threads share memory under ThreadSanitizer, with a standard
# library that is compiled for it (so the tool sees that library's own synchronization):
#     scripts/tsan.sh [ARGUMENTS OF CARGO TEST]
# It needs a nightly toolchain: rustup component add rust-src --toolchain nightly
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(uname -m)-unknown-linux-gnu
# tsan: threads of the library are registered with the tool, as far as its number of them (8,000)
# allows.
export RUSTFLAGS='-Zsanitizer=thread --cfg tsan' CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/tsan
exec cargo +nightly test -Zbuild-std --target "$target" --lib --tests --package threads "$@" -- \
    --skip many_threads_are_alive --skip a_stack_that_overflows
