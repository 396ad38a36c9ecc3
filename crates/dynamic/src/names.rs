//! Published names of ports (section 11.9.4 of the MPI standard): a file for each name, in a folder
//! that only this user can write.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use base::{Error, ErrorClass, Result};
use sha2::{Digest, Sha256};
use sys::environment;

/// The names of the services that this user's jobs have published.
#[derive(Debug)]
pub struct PublishedNames {
    folder: PathBuf,
}

/// The longest file that is read, in bytes; a port name has at most 255.
const FILE_BYTES_MAX: u64 = 4096;

/// How long a process waits for others that change the folder, and how often it tries.
const LOCK_TIME_MAX: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(1);

impl PublishedNames {
    /// Opens the folder of names: that of `COMBRAY_NAMES`, or a folder of this machine, which is
    /// made if it does not exist.
    ///
    /// # Errors
    /// `Service` if the folder cannot be made, or other users could write to it.
    pub fn open() -> Result<Self> {
        let user = sys::process::user();
        let folder = runtime::configuration::names().unwrap_or_else(|| {
            match environment::value("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
                Some(folder) => Path::new(&folder).join("combray-names"),
                None => PathBuf::from(format!("/tmp/combray-names-{user}")),
            }
        });
        Self::in_folder(folder)
    }

    fn in_folder(folder: PathBuf) -> Result<Self> {
        let made = DirBuilder::new().mode(0o700).create(&folder);
        let found = made.or_else(|error| match error.kind() {
            ErrorKind::AlreadyExists => Ok(()),
            _ => Err(error),
        });
        let found = found.and_then(|()| fs::symlink_metadata(&folder));
        let metadata = found.map_err(|cause| in_use(&folder, &cause.to_string()))?;
        if !metadata.is_dir() || metadata.uid() != sys::process::user() {
            return Err(in_use(&folder, "it must be a directory of this user, and no link"));
        }
        if metadata.mode() & 0o022 != 0 {
            return Err(in_use(&folder, "other users can write to it (chmod go-w)"));
        }
        Ok(Self { folder })
    }

    /// Locks the folder against changes of other processes until the result is dropped. Without
    /// effect on file systems without locks.
    fn lock(&self) -> Result<Option<File>> {
        let Ok(folder) = File::open(&self.folder) else { return Ok(None) };
        let begun = Instant::now();
        loop {
            match folder.try_lock() {
                Ok(()) => return Ok(Some(folder)),
                Err(TryLockError::Error(_)) => return Ok(None),
                Err(TryLockError::WouldBlock) if begun.elapsed() < LOCK_TIME_MAX => {
                    thread::sleep(LOCK_PAUSE);
                }
                Err(TryLockError::WouldBlock) => {
                    let why = "another process keeps it locked; it may be stopped";
                    return Err(in_use(&self.folder, why));
                }
            }
        }
    }

    /// Returns the file of a service. Names may contain any bytes.
    fn file(&self, service: &[u8]) -> PathBuf {
        let digest = Sha256::digest(service);
        let name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(name)
    }

    /// Publishes the name of a port under the name of a service (`MPI_Publish_name`).
    ///
    /// # Errors
    /// `Service` if a process that has not ended has published the service already, or the file
    /// cannot be written.
    pub fn publish(&self, service: &[u8], port: &[u8]) -> Result<()> {
        let _lock = self.lock()?;
        let file = self.file(service);
        let own = std::process::id();
        let draft = file.with_extension(own.to_string());
        let failed = |cause: io::Error| in_use(&self.folder, &cause.to_string());
        // The draft of an ended process with this number is in the way.
        let _ = fs::remove_file(&draft);
        let mut options = OpenOptions::new();
        let mut written = options.write(true).create_new(true).mode(0o600).open(&draft);
        written = written.and_then(|mut draft| {
            draft.write_all(format!("{} {own}\n", runtime::machine_name()).as_bytes())?;
            draft.write_all(port)?;
            Ok(draft)
        });
        if let Err(cause) = written.map(drop) {
            let _ = fs::remove_file(&draft);
            return Err(failed(cause));
        }
        if self.is_left_over(&file) {
            let _ = fs::remove_file(&file);
        }
        // Unlike a renaming, this replaces no file.
        let linked = fs::hard_link(&draft, &file);
        let _ = fs::remove_file(&draft);
        linked.map_err(|cause| match cause.kind() {
            ErrorKind::AlreadyExists => Error::new(
                ErrorClass::Service,
                format!(
                    "the service \"{}\" is published already: choose another name, or call \
                     MPI_Unpublish_name first",
                    String::from_utf8_lossy(service)
                ),
            ),
            _ => failed(cause),
        })
    }

    /// Returns the name of the port of a service (`MPI_Lookup_name`).
    ///
    /// # Errors
    /// `Name` if the service is not published.
    pub fn look_up(&self, service: &[u8]) -> Result<Vec<u8>> {
        let found = self.read(&self.file(service));
        let (_, port) = found.ok_or_else(|| self.unknown(ErrorClass::Name, service))?;
        Ok(port)
    }

    /// Removes a service (`MPI_Unpublish_name`).
    ///
    /// # Errors
    /// `Service` if it is not published with this port.
    pub fn unpublish(&self, service: &[u8], port: &[u8]) -> Result<()> {
        let file = self.file(service);
        let unknown = || self.unknown(ErrorClass::Service, service);
        let _lock = self.lock()?;
        let (_, published) = self.read(&file).ok_or_else(unknown)?;
        if published != port {
            return Err(Error::new(
                ErrorClass::Service,
                "the service is published with another port name than the one given",
            ));
        }
        fs::remove_file(file).map_err(|_| unknown())
    }

    /// Whether the process that has published a file was on this machine and has ended.
    fn is_left_over(&self, file: &Path) -> bool {
        let Some((publisher, _)) = self.read(file) else { return false };
        let Some((machine, process)) = publisher.rsplit_once(' ') else { return false };
        machine == runtime::machine_name() && process.parse().is_ok_and(sys::process::has_ended)
    }

    /// Reads a file of this user: who has published it, and the name of the port.
    fn read(&self, file: &Path) -> Option<(String, Vec<u8>)> {
        let is_own =
            |metadata: &fs::Metadata| metadata.is_file() && metadata.uid() == sys::process::user();
        let opened = sys::files::open_as_expected(file, is_own).ok()?;
        let mut bytes = Vec::new();
        opened.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let port = bytes.split_off(end + 1);
        bytes.pop();
        Some((String::from_utf8(bytes).ok()?, port))
    }

    fn unknown(&self, class: ErrorClass, service: &[u8]) -> Error {
        let detail = format!(
            "no service \"{}\" is published in {}: jobs on other machines see it if COMBRAY_NAMES \
             names one shared directory in all of them",
            String::from_utf8_lossy(service),
            self.folder.display()
        );
        Error::new(class, detail)
    }
}

fn in_use(folder: &Path, why: &str) -> Error {
    let detail = format!(
        "names cannot be published in {}: {why}. COMBRAY_NAMES names another directory",
        folder.display()
    );
    Error::new(ErrorClass::Service, detail)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn class<T: std::fmt::Debug>(result: Result<T>) -> ErrorClass {
        result.unwrap_err().class
    }

    #[test]
    fn a_service_is_found_until_it_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let names = PublishedNames::in_folder(folder.path().join("names")).unwrap();
        let (service, port) = (&b"ocean/\xff model"[..], &b"the port"[..]);
        assert_eq!(class(names.look_up(service)), ErrorClass::Name);
        names.publish(service, port).unwrap();
        names.publish(b"other", b"another port").unwrap();
        assert_eq!(names.look_up(service).unwrap(), port);
        assert_eq!(class(names.publish(service, b"again")), ErrorClass::Service);
        assert_eq!(class(names.unpublish(service, b"wrong")), ErrorClass::Service);
        names.unpublish(service, port).unwrap();
        assert_eq!(class(names.unpublish(service, port)), ErrorClass::Service);
        assert_eq!(class(names.look_up(service)), ErrorClass::Name);
        assert_eq!(names.look_up(b"other").unwrap(), b"another port");
    }

    #[test]
    fn a_service_of_an_ended_process_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let names = PublishedNames::in_folder(folder.path().to_owned()).unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let ended = child.id();
        child.wait().unwrap();
        let left = format!("{} {ended}\nold port", runtime::machine_name());
        fs::write(names.file(b"service"), left).unwrap();
        names.publish(b"service", b"new port").unwrap();
        assert_eq!(names.look_up(b"service").unwrap(), b"new port");
    }

    #[test]
    fn one_of_several_processes_replaces_a_service_of_an_ended_process() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let ended = child.id();
        child.wait().unwrap();
        for round in 0..50 {
            let names = PublishedNames::in_folder(folder.path().to_owned()).unwrap();
            let service = format!("service {round}");
            let left = format!("{} {ended}\nold port", runtime::machine_name());
            fs::write(names.file(service.as_bytes()), left).unwrap();
            let publish = |port: u8| names.publish(service.as_bytes(), &[port]).map(|()| port);
            let published: Vec<u8> = thread::scope(|scope| {
                let publishers: Vec<_> =
                    (0..4).map(|port| scope.spawn(move || publish(port))).collect();
                publishers.into_iter().filter_map(|one| one.join().unwrap().ok()).collect()
            });
            assert_eq!(published.len(), 1, "round {round}: {published:?}");
            assert_eq!(names.look_up(service.as_bytes()).unwrap(), published);
        }
    }

    #[test]
    fn folders_that_others_control_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let open = folder.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        assert_eq!(class(PublishedNames::in_folder(open)), ErrorClass::Service);
        let link = folder.path().join("link");
        symlink(folder.path(), &link).unwrap();
        assert_eq!(class(PublishedNames::in_folder(link)), ErrorClass::Service);
    }
}
