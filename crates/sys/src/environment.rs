//! The variables of the environment, as far as this process may believe them.
//!
//! A set-user-ID or set-group-ID program, or one with file capabilities, has rights that the user
//! who starts it does not have, but that user writes its environment. There no variable may name
//! code that is loaded or a file that is opened. All crates that a program links ask here, and
//! nowhere else (`xtask/tests/tidy.rs`).

use std::env;
use std::ffi::OsString;

use base::variables;

/// Whether the system started this program with more rights than the user has: set-user-ID,
/// set-group-ID, file capabilities, or a transition of a security module (AT_SECURE).
pub fn is_privileged() -> bool {
    // SAFETY: takes a number, and reads what the kernel wrote when the program began.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// The value of a variable; none: it is not set, or must not be believed here.
pub fn value(name: &str) -> Option<OsString> {
    if is_believed(name, is_privileged()) { env::var_os(name) } else { None }
}

/// As [`value`]; also none where the value is no UTF-8.
pub fn text(name: &str) -> Option<String> {
    value(name)?.into_string().ok()
}

/// All variables that are set and may be believed.
pub fn all() -> impl Iterator<Item = (OsString, OsString)> {
    let is_privileged = is_privileged();
    env::vars_os().filter(move |(name, _)| !is_privileged || name.to_str().is_some_and(is_harmless))
}

/// The variables that a person has set for this process in vain.
pub fn disregarded() -> impl Iterator<Item = &'static str> {
    let is_privileged = is_privileged();
    let of_users = [
        variables::PMIX_LIBRARY,
        variables::PROFILE,
        variables::RECORD,
        variables::THREADS_TIMELINE,
    ];
    let is_in_vain = move |name: &&str| !is_believed(name, is_privileged);
    of_users.into_iter().filter(is_in_vain).filter(|name| env::var_os(name).is_some())
}

fn is_believed(name: &str, is_privileged: bool) -> bool {
    !is_privileged || is_harmless(name)
}

/// Whether a variable names neither code nor a file: its value is a number, a name, or a word of a
/// fixed list. A variable that is new is not among them until somebody has thought about it.
fn is_harmless(name: &str) -> bool {
    variables::HARMLESS.contains(&name) || OF_LAUNCHERS.contains(&name)
}

/// What other launchers say to the processes of a job: numbers, names, and an address.
const OF_LAUNCHERS: &[&str] = &[
    "MPI_LOCALNRANKS",
    "MPI_LOCALRANKID",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_COMM_WORLD_SIZE",
    "PALS_NRANKS",
    "FLUX_JOB_SIZE",
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
