//! Notices ranks that use another MPI library. Such a library does not find the other ranks, and
//! each process runs alone as rank 0 of 1.
//!
//! Only ranks that have not joined the job are examined: at growing intervals, and when the first
//! ranks write something, because a short program may end before the next interval.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use launch::{ABORT_REASON, reason};
use sys::process::End;

use super::LocalProcesses;
use crate::libraries;
use crate::local::host_name;
use crate::protocol::AgentReport;

/// Another MPI library in a process of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OtherLibrary {
    process: i32,
    path: PathBuf,
}

/// When ranks are examined next.
#[derive(Debug)]
pub(super) struct LibraryWatch {
    begun: Instant,
    pub(super) next: Instant,
    pause: Duration,
    /// How many ranks may still be examined because they write something.
    examined_at_output: u32,
}

/// The shortest and the longest time between two examinations. The first examination comes before
/// an MPI library has initialized itself, and after a program such as `hostname` has ended.
const EXAMINATION_PAUSE_MIN: Duration = Duration::from_millis(50);
const EXAMINATION_PAUSE_MAX: Duration = Duration::from_secs(5);

/// How many ranks of a machine are examined when they write something.
const EXAMINED_AT_OUTPUT_MAX: u32 = 4;

/// After this time without joining the job, a rank with another library is reported while it runs.
const REPORT_DELAY: Duration = Duration::from_secs(5);

/// How many processes of one rank are examined.
const PROCESSES_MAX: usize = 64;

impl LibraryWatch {
    /// Begins to watch ranks that are being started.
    pub(super) fn begin(now: Instant) -> Self {
        let (next, pause) = (now + EXAMINATION_PAUSE_MIN, EXAMINATION_PAUSE_MIN);
        Self { begun: now, next, pause, examined_at_output: EXAMINED_AT_OUTPUT_MAX }
    }
}

impl LocalProcesses {
    /// Examines the ranks that have not joined the job, if it is time.
    pub(super) fn watch_libraries(&mut self, reports: &mut Vec<AgentReport>) {
        let now = Instant::now();
        let Some(watch) = self.library_watch.as_mut().filter(|watch| now >= watch.next) else {
            return;
        };
        watch.pause = (watch.pause * 2).min(EXAMINATION_PAUSE_MAX);
        watch.next = now + watch.pause;
        let size = self.job_size;
        let is_late = now - watch.begun >= REPORT_DELAY;
        let watched = self.ranks.iter_mut().filter(|rank| !rank.has_ended && !rank.has_joined);
        let mut is_needed = false;
        let mut late = None;
        for rank in watched {
            is_needed = true;
            if rank.other_library.is_none() {
                rank.other_library = other_library_of(rank.process);
            }
            let library = rank.other_library.as_ref().filter(|_| is_late);
            late = late.or_else(|| Some((rank.number, lone_rank(rank.number, size, library?))));
        }
        if !is_needed || late.is_some() {
            self.library_watch = None;
        }
        // One rank stands for all: most often they run the same program.
        if let Some((number, text)) = late {
            self.print(number, &text, reports);
        }
    }

    /// Examines a rank that writes something, if it is one of the first.
    pub(super) fn examine_at_output(&mut self, index: usize) {
        let rank = &mut self.ranks[index];
        let Some(watch) = self.library_watch.as_mut().filter(|_| !rank.has_joined) else { return };
        if watch.examined_at_output > 0 && rank.other_library.is_none() {
            watch.examined_at_output -= 1;
            rank.other_library = other_library_of(rank.process);
        }
    }

    /// Reports the end of a rank that has used another library and has not joined the job. An exit
    /// code that means success would hide that each process ran alone, so the job is ended. With
    /// another code, the library may be the reason, which is a note unless there was one.
    pub(super) fn report_lone_end(
        &mut self,
        index: usize,
        end: End,
        reports: &mut Vec<AgentReport>,
    ) {
        let rank = &self.ranks[index];
        let Some(library) = rank.other_library.as_ref().filter(|_| !rank.has_joined) else {
            return;
        };
        let (number, text) = (rank.number, lone_rank(rank.number, self.job_size, library));
        if end == End::Code(0) {
            let reason = reason::encode(&text);
            let line = format!("cmd=abort exitcode=1 {ABORT_REASON}={reason}\n");
            reports.push(AgentReport::PmiData(number, line.into_bytes()));
        } else if self.library_watch.is_some() {
            self.print(number, &text, reports);
        }
        // One message is enough.
        self.library_watch = None;
        self.ranks.iter_mut().for_each(|rank| rank.other_library = None);
    }
}

/// Searches for another MPI library in a process of a rank and its descendants.
fn other_library_of(process: i32) -> Option<OtherLibrary> {
    with_descendants(process).into_iter().find_map(|process| {
        let root = PathBuf::from(format!("/proc/{process}/root"));
        let path = libraries::other_library(&mapped_files(process), &root)?;
        Some(OtherLibrary { process, path })
    })
}

/// The message about a rank of a job of `size` ranks.
fn lone_rank(number: u32, size: u32, library: &OtherLibrary) -> String {
    format!(
        "rank {number} on {}: process {} uses {}, an MPI library that is not Combray's, and has \
         not joined the job of {size} ranks; with such a library each process runs alone, as \
         rank 0 of 1: {}",
        host_name(),
        library.process,
        library.path.display(),
        libraries::remedy(&library.path)
    )
}

/// Returns a process and its descendants, at most [`PROCESSES_MAX`]; only the process itself if the
/// system does not list children.
fn with_descendants(process: i32) -> Vec<i32> {
    let mut found = vec![process];
    let mut next = 0;
    while next < found.len() && found.len() < PROCESSES_MAX {
        let threads = fs::read_dir(format!("/proc/{}/task", found[next])).into_iter().flatten();
        for thread in threads.flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|child| child.parse::<i32>().ok()));
        }
        next += 1;
    }
    found.truncate(PROCESSES_MAX);
    found
}

/// Returns the files that a process has mapped; none if that cannot be read.
fn mapped_files(process: i32) -> Vec<PathBuf> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    files_in(&maps)
}

/// Returns the files in a list of mappings as the kernel writes it, each of them once.
fn files_in(maps: &str) -> Vec<PathBuf> {
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    let paths: BTreeSet<&str> = paths.collect();
    paths.into_iter().map(|path| Path::new(path).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mapped_file_is_listed_once() {
        let maps = "\
7f0000000000-7f0000001000 r--p 00000000 00:01 17   /opt/a b/libmpi.so.40.30.4
7f0000001000-7f0000002000 r-xp 00001000 00:01 17   /opt/a b/libmpi.so.40.30.4
7f0000002000-7f0000003000 rw-p 00000000 00:00 0    [heap]
7f0000003000-7f0000004000 rw-p 00000000 00:00 0 
";
        assert_eq!(files_in(maps), [Path::new("/opt/a b/libmpi.so.40.30.4")]);
    }

    #[test]
    fn a_rank_has_its_own_process_and_those_below_it() {
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "sleep 60 & read line; kill $!"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let process = shell.id() as i32;
        let deadline = Instant::now() + Duration::from_secs(20);
        while with_descendants(process).len() < 2 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let found = with_descendants(process);
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert_eq!((found[0], found.len()), (process, 2));
    }

    #[test]
    fn a_message_names_the_library_and_what_to_do() {
        let path = PathBuf::from("/opt/open/lib/libmpi.so.40.30.4");
        let library = OtherLibrary { process: 7, path };
        let text = lone_rank(1, 4, &library);
        for part in ["rank 1 on", "process 7", "/opt/open/lib/libmpi.so.40", "4 ranks", "mpirun"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
