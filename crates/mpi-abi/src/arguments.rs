//! Checked arguments, which the generated entry points make from the raw arguments of the program.

mod buffers;
mod constants;
mod inputs;
mod integers;
mod operations;
mod outputs;
mod spawning;
mod tools;

use std::borrow::Cow;
use std::ffi::c_int;
use std::ops::Deref;
use std::rc::Rc;

use base::ErrorClass;
use datatype::{BorrowedDatatype, Datatype};
use mpi::collective::Root;
use mpi::communicator::Communicator;
use mpi::error_handler::ErrorHandler;
use mpi::group::Group;
use mpi::info::Info;
use mpi::session::Session;
use mpi::{Destination, MessageSource};

use crate::c::{self, Comm, Handle};
use crate::call::{Call, VisitingCall};
use crate::environment_info;
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::{
    MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, MPI_COMM_WORLD, MPI_GROUP_EMPTY, MPI_INFO_ENV,
    MPI_INFO_NULL, MPI_PROC_NULL, MPI_ROOT,
};
use crate::handler_owner::HandlerOwner;
use crate::handles::describe;
use crate::library::lending_table::Lent;
use crate::library::program_window::ProgramWindow;
use crate::phase;

pub use buffers::{
    BlocksArgument, ElementsArgument, TypeArgument, buffer_at, check_address, is_in_place,
    plain_buffer_at,
};
pub use constants::OutConstant;
pub use inputs::{Callback, HandleList, Packed};
pub use integers::{
    ArrayLength, Integer, IntegerSource, Integers, OpenIntegers, OutInteger, OutIntegers,
};
pub use operations::KnownOperation;
pub use outputs::{Out, OutList, OutSizedText, OutStatus, OutStatuses, OutText, with_zero};
pub use spawning::OutErrorCodes;
pub use tools::{MaybeArray, MaybeOut, ToolText};

/// An object together with the handle that the program passed for it.
#[derive(Clone, Debug)]
pub struct NamedObject<H, T> {
    /// The handle.
    pub handle: H,
    /// The object.
    pub object: T,
}

/// A communicator of the program.
pub type KnownCommunicator<'c> = NamedObject<Comm, LentCommunicator<'c>>;
/// A reference to a communicator.
type LentCommunicator<'c> = Lent<'c, Communicator>;
/// A session of the program.
pub type KnownSession = NamedObject<c::Session, Rc<Session>>;
/// A window of the program.
pub type KnownWindow = NamedObject<c::Win, Rc<ProgramWindow>>;
/// A file of the program.
pub type KnownFile = NamedObject<c::File, Rc<files::File>>;
/// A datatype of the program.
pub type KnownDatatype = NamedObject<c::Datatype, BorrowedDatatype>;

impl<H, T> Deref for NamedObject<H, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.object
    }
}

impl VisitingCall<'_> {
    /// Returns the communicator with this handle, which must be usable for messages. Errors of the
    /// call go to its error handler.
    #[inline(always)]
    pub fn communicator(
        &self,
        position: usize,
        handle: Comm,
    ) -> CallOutcome<KnownCommunicator<'_>> {
        let object = match handle {
            MPI_COMM_WORLD => self.usable_world(position)?,
            _ => match self.library.communicators.lend(handle, &self.scope) {
                Some(recent) if recent.is_ready() => recent,
                _ => self.other_communicator(position, handle)?,
            },
        };
        self.set_handler_owner(HandlerOwner::Communicator(handle));
        Ok(NamedObject { handle, object })
    }

    #[inline(always)]
    fn usable_world(&self, position: usize) -> CallOutcome<LentCommunicator<'_>> {
        match self.library.process.world_if_usable() {
            Some(world) => Ok(LentCommunicator::lasting(world)),
            None => {
                let world = self.world(position)?;
                Err(self.not_ready(position, MPI_COMM_WORLD, &world))
            }
        }
    }

    #[inline(never)]
    fn other_communicator(
        &self,
        position: usize,
        handle: Comm,
    ) -> CallOutcome<LentCommunicator<'_>> {
        let found = self.known_communicator(position, handle)?;
        if found.is_ready() { Ok(found) } else { Err(self.not_ready(position, handle, &found)) }
    }

    /// Returns the communicator with this handle, which may be revoked: for calls that need no
    /// messages among all processes of the communicator.
    pub fn opened_communicator(
        &self,
        position: usize,
        handle: Comm,
    ) -> CallOutcome<KnownCommunicator<'_>> {
        let found = self.any_communicator(position, handle)?;
        match found.is_ready() || found.is_revoked() {
            true => Ok(found),
            false => Err(self.not_ready(position, handle, &found)),
        }
    }

    /// Returns the communicator with this handle, for calls that need its properties only and send
    /// no messages. It may still be incomplete (`MPI_Comm_idup`), or revoked.
    #[inline(always)]
    pub fn any_communicator(
        &self,
        position: usize,
        handle: Comm,
    ) -> CallOutcome<KnownCommunicator<'_>> {
        let object = match handle {
            MPI_COMM_WORLD => self.world(position)?,
            MPI_COMM_SELF => self.alone(position)?,
            _ => match self.library.communicators.lend(handle, &self.scope) {
                Some(recent) => recent,
                None => self.known_communicator(position, handle)?,
            },
        };
        self.set_handler_owner(HandlerOwner::Communicator(handle));
        Ok(NamedObject { handle, object })
    }
}

impl Call {
    /// Returns the communicator with this handle, which may be incomplete or revoked. The result
    /// may outlive the call. Errors of the call go to its error handler.
    pub fn counted_communicator(
        &self,
        position: usize,
        handle: Comm,
    ) -> CallOutcome<KnownCommunicator<'static>> {
        let object = match handle {
            MPI_COMM_WORLD => self.world(position)?,
            _ => self.known_communicator(position, handle)?,
        };
        self.set_handler_owner(HandlerOwner::Communicator(handle));
        Ok(NamedObject { handle, object })
    }

    /// Returns the failure for a communicator that cannot be used for messages. If it is revoked,
    /// the error goes to its error handler.
    #[cold]
    fn not_ready(&self, position: usize, handle: Comm, found: &Communicator) -> Failure {
        if found.is_revoked() {
            self.set_handler_owner(HandlerOwner::Communicator(handle));
            return mpi::revoked().into();
        }
        let detail =
            "is still being made; complete the request of MPI_Comm_idup or MPIX_Comm_ishrink first";
        Failure::argument(position, ErrorClass::Comm, detail)
    }

    /// Returns the rank of this process in the communicator with this handle. The caller need not
    /// have registered its entry into the library.
    #[inline(always)]
    pub fn rank_in(&self, position: usize, handle: Comm) -> CallOutcome<u32> {
        self.looked_up(position, handle, Communicator::rank)
    }

    /// Returns the number of processes of the communicator with this handle. The caller need not
    /// have registered its entry into the library.
    #[inline(always)]
    pub fn size_of(&self, position: usize, handle: Comm) -> CallOutcome<u32> {
        self.looked_up(position, handle, |communicator| communicator.size())
    }

    /// Returns a property of a communicator that `inspect` reads. The property must be constant.
    #[inline(always)]
    fn looked_up(
        &self,
        position: usize,
        handle: Comm,
        inspect: fn(&Communicator) -> u32,
    ) -> CallOutcome<u32> {
        let found = match handle {
            MPI_COMM_WORLD => inspect(&*self.world(position)?),
            // SAFETY: a communicator's rank and size only read its data.
            _ => match unsafe { self.library.communicators.with_object(handle, inspect) } {
                Some(found) => found,
                None => self.looked_up_inside(position, handle, inspect)?,
            },
        };
        self.set_handler_owner(HandlerOwner::Communicator(handle));
        Ok(found)
    }

    #[inline(never)]
    fn looked_up_inside(
        &self,
        position: usize,
        handle: Comm,
        inspect: fn(&Communicator) -> u32,
    ) -> CallOutcome<u32> {
        let _visit = phase::enter_library(self);
        Ok(inspect(&*self.known_communicator(position, handle)?))
    }

    #[inline(always)]
    fn world(&self, position: usize) -> CallOutcome<LentCommunicator<'static>> {
        match self.library.process.world_if_any() {
            Some(world) => Ok(LentCommunicator::lasting(world)),
            None => Err(no_world(position)),
        }
    }

    #[inline(always)]
    fn alone(&self, position: usize) -> CallOutcome<LentCommunicator<'static>> {
        match self.library.process.alone_if_any() {
            Some(alone) => Ok(LentCommunicator::lasting(alone)),
            None => Err(no_world(position)),
        }
    }

    #[inline(never)]
    fn known_communicator(
        &self,
        position: usize,
        handle: Comm,
    ) -> CallOutcome<LentCommunicator<'static>> {
        let communicators = &self.library.communicators;
        if handle == MPI_COMM_SELF {
            let Some(alone) = self.library.process.alone_if_any() else {
                return Err(no_world(position));
            };
            communicators.lend_lasting(handle, alone, |alone| alone.is_ready());
            return Ok(LentCommunicator::lasting(alone));
        }
        let found = communicators.get_to_lend(handle, |found| found.is_ready());
        found.map(LentCommunicator::counted).ok_or_else(|| invalid(position, handle))
    }

    /// Returns the datatype with this handle.
    #[inline]
    pub fn datatype(&self, position: usize, handle: c::Datatype) -> CallOutcome<KnownDatatype> {
        match self.library.predefined.named(handle) {
            Some(named) => {
                Ok(NamedObject { handle, object: Cow::Borrowed(Datatype::named(named)) })
            }
            None => self.derived_datatype(position, handle),
        }
    }

    #[inline(never)]
    fn derived_datatype(&self, position: usize, handle: c::Datatype) -> CallOutcome<KnownDatatype> {
        match self.library.datatypes.get(handle) {
            Some(object) => Ok(NamedObject { handle, object: Cow::Owned(object) }),
            None => Err(invalid(position, handle)),
        }
    }

    /// Returns the group with this handle.
    pub fn group(&self, position: usize, handle: c::Group) -> CallOutcome<Rc<Group>> {
        if handle == MPI_GROUP_EMPTY {
            return Ok(Rc::clone(&self.library.predefined.empty_group));
        }
        self.library.groups.get(handle).ok_or_else(|| invalid(position, handle))
    }

    /// Returns the operation with this handle.
    #[inline]
    pub fn operation(&self, position: usize, handle: c::Op) -> CallOutcome<KnownOperation> {
        if let Some(operation) = self.library.predefined.operation(handle) {
            return Ok(KnownOperation::Predefined(operation));
        }
        let found = self.library.operations.get(handle);
        found.map(KnownOperation::User).ok_or_else(|| invalid(position, handle))
    }

    /// Returns the info object with this handle.
    pub fn info(&self, position: usize, handle: c::Info) -> CallOutcome<Rc<Info>> {
        if handle == MPI_INFO_ENV {
            return Ok(environment_info::of_this_process(&self.library.process));
        }
        self.library.infos.get(handle).ok_or_else(|| invalid(position, handle))
    }

    /// Returns the info object with this handle, where the standard allows `MPI_INFO_NULL`.
    pub fn optional_info(&self, position: usize, handle: c::Info) -> CallOutcome<Option<Rc<Info>>> {
        if handle == MPI_INFO_NULL { Ok(None) } else { self.info(position, handle).map(Some) }
    }

    /// Returns the session with this handle. Errors of the call go to its error handler.
    pub fn session(&self, position: usize, handle: c::Session) -> CallOutcome<KnownSession> {
        let found = self.library.sessions.get(handle);
        let object = found.ok_or_else(|| invalid(position, handle))?;
        self.set_handler_owner(HandlerOwner::Session(handle));
        Ok(NamedObject { handle, object })
    }

    /// Returns the error handler with this handle.
    pub fn error_handler(
        &self,
        position: usize,
        handle: c::Errhandler,
    ) -> CallOutcome<Rc<ErrorHandler>> {
        self.library.error_handler(handle).ok_or_else(|| invalid(position, handle))
    }

    /// Returns the destination of a message.
    #[inline]
    pub fn destination(
        &self,
        position: usize,
        rank: c_int,
        communicator: &Communicator,
    ) -> CallOutcome<Destination> {
        if (rank as u32) < communicator.peer_count() && rank >= 0 {
            Ok(Destination::Rank(rank as u32))
        } else if rank == MPI_PROC_NULL {
            Ok(Destination::Null)
        } else {
            Err(no_such_rank(position, ErrorClass::Rank, rank, communicator))
        }
    }

    /// Returns the source of a message.
    #[inline]
    pub fn source(
        &self,
        position: usize,
        rank: c_int,
        communicator: &Communicator,
    ) -> CallOutcome<MessageSource> {
        if (rank as u32) < communicator.peer_count() && rank >= 0 {
            return Ok(MessageSource::Rank(rank as u32));
        }
        match rank {
            MPI_ANY_SOURCE => Ok(MessageSource::Any),
            MPI_PROC_NULL => Ok(MessageSource::Null),
            _ => Err(no_such_rank(position, ErrorClass::Rank, rank, communicator)),
        }
    }

    /// Returns the root of a collective operation.
    #[inline]
    pub fn root(
        &self,
        position: usize,
        rank: c_int,
        communicator: &Communicator,
    ) -> CallOutcome<Root> {
        if (rank as u32) < communicator.peer_count() && rank >= 0 {
            return Ok(Root::Rank(rank as u32));
        }
        match rank {
            MPI_ROOT if communicator.remote().is_some() => Ok(Root::Here),
            MPI_PROC_NULL if communicator.remote().is_some() => Ok(Root::Beside),
            _ => Err(no_such_rank(position, ErrorClass::Root, rank, communicator)),
        }
    }

    /// Returns the root of an operation on a communicator that must have one group.
    pub fn root_inside(
        &self,
        position: usize,
        rank: c_int,
        communicator: &Communicator,
    ) -> CallOutcome<u32> {
        if communicator.remote().is_some() {
            let detail = "is an intercommunicator, but must be an intracommunicator";
            return Err(Failure::argument(position + 1, ErrorClass::Comm, detail));
        }
        match u32::try_from(rank) {
            Ok(root) if root < communicator.size() => Ok(root),
            _ => Err(no_such_rank(position, ErrorClass::Root, rank, communicator)),
        }
    }

    /// Returns the tag of a message to send.
    #[inline]
    pub fn send_tag(&self, position: usize, tag: c_int) -> CallOutcome<i32> {
        if tag >= 0 { Ok(tag) } else { Err(wrong_tag(position, tag)) }
    }

    /// Returns the tag of a message to receive; `None` for any.
    #[inline]
    pub fn receive_tag(&self, position: usize, tag: c_int) -> CallOutcome<Option<i32>> {
        match tag {
            0.. => Ok(Some(tag)),
            MPI_ANY_TAG => Ok(None),
            _ => Err(wrong_tag(position, tag)),
        }
    }

    /// Returns a count, which must not be negative.
    #[inline]
    pub fn count(&self, position: usize, count: impl Integer) -> CallOutcome<usize> {
        let count = count.wide();
        usize::try_from(count).map_err(|_| negative(position, ErrorClass::Count, count))
    }

    /// Returns the length of a list, or a position in a list, which must not be negative.
    pub fn length(&self, position: usize, length: impl Integer) -> CallOutcome<usize> {
        let length = length.wide();
        usize::try_from(length).map_err(|_| negative(position, ErrorClass::Arg, length))
    }
}

/// Returns the failure for an argument whose handle names no object.
#[cold]
pub fn invalid<H: Handle>(position: usize, handle: H) -> Failure {
    Failure::argument(position, H::KIND.error_class(), describe(handle.raw(), H::KIND))
}

#[cold]
fn no_world(position: usize) -> Failure {
    let detail = "exists only between MPI_Init and MPI_Finalize: sessions do not have it";
    Failure::argument(position, ErrorClass::Comm, detail)
}

/// Returns the failure for an argument that must not be a null pointer.
#[cold]
pub fn null(position: usize) -> Failure {
    Failure::argument(position, ErrorClass::Arg, "is a null pointer")
}

#[cold]
fn no_such_rank(
    position: usize,
    class: ErrorClass,
    rank: c_int,
    communicator: &Communicator,
) -> Failure {
    let shown = match rank {
        MPI_ANY_SOURCE => format!("MPI_ANY_SOURCE ({rank})"),
        MPI_PROC_NULL => format!("MPI_PROC_NULL ({rank})"),
        MPI_ROOT => format!("MPI_ROOT ({rank})"),
        _ => rank.to_string(),
    };
    let detail = match communicator.peer_count() {
        1 => format!("is {shown}, but the communicator has 1 process (rank 0)"),
        size => format!(
            "is {shown}, but the communicator has {size} processes (ranks 0 to {})",
            size - 1
        ),
    };
    Failure::argument(position, class, detail)
}

#[cold]
fn wrong_tag(position: usize, tag: c_int) -> Failure {
    let shown = match tag {
        MPI_ANY_TAG => format!("MPI_ANY_TAG ({tag})"),
        _ => tag.to_string(),
    };
    let detail = format!("is {shown}, but must be a tag from 0 to {}", c_int::MAX);
    Failure::argument(position, ErrorClass::Tag, detail)
}

#[cold]
fn negative(position: usize, class: ErrorClass, count: i64) -> Failure {
    Failure::argument(position, class, format!("is {count}, but must not be negative"))
}
