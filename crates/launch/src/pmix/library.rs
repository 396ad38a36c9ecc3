//! Finds libpmix.

use std::fs;
use std::path::{Path, PathBuf};

use ::pmix::{LIBRARY, PmixLibrary};

use base::variables::PMIX_LIBRARY;
use sys::environment;

use crate::JoinError;

/// Variables with folders in whose `lib` a launcher's own library lies.
const PREFIXES: &[&str] = &["PMIX_PREFIX", "OPAL_PREFIX", "PRTE_PREFIX"];

/// The folders below a prefix in which libraries lie.
const FOLDERS: &[&str] = &["lib", "lib64", "lib/openmpi", "lib/pmix"];

/// How many ancestors of this process are searched for the launcher: shells and scripts stand
/// between it and the program.
const ANCESTORS_MAX: usize = 8;

/// Loads libpmix: the library that the user names, else the launcher's own, which certainly matches
/// the launcher, else the system's.
///
/// # Errors
/// No library was found; the message lists the places that were searched. Or this program may not
/// load any.
pub(super) fn load() -> Result<PmixLibrary, JoinError> {
    if environment::is_privileged() {
        return Err(JoinError::new(
            "a launcher that speaks PMIx started this process, but the library for PMIx is not \
             loaded into a program that has more rights than its user (set-user-ID, set-group-ID \
             or file capabilities). Start it with \"combray run\" or with \"srun --mpi=pmi2\"",
        ));
    }
    if let Some(path) = environment::value(PMIX_LIBRARY) {
        let loaded = PmixLibrary::load(Path::new(&path));
        return loaded
            .map_err(|cause| JoinError::new(format!("{PMIX_LIBRARY} cannot be used: {cause}")));
    }
    let mut tried = Vec::new();
    for path in candidates() {
        match PmixLibrary::load(&path) {
            Ok(library) => return Ok(library),
            Err(cause) => tried.push(cause.to_string()),
        }
    }
    Err(JoinError::new(format!(
        "a launcher that speaks PMIx started this process, but its library cannot be loaded ({}). \
         Install it (libpmix2 in Debian and Ubuntu, pmix in Fedora, RHEL and SUSE), or set \
         {PMIX_LIBRARY} to its path; under Slurm, \"srun --mpi=pmi2\" does not need it; or start \
         the program with \"combray run\"",
        tried.join("; ")
    )))
}

fn candidates() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = of_ancestors().into_iter().collect();
    let prefixes = PREFIXES.iter().filter_map(|name| environment::value(name));
    found.extend(prefixes.flat_map(|prefix| {
        FOLDERS.iter().map(move |folder| Path::new(&prefix).join(folder).join(LIBRARY))
    }));
    found.retain(|path| path.exists());
    found.push(PathBuf::from(LIBRARY));
    found
}

/// Returns the libpmix that an ancestor of this process has loaded, very likely the launcher. The
/// search stops at a process of another user (as under `sudo`).
fn of_ancestors() -> Option<PathBuf> {
    let is_trusted = |owner: u32| owner == 0 || owner == sys::process::user();
    let ancestors = sys::process::ancestors(std::process::id() as i32);
    for process in ancestors.take(ANCESTORS_MAX) {
        // The library that another user's process has loaded was chosen by that user, who may not
        // be trusted.
        if !foreign::owner_of(process as u32).is_ok_and(is_trusted) {
            return None;
        }
        let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
        if let Some(path) = mapped(&maps) {
            return Some(path);
        }
    }
    None
}

/// Returns the path of libpmix in a list of mappings (/proc/PID/maps).
fn mapped(maps: &str) -> Option<PathBuf> {
    let paths = maps.lines().filter_map(|line| line.find('/').map(|start| &line[start..]));
    let is_library = |path: &&str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        // The mapped file has a longer name, such as libpmix.so.2.6.2.
        let rest = name.strip_prefix(LIBRARY);
        // The kernel marks files that were removed or replaced since.
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            && !path.ends_with(" (deleted)")
    };
    paths.filter(is_library).map(PathBuf::from).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launchers_library_is_found_in_its_maps() {
        let maps = "55d0-55d1 r-xp 00000000 08:01 1 /usr/bin/prterun\n\
                    7f00-7f01 rw-p 00000000 00:00 0 \n\
                    7f10-7f11 r--p 00000000 08:01 3 /opt/lib/libpmix.so.2.6.2 (deleted)\n\
                    7f10-7f11 r--p 00000000 08:01 3 /opt/lib/libpmix.so.20\n\
                    7f10-7f11 r--p 00000000 08:01 3 /opt/my lib/libpmix.so.2.6.2\n";
        assert_eq!(mapped(maps), Some(PathBuf::from("/opt/my lib/libpmix.so.2.6.2")));
        assert_eq!(mapped(""), None);
    }

    #[test]
    fn what_a_process_above_has_loaded_is_a_path() {
        assert!(of_ancestors().is_none_or(|path| path.is_absolute()));
    }
}
