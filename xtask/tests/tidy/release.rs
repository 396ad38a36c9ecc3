//! Checks the version, which several files contain and a release changes together
//! (docs/internals/releasing.md).

use super::{read, workspace};

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

/// The text between `begin` and `end`.
fn after(text: &str, begin: &str, end: &str) -> String {
    let found = text.split_once(begin).and_then(|(_, rest)| rest.split_once(end));
    found.unwrap_or_else(|| panic!("no {begin:?}")).0.to_owned()
}
