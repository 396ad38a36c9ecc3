//! Output of commands.

use std::env;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
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

/// Writes text for people to standard output. Long lines are broken for a terminal.
///
/// # Errors
/// Those of [`print`].
pub fn print_page(text: &str) -> Result<(), String> {
    match columns() {
        Some(columns) => print(&base::folded(text, columns)),
        None => print(text),
    }
}

/// Returns the number of columns of the terminal at standard output; `None` if standard output is
/// not a terminal.
pub fn columns() -> Option<usize> {
    sys::terminal::columns(io::stdout().as_raw_fd())
}

/// Whether text at standard output may have colours: at a terminal, unless the user has set
/// `NO_COLOR` (no-color.org) or the terminal is a simple one.
pub fn has_colours() -> bool {
    let is_unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    columns().is_some() && !is_unwanted && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Writes to standard output. If that fails, ends the process with a message.
pub fn print_or_end(text: &str) {
    if let Err(cause) = print(text) {
        eprintln!("combray: {}", base::without_error_numbers(&cause));
        process::exit(2);
    }
}
