//! Reads from a program's file for which machine it was built, and which libraries it needs.
//!
//! It reads the ELF headers as the dynamic loader does, so that nothing has to be started.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// An executable file or a shared library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binary {
    /// The machine for which it was built (`e_machine` of the ELF header).
    pub machine: u16,
    /// Whether the dynamic loader loads libraries for it.
    pub is_dynamic: bool,
    /// The names of the libraries that it needs, in order.
    pub needed: Vec<OsString>,
    /// Folders in the file that are searched before all others (DT_RPATH).
    pub first_folders: Vec<PathBuf>,
    /// Folders in the file that are searched after `LD_LIBRARY_PATH` (DT_RUNPATH).
    pub later_folders: Vec<PathBuf>,
}

/// A library that a program needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedLibrary {
    /// Its name.
    pub name: String,
    /// The file that needs it: the program, or a library that the program needs.
    pub by: PathBuf,
    /// Further files that need it.
    pub also_by: Vec<PathBuf>,
    /// Its path, if it is in a folder that is searched before `LD_LIBRARY_PATH`.
    pub brought: Option<PathBuf>,
    /// The path at which the loader would find it otherwise.
    pub found: Option<PathBuf>,
}

/// The machine for which this was compiled, as numbered in ELF headers.
pub const OWN_MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };

/// The default folders of libraries; the loader has more of them.
const FOLDERS: [&str; 7] = [
    "/lib",
    "/usr/lib",
    "/lib64",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/local/lib",
];

/// Returns the path of a library that a program loads by this name at run time: in the folders of
/// `LD_LIBRARY_PATH`, or in those of the system.
pub fn loaded_by_name(name: &str, given: &[PathBuf]) -> Option<PathBuf> {
    let folders = given.iter().cloned().chain(FOLDERS.map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The maximal number of files that are read for one program.
const FILES_MAX: usize = 500;

/// The maximal length of a table in bytes.
const TABLE_BYTES_MAX: usize = 1 << 24;

/// The maximal number of strings of a kind, and the maximal length of each in bytes.
const TEXTS_MAX: usize = 1000;
const TEXT_BYTES_MAX: usize = 4096;

/// The beginning of a little-endian ELF file of 64 bits.
const MAGIC: [u8; 6] = [0x7f, b'E', b'L', b'F', 2, 1];

/// Types of program headers, and of entries of the dynamic section.
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

/// A segment of the file that is mapped at run time.
struct LoadedSegment {
    kind: u32,
    offset: u64,
    address: u64,
    file_bytes: u64,
}

impl Binary {
    /// Reads a file; none if it is no ELF file of 64 bits, such as a script.
    ///
    /// # Errors
    /// The file cannot be read, or is truncated.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        let file = File::open(path)?;
        let mut head = [0; 64];
        match file.read_exact_at(&mut head, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        if head[..MAGIC.len()] != MAGIC {
            return Ok(None);
        }
        let machine = u16::from_le_bytes([head[18], head[19]]);
        let mut binary = Self { machine, ..Self::default() };
        let Some(DynamicSection { entries, texts }) = DynamicSection::read(&file, &head)? else {
            return Ok(Some(binary));
        };
        binary.is_dynamic = true;
        let texts_of = |wanted| {
            let found = entries.iter().filter(move |(kind, _)| *kind == wanted).take(TEXTS_MAX);
            found.map(|(_, offset)| text(&texts, *offset)).collect::<Vec<OsString>>()
        };
        binary.needed = texts_of(DT_NEEDED);
        // A file may have no path any more, such as a memory file.
        let origin = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let origin = origin.parent().unwrap_or(Path::new("/"));
        let folders = |list: Vec<OsString>| -> Vec<PathBuf> {
            list.iter().flat_map(|folders| named_folders(folders, origin)).collect()
        };
        binary.later_folders = folders(texts_of(DT_RUNPATH));
        // The loader ignores DT_RPATH if there is DT_RUNPATH.
        if binary.later_folders.is_empty() {
            binary.first_folders = folders(texts_of(DT_RPATH));
        }
        Ok(Some(binary))
    }

    /// Returns the name of the machine; a general text if it is not known here.
    pub fn machine_name(&self) -> &'static str {
        match self.machine {
            3 => "32-bit x86",
            21 => "64-bit PowerPC",
            40 => "32-bit ARM",
            62 => "x86-64",
            183 => "64-bit ARM",
            243 => "RISC-V",
            258 => "LoongArch",
            _ => "another machine",
        }
    }
}

/// Whether a library has a symbol of this name in its table for the dynamic loader: one that it
/// exports, or one that it needs.
///
/// # Errors
/// The file cannot be read.
pub fn has_symbol(library: &Path, name: &str) -> io::Result<bool> {
    let file = File::open(library)?;
    let mut head = [0; 64];
    file.read_exact_at(&mut head, 0)?;
    let is_binary = head[..MAGIC.len()] == MAGIC;
    let section = if is_binary { DynamicSection::read(&file, &head)? } else { None };
    let texts = section.map(|section| section.texts).unwrap_or_default();
    Ok(texts.split(|byte| *byte == 0).any(|text| text == name.as_bytes()))
}

/// Returns the MPI libraries that a program needs, itself or through other libraries.
///
/// `given` are the folders of `LD_LIBRARY_PATH`.
///
/// # Errors
/// The program cannot be read.
pub fn wanted(
    program: &Path,
    given: &[PathBuf],
    is_mpi: impl Fn(&str) -> bool,
) -> io::Result<Vec<WantedLibrary>> {
    let mut found: Vec<WantedLibrary> = Vec::new();
    let mut seen = HashSet::new();
    // Each file with the folders that the files before it named.
    let mut open = vec![(program.to_owned(), Vec::<PathBuf>::new())];
    while let Some((path, mut inherited)) = open.pop() {
        let read = Binary::read(&path);
        let binary = match read {
            Err(error) if path == program => return Err(error),
            Ok(Some(binary)) if seen.len() < FILES_MAX => binary,
            _ => continue,
        };
        if binary.later_folders.is_empty() {
            inherited.splice(0..0, binary.first_folders.iter().cloned());
        }
        let first = if binary.later_folders.is_empty() { &inherited[..] } else { &[] };
        for name in &binary.needed {
            let lies_in = |folders: &[PathBuf]| {
                folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file())
            };
            let brought = lies_in(first);
            let elsewhere = || {
                let named = lies_in(given).or_else(|| lies_in(&binary.later_folders));
                named.or_else(|| lies_in(&FOLDERS.map(PathBuf::from)))
            };
            if let Some(text) = name.to_str().filter(|text| is_mpi(text)) {
                match found.iter_mut().find(|known| known.name == text) {
                    Some(known) => known.also_by.push(path.clone()),
                    None => found.push(WantedLibrary {
                        name: text.to_owned(),
                        by: path.clone(),
                        also_by: Vec::new(),
                        brought,
                        found: elsewhere(),
                    }),
                }
                continue;
            }
            let place = brought.or_else(elsewhere);
            if let Some(place) = place.filter(|_| seen.insert(name.clone())) {
                open.push((place, inherited.clone()));
            }
        }
    }
    Ok(found)
}

/// What a file has for the dynamic loader.
struct DynamicSection {
    /// The kind and the value of each entry.
    entries: Vec<(u64, u64)>,
    /// The table of strings; empty if the file has none.
    texts: Vec<u8>,
}

impl DynamicSection {
    /// Reads the section; none if the file has none. `head` is the ELF header.
    fn read(file: &File, head: &[u8; 64]) -> io::Result<Option<Self>> {
        let segments = segments(file, head)?;
        let Some(dynamic) = segments.iter().find(|segment| segment.kind == PT_DYNAMIC) else {
            return Ok(None);
        };
        let table = table(file, dynamic.offset, dynamic.file_bytes)?;
        let entries = table.chunks_exact(16).map(|entry| (number(entry, 0), number(entry, 8)));
        let entries: Vec<(u64, u64)> = entries.take_while(|(kind, _)| *kind != 0).collect();
        let value =
            |wanted| entries.iter().find(|(kind, _)| *kind == wanted).map(|(_, value)| *value);
        let holds = |segment: &&LoadedSegment, address: u64| {
            segment.kind == PT_LOAD
                && (segment.address..segment.address.saturating_add(segment.file_bytes))
                    .contains(&address)
        };
        let place = value(DT_STRTAB).zip(value(DT_STRSZ)).and_then(|(address, bytes)| {
            let segment = segments.iter().find(|segment| holds(segment, address))?;
            Some((segment.offset.saturating_add(address - segment.address), bytes))
        });
        let texts = place.map(|(offset, bytes)| self::table(file, offset, bytes)).transpose()?;
        // Without strings, no entry has a meaning.
        let (entries, texts) = texts.map_or_else(Default::default, |texts| (entries, texts));
        Ok(Some(Self { entries, texts }))
    }
}

fn segments(file: &File, head: &[u8; 64]) -> io::Result<Vec<LoadedSegment>> {
    let entry_bytes = u16::from_le_bytes([head[54], head[55]]) as usize;
    let count = u16::from_le_bytes([head[56], head[57]]) as usize;
    if entry_bytes < 56 {
        return Ok(Vec::new());
    }
    let table = table(file, number(head, 32), (entry_bytes * count) as u64)?;
    let segment = |entry: &[u8]| LoadedSegment {
        kind: number(entry, 0) as u32,
        offset: number(entry, 8),
        address: number(entry, 16),
        file_bytes: number(entry, 32),
    };
    Ok(table.chunks_exact(entry_bytes).map(segment).collect())
}

/// Reads bytes of a file.
fn table(file: &File, offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= TABLE_BYTES_MAX);
    let bytes = bytes.ok_or_else(|| io::Error::other("a table in it is too long"))?;
    let mut table = vec![0; bytes];
    file.read_exact_at(&mut table, offset)?;
    Ok(table)
}

/// Returns the number of eight bytes at an offset of an entry, which is long enough.
fn number(entry: &[u8], place: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&entry[place..place + 8]);
    u64::from_le_bytes(bytes)
}

/// Returns the string at an offset of a string table; empty beyond its end.
fn text(texts: &[u8], offset: u64) -> OsString {
    let rest = usize::try_from(offset).ok().and_then(|offset| texts.get(offset..));
    let text = rest.and_then(|rest| rest.split(|byte| *byte == 0).next()).unwrap_or_default();
    OsString::from_vec(text[..text.len().min(TEXT_BYTES_MAX)].to_vec())
}

/// Returns the folders of a list, where `$ORIGIN` stands for the folder of the file.
fn named_folders(list: &OsStr, origin: &Path) -> Vec<PathBuf> {
    let folders = list.as_bytes().split(|byte| *byte == b':').filter(|folder| !folder.is_empty());
    let folder = |folder: &[u8]| {
        let text = String::from_utf8_lossy(folder);
        let own = origin.to_string_lossy();
        PathBuf::from(text.replace("${ORIGIN}", &own).replace("$ORIGIN", &own))
    };
    folders.map(folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn the_needed_library_is_read_from_a_program() {
        let own = std::env::current_exe().unwrap();
        let binary = Binary::read(&own).unwrap().expect("a test is a program");
        assert!(binary.is_dynamic);
        assert_eq!(binary.machine, OWN_MACHINE);
        assert!(binary.needed.iter().any(|name| name == "libc.so.6"), "{:?}", binary.needed);
        let wanted = wanted(&own, &[], |name| name == "libc.so.6").unwrap();
        assert_eq!(wanted.len(), 1);
        assert_eq!((wanted[0].by.as_path(), &wanted[0].brought), (own.as_path(), &None));
        assert!(wanted[0].found.is_some());
        assert_eq!(Binary::read(Path::new("Cargo.toml")).unwrap(), None);
        assert!(has_symbol(&own, "memcpy").unwrap() && !has_symbol(&own, "mem").unwrap());
        assert!(!has_symbol(Path::new("Cargo.toml"), "memcpy").unwrap());
        assert!(Binary::read(Path::new("/no/such")).is_err());
    }

    #[test]
    fn a_file_that_is_cut_off_is_an_error_or_nothing_and_no_crash() {
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let private = tempfile::tempdir().unwrap();
        let path = private.path().join("binary");
        for bytes in [0, 5, 63, 64, 100, 500] {
            std::fs::write(&path, &whole[..bytes]).unwrap();
            assert!(!matches!(Binary::read(&path), Ok(Some(binary)) if !binary.needed.is_empty()));
        }
        let mut changed = whole[..whole.len().min(1 << 16)].to_vec();
        for place in 0..64 {
            changed[place] ^= 0xff;
            std::fs::write(&path, &changed).unwrap();
            // Any content must give a result, without a crash.
            let _ = Binary::read(&path);
            changed[place] ^= 0xff;
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn the_needed_library_is_read_from_a_program_without_a_path() {
        let own = std::env::current_exe().unwrap();
        let mut file = sys::mapping::create_memory_file(c"program", 0).unwrap();
        io::copy(&mut File::open(&own).unwrap(), &mut file).unwrap();
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let binary = Binary::read(&path).unwrap().expect("a test is a program");
        assert_eq!(binary.needed, Binary::read(&own).unwrap().unwrap().needed);
    }

    #[test]
    fn folders_may_be_named_from_the_place_of_the_file() {
        let folders =
            named_folders(OsStr::new("$ORIGIN/../lib::/opt/x/${ORIGIN}"), Path::new("/a"));
        assert_eq!(folders, [PathBuf::from("/a/../lib"), PathBuf::from("/opt/x//a")]);
    }
}
