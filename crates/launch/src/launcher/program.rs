//! Finding the program before anything is started.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::LaunchError;

/// The path of a program, as a shell in `folder` would find it.
///
/// # Errors
/// There is none, or it is no executable file.
pub(super) fn find(program: &OsStr, folder: &Path) -> Result<OsString, LaunchError> {
    let shown = program.display();
    if !folder.is_dir() {
        return Err(LaunchError::new(format!("{} is not a folder to start in", folder.display())));
    }
    if program.as_encoded_bytes().contains(&b'/') {
        return match is_executable(&folder.join(program)) {
            Ok(true) => Ok(program.to_owned()),
            Ok(false) => Err(LaunchError::new(format!("{shown} is not an executable file"))),
            Err(cause) => Err(LaunchError::new(format!("{shown} cannot be run: {cause}"))),
        };
    }
    let search = env::var_os("PATH").unwrap_or_default();
    for candidate in env::split_paths(&search).map(|folder| folder.join(program)) {
        if is_executable(&candidate).unwrap_or(false) {
            return Ok(candidate.into_os_string());
        }
    }
    if is_executable(&folder.join(program)).unwrap_or(false) {
        return Err(LaunchError::new(format!(
            "{shown} is in no folder of PATH; there is one here: write ./{shown}"
        )));
    }
    Err(LaunchError::new(format!("{shown} is in no folder of PATH")))
}

fn is_executable(path: &Path) -> io::Result<bool> {
    let data = std::fs::metadata(path)?;
    Ok(data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(program: &str, folder: &str) -> String {
        find(OsStr::new(program), Path::new(folder)).unwrap_err().to_string()
    }

    #[test]
    fn programs_are_found_or_the_reason_is_told() {
        let path = find(OsStr::new("sh"), Path::new(".")).unwrap();
        assert!(path.as_encoded_bytes().ends_with(b"/sh"));
        assert_eq!(find(OsStr::new("./sh"), Path::new("/bin")).unwrap(), "./sh");
        assert!(message("no-such-program", ".").contains("no folder of PATH"));
        assert!(message("./Cargo.toml", ".").contains("not an executable"));
        assert!(message("/no/such", ".").contains("/no/such"));
        assert!(message("sh", "/no/such").contains("not a folder"));
    }
}
