//! The types of the C interface.

use std::ffi::c_int;
use std::fmt;

use base::ErrorClass;

/// The kinds of handles; the numbers are part of the handles' values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandleKind {
    PackedMessage = 0,
    Comm = 1,
    Datatype = 2,
    Errhandler = 3,
    Group = 4,
    Info = 5,
    Message = 6,
    Op = 7,
    Request = 8,
    Session = 9,
    Win = 10,
    File = 11,
    CvarHandle = 12,
    PvarSession = 13,
    PvarHandle = 14,
    EventRegistration = 15,
}

/// A handle: in C a pointer to an incomplete struct, in truth a number.
pub trait Handle: Copy + Eq + fmt::Debug + 'static {
    /// What it names.
    const KIND: HandleKind;
    /// The handle with this value.
    fn from_raw(raw: usize) -> Self;
    /// Its value.
    fn raw(self) -> usize;
}

impl HandleKind {
    /// The class of errors with such handles.
    pub fn error_class(self) -> ErrorClass {
        match self {
            HandleKind::Comm => ErrorClass::Comm,
            HandleKind::Datatype => ErrorClass::Type,
            HandleKind::Errhandler => ErrorClass::Errhandler,
            HandleKind::Group => ErrorClass::Group,
            HandleKind::Info => ErrorClass::Info,
            HandleKind::Message | HandleKind::PackedMessage | HandleKind::Request => {
                ErrorClass::Request
            }
            HandleKind::Op => ErrorClass::Op,
            HandleKind::Session => ErrorClass::Session,
            HandleKind::Win => ErrorClass::Win,
            HandleKind::File => ErrorClass::File,
            // Calls of the tools interface have codes of their own.
            HandleKind::CvarHandle
            | HandleKind::PvarSession
            | HandleKind::PvarHandle
            | HandleKind::EventRegistration => ErrorClass::Arg,
        }
    }

    /// What people call it.
    pub fn noun(self) -> &'static str {
        match self {
            HandleKind::Comm => "communicator",
            HandleKind::Datatype => "datatype",
            HandleKind::Errhandler => "error handler",
            HandleKind::Group => "group",
            HandleKind::Info => "info object",
            HandleKind::Message => "message",
            HandleKind::PackedMessage => "packed message",
            HandleKind::Op => "operation",
            HandleKind::Request => "request",
            HandleKind::Session => "session",
            HandleKind::Win => "window",
            HandleKind::File => "file",
            HandleKind::CvarHandle => "handle of a control variable",
            HandleKind::PvarSession => "session of performance variables",
            HandleKind::PvarHandle => "handle of a performance variable",
            HandleKind::EventRegistration => "registration of an event",
        }
    }
}

macro_rules! handle {
    ($name:ident, $documentation:expr) => {
        #[doc = $documentation]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $name(pub usize);

        impl Handle for $name {
            const KIND: HandleKind = HandleKind::$name;

            #[inline(always)]
            fn from_raw(raw: usize) -> Self {
                Self(raw)
            }

            #[inline(always)]
            fn raw(self) -> usize {
                self.0
            }
        }
    };
}

macro_rules! handles {
    ($($name:ident),*) => {
        $(handle!($name, concat!("`MPI_", stringify!($name), "`."));)*
    };
}

handles!(Comm, Datatype, Errhandler, Group, Info, Message, Op, Request, Session, Win, File);
handles!(CvarHandle, PvarSession, PvarHandle, EventRegistration);
handle!(PackedMessage, "`combray_message`.");

/// `MPI_T_enum`: the number of an enumeration, from 1 on; 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Enumeration(pub usize);

/// `MPI_T_event_instance`: names the event that a callback was called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct EventInstance(pub usize);

/// `MPI_Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Status {
    /// `MPI_SOURCE`.
    pub source: c_int,
    /// `MPI_TAG`.
    pub tag: c_int,
    /// `MPI_ERROR`.
    pub error: c_int,
    /// `MPI_internal`: bytes of data in two halves, whether cancelled.
    pub internal: [c_int; 5],
}

const _: () = assert!(size_of::<Status>() == 32);

impl Status {
    /// A status with the given envelope, of a message with `bytes` bytes that was not
    /// cancelled.
    #[inline]
    pub fn new(source: c_int, tag: c_int, error: c_int, bytes: u64) -> Self {
        let mut status = Self { source, tag, error, internal: [0; 5] };
        status.set_bytes(bytes);
        status
    }

    /// The bytes of data in the message.
    pub fn bytes(&self) -> u64 {
        u64::from(self.internal[0] as u32) | u64::from(self.internal[1] as u32) << 32
    }

    /// Changes the bytes of data.
    #[inline]
    pub fn set_bytes(&mut self, bytes: u64) {
        self.internal[0] = bytes as u32 as c_int;
        self.internal[1] = (bytes >> 32) as c_int;
    }

    /// Whether the operation was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.internal[2] != 0
    }

    /// Changes whether the operation was cancelled.
    #[inline]
    pub fn set_cancelled(&mut self, cancelled: bool) {
        self.internal[2] = cancelled.into();
    }
}
