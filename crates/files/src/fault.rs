//! What went wrong with a file, as the system told it, and what the program hears.

use std::io::{self, ErrorKind};

use base::{Error, ErrorClass};
use sys::files::FileRefusal;

/// Where a transfer ended before its end, and why.
#[derive(Debug)]
pub(crate) struct Fault {
    /// In bytes from the beginning of the file.
    pub offset: u64,
    pub error: io::Error,
}

/// The class of an error of the system.
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

/// An error that names the file, and what was tried.
#[cold]
pub(crate) fn refused(what: &str, name: &str, error: &io::Error) -> Error {
    Error::new(class_of(error), format!("could not {what} \"{name}\": {error}"))
}

/// An error of a transfer.
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
