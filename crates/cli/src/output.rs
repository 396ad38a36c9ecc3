//! What commands print.

use std::io::{self, Write};
use std::process;

/// In place of the standard library's macro of this name, which panics where a reader has left.
macro_rules! print {
    ($($text:tt)*) => { $crate::output::print_or_end(&format!($($text)*)) };
}

/// Likewise, with the end of a line.
macro_rules! println {
    ($($text:tt)*) => { $crate::output::print_or_end(&(format!($($text)*) + "\n")) };
}

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

/// The same; where it cannot be written the process ends with a message.
pub fn print_or_end(text: &str) {
    if let Err(cause) = print(text) {
        eprintln!("combray: {cause}");
        process::exit(2);
    }
}
