//! Exports the MPIR symbols, so that debuggers find the process table even if the command is
//! stripped.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The names are those of the crate `mpir`.
    println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=MPIR_*");
}
