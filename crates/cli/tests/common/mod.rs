//! Starting jobs of shell commands, and looking at what they do.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

pub fn combray(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_combray"));
    command.arg("run").args(words).stdin(Stdio::null());
    command
}

/// Exit code, output and errors of a job.
pub fn run(words: &[&str]) -> (Option<i32>, String, String) {
    told(combray(words).output().unwrap())
}

pub fn told(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

pub fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Whether a process whose command line holds `mark` is there.
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
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Sends a signal to a process.
pub fn signal(process: u32, name: &str) {
    let process = process.to_string();
    assert!(Command::new("kill").args(["-s", name, &process]).status().unwrap().success());
}

/// The one child of a launcher.
pub fn supervisor_of(launcher: u32) -> u32 {
    let path = format!("/proc/{launcher}/task/{launcher}/children");
    let mut child = None;
    assert!(eventually(|| {
        child = std::fs::read_to_string(&path).unwrap().trim().parse().ok();
        child.is_some()
    }));
    child.unwrap()
}
