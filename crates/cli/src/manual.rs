//! Man pages and shell completions, generated from the tables of `--help`.

mod completions;
mod pages;

use std::fs;
use std::path::Path;

use clap::Command;

/// Writes all pages and completions into their folders below `share`.
///
/// # Errors
/// A folder or a file cannot be written.
pub fn write(command: Command, share: &Path) -> Result<(), String> {
    let pages = pages::all(&command);
    let completions = completions::all(command);
    for (path, text) in pages.into_iter().chain(completions) {
        let file = share.join(path);
        let folder = file.parent().unwrap_or(share);
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(&file, text));
        written.map_err(|cause| format!("{} cannot be written: {cause}", file.display()))?;
    }
    Ok(())
}
