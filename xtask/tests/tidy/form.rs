//! Checks the length of files, functions and comment lines, and forbidden words.

use std::path::Path;

use super::{read, report, sources};

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;
/// `cargo +nightly fmt -- --config wrap_comments=true,comment_width=100` wraps the comments of
/// Rust.
const COMMENT_COLUMNS_MAX: usize = 100;

/// Words that the sources must not contain. They are written in halves, so that this file can be
/// checked too.
const FORBIDDEN_WORDS: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("db", "g!(")];

#[test]
fn files_and_functions_are_short() {
    let mut faults = Vec::new();
    for path in sources() {
        let text = read(&path);
        let length = text.lines().count();
        if length > FILE_LINES_MAX {
            faults.push(format!("{}: {length} lines, at most {FILE_LINES_MAX}", path.display()));
        }
        for (number, lines) in functions(&path, &text) {
            if lines > FUNCTION_LINES_MAX {
                let place = path.display();
                faults.push(format!(
                    "{place}:{number}: a function of {lines} lines, at most {FUNCTION_LINES_MAX}"
                ));
            }
        }
    }
    report(faults);
}

#[test]
fn comments_are_not_wide() {
    let mut faults = Vec::new();
    for path in sources() {
        let mark = if is_rust(&path) || is_c(&path) { "//" } else { "#" };
        for (number, line) in (1..).zip(read(&path).lines()) {
            let is_comment = line.trim_start().starts_with(mark);
            if is_comment && line.chars().count() > COMMENT_COLUMNS_MAX {
                let place = path.display();
                faults.push(format!(
                    "{place}:{number}: a comment of more than {COMMENT_COLUMNS_MAX} columns: {line}"
                ));
            }
        }
    }
    report(faults);
}

#[test]
fn nothing_is_left_to_do_in_the_sources() {
    let mut faults = Vec::new();
    for path in sources() {
        for (number, line) in (1..).zip(read(&path).lines()) {
            if FORBIDDEN_WORDS.iter().any(|word| line.contains(word)) {
                faults.push(format!("{}:{number}: {}", path.display(), line.trim()));
            }
        }
    }
    report(faults);
}

/// Messages are for users: the debug form of a value is for tests, for panics and for `Debug`
/// itself. Only developers read the output of `sim` and `xtask`.
#[test]
fn messages_hold_no_debug_output() {
    const ALLOWED: [&str; 4] = ["assert", "panic!", "unreachable!", "write!(f"];
    const FOR_US: [&str; 4] = ["tests", "tests.rs", "sim", "xtask"];
    /// The maximum distance in lines between a text and its macro above.
    const LINES_ABOVE: usize = 4;
    let is_for_us = |path: &Path| path.iter().any(|part| FOR_US.iter().any(|one| part == *one));
    let mut faults = Vec::new();
    for path in sources().into_iter().filter(|path| is_rust(path) && !is_for_us(path)) {
        let text = read(&path);
        let of_tests = ["#[cfg(test)]", "#[cfg(any(test, fuzzing))]"];
        let lines = text.lines().take_while(|line| !of_tests.contains(&line.trim()));
        let lines: Vec<&str> = lines.collect();
        for (index, line) in lines.iter().enumerate().filter(|(_, line)| line.contains(":?}")) {
            let near = &lines[index.saturating_sub(LINES_ABOVE)..=index];
            if !near.iter().any(|line| ALLOWED.iter().any(|word| line.contains(word))) {
                faults.push(format!("{}:{}: {}", path.display(), index + 1, line.trim()));
            }
        }
    }
    report(faults);
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension().is_some_and(|own| extensions.iter().any(|one| own == *one))
}

fn is_rust(path: &Path) -> bool {
    has_extension(path, &["rs"])
}

fn is_c(path: &Path) -> bool {
    has_extension(path, &["c", "h", "cpp"])
}

/// The first line and the length of each function.
fn functions(path: &Path, text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.first().copied().unwrap_or_default();
    if is_rust(path) {
        ending_with_a_brace(&lines, is_rust_function)
    } else if has_extension(path, &["py"]) || first.ends_with("python3") {
        indented(&lines)
    } else if has_extension(path, &["sh"]) || first.starts_with("#!") {
        ending_with_a_brace(&lines, |line| line.ends_with("() {"))
    } else {
        Vec::new()
    }
}

/// Relies on the indentation of formatters: a function ends with the first closing brace that is
/// indented like its first line.
fn ending_with_a_brace(lines: &[&str], begins: fn(&str) -> bool) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        if !begins(code) || line.ends_with('}') || line.ends_with(';') {
            continue;
        }
        let closing = format!("{}}}", &line[..line.len() - code.len()]);
        let length = 1 + lines[index..].iter().take_while(|line| **line != closing).count();
        if index + length <= lines.len() {
            found.push((index + 1, length));
        }
    }
    found
}

fn is_rust_function(code: &str) -> bool {
    let words: Vec<&str> = code.split_whitespace().take_while(|word| *word != "fn").collect();
    words.len() < code.split_whitespace().count()
        && words.iter().all(|word| {
            word.starts_with("pub")
                || ["const", "unsafe", "async", "extern", "\"C\""].contains(word)
        })
}

/// Functions of Python: each ends before the first line that is not indented more than `def`.
fn indented(lines: &[&str]) -> Vec<(usize, usize)> {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if !line.trim_start().starts_with("def ") {
            continue;
        }
        let is_inside = |other: &&&str| {
            let other = other.trim_end();
            // The closing parenthesis of a multi-line parameter list does not end the function.
            other.is_empty() || depth(other) > depth(line) || other.trim_start().starts_with(')')
        };
        let body = lines[index + 1..].iter().take_while(is_inside);
        let last = body.enumerate().filter(|(_, line)| !line.trim().is_empty()).last();
        found.push((index + 1, last.map_or(1, |(at, _)| at + 2)));
    }
    found
}

#[test]
fn lengths_of_functions_are_seen() {
    let rust = "fn one() {\n    two();\n}\n\nimpl A {\n    pub const fn three() {}\n    fn four(\n        a: u8,\n    ) {\n    }\n}\n";
    assert_eq!(functions(Path::new("a.rs"), rust), [(1, 3), (7, 4)]);
    let python = "#!/usr/bin/env python3\ndef one():\n    pass\n\n    return\n\n\nclass A:\n    def two(self,\n            a):\n        pass\nx = 1\n";
    assert_eq!(functions(Path::new("run"), python), [(2, 4), (9, 3)]);
    let shell = "#!/usr/bin/env bash\none() {\n    two\n}\n";
    assert_eq!(functions(Path::new("run"), shell), [(2, 3)]);
}
