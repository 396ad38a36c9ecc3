//! The tables of the MPI ABI, turned into the C header, the entry points and the constants.

mod constants;
mod entries;
mod header;
mod parameter;
mod rust_text;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};

use tables::Tables;

/// A generated file: its path relative to the crate `mpi-abi`, and its text.
struct Output {
    path: String,
    text: String,
}

/// Folders that hold nothing but generated files, relative to the crate.
const GENERATED_FOLDERS: [&str; 3] = ["src/generated", "src/generated/entries", "generated"];

/// Writes all generated files and removes those that are generated no more.
pub fn write() -> Result<(), String> {
    let folder = crate_folder();
    let outputs = outputs(&folder)?;
    for path in leftovers(&folder, &outputs) {
        fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    for output in outputs {
        let path = folder.join(&output.path);
        if fs::read_to_string(&path).is_ok_and(|text| text == output.text) {
            continue;
        }
        fs::create_dir_all(path.parent().expect("files lie in the crate"))
            .and_then(|()| fs::write(&path, output.text))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Fails with the names of the files that are not what `write` would make them.
pub fn check() -> Result<(), String> {
    let folder = crate_folder();
    let outputs = outputs(&folder)?;
    let stale = |output: &&Output| {
        !fs::read_to_string(folder.join(&output.path)).is_ok_and(|text| text == output.text)
    };
    let mut wrong: Vec<String> = outputs.iter().filter(stale).map(|o| o.path.clone()).collect();
    wrong.extend(leftovers(&folder, &outputs).iter().map(|path| path.display().to_string()));
    match wrong[..] {
        [] => Ok(()),
        _ => Err(format!("not current, run `cargo xtask codegen`: {}", wrong.join(", "))),
    }
}

fn crate_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/mpi-abi")
}

fn outputs(folder: &Path) -> Result<Vec<Output>, String> {
    let tables = Tables::read(&folder.join("abi"))?;
    let mut outputs = vec![
        Output { path: "include/mpi.h".into(), text: header::header(&tables) },
        Output { path: "generated/unsupported.txt".into(), text: unsupported(&tables) },
        Output { path: "src/generated/constants.rs".into(), text: constants::constants(&tables) },
        Output { path: "src/generated/classes.rs".into(), text: constants::errors(&tables) },
    ];
    let files = entries::entry_files(&tables)?;
    let list = entries::list(&files);
    outputs.push(Output { path: "src/generated/entries.rs".into(), text: list });
    outputs.extend(files.into_iter().map(|(name, text)| {
        let path = format!("src/generated/entries/{name}.rs");
        Output { path, text }
    }));
    Ok(outputs)
}

fn unsupported(tables: &Tables) -> String {
    let missing = tables.functions.iter().filter(|function| function.implemented.is_none());
    missing.map(|function| format!("{}\n", function.name)).collect()
}

fn leftovers(folder: &Path, outputs: &[Output]) -> Vec<PathBuf> {
    let expected: Vec<PathBuf> = outputs.iter().map(|output| folder.join(&output.path)).collect();
    let present = GENERATED_FOLDERS.iter().filter_map(|name| fs::read_dir(folder.join(name)).ok());
    let paths = present.flatten().filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.is_file() && !expected.contains(path)).collect()
}
