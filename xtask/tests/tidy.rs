//! Checks the rules of the workspace that a compiler does not check: which crates may depend on
//! which, which crates may contain `unsafe`, which crates are free of I/O, the length of files and
//! functions, the names of types, and whether the numbers in the documentation are those of the
//! code.

use std::fs;
use std::path::{Path, PathBuf};

#[path = "tidy/form.rs"]
mod form;
#[path = "tidy/links.rs"]
mod links;
#[path = "tidy/maps.rs"]
mod maps;
#[path = "tidy/names.rs"]
mod names;
#[path = "tidy/numbers.rs"]
mod numbers;
#[path = "tidy/ordering.rs"]
mod ordering;
#[path = "tidy/outside.rs"]
mod outside;
#[path = "tidy/release.rs"]
mod release;
#[path = "tidy/unused.rs"]
mod unused;
#[path = "tidy/words.rs"]
mod words;

/// Every crate with its tier, except the drivers, whose names begin with [`ONE_DRIVER`]. A crate
/// may depend only on lower tiers, except as [`SAME_TIER`] permits.
const TIERS: &[(&str, u32)] = &[
    ("base", 0),
    ("sys", 1),
    ("memory", 1),
    ("queues", 1),
    ("wire", 1),
    ("lending", 1),
    ("sealing", 1),
    ("topology", 1),
    ("mpir", 1),
    ("message-queues", 0),
    ("datatype", 2),
    ("engine", 2),
    ("collectives", 2),
    ("placement", 2),
    ("bubbles", 2),
    ("hangs", 2),
    ("checks", 2),
    ("profiles", 2),
    ("spans", 2),
    ("traces", 2),
    ("memory-costs", 2),
    ("boards", 2),
    ("foreign", 2),
    ("pmix", 2),
    ("devices", 2),
    ("openmp", 2),
    ("driver", 3),
    ("links", 3),
    ("drivers", 3),
    ("launch", 3),
    ("threads", 3),
    ("otf2", 3),
    ("launcher", 4),
    ("progress", 4),
    ("runtime", 5),
    ("mpi", 6),
    ("dynamic", 7),
    ("windows", 7),
    ("files", 8),
    ("endpoints", 8),
    ("mpi-abi", 9),
    ("mpi-abi-mpich", 9),
    ("mpi-abi-open-mpi", 9),
    ("mqs", 9),
    ("cli", 9),
    ("sim", 10),
    ("xtask", 10),
];

/// The prefix of the names of drivers. They are in the tier of `driver`, on which they may depend,
/// and `drivers` may depend on them.
const ONE_DRIVER: &str = "driver-";

/// Permitted dependencies inside a tier: (the dependent crate, its dependency).
const SAME_TIER: &[(&str, &str)] = &[
    // System calls.
    ("topology", "sys"),
    ("memory", "sys"),
    // Shared memory.
    ("queues", "memory"),
    ("wire", "memory"),
    ("lending", "memory"),
    ("lending", "sys"),
    ("drivers", "driver"),
    ("links", "driver"),
    // Both name the causes of waits.
    ("traces", "profiles"),
];

/// Crates that may contain `unsafe`; all others must forbid it.
const UNSAFE_ALLOWED: &[&str] = &[
    "sys",
    "memory",
    "queues",
    "topology",
    "boards",
    "mpir",
    "driver-ofi",
    "driver-shm",
    "pmix",
    "devices",
    "otf2",
    "threads",
    "openmp",
    // In models and tests of the library entry and the lock.
    "progress",
    "mpi-abi",
    "mqs",
];

/// Crates that reach the system or other processes, and the crates that may depend on them.
const CONFINED: &[(&str, &[&str])] = &[
    (
        "driver",
        &[
            "driver-shm",
            "driver-datagram",
            "driver-ether",
            "driver-ofi",
            "driver-tcp",
            "drivers",
            "links",
            "progress",
            "runtime",
            "sim",
        ],
    ),
    ("links", &["driver-ether", "driver-ofi", "driver-tcp"]),
    ("driver-shm", &["drivers", "sim"]),
    ("driver-datagram", &["drivers"]),
    ("driver-ether", &["drivers"]),
    ("driver-ofi", &["drivers"]),
    ("driver-tcp", &["drivers", "cli"]),
    ("drivers", &["runtime"]),
    ("libc", &["sys"]),
    (
        "rustix",
        &["sys", "driver-ether", "driver-ofi", "driver-shm", "driver-tcp", "endpoints", "foreign"],
    ),
    ("socket2", &["driver", "driver-tcp", "dynamic"]),
    ("if-addrs", &["driver-ether", "driver-tcp", "dynamic"]),
];

/// Crates that must use no clock, threads, network or files.
const WITHOUT_WORLD: &[&str] = &[
    "engine",
    "wire",
    "collectives",
    "datatype",
    "placement",
    "bubbles",
    "hangs",
    "checks",
    "profiles",
    "traces",
    "memory-costs",
];
const WORLD: &[&str] = &["std::time", "std::thread", "std::net", "std::fs", "std::io"];

#[test]
fn crates_depend_on_lower_tiers_only() {
    let mut faults = Vec::new();
    for (name, folder) in crates() {
        let Some(tier) = tier(&name) else {
            faults.push(format!("{name}: no tier; add it to the table of this test"));
            continue;
        };
        for dependency in dependencies(&folder) {
            let allowed = SAME_TIER.contains(&(&name, &dependency))
                || name.starts_with(ONE_DRIVER) && ["driver", "links"].contains(&&*dependency)
                || name == "drivers" && dependency.starts_with(ONE_DRIVER);
            match self::tier(&dependency) {
                Some(other) if other >= tier && !allowed => {
                    faults.push(format!("{name} (tier {tier}) uses {dependency} (tier {other})"));
                }
                _ => {}
            }
            for (what, users) in CONFINED {
                if dependency == *what && !users.contains(&name.as_str()) {
                    faults.push(format!("{name} uses {what}, as only {} may", users.join(", ")));
                }
            }
        }
    }
    report(faults);
}

/// The entries of the tables must exist.
#[test]
fn the_tables_name_what_there_is() {
    let mut faults = Vec::new();
    let crates = crates();
    let folder = |name: &str| crates.iter().find(|(other, _)| other == name).map(|(_, path)| path);
    for (name, _) in TIERS {
        if folder(name).is_none() {
            faults.push(format!("TIERS: there is no crate {name}"));
        }
    }
    let uses = |name: &str, what: &str| {
        folder(name).is_some_and(|path| dependencies(path).iter().any(|one| one == what))
    };
    for (name, what) in SAME_TIER {
        if !uses(name, what) {
            faults.push(format!("SAME_TIER: {name} does not use {what}"));
        }
    }
    for (what, users) in CONFINED {
        for name in users.iter().filter(|name| !uses(name, what)) {
            faults.push(format!("CONFINED: {name} does not use {what}"));
        }
    }
    for name in UNSAFE_ALLOWED {
        let sources = folder(name).map(|path| files_with(&path.join("src"), &["rs"]));
        if !sources.unwrap_or_default().iter().any(|path| holds_unsafe(&read(path))) {
            faults.push(format!("UNSAFE_ALLOWED: {name} needs no unsafe"));
        }
    }
    report(faults);
}

/// Whether a text contains unsafe blocks, or attributes whose promises the compiler cannot check.
fn holds_unsafe(text: &str) -> bool {
    text.contains("unsafe {") || text.contains("#[unsafe(")
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

/// The first line of a crate whose README is its documentation.
const README: &str = "#![doc = include_str!(\"../README.md\")]\n";

#[test]
fn every_crate_says_what_it_is() {
    let mut faults = Vec::new();
    for (_, folder) in crates() {
        for root in roots(&folder) {
            let text = read(&root);
            if !text.starts_with("//! ") && !text.starts_with(README) {
                faults.push(format!("{}: does not begin with what it is", root.display()));
            }
        }
    }
    report(faults);
}

/// Cargo silently omits link-time optimisation for a library with two crate types. An archive is
/// for a script that links it.
#[test]
fn shared_libraries_are_of_one_kind() {
    let mixed = |(_, folder): &(String, PathBuf)| {
        let manifest = read(&folder.join("Cargo.toml"));
        let kinds = manifest.lines().find(|line| line.starts_with("crate-type"));
        kinds.is_some_and(|line| {
            !["cdylib", "staticlib"].iter().any(|one| line == format!("crate-type = [\"{one}\"]"))
        })
    };
    let faults = crates().into_iter().filter(mixed);
    report(
        faults
            .map(|(name, _)| {
                format!("{name}: its crate-type is not one of cdylib and staticlib alone")
            })
            .collect(),
    );
}

/// Each test that docs/user/reliability.md names must be a file, a Rust function, or a function of
/// the scenarios.
#[test]
fn tests_of_reliability_exist() {
    let root = workspace();
    let mut functions = String::new();
    for folder in ["crates", "tests/scenarios", "tests/cluster"] {
        files_with(&root.join(folder), &["rs", "py"])
            .iter()
            .for_each(|path| functions += &read(path));
    }
    let faults = read(&root.join("tests/faults.txt"));
    let named = faults.lines().filter_map(|line| line.strip_prefix("shown:"));
    let named: Vec<&str> = named.flat_map(|list| list.trim().split(", ")).collect();
    // A runner may have options.
    let path = |name: &str| root.join(name.split(' ').next().unwrap_or_default());
    let exists = |name: &str| match name.contains('/') {
        true => path(name).exists(),
        false => ["fn", "def"].iter().any(|word| functions.contains(&format!("{word} {name}("))),
    };
    let missing = named.iter().filter(|name| !name.is_empty() && !exists(name));
    report(missing.map(|name| format!("tests/faults.txt: there is no test {name}")).collect());
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

/// The name and folder of every crate.
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
    let name = if name.starts_with(ONE_DRIVER) { "driver" } else { name };
    TIERS.iter().find(|(other, _)| *other == name).map(|(_, tier)| *tier)
}

/// The dependencies of a crate, without those for tests.
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

/// All handwritten source files: by their extensions, and programs without an extension.
fn sources() -> Vec<PathBuf> {
    let folders = [
        "crates",
        "xtask",
        "tests",
        "bench",
        "examples",
        "studies",
        "scripts",
        "packaging",
        ".ci",
        "fuzz",
        "rust",
    ];
    let all = folders.iter().flat_map(|name| files_below(&workspace().join(name)));
    all.filter(|path| is_source(path) && !is_generated(path)).collect()
}

fn is_source(path: &Path) -> bool {
    match path.extension() {
        Some(own) => ["rs", "c", "cpp", "h", "py", "sh"].iter().any(|one| own == *one),
        None => fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"#!")),
    }
}

fn is_generated(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "generated")
        || path.ends_with("crates/mpi-abi/include/mpi.h")
}

fn files_with(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = files_below(folder);
    found.retain(|path| {
        path.extension().is_some_and(|own| extensions.iter().any(|one| own == *one))
    });
    found
}

/// All files of a folder and its subfolders. Build output is elsewhere.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for entry in entries {
        let path = entry.expect("it lists").path();
        if path.is_dir() {
            found.extend(files_below(&path));
        } else {
            found.push(path);
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
