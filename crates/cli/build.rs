//! Exports the MPIR symbols, so that debuggers find the process table even if the command is
//! stripped, and leaves the command with no need for libgcc_s, whose loading takes 0.1 ms of each
//! start.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The names are those of the crate `mpir`.
    println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=MPIR_*");
    // Rust's standard library asks for the shared libgcc_s, for unwinding. The same code exists as
    // an archive; a linker script of that name, found first, puts the archive in its place.
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(folder.join("libgcc_s.so"), "INPUT(-lgcc_eh -lgcc)\n").expect("OUT_DIR is writable");
    println!("cargo::rustc-link-search=native={}", folder.display());
}
