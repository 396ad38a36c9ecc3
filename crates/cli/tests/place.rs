//! `combray place` from the user's point of view.

use std::fmt::Write;
use std::process::{Command, Output};

/// A machine with two packages of eight cores each. The network interface is at the first package.
const MACHINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/machines/two-sockets.xml");

fn place(matrix: &str, words: &[&str]) -> Output {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, matrix).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_combray"));
    command.arg("place").arg("--matrix").arg(file.path()).args(words).output().unwrap()
}

/// Two machines of sixteen ranks. The ranks form groups of eight; the second groups of both
/// machines communicate with each other.
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
fn ranks_that_send_to_other_machines_are_near_the_interface() {
    let output = place(&matrix(), &["--topology", &format!("node:2 {MACHINE}")]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for word in ["placed", "packed", "scattered", "random"] {
        assert!(text.contains(&format!("#   {word}")), "{text}");
    }
    assert!(text.contains("3200, before branches were exchanged 6400"), "{text}");
    // Ranks 8 to 15 and 24 to 31 are on the packages with the hardware threads 0 to 15.
    for rank in (0..16).map(|rank| rank + if rank < 8 { 8 } else { 16 }) {
        let line = text.lines().find(|line| line.starts_with(&format!("rank {rank}="))).unwrap();
        let thread = line.split("slot=").nth(1).unwrap().split('-').next().unwrap();
        assert!(thread.parse::<u32>().unwrap() < 16, "{line}");
    }
}

/// Four machines below two switches. The order of the machines' names is not that of the switches.
#[test]
fn a_cluster_is_described_in_a_file() {
    let private = tempfile::tempdir().unwrap();
    let file = private.path().join("place-cluster");
    let text = format!("switch left: n1 n3\nswitch right: n2 n4\nmachine n[1-4]: {MACHINE}");
    std::fs::write(&file, text).unwrap();
    let cluster = file.to_str().unwrap();
    let mut matrix = "ranks 64\n".to_owned();
    for rank in 0..64 {
        // Much traffic between ranks of one machine, and less between machines of one half.
        for peer in (0..64).filter(|peer| *peer != rank && peer / 32 == rank / 32) {
            let bytes = if peer / 16 == rank / 16 { 1000 } else { 100 };
            let _ = writeln!(matrix, "{rank} {peer} {bytes} 1");
        }
    }
    let placed = place(&matrix, &["--topology", cluster]);
    let some = place(&matrix[..9].replace("64", "16"), &["--topology", cluster, "--hosts", "n4"]);
    let wrong = place(&matrix, &["--topology", cluster, "--hosts", "n9"]);
    std::fs::remove_file(&file).unwrap();
    let text = String::from_utf8(placed.stdout).unwrap();
    let host = |rank: u32| {
        let line = text.lines().find(|line| line.starts_with(&format!("rank {rank}="))).unwrap();
        line.split(['=', ' ']).nth(2).unwrap().to_owned()
    };
    let switch = |rank: u32| ["n1", "n3"].contains(&host(rank).as_str());
    for rank in 0..64 {
        assert_eq!(host(rank), host(rank / 16 * 16), "{text}");
        assert_eq!(switch(rank), switch(rank / 32 * 32), "{text}");
    }
    assert_ne!(switch(0), switch(32));
    let text = String::from_utf8(some.stdout).unwrap();
    assert_eq!(text.matches("=n4 slot=").count(), 16, "{text}");
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("no machine n9"));
}

/// A ring of rank `r` and `5 * r` modulo 16 on a torus: each rank gets a neighbour of its partners.
#[test]
fn a_torus_is_described_in_a_file() {
    let private = tempfile::tempdir().unwrap();
    let file = private.path().join("torus");
    std::fs::write(&file, "torus 4x2x2: n[0-15]\nmachine n[0-15]: core:1").unwrap();
    let mut matrix = "ranks 16\n".to_owned();
    for place in 0..16 {
        let _ = writeln!(matrix, "{} {} 1000 1", 5 * place % 16, 5 * (place + 1) % 16);
    }
    let words = ["--topology", file.to_str().unwrap(), "--json", "--fix", "3=7"];
    let output = place(&matrix, &words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["costs"]["placed"], 16_000, "{report}");
    assert_eq!(report["places"][3]["host"], "n7");
    let mut hosts: Vec<String> =
        (0..16).map(|rank| report["places"][rank]["host"].to_string()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    assert_eq!(hosts.len(), 16);
}

#[test]
fn programs_read_costs_and_places() {
    let node = format!("node:2 {MACHINE}");
    let words = ["--topology", node.as_str()];
    let read = |more: &[&str]| {
        let output = place(&matrix(), &[&words, more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let reported: serde_json::Value = serde_json::from_str(&read(&["--json"])).unwrap();
    assert_eq!((&reported["ranks"], &reported["weighed"]), (&32.into(), &"bytes".into()));
    assert_eq!(reported["to_interfaces_before_turning"], 6400);
    assert!(
        reported["costs"]["placed"].as_u64() <= reported["costs"]["packed"].as_u64(),
        "{reported}"
    );
    let rankfile = read(&[]);
    let places = reported["places"].as_array().unwrap();
    assert_eq!(places.len(), 32);
    for one in places {
        let text = |name: &str| one[name].as_str().unwrap();
        let line = format!("rank {}={} slot={}\n", one["rank"], text("host"), text("threads"));
        assert!(rankfile.contains(&line), "{line}");
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
    let twice = ["--hosts", "a,b", "--fix", "0=0", "--fix", "0=1"];
    assert!(fault("ranks 2", &twice).contains("rank 0 is fixed on leaf 0 already"));
    assert!(fault("ranks 2", &["--topology", "/nonexistent"]).contains("/nonexistent"));
}
