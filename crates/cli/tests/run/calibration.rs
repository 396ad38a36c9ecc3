//! The calibration of a machine by its first job.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::tempdir;

use super::common::{combray, eventually, outcome_of};

/// Runs a job whose measurements are kept in a folder. Returns what it says about errors.
fn run_with(folder: &Path) -> String {
    let job = combray(&["-n", "2", "true"]).env("XDG_CACHE_HOME", folder).output().unwrap();
    let (code, _, err) = outcome_of(job);
    assert_eq!(code, Some(0), "{err}");
    err
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join("combray")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn the_first_job_measures_the_machine_and_others_use_the_figures() {
    if sys::cores::allowed().len() < 2 {
        return;
    }
    let folder = tempdir().unwrap();
    // A busy machine is not measured, so the next job tries again.
    let is_measured = eventually(|| {
        assert_eq!(run_with(folder.path()), "");
        !files(folder.path()).is_empty()
    });
    if !is_measured {
        return;
    }
    let all = files(folder.path());
    let [file] = &all[..] else { panic!("{all:?}") };
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains("crossing_ns") && text.contains("fetched"), "{text}");
    run_with(folder.path());
    assert_eq!(fs::read_to_string(file).unwrap(), text, "it is measured once");
    // A file that cannot be used is left alone, and so is one with other figures only.
    fs::write(file, "nonsense").unwrap();
    run_with(folder.path());
    assert_eq!(fs::read_to_string(file).unwrap(), "nonsense");
}

#[test]
fn jobs_run_where_no_figures_can_be_kept() {
    for folder in ["/proc/none", "/dev/null", "relative", ""] {
        assert_eq!(run_with(Path::new(folder)), "", "{folder}");
    }
}
