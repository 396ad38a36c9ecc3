//! Files and dependencies that nothing uses.

use std::path::Path;

use super::{crates, dependencies, files_with, read, report};

/// All of a crate that may name a dependency: its sources, and the examples of its page.
fn text_of(folder: &Path) -> String {
    files_with(folder, &["rs", "md"]).iter().map(|path| read(path)).collect()
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
        let text = text_of(folder);
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
        let root = folder.join("src");
        let files = files_with(&root, &["rs"]);
        let text: String = files.iter().map(|path| read(path)).collect();
        let has_path = |file: &Path| {
            let from_root = file.strip_prefix(&root).unwrap_or(file).display().to_string();
            text.contains(&format!("path = \"{from_root}\""))
        };
        for path in &files {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let is_root = ["lib", "main"].contains(&&*stem);
            // Modules of a file that has a path of its own stand beside that file.
            let beside =
                files.iter().filter(|file| file.parent() == path.parent() && has_path(file));
            let above = path.parent().map(|place| place.with_extension("rs"));
            let mut above = [root.join("lib.rs"), root.join("main.rs")]
                .into_iter()
                .chain(above)
                .chain(beside.cloned())
                .filter(|file| file.exists());
            let declaration = format!("mod {stem}");
            let is_declared = above.any(|file| names(&read(&file), &declaration));
            if !is_root && !is_declared && !has_path(path) {
                faults.push(format!("{}: no module names it", path.display()));
            }
        }
    }
    report(faults);
}
