//! The rules of the workspace that a compiler does not check: who may depend on whom, who may hold
//! `unsafe`, which crates know no world, and how long files and functions may be.

use std::fs;
use std::path::{Path, PathBuf};

/// Every crate with its tier. A crate depends on lower tiers only, save for [`SAME_TIER`].
const TIERS: &[(&str, u32)] = &[
    ("base", 0),
    ("wire", 0),
    ("events", 0),
    ("sys", 1),
    ("memory", 1),
    ("queues", 1),
    ("topology", 1),
    ("datatype", 2),
    ("engine", 2),
    ("collectives", 2),
    ("placement", 2),
    ("pmix", 2),
    ("driver", 3),
    ("driver-shm", 3),
    ("driver-tcp", 3),
    ("driver-ofi", 3),
    ("driver-ether", 3),
    ("launch", 3),
    ("launcher", 4),
    ("runtime", 4),
    ("mpi", 4),
    ("mpi-abi", 5),
    ("cli", 5),
    ("sim", 6),
    ("bench", 6),
    ("xtask", 6),
];

/// Dependencies inside a tier: (who, on whom).
const SAME_TIER: &[(&str, &str)] = &[
    // The words that all speak.
    ("wire", "base"),
    // The system's calls.
    ("topology", "sys"),
    ("memory", "sys"),
    ("driver-shm", "driver"),
    ("driver-tcp", "driver"),
    ("driver-ofi", "driver"),
    ("driver-ether", "driver"),
    ("mpi", "runtime"),
];

/// Crates that may hold `unsafe`; all others forbid it.
const UNSAFE_ALLOWED: &[&str] = &[
    "sys",
    "memory",
    "queues",
    "topology",
    "driver-shm",
    "driver-tcp",
    "driver-ofi",
    "driver-ether",
    "pmix",
    "mpi-abi",
];

/// Crates that know no clock, threads, network or files.
const WITHOUT_WORLD: &[&str] = &["engine", "wire", "collectives", "datatype", "placement"];
const WORLD: &[&str] = &["std::time", "std::thread", "std::net", "std::fs", "std::io"];

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;

/// What must not stand in the sources. Written in halves, so that this file may be checked too.
const FORBIDDEN_WORDS: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("db", "g!(")];

#[test]
fn crates_depend_on_lower_tiers_only() {
    let mut faults = Vec::new();
    for (name, folder) in crates() {
        let Some(tier) = tier(&name) else {
            faults.push(format!("{name}: no tier; add it to the table of this test"));
            continue;
        };
        for dependency in dependencies(&folder) {
            let allowed = SAME_TIER.contains(&(&name, &dependency));
            match self::tier(&dependency) {
                Some(other) if other >= tier && !allowed => {
                    faults.push(format!("{name} (tier {tier}) uses {dependency} (tier {other})"));
                }
                _ => {}
            }
            if dependency == "libc" && name != "sys" {
                faults.push(format!("{name} uses libc, as only sys may"));
            }
        }
    }
    report(faults);
}

#[test]
fn unsafe_is_fenced() {
    let mut faults = Vec::new();
    for (name, folder) in crates() {
        if UNSAFE_ALLOWED.contains(&name.as_str()) {
            continue;
        }
        for root in roots(&folder) {
            if !read(&root).contains("#![forbid(unsafe_code)]") {
                faults.push(format!("{}: no #![forbid(unsafe_code)]", root.display()));
            }
        }
    }
    report(faults);
}

#[test]
fn pure_crates_know_no_world() {
    let mut faults = Vec::new();
    for (name, folder) in crates() {
        if !WITHOUT_WORLD.contains(&name.as_str()) {
            continue;
        }
        for path in files_with(&folder.join("src"), &["rs"]) {
            if path.file_stem().is_some_and(|stem| stem == "tests") {
                continue;
            }
            let text = read(&path);
            let lines = text.lines().take_while(|line| *line != "#[cfg(test)]");
            for (number, line) in (1..).zip(lines) {
                if WORLD.iter().any(|word| line.contains(word)) {
                    faults.push(format!("{}:{number}: {}", path.display(), line.trim()));
                }
            }
        }
    }
    report(faults);
}

#[test]
fn files_and_functions_are_short() {
    let mut faults = Vec::new();
    for path in sources() {
        let text = read(&path);
        let length = text.lines().count();
        if length > FILE_LINES_MAX {
            faults.push(format!("{}: {length} lines, at most {FILE_LINES_MAX}", path.display()));
        }
        if path.extension().is_some_and(|extension| extension == "rs") {
            for (number, lines) in long_functions(&text) {
                faults.push(format!(
                    "{}:{number}: a function of {lines} lines, at most {FUNCTION_LINES_MAX}",
                    path.display()
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

#[test]
fn every_crate_says_what_it_is() {
    let architecture = read(&workspace().join("ARCHITECTURE.md"));
    let mut faults = Vec::new();
    for (name, folder) in crates() {
        for root in roots(&folder) {
            if !read(&root).starts_with("//! ") {
                faults.push(format!("{}: does not begin with what it is", root.display()));
            }
        }
        if !architecture.contains(&format!("`{name}`")) {
            faults.push(format!("ARCHITECTURE.md does not name the crate `{name}`"));
        }
    }
    report(faults);
}

#[test]
fn generated_files_are_current() {
    let check = std::process::Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["codegen", "--check"])
        .output()
        .expect("xtask runs");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the workspace exists")
}

/// Name and folder of every crate.
fn crates() -> Vec<(String, PathBuf)> {
    let folder = workspace().join("crates");
    let entries = fs::read_dir(&folder).expect("crates/ exists");
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.expect("it lists").path()).collect();
    found.push(workspace().join("xtask"));
    found.sort();
    let name =
        |path: &PathBuf| path.file_name().expect("folders have names").to_string_lossy().into();
    found.into_iter().map(|path| (name(&path), path)).collect()
}

fn tier(name: &str) -> Option<u32> {
    TIERS.iter().find(|(other, _)| *other == name).map(|(_, tier)| *tier)
}

/// What a crate depends on, tests aside.
fn dependencies(folder: &Path) -> Vec<String> {
    let manifest = read(&folder.join("Cargo.toml"));
    let mut inside = false;
    let mut found = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = matches!(line, "[dependencies]" | "[build-dependencies]")
                || line.starts_with("[target.") && line.ends_with(".dependencies]");
        } else if inside && line.contains('=') {
            let name: String =
                line.chars().take_while(|c| c.is_alphanumeric() || "-_".contains(*c)).collect();
            found.push(name);
        }
    }
    found
}

fn roots(folder: &Path) -> Vec<PathBuf> {
    let candidates = ["src/lib.rs", "src/main.rs"].map(|name| folder.join(name));
    candidates.into_iter().filter(|path| path.exists()).collect()
}

/// All source files that people write.
fn sources() -> Vec<PathBuf> {
    let folders = ["crates", "xtask", "tests", "bench", "examples"];
    let all = folders
        .iter()
        .flat_map(|name| files_with(&workspace().join(name), &["rs", "c", "cpp", "h", "py", "sh"]));
    all.filter(|path| !is_generated(path)).collect()
}

fn is_generated(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "generated")
        || path.ends_with("crates/mpi-abi/include/mpi.h")
}

fn files_with(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for entry in entries {
        let path = entry.expect("it lists").path();
        if path.is_dir() {
            found.extend(files_with(&path, extensions));
        } else if path.extension().is_some_and(|own| extensions.iter().any(|one| own == *one)) {
            found.push(path);
        }
    }
    found
}

/// First line and length of functions that are too long. Relies on rustfmt's indentation: a
/// function ends with the first closing brace that stands as deep as its first line.
fn long_functions(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let words: Vec<&str> = code.split_whitespace().take_while(|word| *word != "fn").collect();
        let is_function = words.len() < code.split_whitespace().count()
            && words.iter().all(|word| {
                word.starts_with("pub")
                    || ["const", "unsafe", "async", "extern", "\"C\""].contains(word)
            });
        if !is_function {
            continue;
        }
        let closing = format!("{}}}", &line[..line.len() - code.len()]);
        let length = 1 + lines[index..].iter().take_while(|line| **line != closing).count();
        let body_here = line.ends_with('}') || line.ends_with(';');
        if !body_here && length > FUNCTION_LINES_MAX && index + length <= lines.len() {
            found.push((index + 1, length));
        }
    }
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn report(faults: Vec<String>) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
