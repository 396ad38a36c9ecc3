//! Starts jobs of shell commands, and observes them.

pub mod terminal;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub fn combray(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_combray"));
    command.arg("run").args(words).stdin(Stdio::null());
    command
}

/// Runs a job. Returns its exit code, output and errors.
pub fn run(words: &[&str]) -> (Option<i32>, String, String) {
    outcome_of(combray(words).output().unwrap())
}

pub fn outcome_of(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

pub fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// A sleep time in seconds that only processes of one test use, even if the tests run several times
/// at once.
pub fn mark() -> String {
    static MARKS: AtomicU32 = AtomicU32::new(5000);
    format!("{}.{}1", MARKS.fetch_add(1, Ordering::Relaxed), std::process::id())
}

/// Whether a process exists whose command line contains `mark`.
pub fn is_running(mark: &str) -> bool {
    let own = std::process::id().to_string();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.into_iter().any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        line.contains(mark) && entry.file_name().to_string_lossy() != own
    })
}

pub fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(20) {
        if condition() {
            return true;
        }
        thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Sends a signal to a process.
pub fn signal(process: u32, name: &str) {
    let process = process.to_string();
    assert!(Command::new("kill").args(["-s", name, &process]).status().unwrap().success());
}

/// The process numbers of the guard and the supervisor of a launcher's job.
pub fn guard_and_supervisor_of(launcher: u32) -> (u32, u32) {
    let guard = child_of(launcher);
    (guard, child_of(guard))
}

/// The only child of a process.
fn child_of(parent: u32) -> u32 {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let mut child = None;
    assert!(eventually(|| {
        child = std::fs::read_to_string(&path).unwrap().trim().parse().ok();
        child.is_some()
    }));
    child.unwrap()
}

/// A script that prints which signals it gets, and runs `last` on TERM.
pub fn trapping(last: &str) -> String {
    format!(
        "for s in USR1 USR2 HUP INT; do trap \"echo $s\" $s; done
         trap 'echo bye; {last}' TERM; echo ready; while :; do sleep 0.05; done"
    )
}

/// Starts the job. Returns it with its output lines, once both processes are ready.
fn with_lines(mut job: Command) -> (Child, impl Iterator<Item = String>) {
    let mut child = job.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!([lines.next().unwrap(), lines.next().unwrap()], ["ready", "ready"]);
    (child, lines)
}

/// Asserts that both processes of a trapping job that exit on TERM get all signals.
pub fn expect_signals_to_reach_all(job: Command) {
    let (mut child, mut lines) = with_lines(job);
    for name in ["USR1", "USR2", "TERM"] {
        signal(child.id(), name);
        let expected = if name == "TERM" { "bye" } else { name };
        assert_eq!([lines.next().unwrap(), lines.next().unwrap()], [expected, expected]);
    }
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
}

/// Asserts that a trapping job of two survives the first interrupt and not the second.
pub fn expect_second_interrupt_to_kill(job: Command) {
    let (mut child, mut lines) = with_lines(job);
    signal(child.id(), "INT");
    assert_eq!([lines.next().unwrap(), lines.next().unwrap()], ["INT", "INT"]);
    signal(child.id(), "INT");
    assert_eq!(lines.next(), None);
    assert_eq!(child.wait().unwrap().code(), Some(128 + 2));
}

/// A script that writes this many numbered lines, and one line without an end.
pub fn many_lines(lines: usize) -> String {
    format!("seq -f \"$PMI_RANK %.0f abcdefghijklmnopqrstuvwxyz\" {lines}; printf end")
}

/// Asserts that all lines arrive, in order, at a reader that begins late.
pub fn expect_many_lines(mut job: Command, processes: usize, lines: usize) {
    let mut child = job.stdout(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_millis(600));
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(out.lines().count(), processes * (lines + 1));
    assert_eq!(out.matches("end\n").count(), processes);
    for rank in 0..processes {
        let own: Vec<&str> = out.lines().filter(|l| l.starts_with(&format!("{rank} "))).collect();
        assert_eq!(own.len(), lines);
        for (number, line) in (1..).zip(own) {
            assert_eq!(line, format!("{rank} {number} abcdefghijklmnopqrstuvwxyz"));
        }
    }
}

/// Asserts that a signal reaches a job whose output is not read.
pub fn expect_flood_to_stop_nothing(mut job: Command) {
    let mut child = job.stdout(Stdio::piped()).spawn().unwrap();
    // By then all processes are blocked in writing.
    thread::sleep(Duration::from_millis(700));
    let start = Instant::now();
    signal(child.id(), "INT");
    signal(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(start.elapsed() < Duration::from_secs(20));
}

/// Asserts that a job ends when the reader of its output closes the pipe.
pub fn expect_end_without_reader(mut job: Command) {
    let mut child = job.stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(128 + 13));
}
