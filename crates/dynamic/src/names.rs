//! Published names of ports (section 11.9.4 of the MPI standard): a file for each name, in a folder
//! that only this user can write.
//!
//! The first line of a file has the machine and the number of the process that has published the
//! name, the second one its host and the length of the name of the port. That name follows, then
//! the name of the service. Another version may have another second line.

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

/// A service that a job of this user has published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedService {
    /// Its name.
    pub name: Vec<u8>,
    /// The host of the process that has published it.
    pub host: String,
    /// The number of that process.
    pub process: u32,
    /// What is known of that process.
    pub state: PublisherState,
}

/// What is known of a process that has published a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublisherState {
    /// It runs.
    Running,
    /// It has ended, and nobody accepts at the port.
    Ended,
    /// It is, or was, on another machine.
    Elsewhere,
}

/// What the file of a service contains.
struct ServiceFile {
    machine: String,
    process: u32,
    /// What follows the first line.
    rest: Vec<u8>,
}

/// The longest file that is read, in bytes. A port name has at most 255 bytes, the name of a
/// service any number.
const FILE_BYTES_MAX: u64 = 64 << 10;

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
            let host = sys::process::host_name();
            let head = format!("{} {own}\n{} {host}\n", runtime::machine_name(), port.len());
            draft.write_all(&[head.as_bytes(), port, service].concat())?;
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
        let port = found.and_then(|file| Some(file.parts()?.port.to_vec()));
        port.ok_or_else(|| self.unknown(ErrorClass::Name, service))
    }

    /// Removes a service (`MPI_Unpublish_name`).
    ///
    /// # Errors
    /// `Service` if it is not published with this port.
    pub fn unpublish(&self, service: &[u8], port: &[u8]) -> Result<()> {
        let file = self.file(service);
        let unknown = || self.unknown(ErrorClass::Service, service);
        let _lock = self.lock()?;
        let published = self.read(&file).ok_or_else(unknown)?;
        if published.parts().is_none_or(|parts| parts.port != port) {
            return Err(Error::new(
                ErrorClass::Service,
                "the service is published with another port name than the one given",
            ));
        }
        fs::remove_file(file).map_err(|_| unknown())
    }

    /// Removes a service, whatever its port.
    ///
    /// # Errors
    /// `Service` if it is not published.
    pub fn remove(&self, service: &[u8]) -> Result<()> {
        let _lock = self.lock()?;
        let removed = fs::remove_file(self.file(service));
        removed.map_err(|_| self.unknown(ErrorClass::Service, service))
    }

    /// Returns all services, in the order of their names.
    pub fn list(&self) -> Vec<PublishedService> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let files = entries.filter_map(|entry| self.read(&entry.path()));
        let mut services: Vec<PublishedService> = files
            .filter_map(|file| {
                let ServiceParts { name, host, .. } = file.parts()?;
                let (name, host) = (name.to_vec(), host.to_owned());
                Some(PublishedService { name, host, process: file.process, state: file.state() })
            })
            .collect();
        services.sort_by(|one, other| one.name.cmp(&other.name));
        // The draft of a file that is just being written.
        services.dedup();
        services
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether the process that has published a file was on this machine and has ended.
    fn is_left_over(&self, file: &Path) -> bool {
        self.read(file).is_some_and(|file| file.state() == PublisherState::Ended)
    }

    /// Reads a file of this user.
    fn read(&self, file: &Path) -> Option<ServiceFile> {
        let is_own =
            |metadata: &fs::Metadata| metadata.is_file() && metadata.uid() == sys::process::user();
        let opened = sys::files::open_as_expected(file, is_own).ok()?;
        let mut bytes = Vec::new();
        opened.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        let (line, rest) = line_of(&bytes)?;
        let (machine, process) = line.rsplit_once(' ')?;
        let (machine, process) = (machine.to_owned(), process.parse().ok()?);
        Some(ServiceFile { machine, process, rest: rest.to_vec() })
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

/// What follows the first line of a file.
struct ServiceParts<'a> {
    host: &'a str,
    port: &'a [u8],
    name: &'a [u8],
}

impl ServiceFile {
    /// Returns what follows the first line; none if another version has written it.
    fn parts(&self) -> Option<ServiceParts<'_>> {
        let (line, rest) = line_of(&self.rest)?;
        let (length, host) = line.split_once(' ')?;
        let (port, name) = rest.split_at_checked(length.parse().ok()?)?;
        Some(ServiceParts { host, port, name })
    }

    fn state(&self) -> PublisherState {
        if self.machine != runtime::machine_name() {
            return PublisherState::Elsewhere;
        }
        let has_ended = i32::try_from(self.process).is_ok_and(sys::process::has_ended);
        if has_ended { PublisherState::Ended } else { PublisherState::Running }
    }
}

/// Splits the first line off.
fn line_of(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 1..]))
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
    fn services_are_listed_with_the_state_of_their_processes() {
        let folder = tempfile::tempdir().unwrap();
        let names = PublishedNames::in_folder(folder.path().to_owned()).unwrap();
        let (one, other) = (&b"a service\nof two lines \xff"[..], &b"other"[..]);
        names.publish(other, b"a port\nof two lines").unwrap();
        names.publish(one, b"").unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let ended = child.id();
        child.wait().unwrap();
        let machine = runtime::machine_name();
        for (file, text) in [
            ("ended", format!("{machine} {ended}\n4 host\nportpast")),
            ("elsewhere", "another machine 7\n4 far\nportstrange".to_owned()),
            ("older", format!("{machine} {ended}\nport")),
            ("longer", format!("{machine} {ended}\n9 host\nport")),
            ("nonsense", "nonsense".to_owned()),
        ] {
            fs::write(folder.path().join(file), text).unwrap();
        }
        let (own, host) = (std::process::id(), sys::process::host_name());
        let service = |name: &[u8], host: &str, process, state| {
            let (name, host) = (name.to_vec(), host.to_owned());
            PublishedService { name, host, process, state }
        };
        let expected = [
            service(one, &host, own, PublisherState::Running),
            service(other, &host, own, PublisherState::Running),
            service(b"past", "host", ended, PublisherState::Ended),
            service(b"strange", "far", 7, PublisherState::Elsewhere),
        ];
        assert_eq!(names.list(), expected);
        assert_eq!(names.look_up(other).unwrap(), b"a port\nof two lines");
        names.remove(one).unwrap();
        assert_eq!(class(names.remove(one)), ErrorClass::Service);
        assert_eq!(names.list(), expected[1..]);
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
