//! The environment variables, as far as this process may trust them.
//!
//! A set-user-ID or set-group-ID program, or one with file capabilities, has rights that the user
//! who starts it does not have, but that user controls its environment. In such a program no
//! variable may name code to load or a file to open. All crates that are linked into programs read
//! variables only through this module (`xtask/tests/tidy.rs`).

use std::env;
use std::ffi::OsString;

use base::variables::{self, Trust};

/// Whether the system started this program with more rights than its user has: set-user-ID,
/// set-group-ID, file capabilities, or a transition of a security module (AT_SECURE).
pub fn is_privileged() -> bool {
    // SAFETY: takes a number, and reads data that the kernel wrote when the program began.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Returns the value of a variable; `None` if it is not set, or must not be trusted.
pub fn value(name: &str) -> Option<OsString> {
    if is_believed(name, is_privileged()) { env::var_os(name) } else { None }
}

/// Returns the value of a variable as [`value`] does; also `None` if it is not UTF-8.
pub fn text(name: &str) -> Option<String> {
    value(name)?.into_string().ok()
}

/// Returns all variables that are set and may be trusted.
pub fn all() -> impl Iterator<Item = (OsString, OsString)> {
    let is_privileged = is_privileged();
    env::vars_os().filter(move |(name, _)| !is_privileged || name.to_str().is_some_and(is_harmless))
}

/// Returns the variables that the user has set, and that this process ignores because it is
/// privileged.
pub fn disregarded() -> impl Iterator<Item = &'static str> {
    let is_privileged = is_privileged();
    let names = variables::TEXT_VARIABLES.iter().map(|variable| variable.name);
    let is_ignored = move |name: &&str| !is_believed(name, is_privileged);
    names.filter(is_ignored).filter(|name| env::var_os(name).is_some())
}

fn is_believed(name: &str, is_privileged: bool) -> bool {
    !is_privileged || is_harmless(name)
}

/// Whether a variable names neither code nor a file: its value is a number, a name, or a word of a
/// fixed list.
fn is_harmless(name: &str) -> bool {
    let own = variables::named(name).is_some_and(|variable| variable.trust == Trust::Always);
    own || OF_LAUNCHERS.contains(&name)
}

/// Variables that other launchers set for the processes of a job: numbers, names, and an address.
const OF_LAUNCHERS: &[&str] = &[
    "MPI_LOCALNRANKS",
    "MPI_LOCALRANKID",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PALS_NRANKS",
    "PALS_RANKID",
    "FLUX_JOB_SIZE",
    "FLUX_TASK_RANK",
    "PMIX_NAMESPACE",
    "PMIX_RANK",
    "PMI_FD",
    "PMI_ID",
    "PMI_JOBID",
    "PMI_PORT",
    "PMI_RANK",
    "PMI_SIZE",
    "SLURM_JOB_NODELIST",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_PROCID",
    "SLURM_STEP_ID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_TOPOLOGY_ADDR",
    "SLURM_TOPOLOGY_ADDR_PATTERN",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_privileged_program_believes_no_name_of_a_file_or_of_code() {
        for name in [
            variables::PMIX_LIBRARY,
            variables::RECORD,
            variables::PROFILE,
            variables::THREADS_TIMELINE,
            variables::TOPOLOGY,
            variables::TALLY,
            variables::BOX,
            variables::LAUNCH_AGENT,
            "HOME",
            "XDG_CACHE_HOME",
            "XDG_STATE_HOME",
            "TMPDIR",
            "PATH",
            "LD_LIBRARY_PATH",
            "PMIX_PREFIX",
            "FI_PROVIDER_PATH",
            "HWLOC_PLUGINS_PATH",
        ] {
            assert!(!is_believed(name, true), "{name}");
            assert!(is_believed(name, false), "{name}");
        }
        assert!(is_believed(variables::STRATEGY, true) && is_believed("PMI_FD", true));
    }

    #[test]
    fn an_ordinary_program_believes_all() {
        assert!(!is_privileged());
        assert_eq!(value("PATH"), env::var_os("PATH"));
        assert_eq!(all().count(), env::vars_os().count());
    }
}
