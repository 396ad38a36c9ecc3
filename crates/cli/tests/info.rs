//! The information that the command gives about itself.

use std::process::{Command, Stdio};

fn info() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_combray"));
    command.arg("info");
    command
}

#[test]
fn the_installation_is_described() {
    let output = info().output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for word in ["MPI 5.0", "prefix", "libmpi_abi.so.1", "PMI-1", "COMBRAY_"] {
        assert!(text.contains(word), "{word} is missing:\n{text}");
    }
}

#[test]
fn settings_that_users_need_come_first_and_show_their_values() {
    let output = info().env("COMBRAY_PREFER", "latency").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.find("  COMBRAY_NET") < text.find("  COMBRAY_BOARDS"), "{text}");
    let line = text.lines().find(|line| line.starts_with("  COMBRAY_PREFER="));
    assert!(line.is_some_and(|line| line.ends_with("; set here: latency")), "{text}");
}

#[test]
fn programs_read_it_in_one_line() {
    let output = info().arg("--json").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    let reported: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(reported["version"], env!("CARGO_PKG_VERSION"));
    assert!(
        reported["variables"].as_array().unwrap().len() > 10 && text.lines().count() == 1,
        "{text}"
    );
}

#[test]
fn missing_functions_are_listed_one_a_line() {
    let output = info().arg("--unsupported").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    assert!(lines.all(|line| line.is_empty() || line.starts_with("MPI_")), "{text}");
}

#[test]
fn what_tools_see_is_listed() {
    let output = info().arg("--variables").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for word in ["COMBRAY_STRATEGY", "eager_sent", "high watermark", "message_unexpected"] {
        assert!(text.contains(word), "{word} is missing:\n{text}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let child = info().stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success());
}
