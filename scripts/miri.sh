#!/usr/bin/env bash
# Runs the tests of the crates that hold unsafe code without the system, and of those that work on
# their memory, in an interpreter that finds undefined behaviour:
#     scripts/miri.sh [ARGUMENTS OF CARGO TEST]
# It needs a nightly toolchain: rustup component add miri rust-src --toolchain nightly
set -euo pipefail
cd "$(dirname "$0")/.."
# A few cases of each property: an interpreted one takes as long as hundreds.
export PROPTEST_CASES=${PROPTEST_CASES:-3}
# Loads that return old values are left to the models of queues, which try all of them: here the
# interpreter gives up on words that are atomic and covered by data in turn, as the headers of lines
# are.
export MIRIFLAGS="${MIRIFLAGS:-} -Zmiri-strict-provenance -Zmiri-disable-isolation"
MIRIFLAGS+=" -Zmiri-disable-weak-memory-emulation"
# Its own folder: cargo would compile everything again, here and for the next compiler.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/miri
cargo +nightly miri test --lib --tests \
    --package memory --package queues --package wire --package datatype --package engine "$@"
# Tables of handles, and objects that are lent to calls. The other tests of this crate call the
# system.
exec cargo +nightly miri test --lib --package mpi-abi "$@" -- handles:: library:: requests::
