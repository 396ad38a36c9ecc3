//! Creating and synchronizing windows (sections 12.2 and 12.5 of the standard).

use std::ffi::{c_int, c_void};
use std::rc::Rc;

use base::ErrorClass;
use memory::Buffer;
use mpi::group::Group;
use mpi::info::Info;
use mpi::{ChoiceKind, Destination};
use windows::{AfterFence, LockKind, Share, Window};

use crate::arguments::{
    Integer, KnownCommunicator, KnownWindow, Out, OutInteger, OutText, invalid,
};
use crate::c::{self, Win};
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::*;
use crate::handler_owner::HandlerOwner;
use crate::library::program_window::ProgramWindow;

use super::groups;
use super::requests::in_order;
use super::statuses::answer;

impl Call {
    /// Returns a target process of a window, or none (`MPI_PROC_NULL`).
    #[inline(always)]
    pub fn target(
        &self,
        position: usize,
        rank: c_int,
        win: &KnownWindow,
    ) -> CallOutcome<Destination> {
        let size = win.window.size();
        match u32::try_from(rank) {
            Ok(rank) if rank < size => Ok(Destination::Rank(rank)),
            _ if rank == MPI_PROC_NULL => Ok(Destination::Null),
            _ => Err(no_target(position, rank, size)),
        }
    }
}

#[cold]
fn no_target(position: usize, rank: c_int, size: u32) -> Failure {
    let detail = format!("is {rank}, but the window has {size} processes");
    Failure::argument(position, ErrorClass::Rank, detail)
}

fn hand_out(call: &Call, window: Rc<Window>, place: Out<Win>) {
    place.set(call.library.windows.insert(Rc::new(ProgramWindow::new(window))));
}

impl Call {
    /// Returns the size in bytes of a part of a window.
    ///
    /// # Errors
    /// `Size` if it is negative.
    pub fn window_size(&self, position: usize, size: impl Integer) -> CallOutcome<usize> {
        usize::try_from(size.wide()).map_err(|_| {
            let detail = format!("is {}, but must not be negative", size.wide());
            Failure::argument(position, ErrorClass::Size, detail)
        })
    }

    /// Returns the displacement unit of a part of a window.
    ///
    /// # Errors
    /// `Disp` if it is not positive.
    pub fn displacement_unit(&self, position: usize, unit: impl Integer) -> CallOutcome<usize> {
        let unit = unit.wide();
        usize::try_from(unit).ok().filter(|unit| *unit > 0).ok_or_else(|| {
            let detail = format!("is {unit}, but must be positive");
            Failure::argument(position, ErrorClass::Disp, detail)
        })
    }

    /// Returns memory of the program that other processes access, given by address and size.
    ///
    /// # Errors
    /// `Size` if the size is negative, `Base` for a null pointer with a nonzero size.
    ///
    /// # Safety
    /// `size` bytes lie there, in memory that other processes may use until it is no longer part of
    /// a window.
    pub unsafe fn window_memory(
        &self,
        position: usize,
        base: *mut c_void,
        size: impl Integer,
    ) -> CallOutcome<Buffer> {
        let size = self.window_size(position + 1, size)?;
        if base.is_null() && size > 0 {
            let detail = format!("is a null pointer, but {size} bytes are to be accessed there");
            return Err(Failure::argument(position, ErrorClass::Base, detail));
        }
        // SAFETY: the caller fulfils the safety requirements.
        let buffer = unsafe { Buffer::contiguous(base.cast(), size) };
        Ok(self.library.located(buffer, base.addr()))
    }
}

pub fn win_create(
    call: &Call,
    part: Buffer,
    unit: usize,
    info: Option<Rc<Info>>,
    comm: KnownCommunicator,
    win: Out<Win>,
) -> CallOutcome<()> {
    let process = &call.library.process;
    hand_out(call, Window::create(process, &comm, part, unit, info.as_deref())?, win);
    Ok(())
}

pub fn win_allocate(
    call: &Call,
    size: usize,
    unit: usize,
    info: Option<Rc<Info>>,
    comm: KnownCommunicator,
    baseptr: Out<usize>,
    win: Out<Win>,
) -> CallOutcome<()> {
    let share = Share { size, unit };
    let window = Window::allocate(&call.library.process, &comm, share, info.as_deref())?;
    baseptr.set(window.own_part().0);
    hand_out(call, window, win);
    Ok(())
}

pub fn win_allocate_shared(
    call: &Call,
    size: usize,
    unit: usize,
    info: Option<Rc<Info>>,
    comm: KnownCommunicator,
    baseptr: Out<usize>,
    win: Out<Win>,
) -> CallOutcome<()> {
    let share = Share { size, unit };
    let window = Window::allocate_shared(&call.library.process, &comm, share, info.as_deref())?;
    baseptr.set(window.own_part().0);
    hand_out(call, window, win);
    Ok(())
}

pub fn win_create_dynamic(
    call: &Call,
    info: Option<Rc<Info>>,
    comm: KnownCommunicator,
    win: Out<Win>,
) -> CallOutcome<()> {
    hand_out(call, Window::create_dynamic(&call.library.process, &comm, info.as_deref())?, win);
    Ok(())
}

pub fn win_shared_query(
    call: &Call,
    win: KnownWindow,
    rank: c_int,
    size: OutInteger,
    disp_unit: OutInteger,
    baseptr: Out<usize>,
) -> CallOutcome<()> {
    let rank = match call.target(2, rank, &win)? {
        Destination::Rank(rank) => Some(rank),
        Destination::Null => None,
    };
    // The part of a process that loads and stores do not reach is reported as empty.
    let nothing = (0, Share { size: 0, unit: win.window.own_part().1.unit });
    let (address, share) = win.window.shared_part(rank)?.unwrap_or(nothing);
    size.set(share.size as i64)?;
    disp_unit.set(share.unit as i64)?;
    baseptr.set(address);
    Ok(())
}

pub fn win_attach(call: &Call, win: KnownWindow, part: Buffer) -> CallOutcome<()> {
    Ok(win.window.attach(&call.library.process, part)?)
}

pub fn win_detach(call: &Call, win: KnownWindow, base: usize) -> CallOutcome<()> {
    Ok(win.window.detach(&call.library.process, base)?)
}

pub fn win_free(call: &Call, win: Out<Win>) -> CallOutcome<()> {
    let handle = win.value();
    let known = call.window(1, handle)?;
    known.window.free(&call.library.process, handle.0 as u64)?;
    drop(call.library.windows.forget(handle));
    win.set(MPI_WIN_NULL);
    Ok(())
}

pub fn win_get_group(call: &Call, win: KnownWindow, group: Out<c::Group>) -> CallOutcome<()> {
    groups::hand_out(call, Rc::clone(win.window.group()), group);
    Ok(())
}

pub fn win_set_name(_call: &Call, win: KnownWindow, win_name: &[u8]) -> CallOutcome<()> {
    win.window.set_name(&win_name[..win_name.len().min(MPI_MAX_OBJECT_NAME - 1)]);
    Ok(())
}

pub fn win_get_name(
    call: &Call,
    win: Win,
    win_name: OutText,
    resultlen: Out<c_int>,
) -> CallOutcome<()> {
    let name = match win {
        MPI_WIN_NULL => b"MPI_WIN_NULL".as_slice().into(),
        _ => call.window(1, win)?.window.name(),
    };
    resultlen.set(win_name.write(&name) as c_int);
    Ok(())
}

pub fn win_set_info(_call: &Call, win: KnownWindow, info: Option<Rc<Info>>) -> CallOutcome<()> {
    win.window.set_info(&info.unwrap_or_default());
    Ok(())
}

pub fn win_get_info(call: &Call, win: KnownWindow, info_used: Out<c::Info>) -> CallOutcome<()> {
    info_used.set(call.library.infos.insert(win.window.info()));
    Ok(())
}

pub fn win_fence(call: &Call, assert: c_int, win: KnownWindow) -> CallOutcome<()> {
    check_assertions(1, assert)?;
    let after = match assert & MPI_MODE_NOSUCCEED {
        0 => AfterFence::Epoch,
        _ => AfterFence::NoEpoch,
    };
    Ok(win.window.fence(&call.library.process, after)?)
}

pub fn win_post(call: &Call, group: Rc<Group>, assert: c_int, win: KnownWindow) -> CallOutcome<()> {
    check_assertions(2, assert)?;
    Ok(win.window.post(&call.library.process, &group)?)
}

pub fn win_start(
    call: &Call,
    group: Rc<Group>,
    assert: c_int,
    win: KnownWindow,
) -> CallOutcome<()> {
    check_assertions(2, assert)?;
    Ok(win.window.start(&call.library.process, &group)?)
}

pub fn win_complete(call: &Call, win: KnownWindow) -> CallOutcome<()> {
    Ok(win.window.complete(&call.library.process)?)
}

pub fn win_wait(call: &Call, win: KnownWindow) -> CallOutcome<()> {
    Ok(win.window.wait(&call.library.process)?)
}

pub fn win_test(call: &Call, win: KnownWindow, flag: Out<c_int>) -> CallOutcome<()> {
    let process = &call.library.process;
    let now = || {
        answer(call, win.window.test(process)?, flag);
        Ok(())
    };
    if !in_order::applies(call) {
        return now();
    }
    let is_over = || win.window.is_over(process);
    in_order::flagged(call, ChoiceKind::WindowTest, flag, is_over, now)
}

pub fn win_lock(
    call: &Call,
    lock_type: c_int,
    rank: c_int,
    assert: c_int,
    win: KnownWindow,
) -> CallOutcome<()> {
    let kind = match lock_type {
        MPI_LOCK_EXCLUSIVE => LockKind::Exclusive,
        MPI_LOCK_SHARED => LockKind::Shared,
        _ => {
            let detail =
                format!("is {lock_type}, but must be MPI_LOCK_EXCLUSIVE or MPI_LOCK_SHARED");
            return Err(Failure::argument(1, ErrorClass::Locktype, detail));
        }
    };
    check_assertions(3, assert)?;
    let Destination::Rank(target) = call.target(2, rank, &win)? else { return Ok(()) };
    Ok(win.window.lock(&call.library.process, target, needed(kind, assert))?)
}

pub fn win_unlock(call: &Call, rank: c_int, win: KnownWindow) -> CallOutcome<()> {
    let Destination::Rank(target) = call.target(1, rank, &win)? else { return Ok(()) };
    Ok(win.window.unlock(&call.library.process, target)?)
}

pub fn win_lock_all(call: &Call, assert: c_int, win: KnownWindow) -> CallOutcome<()> {
    check_assertions(1, assert)?;
    Ok(win.window.lock_all(&call.library.process, needed(LockKind::Shared, assert))?)
}

pub fn win_unlock_all(call: &Call, win: KnownWindow) -> CallOutcome<()> {
    Ok(win.window.unlock_all(&call.library.process)?)
}

pub fn win_flush(call: &Call, rank: c_int, win: KnownWindow) -> CallOutcome<()> {
    let Destination::Rank(target) = call.target(1, rank, &win)? else { return Ok(()) };
    Ok(win.window.flush(&call.library.process, Some(target))?)
}

pub fn win_flush_all(call: &Call, win: KnownWindow) -> CallOutcome<()> {
    Ok(win.window.flush(&call.library.process, None)?)
}

pub fn win_flush_local(call: &Call, rank: c_int, win: KnownWindow) -> CallOutcome<()> {
    let Destination::Rank(target) = call.target(1, rank, &win)? else { return Ok(()) };
    Ok(win.window.flush_local(&call.library.process, Some(target))?)
}

pub fn win_flush_local_all(call: &Call, win: KnownWindow) -> CallOutcome<()> {
    Ok(win.window.flush_local(&call.library.process, None)?)
}

pub fn win_sync(call: &Call, win: KnownWindow) -> CallOutcome<()> {
    win.window.sync(&call.library.process);
    Ok(())
}

/// Returns the lock to take; `None` if the program asserts that no other process has a conflicting
/// lock (`MPI_MODE_NOCHECK`). Programs use this assertion beside exclusive locks, too, and do not
/// expect to wait.
fn needed(kind: LockKind, assertions: c_int) -> Option<LockKind> {
    (assertions & MPI_MODE_NOCHECK == 0).then_some(kind)
}

/// Refuses unknown assertions. The library does not rely on the other known ones.
fn check_assertions(position: usize, assertions: c_int) -> CallOutcome<()> {
    const KNOWN: c_int = MPI_MODE_NOCHECK
        | MPI_MODE_NOSTORE
        | MPI_MODE_NOPUT
        | MPI_MODE_NOPRECEDE
        | MPI_MODE_NOSUCCEED;
    if assertions & !KNOWN == 0 {
        return Ok(());
    }
    let detail =
        format!("is {assertions}, which has bits other than the constants MPI_MODE_... of windows");
    Err(Failure::argument(position, ErrorClass::Assert, detail))
}

impl Call {
    /// Returns the window with this handle. Errors of the call go to its error handler.
    #[inline(always)]
    pub fn window(&self, position: usize, handle: Win) -> CallOutcome<KnownWindow> {
        let found = self.library.windows.get(handle);
        let object = found.ok_or_else(|| invalid(position, handle))?;
        self.set_handler_owner(HandlerOwner::Window(handle));
        Ok(KnownWindow { handle, object })
    }
}
