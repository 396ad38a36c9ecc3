//! Finds the program before anything is started.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::LaunchError;

/// Returns the path of a program, as a shell in `folder` with PATH set to `search` would find it.
///
/// # Errors
/// There is no such file, or it is not executable.
pub(super) fn find(
    program: &OsStr,
    folder: &Path,
    search: &OsStr,
) -> Result<OsString, LaunchError> {
    let shown = program.display();
    if !folder.is_dir() {
        return Err(LaunchError::new(format!(
            "{} is not a folder in which a program can start",
            folder.display()
        )));
    }
    if program.as_encoded_bytes().contains(&b'/') {
        return match is_executable(&folder.join(program)) {
            Ok(true) => check_interpreter(program, &folder.join(program)),
            Ok(false) => Err(LaunchError::new(format!("{shown} is not an executable file"))),
            Err(cause) => Err(LaunchError::new(format!("{shown} cannot be run: {cause}"))),
        };
    }
    for candidate in env::split_paths(search).map(|folder| folder.join(program)) {
        if is_executable(&candidate).unwrap_or(false) {
            return check_interpreter(candidate.as_os_str(), &candidate);
        }
    }
    if let Some(own) = own_program(program) {
        return Ok(own);
    }
    if is_executable(&folder.join(program)).unwrap_or(false) {
        return Err(LaunchError::new(format!(
            "{shown} is in no folder of PATH; there is one here: write ./{shown}"
        )));
    }
    Err(LaunchError::new(format!("{shown} is in no folder of PATH")))
}

/// Returns a program that Combray has installed for itself, such as `combray-bench`: it is in no
/// folder of PATH.
fn own_program(name: &OsStr) -> Option<OsString> {
    name.as_bytes().strip_prefix(b"combray-")?;
    let prefix = env::current_exe().ok()?.canonicalize().ok()?;
    let program = prefix.parent()?.parent()?.join("lib/combray").join(name);
    is_executable(&program).is_ok_and(|is| is).then(|| program.into())
}

/// Returns the program, unless it is a script whose interpreter does not exist: the kernel's error
/// would be that the script itself does not exist.
fn check_interpreter(program: &OsStr, path: &Path) -> Result<OsString, LaunchError> {
    let mut head = Vec::new();
    // A program may be executable without being readable; then the kernel decides.
    let _ = File::open(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    let line = head.split(|byte| *byte == b'\n').next().and_then(|line| line.strip_prefix(b"#!"));
    let word = line.and_then(|line| {
        line.split(|byte| matches!(byte, b' ' | b'\t')).find(|word| !word.is_empty())
    });
    let interpreter = word.map(|word| Path::new(OsStr::from_bytes(word)));
    match interpreter.filter(|interpreter| interpreter.is_absolute() && !interpreter.exists()) {
        // With quotes, as the fault may be a carriage return at the end.
        Some(missing) => Err(LaunchError::new(format!(
            "{} is a script for the interpreter \"{}\", which does not exist",
            program.display(),
            missing.display().to_string().escape_debug()
        ))),
        None => Ok(program.to_owned()),
    }
}

/// How many bytes of a script the kernel searches for its interpreter.
const HEAD_BYTES: u64 = 256;

fn is_executable(path: &Path) -> io::Result<bool> {
    let data = std::fs::metadata(path)?;
    Ok(data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(program: &str, folder: &str) -> Result<OsString, String> {
        let search = env::var_os("PATH").unwrap();
        find(OsStr::new(program), Path::new(folder), &search).map_err(|error| error.to_string())
    }

    fn message(program: &str, folder: &str) -> String {
        found(program, folder).unwrap_err()
    }

    #[test]
    fn programs_are_found_or_the_reason_is_reported() {
        let path = found("sh", ".").unwrap();
        assert!(path.as_encoded_bytes().ends_with(b"/sh"));
        assert_eq!(found("./sh", "/bin").unwrap(), "./sh");
        assert!(message("no-such-program", ".").contains("no folder of PATH"));
        assert!(message("./Cargo.toml", ".").contains("not an executable"));
        assert!(message("/no/such", ".").contains("/no/such"));
        assert!(message("sh", "/no/such").contains("not a folder"));
    }

    #[test]
    fn a_script_needs_its_interpreter() {
        let private = tempfile::tempdir().unwrap();
        let folder = private.path().join("program");
        std::fs::create_dir(&folder).unwrap();
        let outcome = |text: &str| {
            let path = folder.join("script");
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
            find(OsStr::new("./script"), &folder, OsStr::new("")).map_err(|error| error.to_string())
        };
        let outcomes =
            ["#! /no/such/shell -e\n", "#!/bin/sh\r\n", "#!/bin/sh\n", "#!/bin/sh", "#!", ""]
                .map(outcome);
        std::fs::remove_dir_all(&folder).unwrap();
        let [missing, carriage_return, good @ ..] = outcomes;
        assert!(missing.unwrap_err().contains("interpreter \"/no/such/shell\""));
        assert!(carriage_return.unwrap_err().contains(r#""/bin/sh\r""#));
        assert!(good.iter().all(Result::is_ok), "{good:?}");
    }
}
