//! Installations of MPI libraries, and the search for one that a program can use.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use launcher::libraries::{KnownLibrary, LIBRARIES};

/// An MPI library with its launcher.
#[derive(Debug, PartialEq, Eq)]
pub struct Installation {
    /// The command that starts jobs.
    pub launcher: PathBuf,
    /// The folder of the library.
    pub libraries: PathBuf,
    /// Whether it is the installation of this program.
    pub is_own: bool,
}

impl Installation {
    /// The installation of this program, with the library of Combray that replaces `wanted`.
    ///
    /// # Errors
    /// It was installed without that library.
    pub fn own(prefix: &Path, wanted: &KnownLibrary) -> Result<Self, String> {
        let launcher = env::current_exe().map_err(|cause| cause.to_string())?;
        let file = wanted.file(wanted.names[0], prefix);
        match file.parent() {
            Some(folder) if file.is_file() => {
                Ok(Self { launcher, libraries: folder.to_owned(), is_own: true })
            }
            _ => Err(format!("{} is not installed: run make install", file.display())),
        }
    }

    /// The installation in a folder: a prefix of its own, or `/usr` as Debian's packages use it.
    ///
    /// # Errors
    /// It has no launcher, or not that library.
    pub fn at(folder: &Path, wanted: &KnownLibrary) -> Result<Self, String> {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
        let launchers = launchers(wanted).map(|name| folder.join("bin").join(name));
        let launcher =
            launchers.iter().find(|file| file.is_file()).unwrap_or(&launchers[1]).clone();
        let folders = LIBRARY_FOLDERS.map(|name| folder.join(name));
        let has = |folder: &&PathBuf| wanted.names.iter().any(|name| folder.join(name).is_file());
        let found = folders.iter().find(has);
        let (libraries, has_library) = (found.unwrap_or(&folders[0]).clone(), found.is_some());
        match (launcher.is_file(), has_library) {
            (true, true) => Ok(Self { launcher, libraries, is_own: false }),
            (true, false) if is_standard(wanted) => Err(format!(
                "{} has no {}: its library does not have MPI's standard ABI; MPICH has it from 5.0 \
                 on (configured with --enable-mpi-abi; its package of PyPI has it)",
                libraries.display(),
                wanted.names[0]
            )),
            (true, false) => Err(format!(
                "{} has no {}, for which the program was compiled ({})",
                libraries.display(),
                wanted.names[0],
                wanted.of
            )),
            (false, _) => Err(format!("{} does not exist", launcher.display())),
        }
    }

    /// The first other installation in PATH that has that library.
    ///
    /// # Errors
    /// There is none.
    pub fn in_path(own: &Path, wanted: &KnownLibrary) -> Result<Self, String> {
        let path = env::var_os("PATH").unwrap_or_default();
        let own = own.canonicalize().ok();
        let folders = env::split_paths(&path).filter_map(|bin| bin.parent().map(Path::to_path_buf));
        let others = folders.filter(|folder| folder.canonicalize().ok() != own);
        let found = others.into_iter().find_map(|folder| Self::at(&folder, wanted).ok());
        found.ok_or_else(|| match is_standard(wanted) {
            true => "no other MPI library with the standard ABI is in PATH; --with names the folder of \
                     one. To get one: python3 -m venv mpich && mpich/bin/pip install mpich, then \
                     --with mpich"
                .to_owned(),
            false => format!(
                "the program was compiled for {} ({}), and none is in PATH that has this library in \
                 lib beside bin; --with names the folder of one",
                wanted.of, wanted.names[0]
            ),
        })
    }

    /// The name to show if its library does not report one.
    pub fn name(&self, wanted: &KnownLibrary) -> &'static str {
        match wanted.of {
            _ if self.is_own => concat!("Combray ", env!("CARGO_PKG_VERSION")),
            // A binary interface that several MPIs share.
            many if many.contains(',') => "the other library",
            one => one,
        }
    }

    /// The value of `LD_LIBRARY_PATH` for programs: the folder of this library first.
    pub fn library_path(&self) -> OsString {
        let mut path = self.libraries.clone().into_os_string();
        if let Some(others) = env::var_os("LD_LIBRARY_PATH").filter(|others| !others.is_empty()) {
            path.push(":");
            path.push(others);
        }
        path
    }
}

/// Where libraries are below a prefix: usually, and in Debian.
const LIBRARY_FOLDERS: [&str; 3] = [
    "lib",
    "lib64",
    match cfg!(target_arch = "aarch64") {
        true => "lib/aarch64-linux-gnu",
        false => "lib/x86_64-linux-gnu",
    },
];

/// The names of the launcher of a library: the one that Debian gives it where several libraries are
/// installed, and the usual one.
fn launchers(wanted: &KnownLibrary) -> [&'static str; 2] {
    match wanted.names[0] {
        "libmpi.so.40" => ["mpiexec.openmpi", "mpiexec"],
        "libmpi.so.12" => ["mpiexec.mpich", "mpiexec"],
        _ => ["mpiexec", "mpiexec"],
    }
}

/// The path of the program. A bare name is searched for in PATH.
///
/// # Errors
/// The program does not exist.
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

/// Whether a library is that of the standard ABI.
pub fn is_standard(library: &KnownLibrary) -> bool {
    library.names == LIBRARIES[0].names
}

/// The MPI library for which a program was compiled.
///
/// # Errors
/// The program uses no MPI library, or one that Combray does not replace.
pub fn library_of(program: &Path) -> Result<&'static KnownLibrary, String> {
    let bytes = fs::read(program)
        .map_err(|cause| format!("{} cannot be read: {cause}", program.display()))?;
    let has = |name: &&str| bytes.windows(name.len()).any(|part| part == name.as_bytes());
    if !bytes.starts_with(b"\x7fELF") {
        return Err(format!(
            "{} is a script, not a program that is linked with MPI",
            program.display()
        ));
    }
    let mut libraries = LIBRARIES.iter();
    let found = libraries.find(|library| library.names.iter().chain(library.fortran).any(has));
    found.ok_or_else(|| {
        let program = program.display();
        format!(
            "{program} is not linked with a library of MPI that Combray also has (combray info \
             {program})"
        )
    })
}

/// Checks that the program would load the library of this installation.
///
/// # Errors
/// It would load another library.
pub fn check_loads(
    program: &Path,
    installation: &Installation,
    wanted: &KnownLibrary,
) -> Result<(), String> {
    // The dynamic loader then only lists the libraries that it would load.
    let output = Command::new(program)
        .env("LD_TRACE_LOADED_OBJECTS", "1")
        .env("LD_LIBRARY_PATH", installation.library_path())
        .output()
        .map_err(|cause| format!("{} cannot be run: {cause}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let is_wanted = |line: &&str| wanted.names.iter().any(|name| line.contains(name));
    let line = text.lines().find(is_wanted).unwrap_or_default();
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
    fn installations_and_programs_are_distinguished() {
        let private = tempfile::tempdir().unwrap();
        let root = private.path().join("other");
        let write = |path: &str, text: &[u8]| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        };
        let [standard, mpich, open] = LIBRARIES else { panic!("three libraries") };
        let at = |wanted| Installation::at(&root, wanted);
        assert!(at(standard).unwrap_err().contains("does not exist"));
        write("bin/mpiexec", b"");
        write("lib/libmpi.so.12", b"");
        assert!(at(standard).unwrap_err().contains("standard ABI"));
        assert!(at(open).unwrap_err().contains("has no libmpi.so.40"));
        assert!(!at(mpich).unwrap().is_own);
        write("lib/libmpi_abi.so.0", b"");
        assert!(!at(standard).unwrap().is_own);
        assert!(Installation::own(&root, open).unwrap_err().contains("not installed"));
        // Debian has both libraries in one folder, and names the launchers apart.
        write(&format!("{}/libmpi.so.40", LIBRARY_FOLDERS[2]), b"");
        let launcher = write("bin/mpiexec.openmpi", b"").canonicalize().unwrap();
        let found = at(open).unwrap();
        assert!(found.libraries.ends_with(LIBRARY_FOLDERS[2]) && found.launcher == launcher);
        assert!(at(mpich).unwrap().launcher.ends_with("bin/mpiexec"));
        let of = |text: &[u8]| library_of(&write("program", text)).map(|library| library.names[0]);
        assert_eq!(of(b"\x7fELF..libmpi_abi.so.1"), Ok("libmpi_abi.so.1"));
        assert_eq!(of(b"\x7fELF..libmpi.so.40"), Ok("libmpi.so.40"));
        assert!(of(b"\x7fELF..").unwrap_err().contains("not linked"));
        assert!(of(b"#!/bin/sh libmpi_abi.so").unwrap_err().contains("script"));
        fs::remove_dir_all(&root).unwrap();
    }
}
