//! Finds a library with the standard ABI of MPI.

use std::env;
use std::path::{Path, PathBuf};

const LIBRARY: &str = "libmpi_abi.so";

fn main() {
    for name in ["MPI_ABI_LIB_DIR", "PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    println!("cargo::rustc-link-lib=dylib=mpi_abi");
    let chosen = env::var_os("MPI_ABI_LIB_DIR").map(PathBuf::from);
    let has_library = |folder: &PathBuf| folder.join(LIBRARY).exists();
    let found = match chosen {
        Some(folder) if has_library(&folder) => Some(folder),
        Some(folder) => {
            println!(
                "cargo::error=MPI_ABI_LIB_DIR is {}, where there is no {LIBRARY}",
                folder.display()
            );
            return;
        }
        None => candidates().into_iter().find(has_library),
    };
    match found {
        Some(folder) => {
            println!("cargo::rerun-if-changed={}", folder.join(LIBRARY).display());
            println!("cargo::rustc-link-search=native={}", folder.display());
            println!("cargo::metadata=LIB_DIR={}", folder.display());
        }
        None => println!(
            "cargo::warning=no {LIBRARY} was found, so programs cannot be linked: put the commands of an MPI library \
             with the standard ABI into PATH, or set MPI_ABI_LIB_DIR to the folder of the library"
        ),
    }
}

/// The folders in which the library may be, the preferred ones first.
fn candidates() -> Vec<PathBuf> {
    let list = |name: &str| -> Vec<PathBuf> {
        env::var_os(name).map(|value| env::split_paths(&value).collect()).unwrap_or_default()
    };
    let mut folders = Vec::new();
    for bin in list("PATH") {
        // A command may be a link into the prefix, as in Debian's package.
        let real = bin.join("combray").canonicalize().ok();
        let of_command = real.as_deref().and_then(Path::parent).map(Path::to_path_buf);
        folders.extend([Some(bin), of_command].into_iter().flatten().map(|bin| bin.join("../lib")));
    }
    folders.extend(list("LD_LIBRARY_PATH"));
    folders.extend(list("LIBRARY_PATH"));
    let machine = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let of_system = [
        "/usr/local/lib".to_owned(),
        format!("/usr/lib/{machine}-linux-gnu"),
        "/usr/lib64".to_owned(),
        "/usr/lib".to_owned(),
    ];
    for folder in of_system.map(PathBuf::from) {
        folders.push(folder.join("combray/lib"));
        folders.push(folder);
    }
    folders
}
