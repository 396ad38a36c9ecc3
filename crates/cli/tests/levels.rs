//! The levels of hierarchical collectives and their leaders on the machines of tests/machines must
//! be those that were reviewed.

use std::fmt::Write;
use std::process::Command;

#[path = "../../../tests/machines/reviewed.rs"]
mod reviewed;

/// The number of processes, and the number of machines.
const CASES: [(u32, u32); 6] = [(2, 1), (4, 1), (7, 1), (16, 1), (64, 1), (32, 2)];

/// The output of `combray info --collectives`, or its error.
fn explained(words: &[&str]) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_combray"));
    // Measurements of this machine say nothing about described machines.
    command.env("XDG_CACHE_HOME", "/nowhere");
    let output =
        command.args(["info", "--collectives", "--sizes", "8"]).args(words).output().unwrap();
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout).unwrap());
    }
    Err(String::from_utf8(output.stderr).unwrap())
}

#[test]
fn levels_are_as_reviewed() {
    for path in reviewed::machines() {
        let mut found = String::new();
        for (processes, nodes) in CASES {
            let (processes, nodes) = (processes.to_string(), nodes.to_string());
            writeln!(found, "{processes} processes on {nodes}").unwrap();
            let machine = path.to_str().unwrap();
            let words =
                ["--input", machine, "--processes", processes.as_str(), "--nodes", nodes.as_str()];
            let text = explained(&words).unwrap();
            for line in text.lines().filter_map(|line| line.strip_prefix("level: ")) {
                writeln!(found, "  {}", line.split(';').next().unwrap_or_default()).unwrap();
            }
        }
        reviewed::compare(&path, "levels", &found);
    }
}

#[test]
fn a_machine_can_be_asked_about() {
    let none = ["--cores", "64", "--processes", "64"];
    assert!(!explained(&none).unwrap().contains("level: "), "nothing is known of its insides");
    let wrong = explained(&["--input", "/nowhere/machine.xml"]).unwrap_err();
    assert!(wrong.contains("/nowhere/machine.xml cannot be read"), "{wrong}");
}
