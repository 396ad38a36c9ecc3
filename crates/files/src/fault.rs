//! Errors of files: from those of the system to those that the program receives.

use std::io::{self, ErrorKind};

use base::{Error, ErrorClass};
use sys::files::FileRefusal;

/// Where a transfer failed, and why.
#[derive(Debug)]
pub(crate) struct Fault {
    /// The offset in bytes from the beginning of the file.
    pub offset: u64,
    pub error: io::Error,
}

/// Returns the class of an error of the system.
pub(crate) fn class_of(error: &io::Error) -> ErrorClass {
    match (error.kind(), FileRefusal::of(error)) {
        (_, FileRefusal::NoSpace) => ErrorClass::NoSpace,
        (_, FileRefusal::Quota) => ErrorClass::Quota,
        (_, FileRefusal::Name) => ErrorClass::BadFile,
        (_, FileRefusal::Busy) => ErrorClass::FileInUse,
        (_, FileRefusal::Unsupported) => ErrorClass::UnsupportedOperation,
        (ErrorKind::NotFound, _) => ErrorClass::NoSuchFile,
        (ErrorKind::AlreadyExists, _) => ErrorClass::FileExists,
        (ErrorKind::PermissionDenied, _) => ErrorClass::Access,
        (ErrorKind::ReadOnlyFilesystem, _) => ErrorClass::ReadOnly,
        (ErrorKind::InvalidInput, _) => ErrorClass::BadFile,
        _ => ErrorClass::Io,
    }
}

/// Returns an error that names the file and the failed operation.
#[cold]
pub(crate) fn refused(what: &str, name: &str, error: &io::Error) -> Error {
    Error::new(class_of(error), format!("could not {what} \"{name}\": {error}"))
}

/// Returns an error of a transfer.
#[cold]
pub(crate) fn interrupted(verb: &str, name: &str, fault: &Fault, bytes: u64) -> Error {
    let Fault { offset, error } = fault;
    let class = match class_of(error) {
        ErrorClass::BadFile => ErrorClass::Io,
        class => class,
    };
    let detail = format!(
        "could not {verb} \"{name}\" at byte {offset}: {error}; {bytes} bytes came before that"
    );
    Error::new(class, detail)
}
