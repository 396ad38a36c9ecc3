//! Opening, closing and deleting files (section 14.2 of the MPI standard).

use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use base::{Error, ErrorClass, Result};
use mpi::Process;
use mpi::collective::{self, Invocation};
use mpi::communicator::Communicator;
use mpi::error_handler::{ErrorHandler, InstalledHandler};
use mpi::exchange::exchange;
use mpi::hints::Hints;
use mpi::info::Info;

use crate::agreement::{all_succeed, check_same};
use crate::costs::Mounts;
use crate::fault::{but_for_failed, class_of, refused};
use crate::mode::AccessMode;
use crate::pool::ThreadPool;
use crate::shared_pointer::SharedPointer;
use crate::storage::{Storage, SystemFile, repeated};
use crate::{File, FileView, preferences};

/// The objects that all files of a process share.
#[derive(Clone, Debug, Default)]
pub struct FileWorks {
    pub(crate) pool: ThreadPool,
    pub(crate) mounts: Mounts,
}

/// The properties by which two processes determine whether they have opened one file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    /// The time of the last change, in nanoseconds since 1970.
    changed: u64,
    /// Whether other machines certainly cannot have the file. A file that is only read may lie in
    /// an image that each machine has mounted, as images of containers do: that counts as one file.
    is_local: bool,
    /// The name of the host; zeros follow.
    host: [u8; 64],
    /// The identifier of the running system of the host; containers on it share this identifier.
    system: [u8; 36],
}

wire::codec!(Identity { device, inode, size, changed, is_local, host, system });

impl File {
    /// `MPI_File_open`: collective.
    ///
    /// # Errors
    /// `Amode`, `NotSame` if the mode differs between processes, the classes of the system's
    /// errors, `NotSame` if hosts have different files of this name. All processes get one class.
    pub fn open(
        process: &Process,
        works: &FileWorks,
        communicator: &Rc<Communicator>,
        name: &[u8],
        mode: AccessMode,
        info: Option<&Info>,
    ) -> Result<Rc<File>> {
        if communicator.remote().is_some() {
            let what = "the communicator is an intercommunicator, on which no file can be opened";
            return Err(Error::new(ErrorClass::Comm, what));
        }
        let own = communicator
            .create(process, communicator.group())?
            .expect("the group is the communicator's own");
        communicator.revoke_together(process, &own);
        all_succeed(process, &own, mode.check())?;
        check_same(process, &own, "the mode", mode.number())?;
        let hints = Hints::of_file();
        if let Some(info) = info {
            hints.add(info, |_, _| true);
        }
        let shown = String::from_utf8_lossy(name).into_owned();
        let (file, can_read) = open_everywhere(process, &own, name, &shown, mode, &hints)?;
        // A file without accessible metadata has costs, too.
        let (device, size) =
            file.metadata().map_or_else(|_| Default::default(), |found| (found.dev(), found.len()));
        let costs = works.mounts.of(device);
        let storage: Arc<dyn Storage> = Arc::new(SystemFile::new(file, size, costs));
        let shared = SharedPointer::create(process, &own)?;
        let file = Rc::new(File {
            communicator: own,
            name: name.into(),
            shown,
            mode,
            storage,
            works: works.clone(),
            view: RefCell::new(FileView::of_bytes()),
            position: Cell::new(0),
            shared,
            atomic: Cell::new(false),
            split: RefCell::default(),
            apart: Cell::new(false),
            sieving: Cell::default(),
            can_read,
            calls: Cell::new(0),
            exclusion: Arc::default(),
            error_handler: InstalledHandler::new(Rc::new(ErrorHandler::Return)),
            hints,
        });
        if mode.append {
            file.move_to_end(process)?;
        }
        file.agree(process)?;
        Ok(file)
    }

    fn move_to_end(&self, process: &Process) -> Result<()> {
        let size = self.storage.size();
        let size = size.map_err(|error| refused("ask for the size of", &self.shown, &error))?;
        self.position.set(size);
        if self.communicator.rank() == 0 {
            self.shared.set(process, size as i64)?;
        }
        self.barrier(process)
    }

    pub(crate) fn barrier(&self, process: &Process) -> Result<()> {
        collective::barrier(&Invocation::blocking(&self.communicator))?.complete(process)
    }

    /// `MPI_File_close`: collective. If processes have failed, it waits for the remaining ones; if
    /// the communicator was revoked, for none.
    ///
    /// # Errors
    /// `Other` while a split collective operation is not ended; the system's errors if the file is
    /// deleted.
    pub fn close(&self, process: &Process) -> Result<()> {
        self.check_no_split()?;
        but_for_failed(self.barrier(process))?;
        self.shared.free(process)?;
        let deleted = self.delete_on_close(process);
        let deleted = deleted.map_err(|error| refused("delete", &self.shown, &error));
        but_for_failed(all_succeed(process, &self.communicator, deleted))
    }

    /// Deletes the file if its mode requires that: on rank 0, or on any rank if some processes have
    /// failed.
    fn delete_on_close(&self, process: &Process) -> io::Result<()> {
        let lacks_processes = process.failure_of_source(&self.communicator, None).is_some();
        if !self.mode.delete_on_close || (self.communicator.rank() != 0 && !lacks_processes) {
            return Ok(());
        }
        match delete_named(&self.name) {
            Err(error) if lacks_processes && error.kind() == io::ErrorKind::NotFound => Ok(()),
            outcome => outcome,
        }
    }
}

/// `MPI_File_delete`.
///
/// # Errors
/// `NoSuchFile`, `Access` and the other classes of the system's errors.
pub fn delete(name: &[u8]) -> Result<()> {
    delete_named(name).map_err(|error| refused("delete", &String::from_utf8_lossy(name), &error))
}

/// The names of file systems that ROMIO accepts before a file name, as in `ufs:data/field`.
const FILE_SYSTEMS: [&str; 14] = [
    "ufs", "nfs", "xfs", "lustre", "gpfs", "panfs", "pvfs", "pvfs2", "beegfs", "pfs", "sfs", "hfs",
    "daos", "testfs",
];

/// Returns the name without a prefix by which ROMIO chooses the file system. All file systems are
/// used in one way here.
pub fn without_file_system(name: &[u8]) -> &[u8] {
    let Some(end) = name.iter().position(|byte| *byte == b':') else { return name };
    let is_known = FILE_SYSTEMS.iter().any(|known| known.as_bytes() == &name[..end]);
    if is_known { &name[end + 1..] } else { name }
}

fn delete_named(name: &[u8]) -> io::Result<()> {
    repeated(|| fs::remove_file(path_of(name)))
}

fn path_of(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}

/// Opens the file: rank 0 opens or creates it, then all other processes open it. Returns whether
/// this process can read the file, too.
fn open_everywhere(
    process: &Process,
    communicator: &Rc<Communicator>,
    name: &[u8],
    shown: &str,
    mode: AccessMode,
    hints: &Hints,
) -> Result<(fs::File, bool)> {
    let is_first = communicator.rank() == 0;
    let refused = |error: io::Error| {
        let verb = if mode.create && is_first { "open or create" } else { "open" };
        // Where writing is unsupported, reading may be allowed, so the class is `Io`.
        let class = match class_of(&error) {
            ErrorClass::UnsupportedOperation => ErrorClass::Io,
            class => class,
        };
        Error::new(class, format!("could not {verb} \"{shown}\": {error}"))
    };
    let open_as = |first: bool, reads: bool| -> io::Result<(fs::File, bool)> {
        let mut options = OpenOptions::new();
        options.read(reads).write(mode.writes());
        if first && mode.writes() {
            options.create(mode.create).create_new(mode.create && mode.exclusive);
            options.mode(preferences::permissions(hints));
        }
        let file = repeated(|| options.open(path_of(name)))?;
        let is_folder = file.metadata()?.is_dir();
        if is_folder { Err(io::ErrorKind::IsADirectory.into()) } else { Ok((file, reads)) }
    };
    // A process that only writes reads the holes between its runs, if it has the permission.
    let open = |first: bool| match open_as(first, true) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !mode.reads() => {
            open_as(first, false)
        }
        outcome => outcome,
    };
    let mine = if is_first { Some(open(true).map_err(refused)) } else { None };
    let first = mine.transpose();
    let first = all_succeed(process, communicator, first)?;
    let opened = match first {
        Some(file) => Ok(file),
        None => open(false).map_err(refused),
    };
    let (file, can_read) = all_succeed(process, communicator, opened)?;
    check_same_file(process, communicator, (&file, mode), shown)?;
    Ok((file, can_read))
}

/// Checks that all processes have opened one file. On one running system, device and inode number
/// identify it, in containers, too. Several systems may know one device by different numbers, and
/// files on their local disks may have equal inode numbers and creation times. So between systems
/// no file that is written may lie on a local disk, and the times of the last change must be equal,
/// too.
fn check_same_file(
    process: &Process,
    communicator: &Rc<Communicator>,
    (file, mode): (&fs::File, AccessMode),
    shown: &str,
) -> Result<()> {
    if communicator.size() == 1 {
        return Ok(());
    }
    let asked =
        Identity::of(file, mode.writes()).map_err(|error| refused("look at", shown, &error));
    let mine = all_succeed(process, communicator, asked)?;
    let all = exchange(process, communicator, &mine)?;
    let Some(other) = all.iter().position(|other| !all[0].is_same(other)) else { return Ok(()) };
    let host = |rank: usize| String::from_utf8_lossy(&all[rank].host).replace('\0', "");
    let detail = format!(
        "\"{shown}\" is not the same file on all hosts: rank 0 on {} and rank {other} on {} have \
         opened different files; the folder must be on a file system that all hosts share",
        host(0),
        host(other)
    );
    Err(Error::new(ErrorClass::NotSame, detail))
}

impl Identity {
    fn of(file: &fs::File, is_written: bool) -> io::Result<Self> {
        let found = file.metadata()?;
        let changed = found.mtime().wrapping_mul(1_000_000_000).wrapping_add(found.mtime_nsec());
        Ok(Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.len(),
            changed: changed as u64,
            is_local: is_written && sys::files::is_local(file.as_fd())?,
            host: line("/proc/sys/kernel/hostname"),
            system: line("/proc/sys/kernel/random/boot_id"),
        })
    }

    fn is_same(&self, other: &Self) -> bool {
        if self.system == other.system {
            return (self.device, self.inode) == (other.device, other.inode);
        }
        let what = |one: &Self| (one.inode, one.size, one.changed);
        !self.is_local && !other.is_local && what(self) == what(other)
    }
}

/// Returns the beginning of a file of one line, followed by zeros.
fn line<const BYTES: usize>(path: &str) -> [u8; BYTES] {
    let content = fs::read(path).unwrap_or_default();
    let mut bytes = content.into_iter().filter(|byte| *byte != b'\n');
    std::array::from_fn(|_| bytes.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use wire::Codec;

    use super::*;

    #[test]
    fn names_of_file_systems_are_no_part_of_a_name() {
        let without = |name: &'static str| without_file_system(name.as_bytes());
        assert_eq!(without("ufs:a/b"), b"a/b");
        assert_eq!(without("nfs:/a:b"), b"/a:b");
        for name in ["a", "a:b", "./ufs:a", "UFS:a", ":a"] {
            assert_eq!(without(name), name.as_bytes());
        }
    }

    #[test]
    fn hosts_with_disks_of_their_own_have_different_files() {
        let one = Identity {
            device: 1,
            inode: 7,
            size: 0,
            changed: 5,
            is_local: false,
            host: [b'a'; 64],
            system: [b's'; 36],
        };
        assert_eq!(Identity::from_bytes(&one.to_bytes()), Some(one.clone()));
        let mounted_elsewhere = Identity { device: 2, system: [b't'; 36], ..one.clone() };
        assert!(one.is_same(&mounted_elsewhere));
        let by_chance = Identity { changed: 6, ..mounted_elsewhere.clone() };
        assert!(!one.is_same(&by_chance));
        let made_at_once = Identity { is_local: true, ..mounted_elsewhere };
        assert!(!made_at_once.is_same(&one) && !one.is_same(&made_at_once));
        let in_a_container = Identity { device: 3, host: [b'c'; 64], ..one.clone() };
        assert!(!one.is_same(&in_a_container));
        let replaced = Identity { inode: 8, ..one.clone() };
        assert!(!one.is_same(&replaced));
    }

    #[test]
    fn what_is_only_read_may_lie_in_an_image_that_hosts_mount() {
        let private = tempfile::tempdir().unwrap();
        let path = private.path().join("identity");
        let file = fs::File::create(&path).unwrap();
        let (read, written) = [false, true].map(|is| Identity::of(&file, is).unwrap()).into();
        let elsewhere = |one: &Identity| Identity { system: [b'o'; 36], ..one.clone() };
        assert!(read.is_same(&elsewhere(&read)));
        assert_eq!(written.is_local, sys::files::is_local(file.as_fd()).unwrap());
        assert_eq!(written.is_same(&elsewhere(&written)), !written.is_local);
        fs::remove_file(path).unwrap();
    }
}
