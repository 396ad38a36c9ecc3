//! Errors of files: from those of the system to those that the program receives.

use std::io::{self, ErrorKind};

use base::{Error, ErrorClass, Result};
use memory::Buffer;
use sys::files::FileRefusal;
use wire::Codec;

/// Where a transfer failed, and why; also as aggregators send it to their clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub class: ErrorClass,
    /// The offset in bytes from the beginning of the file.
    pub offset: u64,
    pub reason: String,
}

wire::codec!(Fault { class, offset, reason });

impl Fault {
    /// The size of the message that reports an outcome.
    const BYTES: usize = 512;

    /// The largest length of a reason; the rest of the message has a fixed length.
    const REASON_BYTES_MAX: usize = Self::BYTES - 16;

    /// Returns the fault that the system reports for a transfer at this offset.
    #[cold]
    pub fn of(offset: u64, error: &io::Error) -> Self {
        let class = match class_of(error) {
            ErrorClass::BadFile => ErrorClass::Io,
            class => class,
        };
        Self { class, offset, reason: error.to_string() }
    }

    /// Returns a failed message as a fault at the beginning of the file.
    pub fn of_message(error: &Error) -> Self {
        Self { class: error.class, offset: 0, reason: error.detail.to_string() }
    }

    /// Keeps the fault with the lowest offset in the file.
    pub fn note(known: &mut Option<Self>, fault: Self) {
        if known.as_ref().is_none_or(|known| fault.offset < known.offset) {
            *known = Some(fault);
        }
    }

    /// Returns the message that reports the outcome; none means no error.
    pub fn message(fault_report: Option<&Self>) -> Buffer {
        let mut fault_report = fault_report.cloned();
        if let Some(fault) = &mut fault_report {
            let ends = fault.reason.char_indices().map(|(at, one)| at + one.len_utf8());
            let end = ends.take_while(|end| *end <= Self::REASON_BYTES_MAX).last();
            fault.reason.truncate(end.unwrap_or(0));
        }
        let message = Self::room();
        message.write(0, &fault_report.to_bytes());
        message
    }

    pub fn room() -> Buffer {
        Buffer::zeroed(Self::BYTES)
    }

    /// Decodes that message.
    pub fn of_verdict(message: &Buffer) -> Option<Self> {
        let mut bytes = [0; Self::BYTES];
        message.read(0, &mut bytes);
        let fault_report = Codec::read(&mut bytes.as_slice());
        fault_report.unwrap_or_else(|| {
            let reason = "an aggregator sent a malformed outcome".to_owned();
            Some(Self { class: ErrorClass::Intern, offset: 0, reason })
        })
    }

    /// Returns the error for the program; `bytes` were transferred before it.
    pub fn error(&self, verb: &str, name: &str, bytes: u64) -> Error {
        let Self { class, offset, reason } = self;
        let detail = format!(
            "could not {verb} \"{name}\" at byte {offset}: {reason}; {bytes} bytes were transferred before"
        );
        Error::new(*class, detail)
    }
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

/// Ignores errors that report failed processes, or that the communicator on which the file was
/// opened was revoked.
pub(crate) fn but_for_failed(outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(error) if FAILURES.contains(&error.class) => Ok(()),
        outcome => outcome,
    }
}

/// The classes of errors that report a failed process or a revoked communicator.
const FAILURES: [ErrorClass; 3] =
    [ErrorClass::ProcFailed, ErrorClass::ProcAborted, ErrorClass::Revoked];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_survive_the_way() {
        let fault = |reason: &str| Fault {
            class: ErrorClass::NoSpace,
            offset: 1 << 40,
            reason: reason.to_owned(),
        };
        assert_eq!(Fault::of_verdict(&Fault::message(None)), None);
        let short = fault("the disk is full");
        let back = Fault::of_verdict(&Fault::message(Some(&short)));
        assert_eq!(back, Some(short));
        let long = Fault::message(Some(&fault(&"ü".repeat(400))));
        assert_eq!(long.len(), Fault::BYTES);
        assert_eq!(Fault::of_verdict(&long), Some(fault(&"ü".repeat(248))));
        long.write(0, &[2]);
        assert_eq!(Fault::of_verdict(&long).unwrap().class, ErrorClass::Intern);
    }
}
