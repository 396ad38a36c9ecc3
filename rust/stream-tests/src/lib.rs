//! Tests of the streams of `combray-endpoints`, in `tests/`.
