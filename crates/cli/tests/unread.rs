//! Jobs whose output is not read: a request to end them must still work.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A job of one process whose output goes to an open pipe that is not read.
fn unread(words: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_combray"));
    command.args(["run", "-n", "1"]).args(words).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The exit code and the messages of a job that must end soon; otherwise it is killed.
fn end(mut child: Child) -> (Option<i32>, String) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(30) {
        if let Some(status) = child.try_wait().unwrap() {
            let messages = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
            return (status.code(), messages);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("the launcher still waits for a reader");
}

#[test]
fn a_time_limit_ends_a_flood() {
    let (code, messages) = end(unread(&["--timeout", "0.5", "yes"]));
    assert_eq!(code, Some(124));
    assert!(messages.contains("time limit") && messages.contains("dropped"), "{messages}");
}

#[test]
fn a_time_limit_ends_the_wait_for_a_reader() {
    // More than the pipe holds, so that some output is left when the process itself has ended.
    let (code, messages) = end(unread(&["--timeout", "1", "seq", "40000"]));
    assert_eq!(code, Some(124));
    assert!(messages.contains("dropped"), "{messages}");
}

#[test]
fn a_single_interrupt_is_enough() {
    let child = unread(&["yes"]);
    std::thread::sleep(Duration::from_millis(300));
    let process = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &process]).status().unwrap().success());
    assert_eq!(end(child).0, Some(130));
}

#[test]
fn a_reader_of_ps_may_leave_early() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_combray"));
    command.args(["ps", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let messages = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
    child.wait().unwrap();
    assert!(!messages.contains("panicked"), "{messages}");
}

#[test]
fn a_reader_that_has_left_is_no_fault() {
    for words in [
        &["mpicc", "--help"][..],
        &["mpicc", "-show"],
        &["run", "--help"],
        &["run", "--version"],
        &["run", "--dry-run", "-n", "2", "true"],
        &["info"],
        &["topo"],
        &["doctor", "--json"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_combray"));
        command.args(words).stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
        let (code, messages) = end(command.spawn().unwrap());
        assert!(!messages.contains("panicked"), "{words:?}: {code:?}\n{messages}");
    }
}
