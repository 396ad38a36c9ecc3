//! Lets debuggers find the table of processes also where the command has no symbols any more.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The names of the crate `mpir`.
    println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=MPIR_*");
}
