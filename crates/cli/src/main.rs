//! The `combray` command.
fn main() {}
