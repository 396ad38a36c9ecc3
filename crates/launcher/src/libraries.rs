//! Finds out for which MPI library a program was built, and how it finds Combray's library instead.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use base::variables::{FORCE_LIBRARY, OPENMP};

use crate::binary::{Binary, OWN_MACHINE, WantedLibrary, has_symbol, loaded_by_name, wanted};
use crate::program;
use crate::protocol::ProgramStart;

/// An MPI library that Combray replaces.
pub struct KnownLibrary {
    /// The names under which programs load the library. The first is that of our file.
    pub names: &'static [&'static str],
    /// The names of the library of its Fortran interfaces. The first is that of our file. Programs
    /// built for the standard ABI have this library beside their modules.
    pub fortran: &'static [&'static str],
    /// The MPI implementation to which the library belongs.
    pub of: &'static str,
    /// The folder of our file in the prefix. It is `lib` except for the Python wheel, where mpi4py
    /// searches no other folder.
    pub folder: &'static str,
}

impl KnownLibrary {
    /// Returns the path of our file of that name, which may not exist.
    pub fn file(&self, name: &str, prefix: &Path) -> PathBuf {
        let beside = prefix.join("lib").join(name);
        let own = prefix.join(self.folder).join(name);
        if !own.is_file() && beside.is_file() { beside } else { own }
    }
}

/// The first library is that of the standard ABI, with which our compiler wrappers link programs.
pub const LIBRARIES: &[KnownLibrary] = &[
    KnownLibrary {
        names: &["libmpi_abi.so.1", "libmpi_abi.so.0"],
        fortran: &[],
        of: "the standard's binary interface",
        folder: "lib",
    },
    KnownLibrary {
        names: &["libmpi.so.12", "libmpich.so.12", "libmpicxx.so.12", "libmpichcxx.so.12"],
        fortran: &["libmpifort.so.12", "libmpichfort.so.12"],
        of: "MPICH, Intel MPI, MVAPICH or Cray MPICH",
        folder: "lib/combray/mpich",
    },
    KnownLibrary {
        names: &["libmpi.so.40", "libmpi_cxx.so.40"],
        fortran: &[
            "libmpi_mpifh.so.40",
            "libmpi_usempi_ignore_tkr.so.40",
            "libmpi_usempif08.so.40",
        ],
        of: "Open MPI",
        folder: "lib/combray/open-mpi",
    },
];

/// What a program needs at its start, found out from its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provision {
    /// Folders that `LD_LIBRARY_PATH` must begin with.
    pub folders: Vec<PathBuf>,
    /// Folders with libraries of Combray that it finds by itself.
    pub found: Vec<PathBuf>,
    /// Libraries to load before all others.
    pub preload: Vec<PathBuf>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// A sentence about each library that the program needs.
    pub wants: Vec<String>,
}

/// What happens to an MPI library that a program brings with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BroughtLibraries {
    /// The program uses it, and the user is notified.
    Kept,
    /// Combray's library is loaded before it (`--force-library`).
    Replaced,
}

/// Whether the name is that of an MPI library.
fn is_mpi(name: &str) -> bool {
    let rest = name.strip_prefix("libmpi").and_then(|rest| rest.split_once(".so"));
    rest.is_some_and(|(kind, _)| {
        matches!(kind, "" | "ch" | "_abi" | "fort" | "cxx" | "_cxx" | "_mpifh" | "chfort" | "chcxx")
            || kind.starts_with("_usempi")
            || ["_cray", "_gnu", "_intel", "_nvidia", "_amd"]
                .iter()
                .any(|one| kind.starts_with(one))
    })
}

/// Returns the library to which a name belongs, and the name of our file.
fn known(name: &str) -> Option<(&'static KnownLibrary, &'static str)> {
    LIBRARIES.iter().find_map(|library| {
        let mut lists = [library.names, library.fortran].into_iter();
        lists.find(|names| names.contains(&name)).map(|names| (library, names[0]))
    })
}

/// Finds out which libraries a program needs, and how it finds them in `prefix`. `given` is
/// `LD_LIBRARY_PATH`.
///
/// # Errors
/// The program cannot be read.
pub fn provide_for(
    program: &Path,
    prefix: &Path,
    given: &OsStr,
    brought: BroughtLibraries,
) -> io::Result<Provision> {
    let mut provision = Provision::default();
    let Some(binary) = Binary::read(program)? else { return Ok(provision) };
    let shown = program.display();
    if binary.machine != OWN_MACHINE {
        let machine = binary.machine_name();
        provision.notes.push(format!(
            "{shown} is a program for {machine} and cannot run on this machine; compile it here"
        ));
        return Ok(provision);
    }
    if binary.needed.is_empty() {
        if has_mpi_inside(program)? {
            provision.notes.push(format!(
                "{shown} is statically linked and contains its own MPI, which cannot be replaced; \
                 link it dynamically, or compile it with Combray's mpicc"
            ));
        }
        return Ok(provision);
    }
    let given: Vec<PathBuf> = std::env::split_paths(given).collect();
    let wanted = wanted(program, &given, is_mpi)?;
    for library in &wanted {
        provision.consider(library, prefix, brought);
    }
    let mut kinds: Vec<&str> =
        wanted.iter().filter_map(|one| Some(known(&one.name)?.0.names[0])).collect();
    kinds.sort_unstable();
    kinds.dedup();
    if let [first, second, ..] = kinds[..] {
        provision.notes.push(format!(
            "{shown} needs two libraries of MPI, {first} and {second}, but a process can have only \
             one; build all of the program for one of them"
        ));
    }
    Ok(provision)
}

impl Provision {
    fn consider(&mut self, library: &WantedLibrary, prefix: &Path, own: BroughtLibraries) {
        let is_forced = own == BroughtLibraries::Replaced;
        let WantedLibrary { name, by, brought, found, .. } = library;
        let by = by.display();
        let Some((known, file)) = known(name) else {
            self.wants.push(format!("{name}: unknown here"));
            let mut text = format!("{by} needs {name}, which Combray does not have: it has ");
            let names: Vec<&str> = LIBRARIES.iter().map(|known| known.names[0]).collect();
            let _ = write!(text, "{}; compile it with Combray's mpicc", listed(&names));
            self.notes.push(text);
            return;
        };
        let own = known.file(file, prefix);
        let is_own = |path: &Path| matches!((path.canonicalize(), own.canonicalize()), (Ok(one), Ok(other)) if one == other);
        let is_standard = known.folder == LIBRARIES[0].folder;
        let found_well = brought.as_deref().or(found.as_deref()).is_some_and(|at| {
            // If there are several installations of Combray, the program decides which it uses.
            is_own(at) || (is_standard && is_combray(at))
        });
        let uses = |file: &&PathBuf| has_symbol(file, OF_BINDINGS).unwrap_or_default();
        let mut users = std::iter::once(&library.by).chain(&library.also_by);
        if name.contains("cxx")
            && let Some(user) = users.find(uses)
        {
            self.notes.push(format!(
                "{} uses the bindings of C++ (MPI::COMM_WORLD), which the standard removed in MPI 3 \
                 and Combray does not have; it runs with its own library and launcher only",
                user.display()
            ));
        }
        self.wants.push(match (found_well, brought) {
            (true, _) => format!("{name}: found"),
            (false, Some(_)) if !is_forced => format!("{name}: its own"),
            (false, _) => format!("{name} ({}): {}", known.of, own.display()),
        });
        if found_well {
            self.found.extend(own.parent().map(Path::to_owned));
            return;
        }
        if !own.is_file() {
            self.notes.push(format!(
                "{by} needs {name}, but {} does not exist; install Combray with it",
                own.display()
            ));
        } else if is_forced {
            // If the program also loads a library by a name without version, it finds Combray's of
            // that kind.
            self.folders.extend(own.parent().map(Path::to_owned));
            self.preload.push(own);
        } else if let Some(brought) = brought {
            self.notes.push(format!(
                "{by} brings its own {name} from {}, which Combray's launcher cannot start as one \
                 job; use --force-library to replace it by Combray's",
                brought.display()
            ));
        } else {
            self.folders.extend(own.parent().map(Path::to_owned));
        }
    }
}

/// A symbol that programs with the bindings of C++ need: `MPI::COMM_WORLD`. Others that only
/// include their headers need some functions of classes, but not this object.
const OF_BINDINGS: &str = "_ZN3MPI10COMM_WORLDE";

/// Returns the library that Combray must replace if a program that is not linked with MPI loads
/// `libmpi.so`: the one that this name leads to without Combray, else one that is installed.
fn unversioned(given: &[PathBuf]) -> Option<&'static KnownLibrary> {
    let versioned = LIBRARIES[1..].iter().flat_map(|library| library.names);
    std::iter::once(&"libmpi.so").chain(versioned).find_map(|name| {
        let file = loaded_by_name(name, given)?.canonicalize().ok()?;
        let file = file.file_name()?.to_str()?;
        let mut others = LIBRARIES[1..].iter();
        others.find(|library| library.names.iter().any(|known| file.starts_with(known)))
    })
}

/// Returns the folders of all libraries that exist in `prefix`, for what a program starts or loads.
/// Folders that also contain other libraries are left out: they would take precedence over those of
/// the user and the system. `given` are the folders of `LD_LIBRARY_PATH`. Those that are in `used`
/// come first: the loader makes 20 system calls for each folder that it searches in vain. Otherwise
/// the folder of `unversioned` comes first.
fn folders_of_all(
    prefix: &Path,
    given: &[PathBuf],
    used: &[PathBuf],
    unversioned: Option<&KnownLibrary>,
) -> Vec<PathBuf> {
    let first = unversioned.map(|one| one.folder);
    let mut libraries: Vec<&KnownLibrary> = LIBRARIES[1..].iter().collect();
    libraries.sort_by_key(|library| Some(library.folder) != first);
    // Each folder has a `libmpi.so`: that of the standard's interface, for linking, comes last.
    let standard = &LIBRARIES[0];
    let mut other_installation = given.iter().flat_map(|folder| {
        standard.names.iter().map(move |name| folder.join(name)).filter(|file| file.is_file())
    });
    if !other_installation.next().is_some_and(|file| is_combray(&file)) {
        libraries.push(standard);
    }
    let files = libraries.iter().map(|library| library.file(library.names[0], prefix));
    let folders = files.filter(|file| file.is_file());
    let folders = folders.filter_map(|file| Some(file.parent()?.to_owned()));
    let mut folders: Vec<PathBuf> = folders.filter(|folder| has_only_mpi(folder)).collect();
    folders.sort_by_key(|folder| !used.contains(folder));
    folders
}

/// Whether all shared libraries in a folder are those of MPI. False if it cannot be read.
fn has_only_mpi(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    { names }.all(|name| !name.contains(".so") || is_mpi(&name))
}

/// Whether a library is Combray's, of this installation or another.
fn is_combray(library: &Path) -> bool {
    has_symbol(library, OWN_SYMBOL).unwrap_or_default()
}

/// A function that all MPI libraries of Combray export.
const OWN_SYMBOL: &str = "combray_place";

/// Returns the MPI library that a process has loaded, if none of those that it has loaded is
/// Combray's. `files` are the files that it has mapped, `root` is its root folder.
pub(crate) fn other_library(files: &[PathBuf], root: &Path) -> Option<PathBuf> {
    let name = |file: &Path| Some(file.file_name()?.to_str()?.to_owned());
    let libraries = files.iter().filter(|file| name(file).is_some_and(|name| is_mpi(&name)));
    let libraries: Vec<&PathBuf> = libraries.collect();
    let is_other = |file: &&PathBuf| {
        let file = root.join(file.strip_prefix("/").unwrap_or(file));
        // Opening what is no file, such as a named pipe in its place, could block.
        file.is_file() && matches!(has_symbol(&file, OWN_SYMBOL), Ok(false))
    };
    // A message names the library itself rather than that of its Fortran interfaces.
    let is_main = |file: &&&PathBuf| replaced_by(file).is_some();
    let main = libraries.iter().find(is_main).or(libraries.first())?;
    libraries.iter().all(is_other).then(|| (*main).clone())
}

/// Returns the library of ours that replaces one, by the name of its file.
fn replaced_by(library: &Path) -> Option<&'static KnownLibrary> {
    let file = library.file_name()?.to_str()?;
    LIBRARIES.iter().find(|known| known.names.iter().any(|name| file.starts_with(name)))
}

/// Returns what a user can do about a program that loads another library, as the end of a sentence.
pub(crate) fn remedy(library: &Path) -> String {
    let own = own_prefix().zip(replaced_by(library));
    let own = own.map(|(prefix, known)| known.file(known.names[0], &prefix));
    match own.filter(|own| own.is_file()) {
        Some(own) => format!(
            "let it load Combray's library (mpirun -x LD_PRELOAD={} ...), or start it with the \
             mpirun of the library that it uses",
            own.display()
        ),
        None => "compile it with Combray's mpicc, or start it with the mpirun of the library that \
                 it uses"
            .to_owned(),
    }
}

/// Returns the folder in which this launcher is installed.
fn own_prefix() -> Option<PathBuf> {
    let own = std::env::current_exe().and_then(|path| path.canonicalize()).ok()?;
    Some(own.parent()?.parent()?.to_owned())
}

/// Joins words to a list for a sentence.
fn listed(words: &[&str]) -> String {
    let (last, first) = words.split_last().expect("there are some");
    format!("{} and {last}", first.join(", "))
}

/// Whether a statically linked program contains an MPI library. Its symbol table shows it, unless
/// it was stripped.
fn has_mpi_inside(program: &Path) -> io::Result<bool> {
    let metadata = fs::metadata(program)?;
    if metadata.len() > STATIC_BYTES_MAX {
        return Ok(false);
    }
    let bytes = fs::read(program)?;
    Ok(bytes.windows(SYMBOL.len()).any(|window| window == SYMBOL))
}

/// The entry that the string table of such a program contains.
const SYMBOL: &[u8] = b"\0PMPI_Init\0";

/// The size in bytes up to which programs are searched.
const STATIC_BYTES_MAX: u64 = 1 << 28;

/// Sets up a program that is about to be started so that it, and all that it starts or loads, finds
/// Combray's libraries. Returns notes for the user.
pub(crate) fn provide(program: &mut ProgramStart) -> Vec<String> {
    let value = |name: &str| {
        let reported = program.variables.iter().rev().find(|(own, _)| own == name);
        reported
            .map(|(_, value)| value.clone())
            .or_else(|| std::env::var_os(name))
            .unwrap_or_default()
    };
    let folder = program.folder.as_deref().unwrap_or(Path::new("."));
    let Some(prefix) = own_prefix() else { return Vec::new() };
    let given = value(LIBRARY_PATH);
    let brought = match value(FORCE_LIBRARY).is_empty() {
        true => BroughtLibraries::Kept,
        false => BroughtLibraries::Replaced,
    };
    // A program that starts another one (env, nice, sh -c) has it among the arguments.
    let search = value("PATH");
    let arguments = program.arguments.iter().take(ARGUMENTS_MAX);
    let words = arguments.flat_map(|argument| words_of(argument)).take(WORDS_MAX);
    let named = words.filter_map(|word| program::find(word, folder, &search).ok());
    let candidates = std::iter::once(program.path.clone()).chain(named);
    // A program may be executable without being readable; then the kernel decides.
    let provisions = candidates.filter_map(|path| {
        let path = folder.join(path);
        let found = path.is_file().then(|| provide_for(&path, &prefix, &given, brought));
        found?.ok().filter(|found| *found != Provision::default())
    });
    let mut provision = { provisions }.next().unwrap_or_default();
    let preloaded = value(PRELOAD);
    let has_python_choice = PYTHON.iter().any(|name| !value(name).is_empty());
    let folders: Vec<PathBuf> = std::env::split_paths(&given).collect();
    let unversioned = unversioned(&folders);
    let all = folders_of_all(&prefix, &folders, &provision.found, unversioned);
    provision.folders.extend(all);
    if !value(OPENMP).is_empty() {
        provision.folders.insert(0, prefix.join(OPENMP_FOLDER));
    }
    if !has_python_choice && let Some(library) = for_python(&prefix, unversioned) {
        program.variables.push((PYTHON[0].into(), library.into()));
    }
    let mut put = |name: &str, first: Vec<PathBuf>, rest: OsString| {
        let mut all: Vec<&OsStr> = Vec::new();
        let rest = rest.as_bytes().split(|byte| *byte == b':').filter(|_| !rest.is_empty());
        for one in first.iter().map(|path| path.as_os_str()).chain(rest.map(OsStr::from_bytes)) {
            if !all.contains(&one) {
                all.push(one);
            }
        }
        if !first.is_empty() {
            program.variables.push((name.into(), all.join(OsStr::new(":"))));
        }
    };
    put(LIBRARY_PATH, provision.folders, given);
    put(PRELOAD, provision.preload, preloaded);
    provision.notes
}

/// The folder in a prefix with the library of OpenMP for programs that GCC has compiled, and the
/// name of that library.
pub const OPENMP_FOLDER: &str = "lib/combray/openmp";
const OPENMP_LIBRARY: &str = "libgomp.so.1";

/// Returns which library of OpenMP a program would load, as a sentence; `None` if it needs none
/// that is known here. `given` is `LD_LIBRARY_PATH`.
///
/// # Errors
/// The program cannot be read.
pub fn openmp_of(program: &Path, prefix: &Path, given: &OsStr) -> io::Result<Option<String>> {
    let given: Vec<PathBuf> = std::env::split_paths(given).collect();
    let wanted = wanted(program, &given, |name| name == OPENMP_LIBRARY)?;
    let Some(library) = wanted.first() else { return Ok(None) };
    let own = prefix.join(OPENMP_FOLDER).join(OPENMP_LIBRARY);
    let found = library.brought.as_ref().or(library.found.as_ref());
    let is_own = found.is_some_and(|at| at.canonicalize().ok() == own.canonicalize().ok());
    Ok(Some(match (found, &library.brought) {
        (Some(at), _) if is_own => format!("{OPENMP_LIBRARY}: Combray's, {}", at.display()),
        (Some(at), Some(_)) => format!("{OPENMP_LIBRARY}: its own, {}", at.display()),
        (Some(at), None) => format!(
            "{OPENMP_LIBRARY}: {}; with --openmp Combray's, {}",
            at.display(),
            own.display()
        ),
        (None, _) => format!("{OPENMP_LIBRARY}: found with --openmp only, {}", own.display()),
    }))
}

/// Returns an argument, and its words if it has several, as a command for a shell has.
fn words_of(argument: &OsStr) -> Vec<&OsStr> {
    let text = argument.to_str().filter(|text| text.contains(char::is_whitespace));
    let words = text.into_iter().flat_map(str::split_whitespace).map(OsStr::new);
    std::iter::once(argument).chain(words).collect()
}

/// Returns the library that mpi4py's released wheel loads; it is built for both kinds, and without
/// this choice looks for a library in the folder of Python first.
fn for_python(prefix: &Path, unversioned: Option<&KnownLibrary>) -> Option<PathBuf> {
    let library = unversioned.unwrap_or(&LIBRARIES[1]);
    Some(library.file(library.names[0], prefix)).filter(|file| file.is_file())
}

/// The variables by which a user chooses the library that mpi4py loads; the first is its path.
const PYTHON: [&str; 2] = ["MPI4PY_LIBMPI", "MPI4PY_MPIABI"];

/// The maximal numbers of arguments of a program, and of words in them, that are examined.
const ARGUMENTS_MAX: usize = 8;
const WORDS_MAX: usize = 16;

const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";
const PRELOAD: &str = "LD_PRELOAD";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_mpi_are_known_by_their_names() {
        for library in LIBRARIES {
            let names = library.names.iter().chain(library.fortran);
            assert!({ names }.all(|name| is_mpi(name) && known(name).is_some()));
        }
        for name in ["libmpi.so.20", "libmpi.so.1", "libmpi_cray.so.12", "libmpi_cxx.so.1"] {
            assert!(is_mpi(name) && known(name).is_none(), "{name}");
        }
        for name in ["libm.so.6", "libmpifile.so.1", "libmpir.so.16", "libmpi4py.so", "libmpi"] {
            assert!(!is_mpi(name), "{name}");
        }
    }

    fn provision(library: &WantedLibrary, brought: BroughtLibraries) -> Provision {
        let mut provision = Provision::default();
        let private = tempfile::tempdir().unwrap();
        let folder = private.path().join("libraries");
        let own = folder.join("lib/combray/mpich");
        fs::create_dir_all(&own).unwrap();
        for name in ["libmpi.so.12", "libmpifort.so.12"] {
            fs::write(own.join(name), "").unwrap();
        }
        provision.consider(library, &folder, brought);
        fs::remove_dir_all(&folder).unwrap();
        provision
    }

    #[test]
    fn a_library_may_lie_beside_the_first() {
        let private = tempfile::tempdir().unwrap();
        let prefix = private.path().join("libraries-beside");
        let other = &LIBRARIES[1];
        let own = other.file("libmpi.so.12", &prefix);
        assert_eq!(own, prefix.join("lib/combray/mpich/libmpi.so.12"));
        for folder in ["lib", other.folder] {
            let file = prefix.join(folder).join("libmpi.so.12");
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "").unwrap();
            assert_eq!(other.file("libmpi.so.12", &prefix), file);
        }
        fs::remove_dir_all(&prefix).unwrap();
    }

    #[test]
    fn a_name_without_a_version_follows_what_is_installed() {
        let private = tempfile::tempdir().unwrap();
        let folder = private.path().to_owned();
        for (file, of) in [
            ("libmpi.so.40.30.4", "Open MPI"),
            ("libmpich.so.12.2.1", "MPICH, Intel MPI, MVAPICH or Cray MPICH"),
        ] {
            let link = folder.join("libmpi.so");
            fs::write(folder.join(file), "").unwrap();
            std::os::unix::fs::symlink(file, &link).unwrap();
            let found = unversioned(std::slice::from_ref(&folder));
            assert_eq!(found.map(|library| library.of), Some(of));
            fs::remove_file(link).unwrap();
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn folders_that_have_other_libraries_too_are_not_put_first() {
        let private = tempfile::tempdir().unwrap();
        let prefix = private.path();
        for library in LIBRARIES {
            let folder = prefix.join(library.folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(library.names[0]), "").unwrap();
        }
        let all = |given: &[PathBuf], used: &[PathBuf]| {
            folders_of_all(prefix, given, used, unversioned(given))
        };
        let found = all(&[], &[]);
        let lib = prefix.join("lib");
        assert_eq!((found.len(), found.last()), (3, Some(&lib)));
        let for_program = all(&[], std::slice::from_ref(&lib));
        assert_eq!(for_program, [&found[2..], &found[..2]].concat());
        // Another MPI's library of the standard's interface, in the user's folders.
        let given = prefix.join("given");
        fs::create_dir(&given).unwrap();
        fs::write(given.join("libmpi_abi.so.0"), [0; 100]).unwrap();
        assert_eq!(all(&[given], &[]), found);
        fs::write(prefix.join("lib/libz.so.1"), "").unwrap();
        assert_eq!(all(&[], &[]), found[..2]);
    }

    #[test]
    fn another_library_is_one_without_the_symbol_of_ours() {
        let private = tempfile::tempdir().unwrap();
        let root = private.path();
        for name in ["libmpi_mpifh.so.40.30.0", "libmpi.so.40.30.4", "libm.so.6"] {
            fs::write(root.join(name), [0; 100]).unwrap();
        }
        let path = |name: &str| Path::new("/").join(name);
        let fortran = path("libmpi_mpifh.so.40.30.0");
        let (main, other) = (path("libmpi.so.40.30.4"), path("libm.so.6"));
        assert_eq!(other_library(&[fortran, main.clone(), other.clone()], root), Some(main));
        assert_eq!(other_library(&[other], root), None);
        // What cannot be read may be ours.
        assert_eq!(other_library(&[path("libmpi.so.12")], root), None);
        assert!(remedy(&path("libmpi.so.20")).contains("mpicc"));
    }

    #[test]
    fn a_command_for_a_shell_is_examined_word_by_word() {
        let words = words_of(OsStr::new("A=1 ./my program"));
        assert_eq!(words, ["A=1 ./my program", "A=1", "./my", "program"]);
        assert_eq!(words_of(OsStr::new("./program")), ["./program"]);
    }

    /// Many programs need the library because they include its headers; few use it.
    #[test]
    fn programs_that_use_the_bindings_of_cxx_are_noted() {
        let private = tempfile::tempdir().unwrap();
        let noted = |symbol: &str| {
            let (source, program) = (private.path().join("a.c"), private.path().join("a.so"));
            let text = format!("extern int used __asm__(\"{symbol}\"); int *place = &used;\n");
            fs::write(&source, text).unwrap();
            let mut compiler = std::process::Command::new("cc");
            compiler.args(["-shared", "-fPIC"]).arg(&source).arg("-o").arg(&program);
            assert!(compiler.status().unwrap().success());
            let library = WantedLibrary {
                name: "libmpicxx.so.12".into(),
                by: "./program".into(),
                also_by: vec![program],
                ..WantedLibrary::default()
            };
            provision(&library, BroughtLibraries::Kept).notes.join(" ")
        };
        let text = noted(OF_BINDINGS);
        assert!(text.contains("bindings of C++") && text.contains("a.so"), "{text}");
        assert_eq!(noted("_ZN3MPI4CommC2Ev"), "");
    }

    #[test]
    fn a_program_finds_the_library_unless_it_brings_its_own() {
        let mut library = WantedLibrary {
            name: "libmpich.so.12".into(),
            by: "./program".into(),
            also_by: Vec::new(),
            brought: None,
            found: Some("/usr/lib/libmpich.so.12".into()),
        };
        let found = provision(&library, BroughtLibraries::Kept);
        assert!(found.folders[0].ends_with("lib/combray/mpich"));
        assert_eq!((found.preload.len(), found.notes.len()), (0, 0));
        library.brought = Some("/opt/mpich/lib/libmpich.so.12".into());
        let brings = provision(&library, BroughtLibraries::Kept);
        assert_eq!((brings.folders.len(), brings.preload.len()), (0, 0));
        assert!(brings.notes[0].contains("/opt/mpich/lib") && brings.notes[0].contains("--force"));
        let forced = provision(&library, BroughtLibraries::Replaced);
        assert!(forced.preload[0].ends_with("mpich/libmpi.so.12"));
        assert!(forced.folders[0].ends_with("lib/combray/mpich"), "what it loads by libmpi.so");
        library.name = "libmpichfort.so.12".into();
        let fortran = provision(&library, BroughtLibraries::Replaced);
        assert!(fortran.preload[0].ends_with("mpich/libmpifort.so.12"));
        library.name = "libmpi.so.20".into();
        let unknown = provision(&library, BroughtLibraries::Kept);
        assert!(unknown.notes[0].contains("libmpi.so.20"), "{:?}", unknown.notes);
    }
}
