//! Errors, in the classes of the MPI standard (section 9.4).

use std::borrow::Cow;
use std::fmt;

/// A result whose error is ready to be shown to the user.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of one operation: its class, and a sentence for the user.
///
/// The sentence names the wrong value and the remedy; the C interface adds the names of the call
/// and of the argument, which it knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The class of the MPI standard for this error.
    pub class: ErrorClass,
    /// The description of the error, as a sentence without the name of the call.
    pub detail: Cow<'static, str>,
}

impl Error {
    /// Makes an error of `class`, explained by `detail`.
    #[cold]
    pub fn new(class: ErrorClass, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { class, detail: detail.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Error {}

macro_rules! error_classes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal),* $(,)?) => {
        /// The error classes of the MPI standard (section 9.4), and the classes for programs that
        /// survive failures. Their numbers are known to the C interface only.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorClass {
            $($(#[$doc])* $variant,)*
            /// A class or code that the program added; the number is the program's.
            Added(i32),
        }

        impl ErrorClass {
            /// Every class except those that the program added.
            pub const ALL: &[ErrorClass] = &[$(ErrorClass::$variant),*];

            /// Returns the name of the class in the C interface, such as `MPI_ERR_RANK`.
            pub fn name(self) -> &'static str {
                match self {
                    $(ErrorClass::$variant => $name,)*
                    ErrorClass::Added(_) => "an error code added by the program",
                }
            }
        }
    };
}

error_classes! {
    /// Invalid buffer pointer.
    Buffer = "MPI_ERR_BUFFER",
    /// Invalid count argument.
    Count = "MPI_ERR_COUNT",
    /// Invalid datatype argument.
    Type = "MPI_ERR_TYPE",
    /// Invalid tag argument.
    Tag = "MPI_ERR_TAG",
    /// Invalid communicator.
    Comm = "MPI_ERR_COMM",
    /// Invalid rank.
    Rank = "MPI_ERR_RANK",
    /// Invalid request.
    Request = "MPI_ERR_REQUEST",
    /// Invalid root.
    Root = "MPI_ERR_ROOT",
    /// Invalid group.
    Group = "MPI_ERR_GROUP",
    /// Invalid reduction operation.
    Op = "MPI_ERR_OP",
    /// Invalid topology.
    Topology = "MPI_ERR_TOPOLOGY",
    /// Invalid dimension argument.
    Dims = "MPI_ERR_DIMS",
    /// Invalid argument of some other kind.
    Arg = "MPI_ERR_ARG",
    /// Unknown error.
    Unknown = "MPI_ERR_UNKNOWN",
    /// Message truncated on receive.
    Truncate = "MPI_ERR_TRUNCATE",
    /// Known error not in this list.
    Other = "MPI_ERR_OTHER",
    /// Internal error of the library.
    Intern = "MPI_ERR_INTERN",
    /// Pending request.
    Pending = "MPI_ERR_PENDING",
    /// The error code is in the status.
    InStatus = "MPI_ERR_IN_STATUS",
    /// Permission denied.
    Access = "MPI_ERR_ACCESS",
    /// Invalid access mode of a file.
    Amode = "MPI_ERR_AMODE",
    /// Invalid assertion argument.
    Assert = "MPI_ERR_ASSERT",
    /// Invalid file name.
    BadFile = "MPI_ERR_BAD_FILE",
    /// Invalid base of a window.
    Base = "MPI_ERR_BASE",
    /// A conversion function of the program failed.
    Conversion = "MPI_ERR_CONVERSION",
    /// Invalid displacement.
    Disp = "MPI_ERR_DISP",
    /// The data representation is already defined.
    DupDatarep = "MPI_ERR_DUP_DATAREP",
    /// The file exists.
    FileExists = "MPI_ERR_FILE_EXISTS",
    /// The file is in use.
    FileInUse = "MPI_ERR_FILE_IN_USE",
    /// Invalid file handle.
    File = "MPI_ERR_FILE",
    /// The info key is too long.
    InfoKey = "MPI_ERR_INFO_KEY",
    /// The info key is not defined.
    InfoNokey = "MPI_ERR_INFO_NOKEY",
    /// The info value is too long.
    InfoValue = "MPI_ERR_INFO_VALUE",
    /// Invalid info argument.
    Info = "MPI_ERR_INFO",
    /// Other input or output error.
    Io = "MPI_ERR_IO",
    /// Invalid key of an attribute.
    Keyval = "MPI_ERR_KEYVAL",
    /// Invalid kind of lock.
    Locktype = "MPI_ERR_LOCKTYPE",
    /// Invalid service name.
    Name = "MPI_ERR_NAME",
    /// Memory exhausted.
    NoMem = "MPI_ERR_NO_MEM",
    /// A collective argument is not the same on all processes.
    NotSame = "MPI_ERR_NOT_SAME",
    /// Not enough space.
    NoSpace = "MPI_ERR_NO_SPACE",
    /// The file does not exist.
    NoSuchFile = "MPI_ERR_NO_SUCH_FILE",
    /// Invalid port name.
    Port = "MPI_ERR_PORT",
    /// Quota exceeded.
    Quota = "MPI_ERR_QUOTA",
    /// Read-only file or file system.
    ReadOnly = "MPI_ERR_READ_ONLY",
    /// Memory cannot be attached to the window.
    RmaAttach = "MPI_ERR_RMA_ATTACH",
    /// Conflicting accesses to a window.
    RmaConflict = "MPI_ERR_RMA_CONFLICT",
    /// The target memory is not part of the window.
    RmaRange = "MPI_ERR_RMA_RANGE",
    /// The memory cannot be shared.
    RmaShared = "MPI_ERR_RMA_SHARED",
    /// Wrong synchronization of one-sided calls.
    RmaSync = "MPI_ERR_RMA_SYNC",
    /// Invalid service name in a lookup.
    Service = "MPI_ERR_SERVICE",
    /// Invalid size argument.
    Size = "MPI_ERR_SIZE",
    /// Processes cannot be spawned.
    Spawn = "MPI_ERR_SPAWN",
    /// Unsupported data representation.
    UnsupportedDatarep = "MPI_ERR_UNSUPPORTED_DATAREP",
    /// Unsupported operation.
    UnsupportedOperation = "MPI_ERR_UNSUPPORTED_OPERATION",
    /// Invalid window.
    Win = "MPI_ERR_WIN",
    /// Invalid flavor of window.
    RmaFlavor = "MPI_ERR_RMA_FLAVOR",
    /// A process that takes part has ended.
    ProcAborted = "MPI_ERR_PROC_ABORTED",
    /// The value does not fit in the argument.
    ValueTooLarge = "MPI_ERR_VALUE_TOO_LARGE",
    /// Invalid session.
    Session = "MPI_ERR_SESSION",
    /// Invalid error handler.
    Errhandler = "MPI_ERR_ERRHANDLER",
    /// Invalid use of the binary interface.
    Abi = "MPI_ERR_ABI",
    /// A process that takes part has failed.
    ProcFailed = "MPIX_ERR_PROC_FAILED",
    /// A process has failed that could have sent the message of a receive from any source.
    ProcFailedPending = "MPIX_ERR_PROC_FAILED_PENDING",
    /// The communicator was revoked.
    Revoked = "MPIX_ERR_REVOKED",
}
