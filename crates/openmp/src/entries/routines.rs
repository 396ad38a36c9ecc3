//! The routines that ask for and set what a program can know and change.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;

use crate::environment::{self, ACTIVE_LEVELS_MAX, Controls, LoopKind};
use crate::tasks::Task;
use crate::team::ThreadTeam;
use crate::thread::Thread;

/// What the program has set for leagues; -1: nothing, so that the environment decides.
static TEAMS: AtomicI32 = AtomicI32::new(-1);
static TEAM_THREADS: AtomicI32 = AtomicI32::new(-1);

/// How many teams a league has that does not say it; 0: this library decides.
pub fn teams_default() -> c_int {
    match TEAMS.load(Ordering::Relaxed) {
        -1 => environment::settings().teams,
        set => set,
    }
}

/// How many threads a team of a league has at most; 0: this library decides.
pub fn teams_thread_limit() -> c_int {
    match TEAM_THREADS.load(Ordering::Relaxed) {
        -1 => environment::settings().teams_thread_limit,
        set => set,
    }
}

/// The cores of each place.
fn places() -> &'static [Vec<usize>] {
    match crate::places::all().is_empty() {
        true => &[],
        false => &environment::settings().places,
    }
}

/// The cores of a place; none if there is no such place.
fn cores_of(place: i64) -> &'static [usize] {
    let place = usize::try_from(place).ok();
    place.and_then(|place| places().get(place)).map_or(&[], Vec::as_slice)
}

/// The places in the partition of this thread.
fn partition() -> std::ops::Range<u32> {
    let thread = Thread::current();
    thread.settle();
    let partition = thread.partition.get();
    partition.first..partition.first + partition.length
}

fn controls() -> Controls {
    Thread::current().with_task(|task| task.controls.get())
}

fn change(change: impl FnOnce(&mut Controls)) {
    Thread::current().with_task(|task| task.controls.with(change));
}

/// A positive number of threads; others count as 1.
fn positive(number: i64) -> u32 {
    number.clamp(1, 1 << 20) as u32
}

/// The team of this thread, or of its ancestor, at a level, and its number there.
fn ancestor(level: i64) -> Option<(&'static ThreadTeam, u32)> {
    let thread = Thread::current();
    let (mut team, mut id) = (thread.team.get(), thread.id.get());
    if !(0..=i64::from(team.level())).contains(&level) {
        return None;
    }
    while i64::from(team.level()) > level {
        (team, id) = team.region.see(|region| Some((region.outer?, region.outer_id)))?;
    }
    Some((team, id))
}

macro_rules! questions {
    ($($(#[doc = $doc:literal])* $name:ident $fortran:ident: $type:ty = $value:expr;)*) => {$(
        $(#[doc = $doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> $type {
            $value
        }

        $(#[doc = $doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $fortran() -> $type {
            $value
        }
    )*};
}

questions! {
    /// The number of this thread in its team.
    omp_get_thread_num omp_get_thread_num_: c_int = Thread::current().id.get() as c_int;
    /// The size of the team.
    omp_get_num_threads omp_get_num_threads_: c_int = Thread::current().team.get().size() as c_int;
    /// How many threads a region without `num_threads` would have.
    omp_get_max_threads omp_get_max_threads_: c_int = controls().threads as c_int;
    /// How many cores there are.
    omp_get_num_procs omp_get_num_procs_: c_int = environment::settings().cores as c_int;
    /// Whether the task is in a region with several threads.
    omp_in_parallel omp_in_parallel_: c_int =
        (Thread::current().team.get().active_level() > 0).into();
    /// Whether the task is final.
    omp_in_final omp_in_final_: c_int = Thread::current().with_task(Task::is_final).into();
    /// Whether the task is an explicit one.
    omp_in_explicit_task omp_in_explicit_task_: c_int =
        Thread::current().with_task(|task| task.depth() > 0).into();
    /// Whether regions may have fewer threads than asked for.
    omp_get_dynamic omp_get_dynamic_: c_int = controls().is_dynamic.into();
    /// Whether regions inside of regions have several threads.
    omp_get_nested omp_get_nested_: c_int = {
        let most = controls().active_levels_max;
        (most > 1 && most > Thread::current().team.get().active_level()).into()
    };
    /// The limit of threads.
    omp_get_thread_limit omp_get_thread_limit_: c_int =
        environment::settings().thread_limit.min(i32::MAX as u32) as c_int;
    /// How many regions with several threads may be inside each other.
    omp_get_max_active_levels omp_get_max_active_levels_: c_int =
        controls().active_levels_max as c_int;
    /// The limit of that.
    omp_get_supported_active_levels omp_get_supported_active_levels_: c_int =
        ACTIVE_LEVELS_MAX as c_int;
    /// How many regions are around the task.
    omp_get_level omp_get_level_: c_int = Thread::current().team.get().level() as c_int;
    /// How many of them have several threads.
    omp_get_active_level omp_get_active_level_: c_int =
        Thread::current().team.get().active_level() as c_int;
    /// Whether constructs can be cancelled.
    omp_get_cancellation omp_get_cancellation_: c_int = environment::settings().can_cancel.into();
    /// How threads are bound.
    omp_get_proc_bind omp_get_proc_bind_: c_int = controls().bind as c_int;
    /// The highest priority of tasks.
    omp_get_max_task_priority omp_get_max_task_priority_: c_int =
        environment::settings().task_priority_max;
    /// The number of the team in a league.
    omp_get_team_num omp_get_team_num_: c_int =
        Thread::current().team.get().region.see(|region| region.league.0) as c_int;
    /// How many teams the league has.
    omp_get_num_teams omp_get_num_teams_: c_int =
        Thread::current().team.get().region.see(|region| region.league.1) as c_int;
    /// How many teams a league has that does not say it; 0: this library decides.
    omp_get_max_teams omp_get_max_teams_: c_int = teams_default();
    /// How many threads a team of a league has at most; 0: this library decides.
    omp_get_teams_thread_limit omp_get_teams_thread_limit_: c_int = teams_thread_limit();
    /// The device that is used by default.
    omp_get_default_device omp_get_default_device_: c_int = controls().default_device;
    /// How many devices there are: none.
    omp_get_num_devices omp_get_num_devices_: c_int = 0;
    /// The number of the host among the devices.
    omp_get_initial_device omp_get_initial_device_: c_int = 0;
    /// The number of the device that runs this.
    omp_get_device_num omp_get_device_num_: c_int = 0;
    /// Whether the host runs this.
    omp_is_initial_device omp_is_initial_device_: c_int = 1;
    /// How many places there are; none if threads are not bound.
    omp_get_num_places omp_get_num_places_: c_int = places().len() as c_int;
    /// The place of this thread, or -1.
    omp_get_place_num omp_get_place_num_: c_int =
        Thread::current().settle().map_or(-1, |place| place as c_int);
    /// How many places are in the partition of this thread.
    omp_get_partition_num_places omp_get_partition_num_places_: c_int =
        partition().len() as c_int;
    /// Seconds since some time in the past.
    omp_get_wtime omp_get_wtime_: f64 = {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_secs_f64()
    };
    /// The resolution of that, in seconds.
    omp_get_wtick omp_get_wtick_: f64 = 1e-9;
}

macro_rules! numbered_questions {
    ($($(#[doc = $doc:literal])* $name:ident $fortran:ident $long:ident = $value:expr;)*) => {$(
        $(#[doc = $doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(number: c_int) -> c_int {
            ($value)(number.into())
        }

        $(#[doc = $doc])*
        ///
        /// # Safety
        /// The address must be that of a number.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $fortran(number: *const c_int) -> c_int {
            // SAFETY: by the contract.
            ($value)(unsafe { *number }.into())
        }

        $(#[doc = $doc])*
        ///
        /// # Safety
        /// The address must be that of a number.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $long(number: *const i64) -> c_int {
            // SAFETY: by the contract.
            ($value)(unsafe { *number })
        }
    )*};
}

numbered_questions! {
    /// The number of the ancestor of this thread at a level, or -1.
    omp_get_ancestor_thread_num omp_get_ancestor_thread_num_ omp_get_ancestor_thread_num_8_ =
        |level: i64| ancestor(level).map_or(-1, |(_, id)| id as c_int);
    /// The size of the team of that ancestor, or -1.
    omp_get_team_size omp_get_team_size_ omp_get_team_size_8_ =
        |level: i64| ancestor(level).map_or(-1, |(team, _)| team.size() as c_int);
    /// How many processors a place has.
    omp_get_place_num_procs omp_get_place_num_procs_ omp_get_place_num_procs_8_ =
        |place: i64| cores_of(place).len() as c_int;
}

macro_rules! settings {
    ($($(#[doc = $doc:literal])* $name:ident $fortran:ident $long:ident = $set:expr;)*) => {$(
        $(#[doc = $doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(number: c_int) {
            ($set)(number.into());
        }

        $(#[doc = $doc])*
        ///
        /// # Safety
        /// The address must be that of a number.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $fortran(number: *const c_int) {
            // SAFETY: by the contract.
            ($set)(unsafe { *number }.into());
        }

        $(#[doc = $doc])*
        ///
        /// # Safety
        /// The address must be that of a number.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $long(number: *const i64) {
            // SAFETY: by the contract.
            ($set)(unsafe { *number });
        }
    )*};
}

settings! {
    /// Sets how many threads regions have.
    omp_set_num_threads omp_set_num_threads_ omp_set_num_threads_8_ =
        |number: i64| change(|own| own.threads = positive(number));
    /// Sets whether regions may have fewer threads than asked for.
    omp_set_dynamic omp_set_dynamic_ omp_set_dynamic_8_ =
        |number: i64| change(|own| own.is_dynamic = number != 0);
    /// Sets whether regions inside of regions have several threads.
    omp_set_nested omp_set_nested_ omp_set_nested_8_ = |number: i64| change(|own| {
        own.active_levels_max = match number {
            0 => own.active_levels_max.min(1),
            _ => ACTIVE_LEVELS_MAX,
        };
    });
    /// Sets how many regions with several threads may be inside each other.
    omp_set_max_active_levels omp_set_max_active_levels_ omp_set_max_active_levels_8_ =
        |number: i64| if number >= 0 {
            let most = number.min(ACTIVE_LEVELS_MAX.into()) as u32;
            change(|own| own.active_levels_max = most);
        };
    /// Sets how many teams a league has that does not say it.
    omp_set_num_teams omp_set_num_teams_ omp_set_num_teams_8_ = |number: i64| if number >= 0 {
        TEAMS.store(number as c_int, Ordering::Relaxed);
    };
    /// Sets how many threads a team of a league has at most.
    omp_set_teams_thread_limit omp_set_teams_thread_limit_ omp_set_teams_thread_limit_8_ =
        |number: i64| if number >= 0 {
            TEAM_THREADS.store(number as c_int, Ordering::Relaxed);
        };
    /// Sets the device that is used by default.
    omp_set_default_device omp_set_default_device_ omp_set_default_device_8_ =
        |number: i64| change(|own| own.default_device = number.max(0) as i32);
}

fn set_schedule(kind: i64, chunk: i64) {
    let Some(found) = LoopKind::of(kind & 0x7fff_ffff) else { return };
    let least = u64::from(found != LoopKind::Static);
    let chunk = u64::try_from(chunk).unwrap_or_default().max(least);
    change(|own| (own.schedule, own.chunk) = (found, chunk));
}

/// Sets the schedule of loops with `schedule(runtime)`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_set_schedule(kind: c_int, chunk: c_int) {
    set_schedule(kind.into(), chunk.into());
}

/// Sets the schedule of loops with `schedule(runtime)`.
///
/// # Safety
/// The addresses must be those of numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_set_schedule_(kind: *const c_int, chunk: *const c_int) {
    // SAFETY: by the contract.
    unsafe { set_schedule((*kind).into(), (*chunk).into()) };
}

/// Sets the schedule of loops with `schedule(runtime)`.
///
/// # Safety
/// The addresses must be those of numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_set_schedule_8_(kind: *const c_int, chunk: *const i64) {
    // SAFETY: by the contract.
    unsafe { set_schedule((*kind).into(), *chunk) };
}

/// Gives the schedule of loops with `schedule(runtime)`.
///
/// # Safety
/// The addresses must be those of variables.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_schedule(kind: *mut c_int, chunk: *mut c_int) {
    let own = controls();
    // SAFETY: by the contract.
    unsafe { (*kind, *chunk) = (own.schedule as c_int, own.chunk.min(i32::MAX as u64) as c_int) };
}

/// Gives the schedule of loops with `schedule(runtime)`.
///
/// # Safety
/// The addresses must be those of variables.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_schedule_(kind: *mut c_int, chunk: *mut c_int) {
    // SAFETY: by the contract.
    unsafe { omp_get_schedule(kind, chunk) };
}

/// Gives the schedule of loops with `schedule(runtime)`.
///
/// # Safety
/// The addresses must be those of variables.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_schedule_8_(kind: *mut c_int, chunk: *mut i64) {
    let own = controls();
    // SAFETY: by the contract.
    unsafe { (*kind, *chunk) = (own.schedule as c_int, own.chunk.min(i64::MAX as u64) as i64) };
}

/// Stores numbers.
///
/// # Safety
/// There is room for so many.
unsafe fn put<T>(numbers: impl Iterator<Item = T>, to: *mut T) {
    for (index, number) in numbers.enumerate() {
        // SAFETY: by the contract.
        unsafe { to.add(index).write(number) };
    }
}

/// Lists the processors of a place.
///
/// # Safety
/// There must be room for as many as `omp_get_place_num_procs` returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_place_proc_ids(place: c_int, numbers: *mut c_int) {
    // SAFETY: by the contract.
    unsafe { put(cores_of(place.into()).iter().map(|core| *core as c_int), numbers) };
}

macro_rules! lists_of_places {
    ($($type:ty: $($partition:ident)*, $($cores:ident)*;)*) => {$(
        $(
            /// Lists the places in the partition of this thread.
            ///
            /// # Safety
            /// There must be room for as many as `omp_get_partition_num_places` returns.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $partition(numbers: *mut $type) {
                // SAFETY: by the contract.
                unsafe { put(partition().map(|place| place as $type), numbers) };
            }
        )*
        $(
            /// Lists the processors of a place.
            ///
            /// # Safety
            /// The address must be that of a number, and there must be room for as many as
            /// `omp_get_place_num_procs` returns.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $cores(place: *const $type, numbers: *mut $type) {
                // SAFETY: by the contract.
                let place = unsafe { *place };
                // SAFETY: by the contract.
                unsafe { put(cores_of(place.into()).iter().map(|core| *core as $type), numbers) };
            }
        )*
    )*};
}

lists_of_places! {
    c_int: omp_get_partition_place_nums omp_get_partition_place_nums_, omp_get_place_proc_ids_;
    i64: omp_get_partition_place_nums_8_, omp_get_place_proc_ids_8_;
}

/// Writes what is configured to the standard error output.
#[unsafe(no_mangle)]
pub extern "C" fn omp_display_env(is_verbose: c_int) {
    environment::display(is_verbose != 0);
}

/// Writes what is configured to the standard error output.
///
/// # Safety
/// The address must be that of a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_display_env_(is_verbose: *const c_int) {
    // SAFETY: by the contract.
    environment::display(unsafe { *is_verbose } != 0);
}

/// Writes what is configured to the standard error output.
///
/// # Safety
/// The address must be that of a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_display_env_8_(is_verbose: *const i64) {
    // SAFETY: by the contract.
    environment::display(unsafe { *is_verbose } != 0);
}

/// Runs when the library is loaded.
extern "C" fn start() {
    environment::display_if_asked();
}

/// The functions that the loader calls.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

macro_rules! keep_nothing {
    ($($name:ident)*) => {$(
        /// Frees what can be made again: nothing now. 0: it is done.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> c_int {
            0
        }
    )*};
}

keep_nothing! {
    omp_pause_resource omp_pause_resource_ omp_pause_resource_all omp_pause_resource_all_
}

macro_rules! no_devices {
    ($($name:ident)*) => {$(
        /// Notes the code for a device. There are none.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(_: *const c_void) {}
    )*};
}

no_devices! {
    GOMP_offload_register GOMP_offload_register_ver GOMP_offload_unregister
    GOMP_offload_unregister_ver
}
