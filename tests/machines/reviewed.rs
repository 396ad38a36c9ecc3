//! The described machines, and what tests say of them beside what was reviewed.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// A file of this folder.
pub fn machine(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/machines").join(name)
}

/// The paths of all described machines.
pub fn machines() -> Vec<PathBuf> {
    let paths = fs::read_dir(machine("")).unwrap().map(|entry| entry.unwrap().path());
    let is_machine = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "xml");
    let machines: Vec<PathBuf> = paths.filter(is_machine).collect();
    assert!(machines.len() >= 8, "{machines:?}");
    machines
}

/// What was found of a machine is what was reviewed, in the file beside it with this extension;
/// with `COMBRAY_UPDATE` in the environment it becomes that, to be reviewed.
pub fn compare(machine: &Path, extension: &str, found: &str) {
    let reviewed = machine.with_extension(extension);
    if env::var_os("COMBRAY_UPDATE").is_some() {
        fs::write(&reviewed, found).unwrap();
    }
    let expected = fs::read_to_string(&reviewed).unwrap_or_default();
    assert!(found == expected, "{}\nhas\n{expected}\nand it is\n{found}", reviewed.display());
}
