//! The types of the C interface.

use std::ffi::c_int;
use std::fmt;

use base::ErrorClass;

use crate::dialect::{HandleLayout, HandleWord, handed, layout, received};

pub use crate::dialect::Status;

/// The kinds of handles. The numbers are part of the values of handles.
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

/// A handle. In C it is an integer or a pointer to an incomplete struct; its value is a number.
pub trait Handle: Passed + Eq + fmt::Debug + 'static {
    /// The kind of the objects that it names.
    const KIND: HandleKind;
    /// How the values of handles of this library are composed.
    const LAYOUT: HandleLayout = layout(Self::KIND);
    /// Returns the handle with this value.
    fn from_raw(raw: usize) -> Self;
    /// Returns the value of the handle.
    fn raw(self) -> usize;
}

/// A value that passes between the program and the library. Only handles may have different values
/// for programs of a dialect than inside the library; `received` and `handed` convert them.
pub trait Passed: Copy {
    /// Converts a value that the program passed to the library.
    #[inline(always)]
    fn received(self) -> Self {
        self
    }

    /// Converts a value that the library passes to the program.
    #[inline(always)]
    fn handed(self) -> Self {
        self
    }

    /// Returns the value as a word: the value of a handle or of an integer, or an address. Other
    /// values yield 0.
    fn word(self) -> usize;
}

impl HandleKind {
    /// Returns the class of errors about handles of this kind.
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
            // Calls of the tools interface have their own error codes.
            HandleKind::CvarHandle
            | HandleKind::PvarSession
            | HandleKind::PvarHandle
            | HandleKind::EventRegistration => ErrorClass::Arg,
        }
    }

    /// Returns the noun for objects of this kind in messages.
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
    ($name:ident($word:ty), $documentation:expr) => {
        #[doc = $documentation]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $name(pub $word);

        impl Handle for $name {
            const KIND: HandleKind = HandleKind::$name;

            #[inline(always)]
            fn from_raw(raw: usize) -> Self {
                Self(raw as $word)
            }

            #[inline(always)]
            fn raw(self) -> usize {
                self.0 as usize
            }
        }
    };
}

macro_rules! handles {
    ($word:ty: $($name:ident),*) => {
        $(handle!($name($word), concat!("`MPI_", stringify!($name), "`."));)*
    };
}

macro_rules! pass_as_the_dialect_says {
    ($($name:ident),*) => {
        $(impl Passed for $name {
            #[inline(always)]
            fn received(self) -> Self {
                Self::from_raw(received(self.raw(), Self::KIND))
            }

            #[inline(always)]
            fn handed(self) -> Self {
                Self::from_raw(handed(self.raw()))
            }

            #[inline(always)]
            fn word(self) -> usize {
                self.raw()
            }
        })*
    };
}

macro_rules! pass_as_they_are {
    ($($name:ty as |$value:ident| $word:expr),*) => {
        $(impl Passed for $name {
            #[inline(always)]
            fn word(self) -> usize {
                let $value = self;
                $word
            }
        })*
    };
}

handles!(HandleWord: Comm, Datatype, Errhandler, Group, Info, Message, Op, Request, Session, Win);
handles!(usize: File, CvarHandle, PvarSession, PvarHandle, EventRegistration);
handle!(PackedMessage(usize), "`combray_message`.");

pass_as_the_dialect_says! {
    Comm, Datatype, Errhandler, File, Group, Info, Message, Op, Request, Session, Win
}
pass_as_they_are! {
    u8 as |value| value.into(), c_int as |value| value as usize, i64 as |value| value as usize,
    u64 as |value| value as usize, isize as |value| value as usize, usize as |value| value,
    f64 as |_value| 0, Status as |_value| 0, CvarHandle as |handle| handle.0,
    PvarSession as |handle| handle.0, PvarHandle as |handle| handle.0,
    EventRegistration as |handle| handle.0, PackedMessage as |handle| handle.0,
    Enumeration as |number| number.0, EventInstance as |number| number.0
}

impl<T> Passed for *const T {
    #[inline(always)]
    fn word(self) -> usize {
        self.expose_provenance()
    }
}

impl<T> Passed for *mut T {
    #[inline(always)]
    fn word(self) -> usize {
        self.expose_provenance()
    }
}

/// `MPI_T_enum`: the number of an enumeration, from 1 on; 0 stands for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Enumeration(pub usize);

/// `MPI_T_event_instance`: identifies the event that a callback was called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct EventInstance(pub usize);
