//! What comes into the process from outside: who may read the environment.

use std::path::{Path, PathBuf};

use super::{crates, files_with, read, report, workspace};

/// The command, which refuses to run with more rights than its user (`cli/src/main.rs`): it may
/// believe the environment.
const OF_THE_COMMAND: &[&str] = &["cli", "launcher", "xtask"];

/// Where it is decided which variables a program may believe.
const ENVIRONMENT: &str = "sys/src/environment.rs";

/// What reads the environment, or chooses a folder by it.
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
            if !path.ends_with(ENVIRONMENT) {
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

/// Under a name that others can foresee they could put a link, or a file of their own.
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

/// The files of modules that this one declares for tests only.
fn test_modules(path: &Path) -> Vec<PathBuf> {
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
