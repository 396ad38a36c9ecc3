//! `combray info`.

use std::io::{self, Write};
use std::path::Path;

use runtime::configuration::VARIABLES;
use sys::cores;

use crate::prefix;

/// The functions that the library does not have yet, one a line; generated.
const UNSUPPORTED: &str = include_str!("../../mpi-abi/generated/unsupported.txt");

/// Prints what a person may want to know of this installation.
///
/// # Errors
/// The place of this program is not known, or the output cannot be written. A reader that has seen
/// enough and left, as `head` does, is no error.
pub fn run(unsupported: bool) -> Result<i32, String> {
    let text = if unsupported { UNSUPPORTED.to_owned() } else { summary(&prefix::find()?) };
    match io::stdout().write_all(text.as_bytes()) {
        Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("the output cannot be written: {cause}"))
        }
        _ => Ok(0),
    }
}

fn summary(prefix: &Path) -> String {
    let missing = UNSUPPORTED.lines().filter(|line| line.starts_with("MPI_")).count();
    let mut text = format!(
        "Combray {}
  interface   MPI 5.0 standard ABI 1.0, libmpi_abi.so.1
  prefix      {}
  library     {}
  rails       self (within a process), shm (between processes of one machine)
  launchers   combray run, and others that speak PMI-1 (Hydra)
  cores       {} usable here
  missing     {missing} functions (combray info --unsupported lists them)

Variables:
",
        env!("CARGO_PKG_VERSION"),
        prefix.display(),
        prefix.join("lib/libmpi_abi.so.1").display(),
        cores::usable(),
    );
    for variable in VARIABLES {
        let (default, others) = variable.values.split_first().unwrap_or((&"", &[]));
        text += &format!("  {}={default} (or {})\n", variable.name, others.join(", "));
        text += &format!("      {}\n", variable.help);
    }
    text
}
