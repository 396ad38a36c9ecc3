//! Gives the shared library its name, and leaves it with no need for any library but libc. The
//! crates of the other dialects are built by it, too.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(dialect, values(\"mpich\", \"open_mpi\"))");
    let package = env::var("CARGO_PKG_NAME").expect("cargo sets CARGO_PKG_NAME");
    let name = match package.as_str() {
        "mpi-abi-mpich" => {
            println!("cargo:rustc-cfg=dialect=\"mpich\"");
            "libmpi.so.12"
        }
        "mpi-abi-open-mpi" => {
            println!("cargo:rustc-cfg=dialect=\"open_mpi\"");
            "libmpi.so.40"
        }
        _ => "libmpi_abi.so.1",
    };
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{name}");
    // Its helper thread and the handlers of signals stay until the process ends.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Rust's standard library asks for the shared libgcc_s, for unwinding. The same code exists as
    // an archive; a linker script of that name, found first, puts the archive in its place.
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(folder.join("libgcc_s.so"), "INPUT(-lgcc_eh -lgcc)\n").expect("OUT_DIR is writable");
    println!("cargo:rustc-link-search=native={}", folder.display());
}
