//! `combray place` as a person sees it.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// A machine with two packages of eight cores each, the first of which has the network interface.
const MACHINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/machines/two-sockets.xml");

fn place(matrix: &str, words: &[&str]) -> Output {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let name = format!("combray-place-{}-{call}", std::process::id());
    let file: PathBuf = std::env::temp_dir().join(name);
    std::fs::write(&file, matrix).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_combray"));
    let output = command.arg("place").arg("--matrix").arg(&file).args(words).output().unwrap();
    std::fs::remove_file(&file).unwrap();
    output
}

/// Two machines of sixteen ranks; eight of each are close, and the last eight of one talk to those of the
/// other.
fn matrix() -> String {
    let mut text = "ranks 32\n".to_owned();
    for rank in 0..32 {
        for peer in 0..32 {
            let bytes = match (rank / 8, peer / 8) {
                (one, other) if one == other && rank != peer => 1000,
                (1, 3) if rank + 16 == peer => 200,
                (0, 1) | (2, 3) if rank + 8 == peer => 300,
                _ => continue,
            };
            let _ = writeln!(text, "{rank} {peer} {bytes} 1");
        }
    }
    text
}

#[test]
fn those_who_talk_to_other_machines_are_near_the_interface() {
    let output = place(&matrix(), &["--topology", &format!("node:2 {MACHINE}")]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for word in ["placed", "packed", "scattered", "random"] {
        assert!(text.contains(&format!("#   {word}")), "{text}");
    }
    assert!(text.contains("3200, before branches were turned 6400"), "{text}");
    // The ranks 8 to 15 and 24 to 31 are on the packages with the hardware threads 0 to 15.
    for rank in (0..16).map(|rank| rank + if rank < 8 { 8 } else { 16 }) {
        let line = text.lines().find(|line| line.starts_with(&format!("rank {rank}="))).unwrap();
        let thread = line.split("slot=").nth(1).unwrap().split('-').next().unwrap();
        assert!(thread.parse::<u32>().unwrap() < 16, "{line}");
    }
}

#[test]
fn faults_are_told() {
    let fault = |matrix: &str, words: &[&str]| {
        let output = place(matrix, words);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(
        fault("ranks 2\n0 5 1 1", &["--hosts", "a,b"]).contains("line 2: ranks must be below 2")
    );
    assert!(fault("ranks 2", &["--hosts", "a:0"]).contains("no slot"));
    assert!(fault("ranks 2", &["--hosts", "a,b", "--fix", "0=7"]).contains("leaves are 0 to 1"));
    assert!(fault("ranks 2", &["--topology", "/nonexistent"]).contains("/nonexistent"));
}
