//! Checks of this installation: which commands and libraries a shell and a program would find,
//! which variables are set, and whether a job of two processes works.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use runtime::configuration::Configuration;

use super::finding::Finding;
use super::{output_of, own_command};

pub fn findings(prefix: &Path) -> Vec<Finding> {
    let folders = |name: &str| -> Vec<PathBuf> {
        env::var_os(name).map_or_else(Vec::new, |text| env::split_paths(&text).collect())
    };
    let mut findings = vec![commands(prefix, &folders("PATH"))];
    findings.extend(libraries(prefix, &folders("LD_LIBRARY_PATH")));
    findings.extend(preloaded(&env::var_os("LD_PRELOAD").unwrap_or_default()));
    for warning in Configuration::read().1 {
        findings.push(Finding::note("variables", warning, "combray info lists them all"));
    }
    findings
}

/// Checks the commands that a shell finds under the names that all MPI libraries use.
fn commands(prefix: &Path, path: &[PathBuf]) -> Finding {
    let subject = "commands";
    let remedy = format!("export PATH={}:$PATH", prefix.join("bin").display());
    let own = prefix.join("bin/combray").canonicalize().ok();
    let found =
        |name: &&str| path.iter().map(|folder| folder.join(name)).find(|file| file.is_file());
    let foreign = NAMES.iter().filter_map(found).find(|file| !is_own(file, own.as_deref()));
    match foreign {
        Some(file) => {
            let name = file.file_name().unwrap_or_default().display().to_string();
            let real = file.canonicalize().unwrap_or_else(|_| file.clone());
            let real = if real == file { String::new() } else { format!(" ({})", real.display()) };
            Finding::fault(
                subject,
                format!("{name} is another MPI's: {}{real}", file.display()),
                remedy,
            )
        }
        None if found(&NAMES[0]).is_none() => {
            Finding::note(subject, "mpirun and mpicc are not in PATH", remedy)
        }
        None => Finding::fit(subject, "mpirun, mpiexec and mpicc in PATH are these"),
    }
}

/// Whether a file is the command `own` under another name, or a script beside it that calls it.
/// Python environments contain such scripts, because wheels hold no links.
fn is_own(file: &Path, own: Option<&Path>) -> bool {
    let Some((file, own)) = file.canonicalize().ok().zip(own) else { return false };
    let calls = |text: String| text.starts_with("#!") && text.contains("/combray\"");
    file == own || file.parent() == own.parent() && fs::read_to_string(&file).is_ok_and(calls)
}

const NAMES: [&str; 3] = ["mpirun", "mpiexec", "mpicc"];

/// Checks whether programs would load another library of this name.
fn libraries(prefix: &Path, folders: &[PathBuf]) -> Option<Finding> {
    let own = prefix.join("lib/libmpi_abi.so.1").canonicalize().ok();
    // An empty entry means the current folder.
    let files = folders.iter().filter(|folder| !folder.as_os_str().is_empty());
    let file = files.map(|folder| folder.join("libmpi_abi.so.1")).find(|file| file.is_file())?;
    (file.canonicalize().ok() != own).then(|| {
        Finding::fault(
            "library",
            format!("programs load another one, because of LD_LIBRARY_PATH: {}", file.display()),
            format!("export LD_LIBRARY_PATH={}:$LD_LIBRARY_PATH", prefix.join("lib").display()),
        )
    })
}

/// Checks whether all programs preload another MPI library.
fn preloaded(list: &OsStr) -> Option<Finding> {
    let list = list.to_string_lossy();
    let is_mpi = |word: &&str| {
        let name = Path::new(word).file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libmpi") && !name.starts_with("libmpi_abi.so")
    };
    let file = list.split([':', ' ']).find(is_mpi)?;
    Some(Finding::fault(
        "library",
        format!("all programs load another MPI first, because of LD_PRELOAD: {file}"),
        "unset LD_PRELOAD",
    ))
}

/// Runs a job of two processes on this machine.
pub fn trial(prefix: &Path) -> Finding {
    let program = prefix.join("lib/combray/combray-bench");
    if !program.exists() {
        return Finding::note(
            TRIAL,
            format!("not tried: there is no {}", program.display()),
            "make install",
        );
    }
    tried(&["-n", "2", "--hosts", "localhost:2"], &program, &["--sizes", "8", "pingpong"])
}

const TRIAL: &str = "trial job";

/// The finding about a job of the benchmark program.
pub fn tried(launcher: &[&str], program: &Path, benchmark: &[&str]) -> Finding {
    let program = program.to_string_lossy();
    let brief = ["--batches", "3", "--limit", "500", "--json"];
    let words: Vec<&str> = ["run", "--oversubscribe", "--timeout", TRIAL_SECONDS]
        .into_iter()
        .chain(launcher.iter().copied())
        .chain(["--", &program])
        .chain(brief)
        .chain(benchmark.iter().copied())
        .collect();
    match own_command(&words).and_then(|mut command| output_of(&mut command)) {
        Ok(_) => Finding::fit(TRIAL, "works: its processes exchange messages"),
        Err(cause) => Finding::fault(TRIAL, cause, "the output of the job shows the reason"),
    }
}

/// The time limit for a job that takes about a second.
const TRIAL_SECONDS: &str = "60";

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    #[test]
    fn others_that_come_first_are_named() {
        let private = tempfile::tempdir().unwrap();
        let root = private.path().join("path");
        let file = |path: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
        };
        ["own/bin/combray", "other/mpiexec", "own/lib/libmpi_abi.so.1", "other/libmpi_abi.so.1"]
            .iter()
            .for_each(|path| file(path));
        std::os::unix::fs::symlink("combray", root.join("own/bin/mpirun")).unwrap();
        let (own, bin, other) = (root.join("own"), root.join("own/bin"), root.join("other"));
        assert_eq!(commands(&own, std::slice::from_ref(&bin)).verdict, Verdict::Fit);
        let both = commands(&own, &[other.clone(), bin]);
        assert!(both.verdict == Verdict::Fault && both.found.contains("other/mpiexec"), "{both:?}");
        assert!(both.remedy.starts_with("export PATH="));
        assert_eq!(commands(&own, &[]).verdict, Verdict::Note);
        // As in a wheel (packaging/wheel.py).
        let script =
            "#!/bin/sh\nown=$(readlink -f -- \"$0\") && exec \"${own%/*}/combray\" \"$@\"\n";
        fs::write(root.join("own/bin/mpiexec"), script).unwrap();
        assert_eq!(commands(&own, &[own.join("bin")]).verdict, Verdict::Fit);
        fs::write(root.join("own/bin/mpiexec"), "#!/bin/sh\nexec mpiexec.hydra \"$@\"\n").unwrap();
        assert_eq!(commands(&own, &[own.join("bin")]).verdict, Verdict::Fault);
        assert_eq!(libraries(&own, &[PathBuf::new(), own.join("lib"), other.clone()]), None);
        assert!(libraries(&own, &[other]).is_some());
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_library_that_is_preloaded_is_reported() {
        assert!(preloaded(OsStr::new("/lib/libx.so:/usr/lib/libmpi.so.40")).is_some());
        assert!(preloaded(OsStr::new("/opt/libmpi_abi.so.1 /lib/libmpiP.txt/x.so")).is_none());
    }
}
