//! What people read: the lines of the program, messages on the error output, and where they come
//! from.

use base::variables;

/// One of these variables is there where a launcher started the process: ours, or another one that
/// speaks PMI or PMIx.
const OF_LAUNCHERS: [&str; 4] = [variables::RANK, "PMI_RANK", "PMI_PORT", "PMIX_RANK"];

/// Under a launcher the lines of the program go to a pipe, where the C library keeps some KiB of
/// them, which are lost when the job is ended. The loader calls this before `main`, so that what
/// the program itself chooses holds.
extern "C" fn write_whole_lines() {
    if OF_LAUNCHERS.iter().any(|name| sys::environment::value(name).is_some()) {
        sys::standard_output::write_whole_lines();
    }
}

// SAFETY: the section is a list of such functions, each of which the loader calls once.
#[unsafe(link_section = ".init_array")]
#[used]
static AT_LOAD: extern "C" fn() = write_whole_lines;

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
