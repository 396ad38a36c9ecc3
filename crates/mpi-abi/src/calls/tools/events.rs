//! Events and their sources (section 15.3.8 of the standard).
//!
//! Events are recorded in the journal, and delivered to tools at the end of the call during which
//! they happened. There callbacks may do whatever a program may do.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

use mpi::info::Info;
use runtime::instruments::journal::{EVENTS, Occurrence};

use super::{ToolOutcome, ToolState, Tools, at, position, verbosity_of};
use crate::arguments::{Callback, MaybeArray, MaybeOut, Out, ToolText};
use crate::c::{self, Datatype, Enumeration, EventInstance, EventRegistration};
use crate::calls::tools::enumerations::of_event;
use crate::generated::constants::*;
use crate::phase;

/// `MPI_T_event_cb_function`.
type EventFunction = unsafe extern "C" fn(EventInstance, EventRegistration, c_int, *mut c_void);
/// `MPI_T_event_free_cb_function`.
type FreeFunction = unsafe extern "C" fn(EventRegistration, c_int, *mut c_void);
/// `MPI_T_event_dropped_cb_function`.
type DroppedFunction = unsafe extern "C" fn(i64, EventRegistration, c_int, c_int, *mut c_void);

/// The registration of a tool for a kind of event.
#[derive(Debug)]
pub(super) struct Registration {
    /// The index in the table of events.
    event: usize,
    /// The callbacks by the level of safety that the function guarantees, lowest first.
    callbacks: [Option<EventCallback>; SAFETY_LEVELS.len()],
    dropped: Option<DroppedFunction>,
}

/// A function of the program to which events are delivered, and the data that is passed to it.
#[derive(Clone, Copy, Debug)]
struct EventCallback {
    function: EventFunction,
    user_data: *mut c_void,
}

// SAFETY: the library only passes the pointer back to the program. A program that registers it in a
// process with several threads guarantees that all of them can use it.
unsafe impl Send for EventCallback {}

/// The levels of safety that callbacks may guarantee, in ascending order.
const SAFETY_LEVELS: [c_int; 4] = [
    MPI_T_CB_REQUIRE_NONE,
    MPI_T_CB_REQUIRE_MPI_RESTRICTED,
    MPI_T_CB_REQUIRE_THREAD_SAFE,
    MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE,
];

/// The only source: this process.
const SOURCE: c_int = 0;

const TICKS_PER_SECOND: i64 = 1_000_000_000;

/// The largest number of events that are delivered at the end of one call; callbacks may cause more
/// events.
const DELIVERED_AT_ONCE_MAX: usize = 1024;

thread_local! {
    /// The event for which this thread runs a callback, and its number.
    static CURRENT: Cell<Option<(usize, Occurrence)>> = const { Cell::new(None) };
    static INSTANCES: Cell<usize> = const { Cell::new(0) };
}

pub fn t_event_get_num(_tools: &Tools, num_events: Out<c_int>) -> ToolOutcome {
    num_events.set(EVENTS.len() as c_int);
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn t_event_get_info(
    _tools: &Tools,
    event_index: c_int,
    name: ToolText,
    verbosity: MaybeOut<c_int>,
    array_of_datatypes: MaybeArray<Datatype>,
    array_of_displacements: MaybeArray<isize>,
    num_elements: MaybeOut<c_int>,
    enumtype: MaybeOut<Enumeration>,
    info: MaybeOut<c::Info>,
    desc: ToolText,
    bind: MaybeOut<c_int>,
) -> ToolOutcome {
    let event = at(EVENTS, event_index)?;
    name.set(event.name);
    verbosity.set(verbosity_of(event.audience));
    let count = event.elements.len();
    array_of_datatypes.write((0..count).map(|_| MPI_COUNT));
    array_of_displacements.write((0..count).map(|index| (index * 8) as isize));
    num_elements.set(count as c_int);
    enumtype.set(of_event(event_index as usize));
    info.set(MPI_INFO_NULL);
    desc.set(event.help);
    bind.set(MPI_T_BIND_NO_OBJECT);
    Ok(())
}

pub fn t_event_get_index(_tools: &Tools, name: &[u8], event_index: Out<c_int>) -> ToolOutcome {
    event_index.set(position(EVENTS, |event| event.name.as_bytes() == name)?);
    Ok(())
}

pub fn t_event_handle_alloc(
    tools: &Tools,
    event_index: c_int,
    event_registration: Out<EventRegistration>,
) -> ToolOutcome {
    at(EVENTS, event_index)?;
    let callbacks = [None; SAFETY_LEVELS.len()];
    let registration = Registration { event: event_index as usize, callbacks, dropped: None };
    event_registration.set(tools.state().registrations.insert(registration));
    Ok(())
}

pub fn t_event_handle_set_info(
    tools: &Tools,
    event_registration: EventRegistration,
) -> ToolOutcome {
    // No hints have a meaning here.
    tools.with_registration(event_registration, |_| ())
}

pub fn t_event_handle_get_info(
    tools: &Tools,
    event_registration: EventRegistration,
    info_used: MaybeOut<c::Info>,
) -> ToolOutcome {
    tools.with_registration(event_registration, |_| ())?;
    no_hints(info_used)
}

pub fn t_event_register_callback(
    tools: &Tools,
    event_registration: EventRegistration,
    cb_safety: c_int,
    user_data: *mut c_void,
    event_cb_function: Callback<EventFunction>,
) -> ToolOutcome {
    let level = level_of(cb_safety)?;
    let callback =
        event_cb_function.function().map(|function| EventCallback { function, user_data });
    tools.with_registration(event_registration, |found| found.callbacks[level] = callback)?;
    tools.watch_registered();
    Ok(())
}

pub fn t_event_callback_set_info(
    tools: &Tools,
    event_registration: EventRegistration,
    cb_safety: c_int,
) -> ToolOutcome {
    level_of(cb_safety)?;
    tools.with_registration(event_registration, |_| ())
}

pub fn t_event_callback_get_info(
    tools: &Tools,
    event_registration: EventRegistration,
    cb_safety: c_int,
    info_used: MaybeOut<c::Info>,
) -> ToolOutcome {
    level_of(cb_safety)?;
    tools.with_registration(event_registration, |_| ())?;
    no_hints(info_used)
}

pub fn t_event_set_dropped_handler(
    tools: &Tools,
    event_registration: EventRegistration,
    dropped_cb_function: Callback<DroppedFunction>,
) -> ToolOutcome {
    let function = dropped_cb_function.function();
    tools.with_registration(event_registration, |found| found.dropped = function)
}

pub fn t_event_handle_free(
    tools: &Tools,
    event_registration: EventRegistration,
    user_data: *mut c_void,
    free_cb_function: Callback<FreeFunction>,
) -> ToolOutcome {
    let freed = tools.state().registrations.forget(event_registration);
    freed.ok_or(MPI_T_ERR_INVALID_HANDLE)?;
    tools.watch_registered();
    if let Some(function) = free_cb_function.function() {
        // SAFETY: `Callback` holds the program's function of this type.
        unsafe { function(event_registration, MPI_T_CB_REQUIRE_NONE, user_data) };
    }
    Ok(())
}

pub fn t_event_read(
    _tools: &Tools,
    event_instance: EventInstance,
    element_index: c_int,
    buffer: MaybeOut<i64>,
) -> ToolOutcome {
    let element = *at(&elements(event_instance)?, element_index)?;
    if buffer.is_null() {
        return Err(MPI_T_ERR_INVALID);
    }
    buffer.set(element);
    Ok(())
}

pub fn t_event_copy(
    _tools: &Tools,
    event_instance: EventInstance,
    buffer: MaybeArray<i64>,
) -> ToolOutcome {
    if buffer.is_null() {
        return Err(MPI_T_ERR_INVALID);
    }
    buffer.write(elements(event_instance)?.into_iter());
    Ok(())
}

pub fn t_event_get_timestamp(
    _tools: &Tools,
    event_instance: EventInstance,
    event_timestamp: Out<i64>,
) -> ToolOutcome {
    event_timestamp.set(occurrence(event_instance)?.at);
    Ok(())
}

pub fn t_event_get_source(
    _tools: &Tools,
    event_instance: EventInstance,
    source_index: Out<c_int>,
) -> ToolOutcome {
    occurrence(event_instance)?;
    source_index.set(SOURCE);
    Ok(())
}

pub fn t_source_get_num(_tools: &Tools, num_sources: Out<c_int>) -> ToolOutcome {
    num_sources.set(1);
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn t_source_get_info(
    _tools: &Tools,
    source_index: c_int,
    name: ToolText,
    desc: ToolText,
    ordering: MaybeOut<c_int>,
    ticks_per_second: MaybeOut<i64>,
    max_ticks: MaybeOut<i64>,
    info: MaybeOut<c::Info>,
) -> ToolOutcome {
    check_source(source_index)?;
    name.set("process");
    desc.set("this process; an event is reported at the end of the call during which it happens");
    ordering.set(MPI_T_SOURCE_ORDERED);
    ticks_per_second.set(TICKS_PER_SECOND);
    max_ticks.set(i64::MAX);
    info.set(MPI_INFO_NULL);
    Ok(())
}

pub fn t_source_get_timestamp(
    tools: &Tools,
    source_index: c_int,
    timestamp: Out<i64>,
) -> ToolOutcome {
    check_source(source_index)?;
    timestamp.set(tools.instruments.journal.now());
    Ok(())
}

/// Delivers recorded events to tools. Called at the end of MPI calls, while nothing is borrowed.
#[cold]
pub fn deliver_events() {
    let tools = super::tools();
    // Callbacks make calls, and other threads may end calls, too. Only one thread delivers events
    // at a time.
    if tools.telling.swap(true, Ordering::AcqRel) {
        return;
    }
    for _ in 0..DELIVERED_AT_ONCE_MAX {
        let Some(occurrence) = tools.instruments.journal.take() else { break };
        // The lock is not held while callbacks run.
        let interested = tools.state().interested_in(occurrence.kind.index());
        for (handle, callback) in interested {
            deliver(handle, callback, occurrence);
        }
    }
    report_dropped(tools);
    tools.telling.store(false, Ordering::Release);
}

fn deliver(handle: EventRegistration, callback: EventCallback, occurrence: Occurrence) {
    let number = INSTANCES.get() + 1;
    INSTANCES.set(number);
    CURRENT.set(Some((number, occurrence)));
    // SAFETY: `Callback` held the program's function of this type, which is called with the data
    // that the program passed with it.
    unsafe {
        (callback.function)(
            EventInstance(number),
            handle,
            MPI_T_CB_REQUIRE_NONE,
            callback.user_data,
        );
    }
    CURRENT.set(None);
}

fn report_dropped(tools: &Tools) {
    for (index, event) in EVENTS.iter().enumerate() {
        let count = tools.instruments.journal.take_dropped(event.kind);
        if count == 0 {
            continue;
        }
        let interested = tools.state().interested_in(index);
        for (handle, callback) in interested {
            let function = tools.state().registrations.with(handle, |found| found.dropped);
            if let Some(Some(function)) = function {
                let (count, none) = (count as i64, MPI_T_CB_REQUIRE_NONE);
                // SAFETY: `Callback` held the program's function of this type, which is called with
                // the data that the program passed with it.
                unsafe { function(count, handle, SOURCE, none, callback.user_data) };
            }
        }
    }
}

impl ToolState {
    /// Returns the registrations for an event, each with the callback of the lowest level of
    /// safety.
    fn interested_in(&self, event: usize) -> Vec<(EventRegistration, EventCallback)> {
        let mut interested = Vec::new();
        self.registrations.each(|handle, registration| {
            if registration.event == event
                && let Some(callback) = registration.callbacks.iter().flatten().next()
            {
                interested.push((handle, *callback));
            }
        });
        interested
    }
}

impl Tools {
    fn with_registration<T>(
        &self,
        handle: EventRegistration,
        inspect: impl FnOnce(&mut Registration) -> T,
    ) -> Result<T, c_int> {
        self.state().registrations.with(handle, inspect).ok_or(MPI_T_ERR_INVALID_HANDLE)
    }

    /// Makes the journal record the events for which tools have registered callbacks, and no
    /// others.
    fn watch_registered(&self) {
        let state = self.state();
        let mut kinds = 0;
        state.registrations.each(|_, registration| {
            if registration.callbacks.iter().any(Option::is_some) {
                kinds |= 1 << registration.event;
            }
        });
        self.instruments.journal.watch(kinds);
        phase::set_watched(kinds != 0);
    }
}

fn level_of(cb_safety: c_int) -> Result<usize, c_int> {
    let mut levels = SAFETY_LEVELS.iter();
    levels.position(|&level| level == cb_safety).ok_or(MPI_T_ERR_INVALID)
}

fn check_source(index: c_int) -> ToolOutcome {
    if index == SOURCE { Ok(()) } else { Err(MPI_T_ERR_INVALID_INDEX) }
}

fn occurrence(instance: EventInstance) -> Result<Occurrence, c_int> {
    let current = CURRENT.get().filter(|(number, _)| *number == instance.0);
    current.map(|(_, occurrence)| occurrence).ok_or(MPI_T_ERR_INVALID_HANDLE)
}

/// Returns the number of elements of the event for which a callback runs; 0 after the callback.
pub fn element_count(instance: EventInstance) -> c_int {
    elements(instance).map_or(0, |elements| elements.len() as c_int)
}

fn elements(instance: EventInstance) -> Result<Vec<i64>, c_int> {
    let occurrence = occurrence(instance)?;
    let count = EVENTS[occurrence.kind.index()].elements.len();
    Ok(occurrence.elements[..count].to_vec())
}

/// Stores an empty info object, which the caller must free.
fn no_hints(place: MaybeOut<c::Info>) -> ToolOutcome {
    let info = phase::if_free(|library| library.infos.insert(Info::new()));
    place.set(info.ok_or(MPI_T_ERR_NOT_ACCESSIBLE)?);
    Ok(())
}
