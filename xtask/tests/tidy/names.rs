//! Checks that each name stands for one type, so that a reader who meets the name knows the type.

use std::collections::{BTreeMap, BTreeSet};

use super::{crates, files_with, read, report};

#[test]
fn public_types_have_names_of_their_own() {
    let mut owners: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, folder) in crates() {
        for path in files_with(&folder.join("src"), &["rs"]) {
            let inside = path.strip_prefix(&folder).expect("it lies there");
            if inside
                .components()
                .any(|part| part.as_os_str().to_string_lossy().starts_with("tests"))
            {
                continue;
            }
            for type_name in public_types(&read(&path)) {
                owners.entry(type_name).or_default().insert(name.clone());
            }
        }
    }
    let shared = owners.iter().filter(|(_, crates)| crates.len() > 1);
    let mut faults = Vec::new();
    for (name, crates) in shared {
        let crates: Vec<&str> = crates.iter().map(String::as_str).collect();
        faults.push(format!("{name} is a public type of {}: find two names", crates.join(" and ")));
    }
    report(faults);
}

/// The names of the public types of a file, without those of its tests.
fn public_types(text: &str) -> Vec<String> {
    let lines = text.lines().take_while(|line| *line != "#[cfg(test)]");
    lines
        .filter_map(|line| {
            let mut words = line.split([' ', '<', '(', '{', ';', ':']);
            let (first, kind, name) = (words.next()?, words.next()?, words.next()?);
            let is_type = ["struct", "enum", "trait", "type", "union"].contains(&kind);
            (first == "pub" && is_type).then(|| name.to_owned())
        })
        .collect()
}
