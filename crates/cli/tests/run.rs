//! The real command on shell commands.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn combray(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_combray"));
    command.arg("run").args(words).stdin(Stdio::null());
    command
}

fn run(words: &[&str]) -> (Option<i32>, String, String) {
    told(combray(words).output().unwrap())
}

fn told(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Whether a process whose command line holds `mark` is there.
fn is_running(mark: &str) -> bool {
    let own = std::process::id().to_string();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.into_iter().any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        line.contains(mark) && entry.file_name().to_string_lossy() != own
    })
}

fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(20) {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

#[test]
fn ranks_know_themselves() {
    let (code, out, err) = run(&["-n", "3", "sh", "-c", "echo $COMBRAY_RANK/$PMI_SIZE"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(sorted(&out), ["0/3", "1/3", "2/3"]);
}

#[test]
fn lines_stay_whole() {
    let script = "for i in 1 2 3 4 5 6 7 8; do printf 'aaaaaaaa'; sleep 0.01; echo bbbbbbbb; done";
    let (_, out, _) = run(&["-n", "4", "--tag-output", "sh", "-c", script]);
    assert_eq!(out.lines().count(), 32);
    for line in out.lines() {
        let (tag, rest) = line.split_at(4);
        assert!(tag.starts_with('[') && tag.ends_with("] "), "{line}");
        assert_eq!(rest, "aaaaaaaabbbbbbbb");
    }
}

#[test]
fn input_goes_to_rank_0() {
    let mut command = combray(&["-n", "2", "sh", "-c", "wc -c"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"hello").unwrap();
    let (code, out, _) = told(child.wait_with_output().unwrap());
    assert_eq!((code, sorted(&out)), (Some(0), vec!["0", "5"]));
}

#[test]
fn a_failure_ends_all_with_one_message() {
    let script = "if [ $PMI_RANK = 1 ]; then echo last words >&2; exit 7; fi; sleep 600";
    let (code, _, err) = run(&["-n", "3", "sh", "-c", script]);
    assert_eq!(code, Some(7));
    assert!(err.contains("rank 1 ") && err.contains("exit code 7"), "{err}");
    assert!(err.contains("the 2 that still ran") && err.contains("    last words"), "{err}");
    assert_eq!(err.matches("combray:").count(), 1, "{err}");
}

#[test]
fn a_signal_is_named() {
    let (code, _, err) = run(&["-n", "1", "sh", "-c", "kill -SEGV $$"]);
    assert_eq!(code, Some(128 + 11));
    assert!(err.contains("signal 11 (SIGSEGV)"), "{err}");
}

#[test]
fn a_time_limit_names_who_still_runs() {
    let (code, _, err) =
        run(&["-n", "2", "--timeout", "0.5", "sh", "-c", "sleep $((PMI_RANK*600))"]);
    assert_eq!(code, Some(124));
    assert!(err.contains("still running: rank 1 "), "{err}");
}

#[test]
fn what_processes_leave_behind_ends_with_the_job() {
    let mark = "sleep 7654.25";
    let script = format!("setsid {mark} & ({mark} >/dev/null 2>&1 &) ; exit 0");
    let (code, ..) = run(&["-n", "2", "sh", "-c", &script]);
    assert_eq!(code, Some(0));
    assert!(eventually(|| !is_running("7654.25")));
}

#[test]
fn nothing_survives_the_launcher() {
    let script = "setsid sleep 6543.25 & sleep 6543.25";
    let mut child = combray(&["-n", "2", "sh", "-c", script]).spawn().unwrap();
    assert!(eventually(|| is_running("6543.25")));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(eventually(|| !is_running("6543.25")));
}

#[test]
fn programs_have_their_own_options() {
    let words = ["-n", "1", "sh", "-c", "echo a $A", ":", "-n", "2", "-x", "A=1", "sh", "-c"];
    let (code, out, _) = run(&[&words[..], &["echo b $A"]].concat());
    assert_eq!((code, sorted(&out)), (Some(0), vec!["a", "b 1", "b 1"]));
}

#[test]
fn what_cannot_be_started_is_told_before_anything_starts() {
    let (code, out, err) =
        run(&["-n", "1", "sh", "-c", "echo started", ":", "-n", "1", "./no-such-program"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.contains("./no-such-program"), "{err}");
    let (_, _, err) = run(&["--tag-outptu", "true"]);
    assert!(err.contains("did you mean --tag-output"), "{err}");
}

#[test]
fn a_nested_launch_sets_its_own_variables() {
    let inner =
        format!("{} run -n 2 sh -c 'echo $PMI_RANK of $PMI_SIZE'", env!("CARGO_BIN_EXE_combray"));
    let (code, out, err) = run(&["-n", "1", "sh", "-c", &inner]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(sorted(&out), ["0 of 2", "1 of 2"]);
}
