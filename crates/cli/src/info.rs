//! `combray info`.

use runtime::configuration::VARIABLES;
use sys::cores;

use crate::prefix;

/// The functions that the library does not have yet, one a line; generated.
const UNSUPPORTED: &str = include_str!("../../mpi-abi/generated/unsupported.txt");

/// Prints what a person may want to know of this installation.
pub fn run(unsupported: bool) -> Result<i32, String> {
    if unsupported {
        print!("{UNSUPPORTED}");
        return Ok(0);
    }
    let prefix = prefix::find()?;
    let missing = UNSUPPORTED.lines().filter(|line| line.starts_with("MPI_")).count();
    println!("Combray {}", env!("CARGO_PKG_VERSION"));
    println!("  interface   MPI 5.0 standard ABI 1.0, libmpi_abi.so.1");
    println!("  prefix      {}", prefix.display());
    println!("  library     {}", prefix.join("lib/libmpi_abi.so.1").display());
    println!("  rails       self (within a process), shm (between processes of one machine)");
    println!("  launchers   combray run, and others that speak PMI-1 (Hydra)");
    println!("  cores       {} usable here", cores::usable());
    println!("  missing     {missing} functions (combray info --unsupported lists them)");
    println!("\nVariables:");
    for variable in VARIABLES {
        let (default, others) = variable.values.split_first().unwrap_or((&"", &[]));
        println!("  {}={default} (or {})", variable.name, others.join(", "));
        println!("      {}", variable.help);
    }
    Ok(0)
}
