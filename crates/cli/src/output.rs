//! What commands print.

use std::io::{self, Write};

/// Writes to the output.
///
/// # Errors
/// It cannot be written. A reader that has seen enough and left, as `head` does, is no error.
pub fn print(text: &str) -> Result<(), String> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("the output cannot be written: {cause}"))
        }
        _ => Ok(()),
    }
}
