//! Links the service that uses MPI with the library, as its compiler wrapper says: `MPICC`, or
//! `mpicc` of `PATH`.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=MPICC");
    println!("cargo:rerun-if-env-changed=PATH");
    let wrapper = env::var("MPICC").unwrap_or_else(|_| "mpicc".into());
    let output = Command::new(&wrapper).args(["-show", "x.o"]).output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        panic!(
            "{wrapper} -show fails: add the folder bin of Combray's prefix to PATH, or set MPICC"
        );
    };
    let line = String::from_utf8_lossy(&output.stdout).into_owned();
    for word in line.split_whitespace() {
        if ["-L", "-l", "-Wl,"].iter().any(|begin| word.starts_with(begin)) {
            println!("cargo:rustc-link-arg-bin=http_service={word}");
        }
    }
}
