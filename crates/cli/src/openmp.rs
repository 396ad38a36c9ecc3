//! `combray openmp`: runs a program on the library of OpenMP.

use std::convert::Infallible;
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use launcher::libraries::OPENMP_FOLDER;

use crate::prefix;

/// Replaces this process by a program, which finds the library of OpenMP first.
///
/// # Errors
/// A message for the user: the library is not installed, or the program cannot run.
pub fn run(words: &[OsString]) -> Result<Infallible, String> {
    let folder = prefix::find()?.join(OPENMP_FOLDER);
    if !folder.is_dir() {
        return Err(format!(
            "{} does not exist; install Combray with its library of OpenMP",
            folder.display()
        ));
    }
    let (program, arguments) = words.split_first().ok_or("combray openmp needs a program")?;
    let given = env::var_os("LD_LIBRARY_PATH").filter(|given| !given.is_empty());
    let folders = std::iter::once(folder).chain(given.iter().flat_map(env::split_paths));
    let folders = env::join_paths(folders)
        .map_err(|_| "the folder of Combray's installation has a colon in its name".to_owned())?;
    let error = Command::new(program).args(arguments).env("LD_LIBRARY_PATH", folders).exec();
    Err(format!("{} cannot run: {error}", program.display()))
}
