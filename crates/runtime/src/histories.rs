//! The durations of earlier runs of programs, kept in the user's folder for state.
//!
//! Each program has a folder, and each run a file in it, written under another name and then
//! renamed. So runs that end at the same time do not disturb each other, and a damaged file is the
//! loss of one run. The numbers of runs and of programs are bounded: the oldest are removed.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::hash::Hasher;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs};

use base::hashing::QuickHasher;
use profiles::history::{PastRun, ProgramHistory, RunKey};
use sys::environment;
use tempfile::NamedTempFile;

use crate::machine::cores;
use crate::samples;

/// The folder with the histories of all programs of a user.
#[derive(Clone, Debug)]
pub struct HistoryFolder(PathBuf);

/// The maximum number of runs of a program that are kept.
const RUNS_KEPT_MAX: usize = 32;

/// The maximum number of programs whose runs are kept; the same program with other arguments or
/// another number of ranks counts as another one.
const PROGRAMS_MAX: usize = 256;

/// The largest size of a file of a run, in bytes. A run has at most some 130 durations.
const FILE_BYTES_MAX: u64 = 256 << 10;

/// The suffix of the names of files.
const SUFFIX: &str = ".json";

/// The maximum length of the arguments that distinguish programs, in bytes.
const ARGUMENTS_MAX: usize = 4096;

impl HistoryFolder {
    /// Returns the folder of the user: `$XDG_STATE_HOME/combray/history`, or
    /// `~/.local/state/combray/history`. `None` if neither variable is set.
    pub fn of_user() -> Option<Self> {
        let absolute =
            |name: &str| environment::value(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let home = || Some(absolute("HOME")?.join(".local").join("state"));
        let states = absolute("XDG_STATE_HOME").or_else(home)?;
        Some(Self(states.join("combray").join("history")))
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Adds a run, and removes the oldest ones beyond the maximum.
    ///
    /// # Errors
    /// The file cannot be written: a sentence that says so.
    pub fn add(&self, run: &PastRun) -> Result<(), String> {
        let folder = self.0.join(name_of(&run.key));
        let ended = since_1970().1;
        let path = folder.join(format!("{ended:020}-{}{SUFFIX}", std::process::id()));
        let written = fs::create_dir_all(&folder)
            .and_then(|()| NamedTempFile::new_in(&folder))
            .and_then(|mut draft| draft.write_all(run.to_json().as_bytes()).map(|()| draft))
            .and_then(|draft| draft.persist(&path).map_err(|cause| cause.error));
        written.map_err(|cause| format!("{} cannot be written: {cause}", path.display()))?;
        // Others may remove the same files.
        let files = files_in(&folder);
        for file in &files[..files.len().saturating_sub(RUNS_KEPT_MAX)] {
            let _ = fs::remove_file(file);
        }
        let programs = self.programs();
        for (_, program) in &programs[..programs.len().saturating_sub(PROGRAMS_MAX)] {
            let _ = fs::remove_dir_all(program);
        }
        Ok(())
    }

    /// Returns the runs with a key, the oldest first.
    pub fn runs(&self, key: &RunKey) -> Vec<PastRun> {
        let (mut runs, _) = read(&self.0.join(name_of(key)));
        runs.retain(|run| run.key == *key);
        runs
    }

    /// Returns all programs with their runs, the program that has run last first.
    pub fn all(&self) -> Vec<ProgramHistory> {
        let mut all = Vec::new();
        for (_, folder) in self.programs() {
            let (mut runs, unusable) = read(&folder);
            let Some(key) = runs.last().map(|run| run.key.clone()) else { continue };
            runs.retain(|run| run.key == key);
            all.push(ProgramHistory { key, runs, unusable });
        }
        all.sort_by_key(|one| Reverse(one.runs.last().map(|run| run.ended)));
        all
    }

    /// Removes the runs with a key.
    ///
    /// # Errors
    /// The system's.
    pub fn forget(&self, key: &RunKey) -> io::Result<()> {
        fs::remove_dir_all(self.0.join(name_of(key)))
    }

    /// Returns the folders of the programs with the times at which they were changed, the oldest
    /// first.
    fn programs(&self) -> Vec<(SystemTime, PathBuf)> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let changed = |entry: fs::DirEntry| {
            let data = entry.metadata().ok().filter(fs::Metadata::is_dir)?;
            Some((data.modified().ok()?, entry.path()))
        };
        let mut all: Vec<(SystemTime, PathBuf)> = entries.filter_map(changed).collect();
        all.sort();
        all
    }
}

/// Returns what identifies the runs of this program in a job on so many machines.
pub fn key_of_job(ranks: u32, hosts: u32) -> RunKey {
    let program = env::current_exe().unwrap_or_default().to_string_lossy().into_owned();
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    let machine = format!("{}, {} cores", samples::processor(), cores::configured());
    RunKey { program, arguments: arguments(words), ranks, hosts, machine }
}

/// Returns the arguments of a program as far as they identify it. The first one that is a file
/// becomes absolute: the script of an interpreter.
fn arguments(words: Vec<OsString>) -> Vec<String> {
    let script = words.iter().position(|word| !word.as_encoded_bytes().starts_with(b"-"));
    let mut length = 0;
    let text = |(index, word): (usize, OsString)| {
        let file = (Some(index) == script).then(|| fs::canonicalize(&word).ok()).flatten();
        let file = file.filter(|path| path.is_file());
        let word = file.map_or(word, PathBuf::into_os_string).to_string_lossy().into_owned();
        length += word.len();
        (length <= ARGUMENTS_MAX).then_some(word)
    };
    words.into_iter().enumerate().map_while(text).collect()
}

/// Returns the present time in seconds and in nanoseconds since 1970.
pub fn since_1970() -> (u64, u128) {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (passed.as_secs(), passed.as_nanos())
}

/// Returns the name of a program's folder.
fn name_of(key: &RunKey) -> String {
    let file = Path::new(&key.program).file_name().unwrap_or_default().to_string_lossy();
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    let name: String =
        file.chars().take(40).map(|letter| if plain(letter) { letter } else { '_' }).collect();
    let mut hasher = QuickHasher::default();
    hasher.write(&serde_json::to_vec(key).unwrap_or_default());
    format!("{name}-{:016x}", hasher.finish())
}

/// Returns the files of a program's runs, the oldest first.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_run = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "json");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_run).collect();
    files.sort();
    files
}

/// Reads the runs in a folder, the oldest first, and counts the unusable files.
fn read(folder: &Path) -> (Vec<PastRun>, u32) {
    let (mut runs, mut unusable) = (Vec::new(), 0);
    let files = files_in(folder);
    for file in &files[files.len().saturating_sub(RUNS_KEPT_MAX)..] {
        match read_run(file) {
            Ok(run) => runs.push(run),
            // Another process has removed it.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            Err(_) => unusable += 1,
        }
    }
    (runs, unusable)
}

fn read_run(file: &Path) -> io::Result<PastRun> {
    if fs::metadata(file)?.len() > FILE_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    PastRun::from_json(&fs::read_to_string(file)?).ok_or(io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use tempfile::tempdir;

    use super::*;
    use profiles::JobProfile;

    fn key(argument: &str) -> RunKey {
        let program = "/home/ann/my model".to_owned();
        let (arguments, machine) = (vec![argument.to_owned()], "EPYC, 2 cores".to_owned());
        RunKey { program, arguments, ranks: 4, hosts: 2, machine }
    }

    fn run(argument: &str, ended: u64) -> PastRun {
        let job = JobProfile::of(String::new(), Vec::new());
        PastRun::of(key(argument), &job, ended)
    }

    fn ends(folder: &HistoryFolder, argument: &str) -> Vec<u64> {
        folder.runs(&key(argument)).iter().map(|run| run.ended).collect()
    }

    #[test]
    fn the_last_runs_are_kept_by_program_and_arguments() {
        let place = tempdir().unwrap();
        let folder = HistoryFolder(place.path().join("new"));
        assert_eq!(folder.runs(&key("a")), []);
        for ended in 0..RUNS_KEPT_MAX as u64 + 5 {
            folder.add(&run("a", ended)).unwrap();
        }
        folder.add(&run("b", 77)).unwrap();
        assert_eq!(ends(&folder, "a"), (5..RUNS_KEPT_MAX as u64 + 5).collect::<Vec<_>>());
        assert_eq!(ends(&folder, "b"), [77]);
        let all = folder.all();
        assert_eq!(all.len(), 2);
        assert_eq!((&all[0].key, all[0].runs.len(), all[0].unusable), (&key("b"), 1, 0));
        folder.forget(&key("a")).unwrap();
        assert!(ends(&folder, "a").is_empty());
    }

    #[test]
    fn the_number_of_programs_is_bounded() {
        let place = tempdir().unwrap();
        let folder = HistoryFolder(place.path().to_owned());
        for number in 0..PROGRAMS_MAX + 3 {
            folder.add(&run(&number.to_string(), 1)).unwrap();
        }
        assert_eq!(folder.programs().len(), PROGRAMS_MAX);
        assert_eq!(ends(&folder, &(PROGRAMS_MAX + 2).to_string()), [1]);
    }

    #[test]
    fn damaged_files_are_counted_and_harm_no_others() {
        let place = tempdir().unwrap();
        let folder = HistoryFolder(place.path().to_owned());
        for ended in 1..=3 {
            folder.add(&run("a", ended)).unwrap();
        }
        let files = files_in(&place.path().join(name_of(&key("a"))));
        let text = fs::read_to_string(&files[1]).unwrap();
        let other = text.replace("\"version\":1", "\"version\":2");
        let damaged = [text[..text.len() / 2].to_owned(), "\0".repeat(600_000), other, "[]".into()];
        for content in damaged {
            fs::write(&files[1], content).unwrap();
            assert_eq!(ends(&folder, "a"), [1, 3]);
            assert_eq!(folder.all()[0].unusable, 1);
        }
        // A run of another key, whose folder has this name by chance.
        fs::write(&files[1], run("b", 9).to_json()).unwrap();
        assert_eq!(ends(&folder, "a"), [1, 3]);
    }

    #[test]
    fn runs_that_end_at_the_same_time_are_all_kept_as_far_as_they_fit() {
        let place = tempdir().unwrap();
        let folder = HistoryFolder(place.path().to_owned());
        thread::scope(|scope| {
            for writer in 0..4 {
                let folder = &folder;
                scope.spawn(move || {
                    for number in 0..40 {
                        folder.add(&run("a", writer * 100 + number)).unwrap();
                        assert!(folder.all().iter().all(|one| one.unusable == 0));
                    }
                });
            }
        });
        let kept = ends(&folder, "a");
        assert_eq!(kept.len(), RUNS_KEPT_MAX);
        assert!(
            fs::read_dir(place.path().join(name_of(&key("a")))).unwrap().count() == RUNS_KEPT_MAX
        );
    }

    #[test]
    fn scripts_are_known_by_their_paths() {
        let words = |list: &[&str]| list.iter().map(OsString::from).collect();
        assert_eq!(arguments(words(&["-m", "64"])), ["-m", "64"]);
        let here = env::current_dir().unwrap().join("Cargo.toml");
        let expected = ["-u", &*here.to_string_lossy(), "Cargo.toml"];
        assert_eq!(arguments(words(&["-u", "Cargo.toml", "Cargo.toml"])), expected);
        assert_eq!(arguments(words(&["a", &"b".repeat(5000)])), ["a"]);
    }
}
