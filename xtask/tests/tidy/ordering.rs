//! Checks that docs/internals/memory-ordering.md has a row for each file that orders memory
//! accesses itself.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::outside::test_modules;
use super::{crates, files_with, read, report, workspace};

/// The page with the review.
const PAGE: &str = "docs/internals/memory-ordering.md";

/// What needs a review: orderings that do not order, and fences.
const SUBJECTS: &[&str] = &["Relaxed", "fence(Ordering", "full_fence()", "light_barrier()"];

/// The crate that is not part of the library or the command.
const OF_THE_PROJECT: &[&str] = &["xtask", "sim"];

#[test]
fn every_relaxed_access_is_reviewed() {
    let reviewed = reviewed();
    let mut faults = Vec::new();
    let mut found = BTreeSet::new();
    for (name, folder) in crates() {
        let sources = folder.join("src");
        let files = files_with(&sources, &["rs"]);
        let tests: Vec<PathBuf> = files.iter().flat_map(|path| test_modules(path)).collect();
        for path in files.iter().filter(|path| !tests.contains(path)) {
            let inside = path.strip_prefix(&sources).expect("it is below").display().to_string();
            let of_tests = ["tests", "models", "modelled"].iter().any(|one| inside.contains(one));
            if of_tests || OF_THE_PROJECT.contains(&name.as_str()) || !is_subject(&read(path)) {
                continue;
            }
            let place = format!("{name}/{inside}");
            if !reviewed.contains(&place) {
                faults.push(format!("{PAGE}: {place} has relaxed accesses, and no row"));
            }
            found.insert(place);
        }
    }
    let exists = |place: &String| {
        place.split_once('/').is_some_and(|(name, file)| {
            workspace().join("crates").join(name).join("src").join(file).exists()
        })
    };
    let missing = reviewed.iter().filter(|place| !exists(place));
    faults.extend(missing.map(|place| format!("{PAGE}: there is no {place}")));
    assert!(found.len() > 50, "the search finds {}", found.len());
    report(faults);
}

/// Whether a file has such an access outside of its tests.
fn is_subject(text: &str) -> bool {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let code = code.split("#[cfg(all(test").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut lines = lines.filter(|line| !line.trim_start().starts_with("use "));
    lines.any(|line| SUBJECTS.iter().any(|subject| line.contains(subject)))
}

/// The files that the page names, as `crate/file.rs`; `crate/{one,two}.rs` names two.
fn reviewed() -> BTreeSet<String> {
    let page = read(&workspace().join(PAGE));
    let words = page.split('`').skip(1).step_by(2);
    let files = words.filter(|word| word.ends_with(".rs") && word.contains('/'));
    files.flat_map(expanded).collect()
}

fn expanded(word: &str) -> Vec<String> {
    let parts = word.split_once('{').and_then(|(before, rest)| {
        let (names, after) = rest.split_once('}')?;
        Some(names.split(',').map(|name| format!("{before}{name}{after}")).collect())
    });
    parts.unwrap_or_else(|| vec![word.to_owned()])
}
