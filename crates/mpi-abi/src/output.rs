//! Output for users: the lines of the program, messages on standard error, and the host that they
//! come from.

use base::variables;

/// Variables of launchers. One of them is set if a launcher started the process: Combray's own, or
/// another one that supports PMI or PMIx.
const OF_LAUNCHERS: [&str; 4] = [variables::RANK, "PMI_RANK", "PMI_PORT", "PMIX_RANK"];

/// Makes the C library write whole lines to standard output, if a launcher started the process.
/// Under a launcher standard output is a pipe, for which the C library buffers some KiB, and these
/// are lost when the job is killed. The loader calls this function before `main`, so that a choice
/// of the program itself takes precedence.
extern "C" fn write_whole_lines() {
    if OF_LAUNCHERS.iter().any(|name| sys::environment::value(name).is_some()) {
        sys::standard_output::write_whole_lines();
    }
}

// SAFETY: the section is a list of such functions, each of which the loader calls once.
#[cfg_attr(not(miri), unsafe(link_section = ".init_array"))]
#[used]
static AT_LOAD: extern "C" fn() = write_whole_lines;

/// Writes a line to standard error without buffering, because this process or its job may end at
/// any moment.
pub fn print_message(message: &str) {
    let line = format!("combray: {}\n", base::without_error_numbers(message));
    eprint!("{line}");
}

/// Returns the name of this host.
pub fn host_name() -> String {
    let name = sys::process::host_name();
    if name.is_empty() { "localhost".to_owned() } else { name }
}
