//! Checks the input from outside the process: which crates may read the environment, how temporary
//! files are created, and whether docs/internals/outside.md names all places that read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{crates, files_with, read, report, workspace};

/// The page that lists where bytes come from outside.
const PAGE: &str = "docs/internals/outside.md";

/// Calls that take bytes from files, sockets, other processes, the environment, or tools.
const SOURCES: &[&str] = &[
    "fs::read(",
    "read_to_string(",
    "File::open(",
    "read_exact_at(",
    "read_to_end(",
    ".read(&mut",
    ".accept(",
    "recvmmsg(",
    "env::args",
    "env::var",
    "environment::value",
    "environment::text",
    "environment::all",
    "stdin()",
    "read_link(",
    "cross_memory::read",
    "serde_json::from_slice",
    "serde_json::from_str",
    "from_json",
    ".output()",
];

/// Crates that read only files of the project itself.
const OF_THE_PROJECT: &[&str] = &["xtask", "sim"];

/// The crates of the command. It refuses to run with more rights than its user (`cli/src/main.rs`),
/// so it may trust the environment.
const OF_THE_COMMAND: &[&str] = &["cli", "launcher", "xtask"];

/// The file that decides which variables a program may trust.
const ENVIRONMENT: &str = "sys/src/environment.rs";

/// The file with the version, which shows whether the compiler's environment says that it is
/// compiled for a release.
const VERSION: &str = "base/src/version.rs";

/// Calls that read the environment, or choose a folder by it.
const READS: &[&str] =
    &["env::var(", "env::var_os", "env::vars", "env::home_dir", "option_env!", "getenv"];

/// Programs with more rights than their user link all crates but those of the command.
#[test]
fn the_environment_is_read_in_one_place() {
    let mut faults = Vec::new();
    for (name, folder) in crates() {
        if OF_THE_COMMAND.contains(&name.as_str()) {
            continue;
        }
        let files = files_with(&folder.join("src"), &["rs", "c", "h"]);
        let tests: Vec<PathBuf> = files.iter().flat_map(|path| test_modules(path)).collect();
        for path in files.iter().filter(|path| !tests.contains(path)) {
            if !path.ends_with(ENVIRONMENT) && !path.ends_with(VERSION) {
                faults.extend(reads(path, &read(path)));
            }
        }
    }
    for folder in ["fortran", "bench/tally"] {
        for path in files_with(&workspace().join(folder), &["c", "h"]) {
            let text = read(&path).replace("secure_getenv", "");
            faults.extend(reads(&path, &text));
        }
    }
    report(faults);
}

/// If a temporary file had a predictable name, another user could put a link or a file there.
#[test]
fn temporary_files_are_made_by_tempfile() {
    let mut faults = Vec::new();
    for path in files_with(&workspace().join("crates"), &["rs"]) {
        let lines = read(&path);
        for (number, line) in (1..).zip(lines.lines()) {
            if line.contains("env::temp_dir") {
                faults.push(format!("{}:{number}: {}: use tempfile", path.display(), line.trim()));
            }
        }
    }
    report(faults);
}

#[test]
fn all_that_reads_from_outside_is_listed() {
    let words = named();
    let mut faults = Vec::new();
    for (name, folder) in crates() {
        if OF_THE_PROJECT.contains(&name.as_str()) {
            continue;
        }
        let sources = folder.join("src");
        let files = files_with(&sources, &["rs"]);
        let tests: Vec<PathBuf> = files.iter().flat_map(|path| test_modules(path)).collect();
        for path in files.iter().filter(|path| !tests.contains(path)) {
            let inside = path.strip_prefix(&sources).expect("it is below").display().to_string();
            let of_tests =
                ["tests/", "fuzzing.rs", "/tests"].iter().any(|one| inside.contains(one));
            let place = format!("{name}/{inside}");
            if !of_tests && takes_from_outside(&read(path)) && !words.contains(&place) {
                faults.push(format!("{PAGE}: {place} reads something, and is not listed"));
            }
        }
    }
    report(faults);
}

#[test]
fn the_list_of_what_is_read_names_what_there_is() {
    let (root, functions) = (workspace(), all_sources());
    let words = named();
    let target = |name: &str| root.join("fuzz/targets").join(format!("{name}.rs")).exists();
    let exists = |word: &str| match word.split_once('/') {
        Some((name, file)) => root.join("crates").join(name).join("src").join(file).exists(),
        None => target(word) || is_function(&functions, word),
    };
    let mut faults: Vec<String> = words
        .iter()
        .filter(|word| !exists(word))
        .map(|word| format!("{PAGE}: there is no {word}"))
        .collect();
    for path in files_with(&root.join("fuzz/targets"), &["rs"]) {
        let target = path.file_stem().expect("it has a name").to_string_lossy();
        if !words.contains(&*target) {
            faults.push(format!("{PAGE}: the fuzz target {target} is not named"));
        }
    }
    report(faults);
}

/// What each limit of large jobs is kept by: functions, programs of tests/c, and runners.
#[test]
fn the_limits_of_large_jobs_are_kept_by_what_there_is() {
    let (root, functions) = (workspace(), all_sources());
    let words = named_in("docs/internals/scale.md", &[3]);
    let exists = |word: &str| match word.contains('/') || word.ends_with(".c") {
        true => root.join("tests/c").join(word).exists() || root.join(word).exists(),
        false => is_function(&functions, word),
    };
    let missing = words.iter().filter(|word| !exists(word));
    report(missing.map(|word| format!("docs/internals/scale.md: there is no {word}")).collect());
    assert!(words.len() > 20, "the page has a table");
}

/// The text of all sources and tests.
fn all_sources() -> String {
    let folders = ["crates", "tests", "xtask"].map(|folder| workspace().join(folder));
    let files = folders.iter().flat_map(|folder| files_with(folder, &["rs", "py"]));
    files.map(|path| read(&path)).collect()
}

/// Whether there is a function of this name, in Rust or Python.
fn is_function(sources: &str, name: &str) -> bool {
    ["fn", "def"].iter().any(|kind| sources.contains(&format!("{kind} {name}(")))
}

/// The code words in the tables of the page, which names files in the second cell, and in the
/// fourth the tests that cover them.
fn named() -> BTreeSet<String> {
    named_in(PAGE, &[2, 4])
}

/// The code words in these cells of the tables of a page.
fn named_in(page: &str, numbers: &[usize]) -> BTreeSet<String> {
    let page = read(&workspace().join(page));
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).collect();
    let cells = rows.iter().flat_map(|row| row.split('|').enumerate());
    let cells = cells.filter(|(number, _)| numbers.contains(number)).map(|(_, cell)| cell);
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

fn takes_from_outside(text: &str) -> bool {
    let lines = text.lines().take_while(|line| *line != "mod tests {");
    let mut code = lines.filter(|line| !line.trim_start().starts_with("//"));
    code.any(|line| SOURCES.iter().any(|word| line.contains(word)))
}

/// The lines that read the environment, outside of tests.
fn reads(path: &Path, text: &str) -> Vec<String> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim_start().starts_with("//"));
    let mut faults = Vec::new();
    let mut tests = false;
    for (number, line) in lines {
        tests |= line == "mod tests {";
        if !tests && READS.iter().any(|word| line.contains(word)) {
            faults.push(format!(
                "{}:{number}: {}: ask sys::environment, which knows what may be believed",
                path.display(),
                line.trim()
            ));
        }
    }
    faults
}

/// The files of modules that this file declares for tests only.
pub(crate) fn test_modules(path: &Path) -> Vec<PathBuf> {
    let text = read(path);
    let lines: Vec<&str> = text.lines().collect();
    let folder = match path.file_name().is_some_and(|name| name == "lib.rs" || name == "main.rs") {
        true => path.parent().expect("a file is in a folder").to_owned(),
        false => path.with_extension(""),
    };
    let declared = lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]");
    let names = declared.filter_map(|pair| pair[1].split("mod ").nth(1)?.strip_suffix(';'));
    names.map(|name| folder.join(format!("{name}.rs"))).collect()
}

#[test]
fn a_line_that_reads_the_environment_is_found() {
    let text =
        "// env::var(\"A\")\nlet a = env::var(\"A\");\nmod tests {\nlet a = env::var(\"A\");";
    assert_eq!(reads(Path::new("a.rs"), text).len(), 1);
}
