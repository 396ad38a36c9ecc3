//! Output of commands.

use std::io::{self, Write};
use std::process;

/// Replaces the standard library's macro of this name, which panics if the reader has closed the
/// pipe.
macro_rules! print {
    ($($text:tt)*) => { $crate::output::print_or_end(&format!($($text)*)) };
}

/// Replaces the standard library's macro of this name, as `print!` does.
macro_rules! println {
    ($($text:tt)*) => { $crate::output::print_or_end(&(format!($($text)*) + "\n")) };
}

/// Writes to standard output.
///
/// # Errors
/// The output cannot be written. A reader that closes the pipe early, as `head` does, is no error.
pub fn print(text: &str) -> Result<(), String> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("the output cannot be written: {cause}"))
        }
        _ => Ok(()),
    }
}

/// Writes to standard output. If that fails, ends the process with a message.
pub fn print_or_end(text: &str) {
    if let Err(cause) = print(text) {
        eprintln!("combray: {}", base::without_error_numbers(&cause));
        process::exit(2);
    }
}
