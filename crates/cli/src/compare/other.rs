//! Installations of MPI libraries, and which of them a program can use.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An MPI library with its launcher.
#[derive(Debug, PartialEq, Eq)]
pub struct Installation {
    /// The command that starts jobs.
    pub launcher: PathBuf,
    /// The folder of the library.
    pub libraries: PathBuf,
    /// Whether it is this one.
    pub is_own: bool,
}

/// What programs of the standard ABI are linked with; of its early form, too.
const LIBRARIES: [&str; 2] = ["libmpi_abi.so.1", "libmpi_abi.so.0"];

/// The libraries of other ABIs: what their names begin with, and whose they are.
const OTHERS: [(&str, &str); 4] = [
    ("libmpi.so.12", "MPICH and its kin, or Intel MPI"),
    ("libmpi.so.40", "Open MPI"),
    ("libmpich.so", "MPICH"),
    ("libmpi_cray.so", "Cray MPICH"),
];

impl Installation {
    /// This one.
    pub fn own(prefix: &Path) -> Result<Self, String> {
        let launcher = env::current_exe().map_err(|cause| cause.to_string())?;
        Ok(Self { launcher, libraries: prefix.join("lib"), is_own: true })
    }

    /// The one in a folder.
    pub fn at(folder: &Path) -> Result<Self, String> {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
        let launcher = folder.join("bin/mpiexec");
        let libraries = folder.join("lib");
        let has_library = LIBRARIES.iter().any(|name| libraries.join(name).is_file());
        match (launcher.is_file(), has_library) {
            (true, true) => Ok(Self { launcher, libraries, is_own: false }),
            (true, false) => Err(format!(
                "{} has no {}: its library does not have MPI's standard ABI; MPICH has it from 5.0 \
                 on (configured with --enable-mpi-abi; its package of PyPI has it)",
                libraries.display(),
                LIBRARIES[0]
            )),
            (false, _) => Err(format!("{} does not exist", launcher.display())),
        }
    }

    /// The first in PATH that is another one and has the standard ABI.
    pub fn in_path(own: &Path) -> Result<Self, String> {
        let path = env::var_os("PATH").unwrap_or_default();
        let own = own.canonicalize().ok();
        let folders = env::split_paths(&path).filter_map(|bin| bin.parent().map(Path::to_path_buf));
        let others = folders.filter(|folder| folder.canonicalize().ok() != own);
        others.into_iter().find_map(|folder| Self::at(&folder).ok()).ok_or_else(|| {
            "no other MPI library with the standard ABI is in PATH; --with names the folder of one. To \
             get one: python3 -m venv mpich && mpich/bin/pip install mpich, then --with mpich"
                .to_owned()
        })
    }

    /// Where programs shall look for libraries first.
    pub fn library_path(&self) -> OsString {
        let mut path = self.libraries.clone().into_os_string();
        if let Some(others) = env::var_os("LD_LIBRARY_PATH").filter(|others| !others.is_empty()) {
            path.push(":");
            path.push(others);
        }
        path
    }
}

/// The program, looked for in PATH if it is a bare name.
///
/// # Errors
/// There is none.
pub fn find_program(name: &OsStr) -> Result<PathBuf, String> {
    let path = Path::new(name);
    let found = if path.components().count() > 1 {
        Some(path.to_path_buf())
    } else {
        let folders = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&folders).map(|folder| folder.join(name)).find(|file| file.is_file())
    };
    found.ok_or_else(|| format!("there is no {} in PATH; write ./{0} for one here", name.display()))
}

/// Looks whether a program is one of the standard ABI.
///
/// # Errors
/// It is not, and what it is.
pub fn check_program(program: &Path) -> Result<(), String> {
    let bytes = fs::read(program)
        .map_err(|cause| format!("{} cannot be read: {cause}", program.display()))?;
    let has = |name: &str| bytes.windows(name.len()).any(|part| part == name.as_bytes());
    if !bytes.starts_with(b"\x7fELF") {
        return Err(format!(
            "{} is no program that is linked with MPI, but a script",
            program.display()
        ));
    }
    if has("libmpi_abi.so") {
        return Ok(());
    }
    let whose = OTHERS.iter().find(|(name, _)| has(name));
    Err(match whose {
        Some((name, whose)) => format!(
            "{} was compiled for {whose} ({name}); compile it with mpicc of Combray, or with mpicc_abi \
             of MPICH: then it runs with both",
            program.display()
        ),
        None => format!("{} is not linked with a library of MPI's standard ABI", program.display()),
    })
}

/// Looks whether the program would load the library of this installation.
///
/// # Errors
/// It would load another one.
pub fn check_loads(program: &Path, installation: &Installation) -> Result<(), String> {
    // The loader then only tells what it would load.
    let output = Command::new(program)
        .env("LD_TRACE_LOADED_OBJECTS", "1")
        .env("LD_LIBRARY_PATH", installation.library_path())
        .output()
        .map_err(|cause| format!("{} cannot be run: {cause}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.contains("libmpi_abi.so")).unwrap_or_default();
    let loaded = line.split_whitespace().nth(2).map(PathBuf::from).unwrap_or_default();
    let folder = loaded.parent().and_then(|folder| folder.canonicalize().ok());
    if folder.is_some() && folder == installation.libraries.canonicalize().ok() {
        return Ok(());
    }
    Err(format!(
        "{} loads {} instead of the library in {}; it was linked with a fixed path (DT_RPATH): link it \
         with -Wl,--enable-new-dtags",
        program.display(),
        if line.is_empty() { "no MPI library" } else { line.trim() },
        installation.libraries.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installations_and_programs_are_told_apart() {
        let root = env::temp_dir().join(format!("combray-other-{}", std::process::id()));
        let write = |path: &str, text: &[u8]| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        };
        assert!(Installation::at(&root).unwrap_err().contains("does not exist"));
        write("bin/mpiexec", b"");
        write("lib/libmpi.so.12", b"");
        assert!(Installation::at(&root).unwrap_err().contains("standard ABI"));
        write("lib/libmpi_abi.so.0", b"");
        assert!(!Installation::at(&root).unwrap().is_own);
        let check = |text: &[u8]| check_program(&write("program", text));
        assert!(check(b"\x7fELF..libmpi_abi.so.1").is_ok());
        assert!(check(b"\x7fELF..libmpi.so.40").unwrap_err().contains("Open MPI"));
        assert!(check(b"\x7fELF..").unwrap_err().contains("not linked"));
        assert!(check(b"#!/bin/sh libmpi_abi.so").unwrap_err().contains("script"));
        fs::remove_dir_all(&root).unwrap();
    }
}
