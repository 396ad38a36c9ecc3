//! What people read on the error output, and where it comes from.

/// Writes a line to the error output, at once: this process or its job may end any moment.
pub fn say(message: &str) {
    let line = format!("combray: {message}\n");
    eprint!("{line}");
}

/// The name of this machine.
pub fn host_name() -> String {
    let name = sys::process::host_name();
    if name.is_empty() { "localhost".to_owned() } else { name }
}
