//! `combray fortran`: builds the Fortran interfaces for a compiler, from the sources that are
//! installed with the library. Each compiler needs its own, because it cannot read the modules of
//! another.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

use crate::prefix;

/// Builds the Fortran interfaces (mpif.h, modules mpi, mpi_f08 and combray) for a Fortran compiler.
#[derive(Args)]
pub struct FortranOptions {
    /// The compiler, perhaps with options of its own
    #[arg(long, default_value = DEFAULT_COMPILER)]
    compiler: String,
}

/// The compiler of `mpifort` if no other is named.
pub const DEFAULT_COMPILER: &str = "gfortran";

/// The first version of gfortran that passes character strings as descriptors.
const GFORTRAN_MIN: u32 = 12;

/// The name of the resulting library.
pub const LIBRARY: &str = "combray_fortran";

/// The modules, each after the modules that it uses.
const MODULES: [&str; 6] =
    ["facts.f90", "types.f90", "interfaces.f90", "mpi.f90", "mpi_f08.f90", "combray.f90"];

/// The sources that are compiled a second time for the names with `PMPI_`.
const TWICE: [&str; 6] = ["special", "former", "descriptors", "entries", "entries_f08", "statuses"];

/// All C sources.
const SOURCES: [&str; 11] = [
    "entries",
    "entries_f08",
    "callbacks",
    "special",
    "former",
    "descriptors",
    "sections",
    "kept",
    "support",
    "statuses",
    "variables",
];

/// Builds the interfaces for a compiler.
pub fn run(options: &FortranOptions) -> Result<i32, String> {
    let prefix = prefix::find()?;
    let words: Vec<String> = options.compiler.split_whitespace().map(str::to_owned).collect();
    let compiler = FortranCompiler::of(&words)?;
    let (folder, fresh) = new_folder(&compiler.folders(&prefix))?;
    let made = Build { compiler: &compiler, prefix: &prefix, folder: &fresh }.all();
    let kept = made.and_then(|()| compiler.keep(&prefix, &folder, &fresh));
    if kept.is_err() {
        // An existing installation stays as it was.
        let _ = fs::remove_dir_all(&fresh);
    }
    kept?;
    println!("The Fortran interfaces for {} are in {}", compiler.name, folder.display());
    Ok(0)
}

/// Makes a new folder beside the first of these that can be written. Returns that one and the new
/// folder.
///
/// # Errors
/// None can be written; the message names all.
fn new_folder(folders: &[PathBuf]) -> Result<(PathBuf, PathBuf), String> {
    let mut causes = Vec::new();
    for folder in folders {
        let fresh = folder.with_extension(format!("new-{}", std::process::id()));
        match fs::create_dir_all(&fresh) {
            Ok(()) => return Ok((folder.clone(), fresh)),
            Err(cause) => causes.push(format!("cannot write {}: {cause}", fresh.display())),
        }
    }
    Err(causes.join("; "))
}

/// The folder of a user for the interfaces of this version, where the prefix belongs to somebody
/// else.
fn folder_of_user() -> Option<PathBuf> {
    let named = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = named("XDG_DATA_HOME").or_else(|| Some(named("HOME")?.join(".local/share")))?;
    Some(data.join(concat!("combray/", env!("CARGO_PKG_VERSION"), "/fortran")))
}

/// A supported Fortran compiler.
#[derive(Debug)]
pub struct FortranCompiler {
    /// The command, with options.
    words: Vec<String>,
    kind: CompilerKind,
    /// A name such as `gfortran-12`. Compilers of equal name can read each other's modules.
    name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CompilerKind {
    Gfortran,
    Flang,
}

impl FortranCompiler {
    /// Identifies the compiler of a command by its output for `--version`.
    pub fn of(words: &[String]) -> Result<Self, String> {
        let (command, own) = words.split_first().ok_or("no compiler is named")?;
        let output = Command::new(command).args(own).arg("--version").stdin(Stdio::null()).output();
        let output = output.map_err(|cause| {
            format!(
                "the Fortran compiler {command} cannot be run: {cause}; install gfortran, or name \
                 another one with {} or with --compiler",
                base::variables::FC
            )
        })?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (kind, name) = identify(&text).ok_or_else(|| {
            let line = text.lines().next().unwrap_or_default();
            format!(
                "{command} reports that it is \"{line}\", but the Fortran interfaces are made for \
                 gfortran and flang"
            )
        })?;
        let version = name.rsplit('-').next().and_then(|version| version.parse().ok());
        if kind == CompilerKind::Gfortran && version.is_some_and(|v: u32| v < GFORTRAN_MIN) {
            return Err(format!(
                "{command} is {name}, but module mpi_f08 needs gfortran {GFORTRAN_MIN} or newer, \
                 which passes texts and array sections to C as descriptors"
            ));
        }
        Ok(Self { words: words.to_vec(), kind, name })
    }

    /// Where the interfaces may be: in the prefix, or in the folder of the user.
    fn folders(&self, prefix: &Path) -> Vec<PathBuf> {
        let places = [Some(prefix.join("lib/combray/fortran")), folder_of_user()];
        places.into_iter().flatten().map(|place| place.join(&self.name)).collect()
    }

    /// The folder with the interfaces for this compiler.
    ///
    /// # Errors
    /// The folder does not exist; the message explains how to create it.
    pub fn installed(&self, prefix: &Path) -> Result<PathBuf, String> {
        let has_library = |folder: &PathBuf| folder.join(format!("lib{LIBRARY}.so")).exists();
        if let Some(folder) = self.folders(prefix).into_iter().find(has_library) {
            return Ok(folder);
        }
        Err(format!(
            "there are no Fortran interfaces for {} in {}; make them with: {} fortran --compiler \
             '{}'",
            self.name,
            prefix.display(),
            prefix.join("bin/combray").display(),
            self.words.join(" ")
        ))
    }

    /// Moves the result into place, and registers it with pkg-config if it is in the prefix.
    fn keep(&self, prefix: &Path, folder: &Path, fresh: &Path) -> Result<(), String> {
        let failed = |cause: std::io::Error| format!("cannot write {}: {cause}", folder.display());
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(failed)?;
        }
        fs::rename(fresh, folder).map_err(failed)?;
        if !folder.starts_with(prefix) {
            return Ok(());
        }
        let own_name = format!("combray-{}", self.name);
        // Build systems ask for these names, too; they mean the compiler that was used last.
        for name in [&own_name, "mpi-fort", "ompi-fort"] {
            let file = prefix.join(format!("lib/pkgconfig/{name}.pc"));
            fs::write(file, self.settings(name)).map_err(failed)?;
        }
        Ok(())
    }

    /// The description for pkg-config, under a name.
    fn settings(&self, name: &str) -> String {
        format!(
            "prefix=${{pcfiledir}}/../..\nfolder=${{prefix}}/lib/combray/fortran/{}\n\nName: {name}\n\
             Description: Fortran interfaces of Combray for {}\nVersion: {}\nRequires: combray\n\
             Cflags: -I${{folder}}\nLibs: -L${{folder}} -Wl,-rpath,${{folder}} -l{LIBRARY}\n",
            self.name,
            self.name,
            env!("CARGO_PKG_VERSION")
        )
    }
}

/// The kind and name of a compiler, from its output for `--version`.
fn identify(text: &str) -> Option<(CompilerKind, String)> {
    let line = text.lines().next()?;
    let major = |version: &str| version.split('.').next().map(str::to_owned);
    if line.starts_with("GNU Fortran") {
        // "(Debian 12.2.0-14) 12.2.0", "(GCC) 14.2.1 20240801 (Red Hat 14.2.1-1)"
        let version = line.split_once(") ")?.1;
        return Some((CompilerKind::Gfortran, format!("gfortran-{}", major(version)?)));
    }
    if line.contains("flang") {
        let version = line.split_once("version ")?.1;
        return Some((CompilerKind::Flang, format!("flang-{}", major(version)?)));
    }
    None
}

/// A build of the interfaces in a new folder.
struct Build<'a> {
    compiler: &'a FortranCompiler,
    prefix: &'a Path,
    folder: &'a Path,
}

impl Build<'_> {
    /// Compiles the modules one after another, in parallel with the C sources; then links the
    /// library.
    fn all(&self) -> Result<(), String> {
        std::thread::scope(|scope| {
            let plain = SOURCES.iter().map(|name| (*name, None));
            let forms = plain.chain(TWICE.iter().map(|name| (*name, Some("-DCOMBRAY_PROFILING"))));
            let sources: Vec<_> = forms
                .map(|(name, definition)| scope.spawn(move || self.source(name, definition)))
                .collect();
            let modules = MODULES.iter().try_for_each(|name| self.module(name));
            sources.into_iter().fold(modules, |before, source| {
                before.and(source.join().map_err(|_| "a thread failed".to_owned())?)
            })
        })?;
        self.link()?;
        self.objects()?.iter().try_for_each(fs::remove_file).map_err(|cause| cause.to_string())
    }

    fn sources(&self) -> PathBuf {
        self.prefix.join("lib/combray/fortran/source")
    }

    fn module(&self, name: &str) -> Result<(), String> {
        let mut command = self.fortran();
        command.args(["-O2", "-fPIC", "-c"]).arg(self.sources().join(name));
        run_quietly(command)
    }

    /// Compiles a source for the names with `MPI_` or, with the definition for the profiling
    /// interface, with `PMPI_`.
    fn source(&self, name: &str, definition: Option<&str>) -> Result<(), String> {
        let mut command = self.c();
        // The many entry points gain nothing from a level that takes twice as long.
        let level = if name.starts_with("entries") { "-O1" } else { "-O2" };
        command.args([level, "-fPIC", "-c", "-I"]).arg(self.prefix.join("include"));
        command.args(definition);
        let object =
            format!("{name}{}.o", if definition.is_some() { "-profiling" } else { "-in-c" });
        command.arg(self.sources().join(format!("{name}.c"))).args(["-o", &object]);
        run_quietly(command)
    }

    fn link(&self) -> Result<(), String> {
        let mut command = self.fortran();
        let library = format!("lib{LIBRARY}.so");
        command.args(["-shared", "-o", &library]).args(self.objects()?);
        // With lazy binding, a function found at its first call could be the program's own
        // (`combray_skip_own_functions`).
        command.arg(format!("-Wl,-soname,{library},-z,defs,-z,now,-rpath,$ORIGIN/../../.."));
        if !self.folder.starts_with(self.prefix) {
            command.arg(format!("-Wl,-rpath,{}", self.prefix.join("lib").display()));
        }
        command.arg("-L").arg(self.prefix.join("lib")).arg("-lmpi_abi");
        run_quietly(command)
    }

    fn objects(&self) -> Result<Vec<PathBuf>, String> {
        let entries = fs::read_dir(self.folder).map_err(|cause| cause.to_string())?;
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        Ok(paths.filter(|path| path.extension().is_some_and(|end| end == "o")).collect())
    }

    /// A command of the Fortran compiler in the new folder, where it writes modules.
    fn fortran(&self) -> Command {
        let mut command = Command::new(&self.compiler.words[0]);
        command.args(&self.compiler.words[1..]).current_dir(self.folder);
        command
    }

    /// A command of a C compiler that finds the Fortran compiler's descriptor header.
    fn c(&self) -> Command {
        let mut command = match self.compiler.kind {
            // gfortran also compiles C, with the header of its own version.
            CompilerKind::Gfortran => Command::new(&self.compiler.words[0]),
            CompilerKind::Flang => {
                let mut command = Command::new("cc");
                command
                    .args(self.header_of_flang().map(|folder| format!("-I{}", folder.display())));
                command
            }
        };
        command.current_dir(self.folder);
        command
    }

    /// The folder of ISO_Fortran_binding.h beside flang's programs.
    fn header_of_flang(&self) -> Option<PathBuf> {
        let command = &self.compiler.words[0];
        let paths = env::var_os("PATH").unwrap_or_default();
        let mut places = env::split_paths(&paths).map(|folder| folder.join(command));
        let program = places.find(|path| path.exists())?.canonicalize().ok()?;
        let folder = program.parent()?.parent()?.join("include/flang");
        folder.join("ISO_Fortran_binding.h").exists().then_some(folder)
    }
}

/// Runs a command of the build. Its output is shown only if it fails.
fn run_quietly(mut command: Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output();
    let program = command.get_program().to_string_lossy().into_owned();
    let output = output.map_err(|cause| format!("{program} cannot be run: {cause}"))?;
    if output.status.success() {
        return Ok(());
    }
    let words: Vec<String> =
        command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
    let output_text = String::from_utf8_lossy(&output.stderr);
    let output_text: Vec<&str> = output_text.lines().take(20).collect();
    Err(format!("this failed:\n{program} {}\n{}", words.join(" "), output_text.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_folder_that_can_be_written_is_used() {
        let private = tempfile::tempdir().unwrap();
        let file = private.path().join("file");
        fs::write(&file, "").unwrap();
        let (closed, open) = (file.join("gfortran-12"), private.path().join("own/gfortran-12"));
        let (folder, fresh) = new_folder(&[closed.clone(), open.clone()]).unwrap();
        assert!(folder == open && fresh.is_dir());
        let fault = new_folder(&[closed]).unwrap_err();
        assert!(fault.contains("cannot write") && fault.contains("gfortran-12"), "{fault}");
    }

    #[test]
    fn compilers_say_who_they_are() {
        let name = |text: &str| identify(text).map(|(_, name)| name);
        let debian = "GNU Fortran (Debian 12.2.0-14+deb12u1) 12.2.0\nCopyright (C) 2022";
        assert_eq!(name(debian).as_deref(), Some("gfortran-12"));
        let red_hat = "GNU Fortran (GCC) 14.2.1 20240801 (Red Hat 14.2.1-1)";
        assert_eq!(name(red_hat).as_deref(), Some("gfortran-14"));
        assert_eq!(name("Debian flang-new version 19.1.7 (3)").as_deref(), Some("flang-19"));
        assert_eq!(name("flang version 20.1.0").as_deref(), Some("flang-20"));
        assert_eq!(name("ifx (IFX) 2024.0.0 20231017"), None);
    }
}
