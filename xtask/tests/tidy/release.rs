//! Checks the version, which several files contain and a release changes together
//! (docs/internals/releasing.md).

use super::{crates, dependencies, read, report, workspace};

#[test]
fn the_version_is_the_same_everywhere() {
    let version = after(&read(&workspace().join("Cargo.toml")), "\nversion = \"", "\"");
    let changelog = read(&workspace().join("CHANGELOG.md"));
    let headings: Vec<&str> = changelog.lines().filter(|line| line.starts_with("## ")).collect();
    assert_eq!(headings[0], "## Unreleased");
    let newest = format!("## {version} - ");
    assert!(headings[1].starts_with(&newest), "CHANGELOG.md: {:?} is not {newest}", headings[1]);
    for (lock, package) in [
        ("Cargo.lock", "base"),
        ("fuzz/Cargo.lock", "base"),
        ("rust/Cargo.lock", "combray-endpoints"),
    ] {
        let text = read(&workspace().join(lock));
        let reported = after(&text, &format!("name = \"{package}\"\nversion = \""), "\"");
        assert_eq!(reported, version, "{lock}: cargo update --workspace --offline brings it along");
    }
    let rust = read(&workspace().join("rust/Cargo.toml"));
    assert_eq!(after(&rust, "\nversion = \"", "\""), version, "rust/Cargo.toml");
}

/// A lock that lacks a dependency makes `cargo --locked` fail; cargo without it completes the lock
/// silently.
#[test]
fn the_lock_of_the_fuzz_targets_has_the_dependencies_of_our_crates() {
    let lock = read(&workspace().join("fuzz/Cargo.lock"));
    let mut faults = Vec::new();
    for (name, folder) in crates() {
        let begin = format!("[[package]]\nname = \"{name}\"\nversion");
        let Some((_, rest)) = lock.split_once(&begin) else { continue };
        let locked = rest.split("[[package]]").next().unwrap_or_default();
        let is_locked = |one: &str| {
            locked.contains(&format!(" \"{one}\",")) || locked.contains(&format!(" \"{one} "))
        };
        let missing = dependencies(&folder).into_iter().filter(|one| !is_locked(one));
        faults.extend(missing.map(|one| {
            format!("fuzz/Cargo.lock: {name} lacks {one}: cargo update -w in fuzz/ adds it")
        }));
    }
    report(faults);
}

/// The text between `begin` and `end`.
fn after(text: &str, begin: &str, end: &str) -> String {
    let found = text.split_once(begin).and_then(|(_, rest)| rest.split_once(end));
    found.unwrap_or_else(|| panic!("no {begin:?}")).0.to_owned()
}
