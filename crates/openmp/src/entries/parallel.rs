//! Parallel regions, teams of the host, and what begins with a region.

use std::ffi::{c_long, c_uint, c_void};

use super::routines;
use crate::environment::LoopKind;
use crate::loops::Iterations;
use crate::places::BindPolicy;
use crate::reductions::Private;
use crate::regions::{self, Extras};
use crate::tasks::TaskGroup;
use crate::thread::Thread;
use crate::{Address, Body};

/// Runs a function in all threads of a team.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_parallel(body: Body, data: *mut c_void, threads: c_uint, flags: c_uint) {
    run(body, data, (threads, flags), None);
}

/// Runs a region with so many threads, which are bound as the flags say.
fn run(
    body: Body,
    data: *mut c_void,
    (threads, flags): (c_uint, c_uint),
    loop_of_all: Option<Iterations>,
) {
    let thread = Thread::current();
    let threads = regions::threads_for(thread, threads);
    let extras = Extras { loop_of_all, bind: BindPolicy::asked(flags), ..Extras::default() };
    regions::run(thread, body, Address(data), threads, extras);
}

/// The former way: the program calls the function itself for thread 0, then `GOMP_parallel_end`.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_parallel_start(body: Body, data: *mut c_void, threads: c_uint) {
    open(body, data, threads, None);
}

fn open(body: Body, data: *mut c_void, threads: c_uint, loop_of_all: Option<Iterations>) {
    let thread = Thread::current();
    let threads = regions::threads_for(thread, threads);
    let extras = Extras { loop_of_all, ..Extras::default() };
    regions::open(thread, body, Address(data), threads, extras);
}

/// Ends a region of the former way.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_parallel_end() {
    regions::close(Thread::current());
}

/// The schedule that the task's `run-sched-var` has.
fn runtime_schedule() -> (LoopKind, u64) {
    let controls = Thread::current().with_task(|task| task.controls.get());
    (controls.schedule, controls.chunk)
}

macro_rules! parallel_loops {
    ($($kind:ident: $($name:ident)*, $($start:ident)*;)*) => {$(
        $(
            /// Runs a function in all threads of a team, which begin with this loop.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name(
                body: Body, data: *mut c_void, threads: c_uint,
                first: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint,
            ) {
                let chunk = chunk.max(0) as u64;
                let all = Iterations::signed(first, end, step, LoopKind::$kind, chunk);
                run(body, data, (threads, flags), Some(all));
            }
        )*
        $(
            /// The former way.
            #[unsafe(no_mangle)]
            pub extern "C" fn $start(
                body: Body, data: *mut c_void, threads: c_uint,
                first: c_long, end: c_long, step: c_long, chunk: c_long,
            ) {
                let chunk = chunk.max(0) as u64;
                let all = Iterations::signed(first, end, step, LoopKind::$kind, chunk);
                open(body, data, threads, Some(all));
            }
        )*
    )*};
}

parallel_loops! {
    Static: GOMP_parallel_loop_static, GOMP_parallel_loop_static_start;
    Dynamic: GOMP_parallel_loop_dynamic GOMP_parallel_loop_nonmonotonic_dynamic,
        GOMP_parallel_loop_dynamic_start;
    Guided: GOMP_parallel_loop_guided GOMP_parallel_loop_nonmonotonic_guided,
        GOMP_parallel_loop_guided_start;
}

macro_rules! parallel_runtime_loops {
    ($($name:ident)*) => {$(
        /// Runs a function in all threads of a team, which begin with this loop.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(
            body: Body, data: *mut c_void, threads: c_uint,
            first: c_long, end: c_long, step: c_long, flags: c_uint,
        ) {
            let (kind, chunk) = runtime_schedule();
            let all = Iterations::signed(first, end, step, kind, chunk);
            run(body, data, (threads, flags), Some(all));
        }
    )*};
}

parallel_runtime_loops! {
    GOMP_parallel_loop_runtime GOMP_parallel_loop_nonmonotonic_runtime
    GOMP_parallel_loop_maybe_nonmonotonic_runtime
}

/// The former way.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_parallel_loop_runtime_start(
    body: Body,
    data: *mut c_void,
    threads: c_uint,
    first: c_long,
    end: c_long,
    step: c_long,
) {
    let (kind, chunk) = runtime_schedule();
    open(body, data, threads, Some(Iterations::signed(first, end, step, kind, chunk)));
}

/// The sections of a construct, as a loop over their numbers.
pub fn sections(count: c_uint) -> Iterations {
    Iterations::signed(1, i64::from(count) + 1, 1, LoopKind::Dynamic, 1)
}

/// Runs a function in all threads of a team, which begin with sections.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_parallel_sections(
    body: Body,
    data: *mut c_void,
    threads: c_uint,
    count: c_uint,
    flags: c_uint,
) {
    run(body, data, (threads, flags), Some(sections(count)));
}

/// The former way.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_parallel_sections_start(
    body: Body,
    data: *mut c_void,
    threads: c_uint,
    count: c_uint,
) {
    open(body, data, threads, Some(sections(count)));
}

/// Runs a function in all threads of a team, with reductions in which tasks take part. Returns how
/// many threads there were.
///
/// # Safety
/// `data` begins with the address of the words for the reductions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_parallel_reductions(
    body: Body,
    data: *mut c_void,
    threads: c_uint,
    flags: c_uint,
) -> c_uint {
    let thread = Thread::current();
    let threads = regions::threads_for(thread, threads);
    // SAFETY: by the contract.
    let words = unsafe { *data.cast::<*mut usize>() };
    // SAFETY: by the contract.
    let private = unsafe { Private::allocate(words, threads as usize) };
    // The program reads the copies after the region, until it unregisters them.
    super::tasks::keep(words, private.clone());
    let group = TaskGroup::inside(None);
    group.private.set(vec![private]);
    let extras = Extras { group: Some(group), bind: BindPolicy::asked(flags), ..Extras::default() };
    regions::run(thread, body, Address(data), threads, extras);
    threads
}

/// The default number of teams of the host.
const TEAMS: u32 = 3;

/// Runs a function in each team of a league of the host, one after another.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_teams_reg(
    body: Body,
    data: *mut c_void,
    teams: c_uint,
    thread_limit: c_uint,
    _flags: c_uint,
) {
    let thread = Thread::current();
    let configured = routines::teams_default() as u32;
    let thread_limit = match thread_limit {
        0 => routines::teams_thread_limit() as u32,
        limit => limit,
    };
    let teams = match (teams, configured) {
        (0, 0) => TEAMS,
        (0, configured) => configured,
        (teams, _) => teams,
    };
    let team = thread.team.get();
    let before = team.region.with(|region| region.league);
    for number in 0..teams {
        team.region.with(|region| region.league = (number, teams));
        let outer = thread.with_task(|task| task.controls.get());
        if thread_limit > 0 {
            let threads = outer.threads.min(thread_limit);
            thread.with_task(|task| task.controls.with(|own| own.threads = threads));
        }
        // SAFETY: the program gave this function with this argument.
        unsafe { body(data) };
        thread.with_task(|task| task.controls.set(outer));
    }
    team.region.with(|region| region.league = before);
}
