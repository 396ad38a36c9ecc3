//! The output of processes.

use std::fs;
use std::io::{IsTerminal, Read};
use std::process::Stdio;

use super::common::{combray, eventually, run, signal, sorted};

/// A private folder of a test, which is removed at its end.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn read(&self, name: &str) -> String {
        let path = self.0.path().join(name);
        fs::read_to_string(path).unwrap_or_else(|cause| panic!("{name}: {cause}"))
    }
}

const BOTH: &str = "echo out $PMI_RANK; echo err $PMI_RANK >&2";

#[test]
fn lines_tell_rank_and_stream() {
    let (code, out, err) = run(&["-n", "2", "--tag-output", "sh", "-c", BOTH]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(sorted(&out), ["[0]<stdout>: out 0", "[1]<stdout>: out 1"]);
    assert_eq!(sorted(&err), ["[0]<stderr>: err 0", "[1]<stderr>: err 1"]);
    let (_, out, err) = run(&["-n", "2", "-l", "sh", "-c", BOTH]);
    assert_eq!(sorted(&out), ["[0] out 0", "[1] out 1"]);
    assert_eq!(sorted(&err), ["[0] err 0", "[1] err 1"]);
}

#[test]
fn errors_may_go_where_output_goes() {
    for words in [&["--merge-stderr-to-stdout"][..], &["--output", "merge"]] {
        let (code, out, err) = run(&[words, &["-n", "2", "sh", "-c", BOTH]].concat());
        assert_eq!((code, err.as_str()), (Some(0), ""));
        assert_eq!(sorted(&out), ["err 0", "err 1", "out 0", "out 1"]);
    }
}

#[test]
fn lines_may_begin_with_the_time() {
    let (_, out, _) = run(&["-n", "1", "--timestamp-output", "-l", "echo", "here"]);
    let (time, rest) = out.split_once(' ').unwrap();
    assert_eq!(rest, "[0] here\n");
    assert!(time.starts_with("20") && time.ends_with('Z') && time.len() == 24, "{time}");
}

#[test]
fn each_rank_may_have_files() {
    let folder = Folder::new();
    let place = folder.0.path().to_str().unwrap();
    let (_, out, _) = run(&["-n", "2", "--output-filename", place, "sh", "-c", BOTH]);
    assert_eq!(sorted(&out), ["out 0", "out 1"]);
    assert_eq!(folder.read("1/rank.1/stdout"), "out 1\n");
    assert_eq!(folder.read("1/rank.0/stderr"), "err 0\n");
    let quiet = format!("dir={place}/quiet:nocopy,tag");
    let (_, out, err) = run(&["-n", "2", "--output", &quiet, "sh", "-c", BOTH]);
    assert_eq!((out.as_str(), err.as_str()), ("", ""));
    assert_eq!(folder.read("quiet/1/rank.0/stdout"), "out 0\n");
    let pattern = format!("{place}/%h.%r");
    let (_, out, err) = run(&["-n", "2", "-outfile-pattern", &pattern, "sh", "-c", BOTH]);
    assert_eq!((out.as_str(), sorted(&err)), ("", vec!["err 0", "err 1"]));
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(folder.read(&format!("{}.1", host.trim())), "out 1\n");
    let (code, _, err) = run(&["-n", "1", "-errfile-pattern", "/proc/nothing/%r", "echo", "x"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("/proc/nothing/0 cannot be written"), "{err}");
}

#[test]
fn output_is_a_terminal_where_the_launcher_has_one() {
    let (reader, writer) = sys::terminal::open().unwrap();
    assert!(writer.is_terminal());
    let script = "[ -t 1 ] && ! [ -t 2 ] && echo terminal $PMI_RANK";
    let mut command = combray(&["-n", "2", "sh", "-c", script]);
    let status = command.stdout(Stdio::from(writer)).status().unwrap();
    drop(command);
    assert!(status.success());
    let (mut text, mut bytes) = (Vec::new(), [0; 1024]);
    let mut terminal = fs::File::from(reader);
    // A terminal whose last writer is gone returns an error, not the end of file.
    while let Ok(length) = terminal.read(&mut bytes) {
        text.extend_from_slice(&bytes[..length]);
    }
    let text = String::from_utf8(text).unwrap();
    assert_eq!(sorted(&text), ["terminal 0", "terminal 1"]);
}

#[test]
fn a_process_that_is_interrupted_is_reported_with_what_was_printed() {
    let folder = Folder::new();
    let mark = folder.0.path().join("started");
    for number in ["INT", "TERM"] {
        let script = format!("echo printed; touch {}; exec sleep 600", mark.display());
        let mut command = combray(&["-n", "1", "sh", "-c", &script]);
        let job = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        assert!(eventually(|| mark.exists()));
        signal(job.id(), number);
        let output = job.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "printed\n");
        assert!(err.contains(&format!("ended by SIG{number}; still running: rank 0")), "{err}");
        fs::remove_file(&mark).unwrap();
    }
}

#[test]
fn other_launchers_options_are_told_what_to_write() {
    for (words, reported) in [
        (&["-gdb", "true"][..], "xterm -e gdb"),
        (&["--app", "file"], "with : between them"),
        (&["-n2", "true"], "write -n 2"),
        (&["--genvexcl", "true"], "no option --genvexcl (combray run"),
        (&["--stdin", "./program"], "--stdin ./program"),
        (&["-launcher", "ssh"], "ssh is the value of -launcher"),
        (&["-launcher", "sge", "true"], "--launch-agent names any"),
        (&["--display", "topo", "true"], "combray topo"),
    ] {
        let (code, _, err) = run(words);
        assert_eq!(code, Some(2), "{words:?}");
        assert!(err.contains(reported), "{words:?}: {err}");
    }
    let show = ["sh", "-c", "echo $COMBRAY_NET"];
    for words in [&["-iface", "lo"][..], &["--mca", "btl_tcp_if_include", "lo"]] {
        let (code, out, err) = run(&[words, &["-n", "1"], &show].concat());
        assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "lo\n", ""), "{words:?}");
    }
    let (code, _, err) = run(&["--mca", "btl", "self", "-x", "NO_SUCH", "-n", "1", "true"]);
    assert_eq!(code, Some(0));
    assert!(err.contains("--mca btl, -x NO_SUCH (there is no such variable here)"), "{err}");
}
