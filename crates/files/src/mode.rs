//! How a file is opened (section 14.2.1 of the MPI standard).

use base::{Error, ErrorClass, Result};

/// Whether a file is read, written, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessRights {
    /// `MPI_MODE_RDONLY`.
    Read,
    /// `MPI_MODE_WRONLY`.
    Write,
    /// `MPI_MODE_RDWR`.
    Both,
}

/// How a file is opened; all flags may be combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessMode {
    /// The permitted accesses.
    pub rights: AccessRights,
    /// Whether a file that does not exist is created.
    pub create: bool,
    /// Whether it is an error if the file exists.
    pub exclusive: bool,
    /// Whether the file is deleted when it is closed.
    pub delete_on_close: bool,
    /// Whether no other process has it open.
    pub unique: bool,
    /// Whether it is only read or written from its beginning to its end.
    pub sequential: bool,
    /// Whether all file pointers begin at its end.
    pub append: bool,
}

impl AccessMode {
    /// Checks that the flags of the mode can be combined.
    ///
    /// # Errors
    /// `Amode` if they cannot.
    pub fn check(&self) -> Result<()> {
        let wrong = |what| Err(Error::new(ErrorClass::Amode, what));
        match self.rights {
            AccessRights::Read if self.create || self.exclusive => wrong(
                "the mode is MPI_MODE_RDONLY with MPI_MODE_CREATE or MPI_MODE_EXCL: a file that is \
                 only read cannot be created",
            ),
            AccessRights::Both if self.sequential => wrong(
                "the mode is MPI_MODE_RDWR with MPI_MODE_SEQUENTIAL: a sequential file is either read \
                       or written",
            ),
            _ => Ok(()),
        }
    }

    pub(crate) fn reads(&self) -> bool {
        self.rights != AccessRights::Write
    }

    pub(crate) fn writes(&self) -> bool {
        self.rights != AccessRights::Read
    }

    /// Returns a number that identifies the mode.
    pub(crate) fn number(&self) -> u64 {
        let words = [
            self.create,
            self.exclusive,
            self.delete_on_close,
            self.unique,
            self.sequential,
            self.append,
        ];
        let rights = self.rights as u64;
        words.iter().fold(rights, |number, word| number << 1 | u64::from(*word))
    }
}
