//! Generates the C header, the entry points and the constants from the tables of the MPI ABI.

mod conformance;
mod constants;
mod entries;
mod fortran;
mod header;
mod manual;
mod parameter;
mod reliability;
mod rust_crate;
mod rust_text;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};

use tables::Tables;

/// A generated file: its path, relative to the workspace or to the requested folder, and its text.
struct Output {
    path: String,
    text: String,
}

/// Folders that contain only generated files.
const GENERATED_FOLDERS: [&str; 7] = [
    "crates/mpi-abi/src/generated",
    "crates/mpi-abi/src/generated/mpich",
    "crates/mpi-abi/src/generated/open_mpi",
    "crates/mpi-abi/src/generated/entries",
    "crates/mpi-abi/generated",
    "fortran/generated",
    "rust/combray-mpi-sys/src/generated",
];

/// Writes all generated files and removes files that are no longer generated.
pub fn write() -> Result<(), String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let outputs = outputs(&folder)?;
    for path in leftovers(&folder, &outputs) {
        fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    write_below(&folder, outputs)
}

/// Writes the programs that call every Fortran routine, and the C functions behind the routines,
/// into a folder. tests/fortran/run compiles them there.
pub fn write_fortran_programs(folder: &Path) -> Result<(), String> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let tables = Tables::read(&workspace.join("crates/mpi-abi/abi"))?;
    let programs = fortran::programs(&tables)?.into_iter();
    write_below(folder, programs.map(|(path, text)| Output { path, text }))
}

/// Writes a man page for each function into `man/man3` of the folder `share`.
pub fn write_man_pages(share: &Path) -> Result<(), String> {
    write_pages(share, manual::man_pages)
}

/// Writes the pages of the site about the functions into a folder.
pub fn write_site_pages(folder: &Path) -> Result<(), String> {
    write_pages(folder, manual::site_pages)
}

fn write_pages(
    folder: &Path,
    pages: impl Fn(&Tables) -> Result<Vec<(String, String)>, String>,
) -> Result<(), String> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let tables = Tables::read(&workspace.join("crates/mpi-abi/abi"))?;
    write_below(folder, pages(&tables)?.into_iter().map(|(path, text)| Output { path, text }))
}

/// Writes the files whose content has changed.
fn write_below(folder: &Path, outputs: impl IntoIterator<Item = Output>) -> Result<(), String> {
    for output in outputs {
        let path = folder.join(&output.path);
        if fs::read_to_string(&path).is_ok_and(|text| text == output.text) {
            continue;
        }
        fs::create_dir_all(path.parent().expect("files lie in folders"))
            .and_then(|()| fs::write(&path, output.text))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Fails with the names of the files that differ from what `write` would generate.
pub fn check() -> Result<(), String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
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

fn outputs(folder: &Path) -> Result<Vec<Output>, String> {
    let tables = Tables::read(&folder.join("crates/mpi-abi/abi"))?;
    let in_crate = |path: &str, text| Output { path: format!("crates/mpi-abi/{path}"), text };
    let mut outputs = vec![
        in_crate("include/mpi.h", header::header(&tables)),
        in_crate("generated/unsupported.txt", unsupported(&tables)),
        in_crate("src/generated/constants.rs", constants::constants(&tables, None)),
        in_crate("src/generated/classes.rs", constants::errors(&tables)),
    ];
    let page = reliability::page(folder)?;
    outputs.push(Output { path: "docs/user/reliability.md".into(), text: page });
    let page = conformance::page(folder, &tables)?;
    outputs.push(Output { path: "docs/user/conformance.md".into(), text: page });
    let files = entries::entry_files(&tables)?;
    outputs.push(in_crate("src/generated/entries.rs", entries::list(&files)));
    let entries = files.into_iter();
    outputs.extend(
        entries.map(|(name, text)| in_crate(&format!("src/generated/entries/{name}.rs"), text)),
    );
    outputs.push(in_crate("src/generated/former.rs", entries::former(&tables.former)?));
    for dialect in &tables.dialects {
        let file =
            |name: &str, text| in_crate(&format!("src/generated/{}/{name}.rs", dialect.name), text);
        outputs.push(file("constants", constants::constants(&tables, Some(dialect))));
        outputs.push(file("entries", entries::entries_of(dialect)?));
        if !dialect.objects.is_empty() {
            outputs.push(file("objects", entries::objects(&tables, dialect)));
        }
    }
    for dialect in &tables.dialects {
        let path = format!("fortran/{}/constants.h", dialect.name);
        outputs.push(Output { path, text: header::fortran_constants(&tables, dialect) });
    }
    let text = header::fortran_functions(&tables);
    outputs.push(Output { path: "fortran/generated/functions.h".into(), text });
    let in_rust = |name: &str, text| Output {
        path: format!("rust/combray-mpi-sys/src/generated/{name}"),
        text,
    };
    outputs.push(in_rust("types.rs", rust_crate::types(&tables)?));
    outputs.push(in_rust("constants.rs", rust_crate::constants(&tables)));
    outputs.push(in_rust("functions.rs", rust_crate::functions(&tables)?));
    outputs.push(in_rust("names.txt", rust_crate::names(&tables)));
    let fortran = fortran::files(&tables)?.into_iter();
    outputs.extend(fortran.map(|(path, text)| Output { path, text }));
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
