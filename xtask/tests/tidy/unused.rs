//! Files and dependencies that nothing uses.

use std::path::Path;

use super::{crates, dependencies, files_with, read, report};

/// All of a crate that may name a dependency or a file, but for one file.
fn text_of(folder: &Path, without: &Path) -> String {
    let mut files = files_with(folder, &["rs"]);
    files.extend([folder.join("Cargo.toml"), folder.join("README.md")]);
    files.retain(|path| path != without && path.exists());
    files.iter().map(|path| read(path)).collect()
}

fn names(text: &str, name: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(name).any(|(at, _)| {
        !text[..at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part)
    })
}

/// The libraries for programs of other MPIs compile the sources of `mpi-abi`.
const COMPILES_OTHERS: &str = "mpi-abi-";

#[test]
fn dependencies_are_used() {
    let mut faults = Vec::new();
    for (name, folder) in crates().iter().filter(|(name, _)| !name.starts_with(COMPILES_OTHERS)) {
        let text = text_of(folder, &folder.join("Cargo.toml"));
        let unused = dependencies(folder).into_iter();
        let unused = unused.filter(|one| !names(&text, &one.replace('-', "_")));
        faults.extend(unused.map(|one| format!("{name} does not use {one}")));
    }
    report(faults);
}

#[test]
fn every_file_of_rust_belongs_to_a_crate() {
    let mut faults = Vec::new();
    for (_, folder) in crates() {
        for path in files_with(&folder.join("src"), &["rs"]) {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if ["lib", "main"].contains(&&*stem) {
                continue;
            }
            let module = path.parent().map(|place| place.with_extension("rs"));
            let parents = [folder.join("src/lib.rs"), folder.join("src/main.rs")];
            let is_named = |parent: &Path| {
                parent.exists() && names(&read(parent), &format!("mod {stem}"))
                    || parent.exists() && read(parent).contains(&format!("{stem}.rs"))
            };
            let mut parents = parents.into_iter().chain(module);
            if !parents.any(|parent| is_named(&parent)) {
                faults.push(format!("{}: no module names it", path.display()));
            }
        }
    }
    report(faults);
}
