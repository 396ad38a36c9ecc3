//! Tools that observe the program through this library (OMPT, the chapter "OMPT Interface" of the
//! standard): a function `ompt_start_tool` of the program or of a library that `OMP_TOOL_LIBRARIES`
//! names is called once, and then those that the tool has registered for events.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use sys::library::{self, LoadedLibrary};

use crate::environment;
use crate::observers::{self, ObserverKind};
use crate::tasks::Task;
use crate::team::ThreadTeam;
use crate::thread::Thread;

/// A word that a tool keeps for a thread, a region or a task.
#[derive(Default)]
pub struct ToolData(Cell<u64>);

// SAFETY: this library hands out its address only, in calls of the thread that has the object.
unsafe impl Sync for ToolData {}

type Data = *mut c_void;

impl ToolData {
    fn address(&self) -> Data {
        self.0.as_ptr().cast()
    }

    /// Another object begins.
    pub fn clear(&self) {
        self.0.set(0);
    }
}

/// What a tool returns from `ompt_start_tool`.
#[repr(C)]
struct StartResult {
    initialize: Option<unsafe extern "C" fn(Lookup, c_int, Data) -> c_int>,
    finalize: Option<unsafe extern "C" fn(Data)>,
    data: u64,
}

type Lookup = unsafe extern "C" fn(*const c_char) -> *const c_void;

/// Where a task was entered and left, which this library does not know.
#[repr(C)]
struct Frame {
    exit: usize,
    enter: usize,
    exit_flags: c_int,
    enter_flags: c_int,
}

static NO_FRAME: Frame = Frame { exit: 0, enter: 0, exit_flags: 0, enter_flags: 0 };

/// Events, with the numbers of `ompt_callbacks_t`.
#[derive(Clone, Copy)]
enum Event {
    ThreadBegin = 1,
    ThreadEnd = 2,
    ParallelBegin = 3,
    ParallelEnd = 4,
    TaskCreate = 5,
    TaskSchedule = 6,
    ImplicitTask = 7,
    SyncRegionWait = 16,
    SyncRegion = 23,
}

/// More numbers do not exist.
const EVENTS: usize = 64;

/// The functions that the tool has registered.
static FUNCTIONS: [AtomicPtr<c_void>; EVENTS] = [const { AtomicPtr::new(ptr::null_mut()) }; EVENTS];

/// The tool, to end it.
static TOOL: AtomicPtr<StartResult> = AtomicPtr::new(ptr::null_mut());

/// Starts the tool, if there is one, before the first event.
pub fn start() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let settings = environment::settings();
        if !settings.uses_tools {
            return;
        }
        let libraries = settings.tool_libraries.iter().map(String::as_str);
        let started = start_with(library::global_symbol(START_NAME));
        if !started
            && !libraries.map(Path::new).any(start_from)
            && !settings.tool_libraries.is_empty()
        {
            crate::warn("no library of OMP_TOOL_LIBRARIES has started a tool");
        }
    });
}

const START_NAME: &CStr = c"ompt_start_tool";

fn start_from(path: &Path) -> bool {
    // SAFETY: the user has named this library, so that it is loaded here.
    match unsafe { LoadedLibrary::open(path) } {
        Ok(library) => start_with(library.symbol(START_NAME)),
        Err(error) => {
            crate::warn(&format!("{} of OMP_TOOL_LIBRARIES: {error}", path.display()));
            false
        }
    }
}

/// Calls `ompt_start_tool` at this address. True if the tool wants to observe the program.
fn start_with(function: Option<NonNull<c_void>>) -> bool {
    type Start = unsafe extern "C" fn(c_uint, *const c_char) -> *mut StartResult;
    let Some(function) = function else { return false };
    // SAFETY: the standard gives this function this type.
    let start: Start = unsafe { mem::transmute(function) };
    // SAFETY: by the standard, the result stays until the tool ends.
    let result = unsafe { start(VERSION, RUNTIME.as_ptr()) };
    // SAFETY: by the standard, the result is null or stays until the tool ends.
    let Some(tool) = (unsafe { result.as_mut() }) else { return false };
    let Some(initialize) = tool.initialize else { return false };
    // SAFETY: by the standard.
    let is_active = unsafe { initialize(lookup, 0, (&raw mut tool.data).cast()) } != 0;
    if is_active {
        TOOL.store(result, Ordering::Release);
        observers::note(ObserverKind::Tool, true);
    }
    is_active
}

/// The version of the standard that GCC 12 announces.
const VERSION: c_uint = 201_511;
const RUNTIME: &CStr = c"Combray, libgomp.so.1";

/// Ends the tool.
pub fn end() {
    observers::note(ObserverKind::Tool, false);
    for function in &FUNCTIONS {
        function.store(ptr::null_mut(), Ordering::Relaxed);
    }
    // SAFETY: `start_with` has stored it; by the standard, it stays until the tool ends.
    let Some(tool) = (unsafe { TOOL.swap(ptr::null_mut(), Ordering::AcqRel).as_mut() }) else {
        return;
    };
    if let Some(finalize) = tool.finalize {
        // SAFETY: by the standard.
        unsafe { finalize((&raw mut tool.data).cast()) };
    }
}

/// Calls the function that is registered for an event.
macro_rules! report {
    ($event:ident, ($($type:ty),*), ($($value:expr),*)) => {{
        let function = FUNCTIONS[Event::$event as usize].load(Ordering::Acquire);
        if let Some(function) = NonNull::new(function) {
            // SAFETY: the tool has registered it for this event, which gives it this type.
            let function: unsafe extern "C" fn($($type),*) = unsafe { mem::transmute(function) };
            // SAFETY: the function has this type, and the addresses stay valid during the call.
            unsafe { function($($value),*) };
        }
    }};
}

/// Kinds of threads (`ompt_thread_t`).
#[derive(Clone, Copy)]
pub enum ThreadKind {
    Initial = 1,
    Worker = 2,
    Other = 3,
}

pub fn thread_begins(thread: &Thread, kind: ThreadKind) {
    report!(ThreadBegin, (c_int, Data), (kind as c_int, thread.tool.address()));
}

pub fn thread_ends(thread: &Thread) {
    report!(ThreadEnd, (Data), (thread.tool.address()));
}

/// Which end of something is reported, with the numbers of `ompt_scope_endpoint_t`.
#[derive(Clone, Copy)]
pub enum ScopeEnd {
    Begin = 1,
    End = 2,
}

/// Flags of regions: the library calls the function of the thread that opens it; it is a team.
const BY_RUNTIME: c_int = 2;
const IS_TEAM: c_int = 1 << 31;

/// A task opens a region.
pub fn region_begins(task: &Task, team: &ThreadTeam, threads: u32) {
    team.tool.clear();
    let (task, region) = (task.tool.address(), team.tool.address());
    let frame = &raw const NO_FRAME;
    report!(
        ParallelBegin,
        (Data, *const Frame, Data, c_uint, c_int, *const c_void),
        (task, frame, region, threads, BY_RUNTIME | IS_TEAM, ptr::null())
    );
}

pub fn region_ends(task: &Task, team: &ThreadTeam) {
    let (task, region) = (task.tool.address(), team.tool.address());
    report!(
        ParallelEnd,
        (Data, Data, c_int, *const c_void),
        (region, task, BY_RUNTIME | IS_TEAM, ptr::null())
    );
}

/// Flags of tasks.
const INITIAL: c_int = 1;
const IMPLICIT: c_int = 2;
const EXPLICIT: c_int = 4;
const UNDEFERRED: c_int = 1 << 27;
const FINAL: c_int = 1 << 29;

/// A thread begins or ends its implicit task, or the initial one.
pub fn implicit_task(thread: &Thread, endpoint: ScopeEnd) {
    let team = thread.team.get();
    let flags = if team.level() == 0 { INITIAL } else { IMPLICIT };
    let task = thread.task().tool.address();
    // The thread that has opened the region may have opened the next one.
    let region = match endpoint {
        ScopeEnd::Begin => team.tool.address(),
        ScopeEnd::End => ptr::null_mut(),
    };
    report!(
        ImplicitTask,
        (c_int, Data, Data, c_uint, c_uint, c_int),
        (endpoint as c_int, region, task, team.size(), thread.id.get(), flags)
    );
}

/// A task creates another one.
pub fn task_created(parent: &Task, task: &Task, has_dependences: bool) {
    let kind = task.kind();
    let mut flags = EXPLICIT;
    flags |= if kind.is_deferred { 0 } else { UNDEFERRED };
    flags |= if kind.is_final { FINAL } else { 0 };
    let (parent, task) = (parent.tool.address(), task.tool.address());
    let frame = &raw const NO_FRAME;
    report!(
        TaskCreate,
        (Data, *const Frame, Data, c_int, c_int, *const c_void),
        (parent, frame, task, flags, has_dependences.into(), ptr::null())
    );
}

/// Why a thread goes from one task to another.
#[derive(Clone, Copy)]
pub enum Why {
    Complete = 1,
    Detach = 4,
    Switch = 7,
}

pub fn task_scheduled(prior: &Task, why: Why, next: &Task) {
    let (prior, next) = (prior.tool.address(), next.tool.address());
    report!(TaskSchedule, (Data, c_int, Data), (prior, why as c_int, next));
}

/// Where threads wait for each other, with the numbers of `ompt_sync_region_t`.
#[derive(Clone, Copy)]
pub enum Meeting {
    BarrierExplicit = 3,
    Taskwait = 5,
    Taskgroup = 6,
    BarrierOfConstruct = 8,
    BarrierOfRegion = 9,
}

/// A thread begins or ends to wait for others.
pub fn meets(thread: &Thread, meeting: Meeting, endpoint: ScopeEnd) {
    let task = thread.task().tool.address();
    let region = match (meeting, endpoint) {
        // The next one may have begun.
        (Meeting::BarrierOfRegion, ScopeEnd::End) => ptr::null_mut(),
        _ => thread.team.get().tool.address(),
    };
    let report_wait = || {
        report!(
            SyncRegionWait,
            (c_int, c_int, Data, Data, *const c_void),
            (meeting as c_int, endpoint as c_int, region, task, ptr::null())
        );
    };
    // The wait is inside of the region.
    if matches!(endpoint, ScopeEnd::End) {
        report_wait();
    }
    report!(
        SyncRegion,
        (c_int, c_int, Data, Data, *const c_void),
        (meeting as c_int, endpoint as c_int, region, task, ptr::null())
    );
    if matches!(endpoint, ScopeEnd::Begin) {
        report_wait();
    }
}

/// Returns the function with this name, or null.
unsafe extern "C" fn lookup(name: *const c_char) -> *const c_void {
    if name.is_null() {
        return ptr::null();
    }
    // SAFETY: by the standard, the name ends with a zero.
    match unsafe { CStr::from_ptr(name) }.to_bytes() {
        b"ompt_set_callback" => set_callback as *const c_void,
        b"ompt_get_callback" => get_callback as *const c_void,
        b"ompt_get_thread_data" => get_thread_data as *const c_void,
        b"ompt_get_parallel_info" => get_parallel_info as *const c_void,
        b"ompt_get_task_info" => get_task_info as *const c_void,
        b"ompt_get_unique_id" => get_unique_id as *const c_void,
        b"ompt_get_num_procs" => get_num_procs as *const c_void,
        b"ompt_get_proc_id" => get_proc_id as *const c_void,
        b"ompt_finalize_tool" => end_early as *const c_void,
        _ => ptr::null(),
    }
}

/// What registering a function leads to (`ompt_set_result_t`).
const ERROR: c_int = 0;
const NEVER: c_int = 1;
const ALWAYS: c_int = 5;

/// The events that this library reports.
const REPORTED: [Event; 9] = [
    Event::ThreadBegin,
    Event::ThreadEnd,
    Event::ParallelBegin,
    Event::ParallelEnd,
    Event::TaskCreate,
    Event::TaskSchedule,
    Event::ImplicitTask,
    Event::SyncRegionWait,
    Event::SyncRegion,
];

unsafe extern "C" fn set_callback(event: c_int, function: *mut c_void) -> c_int {
    let number = usize::try_from(event).ok().filter(|number| (1..EVENTS).contains(number));
    let Some(number) = number else { return ERROR };
    if REPORTED.iter().all(|one| *one as usize != number) {
        return NEVER;
    }
    FUNCTIONS[number].store(function, Ordering::Release);
    ALWAYS
}

unsafe extern "C" fn get_callback(event: c_int, function: *mut *mut c_void) -> c_int {
    let found = usize::try_from(event).ok().and_then(|number| FUNCTIONS.get(number));
    let found = found.map_or(ptr::null_mut(), |found| found.load(Ordering::Acquire));
    if !found.is_null() {
        // SAFETY: by the standard, the address is that of a variable.
        unsafe { *function = found };
    }
    (!found.is_null()).into()
}

unsafe extern "C" fn get_thread_data() -> Data {
    Thread::known().map_or(ptr::null_mut(), |thread| thread.tool.address())
}

/// The team at a depth of regions around this thread, 0 the innermost, with the number of the
/// thread or of its ancestor there.
fn team_around(depth: c_int) -> Option<(&'static ThreadTeam, u32)> {
    let thread = Thread::known()?;
    let (mut team, mut id) = (thread.team.get(), thread.id.get());
    for _ in 0..depth {
        (team, id) = team.region.see(|region| Some((region.outer?, region.outer_id)))?;
    }
    Some((team, id))
}

/// Nothing is there; something is.
const ABSENT: c_int = 0;
const PRESENT: c_int = 2;

unsafe extern "C" fn get_parallel_info(depth: c_int, region: *mut Data, size: *mut c_int) -> c_int {
    let Some((team, _)) = team_around(depth) else { return ABSENT };
    // SAFETY: by the standard, each address is null or that of a variable.
    unsafe {
        if !region.is_null() {
            *region = team.tool.address();
        }
        if !size.is_null() {
            *size = team.size() as c_int;
        }
    }
    PRESENT
}

/// Only of the present task: the library does not know those around it.
unsafe extern "C" fn get_task_info(
    depth: c_int,
    flags: *mut c_int,
    data: *mut Data,
    frame: *mut *const Frame,
    region: *mut Data,
    thread_number: *mut c_int,
) -> c_int {
    let (Some(thread), 0) = (Thread::known(), depth) else { return ABSENT };
    let (task, team) = (thread.task(), thread.team.get());
    let kind = if team.level() == 0 { INITIAL } else { IMPLICIT };
    // SAFETY: by the standard, each address is null or that of a variable.
    unsafe {
        if !flags.is_null() {
            *flags = if task.depth() > 0 { EXPLICIT } else { kind };
        }
        if !data.is_null() {
            *data = task.tool.address();
        }
        if !frame.is_null() {
            *frame = &raw const NO_FRAME;
        }
        if !region.is_null() {
            *region = team.tool.address();
        }
        if !thread_number.is_null() {
            *thread_number = thread.id.get() as c_int;
        }
    }
    PRESENT
}

unsafe extern "C" fn get_unique_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

unsafe extern "C" fn get_num_procs() -> c_int {
    environment::settings().cores as c_int
}

unsafe extern "C" fn get_proc_id() -> c_int {
    sys::cores::current().map_or(-1, |core| core as c_int)
}

unsafe extern "C" fn end_early() {
    end();
}
