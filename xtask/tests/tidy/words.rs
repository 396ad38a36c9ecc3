//! Words that hide what a sentence is about. Their number may only fall.

use super::{files_with, read, report, sources, workspace};

/// A word, how often it may stand in comments of Rust and in pages, and what to write instead.
const HIDING_WORDS: &[(&str, usize, &str)] = &[
    ("who", 35, "name it: the sender, a process that sleeps"),
    ("whoever", 7, "name it: the sender, a process that sleeps"),
    ("told", 25, "sent, received, reported, configured"),
    ("tells", 8, "sends, reports, contains"),
    ("likewise", 0, "repeat the noun"),
    ("shall", 0, "must"),
];

/// A limit is lowered when so many fewer are left.
const SLACK: usize = 20;

/// The comments of a source of Rust, or a page as a whole.
fn sentences(path: &std::path::Path) -> String {
    let text = read(path);
    if path.extension().is_some_and(|own| own == "md") {
        return text;
    }
    let comments = text.lines().filter(|line| line.trim_start().starts_with("//"));
    comments.collect::<Vec<_>>().join("\n")
}

#[test]
fn words_that_hide_the_subject_become_fewer() {
    let root = workspace();
    let rust = sources().into_iter().filter(|path| path.extension().is_some_and(|own| own == "rs"));
    let pages =
        ["docs", "crates", "tests"].iter().flat_map(|name| files_with(&root.join(name), &["md"]));
    let text: Vec<String> = rust.chain(pages).map(|path| sentences(&path).to_lowercase()).collect();
    let mut faults = Vec::new();
    for (word, most, instead) in HIDING_WORDS {
        let words = text.iter().flat_map(|one| one.split(|letter: char| !letter.is_alphabetic()));
        let count = words.filter(|other| other == word).count();
        if count > *most {
            faults.push(format!("{word:?}: {count} times, at most {most}; write {instead}"));
        } else if count + SLACK < *most {
            faults.push(format!("{word:?}: {count} times; lower the limit, which is {most}"));
        }
    }
    report(faults);
}
