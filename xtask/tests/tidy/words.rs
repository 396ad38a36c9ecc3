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

/// Words that messages must not contain.
const NOT_IN_MESSAGES: &[&str] =
    &["who", "whoever", "nobody", "told", "tells", "wants", "says", "likewise", "shall"];

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

/// The string literals of a source of Rust, without comments, tests, and the names in braces.
fn literals(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = code.collect::<Vec<_>>().join("\n").replace("\\\"", "").replace("'\"'", "");
    let literals = code.split('"').skip(1).step_by(2).collect::<Vec<_>>().join(" ");
    let pieces = literals.split('{').map(|piece| piece.split_once('}').map_or(piece, |two| two.1));
    pieces.collect()
}

#[test]
fn messages_name_their_subject() {
    let is_test = |path: &std::path::Path| {
        path.components()
            .any(|part| ["tests", "tests.rs", "sim"].iter().any(|name| part.as_os_str() == *name))
    };
    let mut faults = Vec::new();
    for path in
        files_with(&workspace().join("crates"), &["rs"]).iter().filter(|path| !is_test(path))
    {
        let text = literals(&read(path)).to_lowercase();
        let words = text.split(|letter: char| !letter.is_alphabetic());
        for word in words.filter(|word| NOT_IN_MESSAGES.contains(word)) {
            faults.push(format!("{}: a message contains {word:?}", path.display()));
        }
    }
    report(faults);
}
