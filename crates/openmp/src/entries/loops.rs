//! Loops and sections.

use std::ffi::{c_long, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::barrier;
use crate::environment::LoopKind;
use crate::loops::{self, Iterations};
use crate::observers::Meeting;
use crate::reductions::Private;
use crate::slots::Slot;
use crate::tasks;
use crate::thread::Thread;

/// Enters the next construct; the first thread prepares it.
pub fn enter(thread: &Thread, prepare: impl FnOnce(&Slot)) -> &'static Slot {
    let (number, slot) = thread.next_construct();
    if slot.enter(number) {
        slot.next.store(0, Ordering::Relaxed);
        slot.private.set(None);
        prepare(slot);
        slot.ready(number);
    }
    slot
}

fn enter_loop(thread: &Thread, iterations: Iterations) {
    enter(thread, |slot| slot.iterations.set(iterations));
}

/// Stores the next iterations of this thread where the program reads them. False if there are none.
///
/// # Safety
/// The two addresses must be those of variables.
unsafe fn next(thread: &Thread, begin: *mut u64, end: *mut u64) -> bool {
    let slot = thread.slot("GOMP_loop_next");
    let Some(part) = loops::next_part(thread, slot) else { return false };
    thread.part.set(part);
    let values = slot.iterations.see(|iterations| iterations.values(part));
    // SAFETY: by the contract.
    unsafe { (*begin, *end) = values };
    true
}

/// As `next`, in a loop with ordered regions: the ordered regions of the present iterations are
/// over.
///
/// # Safety
/// The two addresses must be those of variables.
unsafe fn next_ordered(thread: &Thread, begin: *mut u64, end: *mut u64) -> bool {
    let slot = thread.slot("GOMP_loop_ordered_next");
    let (first, after) = thread.part.get();
    if first < after {
        slot.turns.wait_until(|| slot.ordered.load(Ordering::SeqCst) == first);
        slot.ordered.store(after, Ordering::SeqCst);
        slot.turns.notify_all();
        thread.part.set((0, 0));
    }
    // SAFETY: by the contract.
    unsafe { next(thread, begin, end) }
}

/// Waits until the ordered regions of all earlier iterations are over.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_ordered_start() {
    let thread = Thread::current();
    // Outside of a loop, the thread is alone.
    let Some((_, slot)) = thread.slot.get() else { return };
    let (first, after) = thread.part.get();
    if first < after {
        slot.turns.wait_until(|| slot.ordered.load(Ordering::SeqCst) == first);
    }
}

/// The end of an ordered region: the next iterations of the thread, or its end of the loop, let
/// others go on.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_ordered_end() {}

macro_rules! nexts {
    ($how:ident: $($name:ident)*) => {$(
        /// Gives a thread its next iterations of a loop.
        ///
        /// # Safety
        /// The two addresses must be those of variables.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(begin: *mut u64, end: *mut u64) -> bool {
            // SAFETY: by the contract.
            unsafe { $how(Thread::current(), begin, end) }
        }
    )*};
}

nexts! { next:
    GOMP_loop_static_next GOMP_loop_dynamic_next GOMP_loop_guided_next GOMP_loop_runtime_next
    GOMP_loop_nonmonotonic_dynamic_next GOMP_loop_nonmonotonic_guided_next
    GOMP_loop_nonmonotonic_runtime_next GOMP_loop_maybe_nonmonotonic_runtime_next
    GOMP_loop_ull_static_next GOMP_loop_ull_dynamic_next GOMP_loop_ull_guided_next
    GOMP_loop_ull_runtime_next GOMP_loop_ull_nonmonotonic_dynamic_next
    GOMP_loop_ull_nonmonotonic_guided_next GOMP_loop_ull_nonmonotonic_runtime_next
    GOMP_loop_ull_maybe_nonmonotonic_runtime_next
}

nexts! { next_ordered:
    GOMP_loop_ordered_static_next GOMP_loop_ordered_dynamic_next GOMP_loop_ordered_guided_next
    GOMP_loop_ordered_runtime_next GOMP_loop_ull_ordered_static_next
    GOMP_loop_ull_ordered_dynamic_next GOMP_loop_ull_ordered_guided_next
    GOMP_loop_ull_ordered_runtime_next
}

/// The kind and the chunk of a loop whose schedule the compiler has given; without a kind, those of
/// the task.
fn schedule(thread: &Thread, kind: Option<LoopKind>, chunk: u64) -> (LoopKind, u64) {
    kind.map_or_else(
        || thread.with_task(|task| task.controls.see(|own| (own.schedule, own.chunk))),
        |kind| (kind, chunk),
    )
}

macro_rules! starts {
    ($($kind:expr, $($signed:ident)*, $($unsigned:ident)*;)*) => {$(
        $(
            /// Begins a loop.
            ///
            /// # Safety
            /// The last two addresses must be those of variables.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $signed(
                first: c_long, end: c_long, step: c_long, chunk: c_long,
                begin: *mut u64, after: *mut u64,
            ) -> bool {
                let thread = Thread::current();
                let chunk = chunk.max(0) as u64;
                enter_loop(thread, Iterations::signed(first, end, step, $kind, chunk));
                // SAFETY: by the contract.
                unsafe { next(thread, begin, after) }
            }
        )*
        $(
            /// Begins a loop.
            ///
            /// # Safety
            /// The last two addresses must be those of variables.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $unsigned(
                is_up: bool, first: u64, end: u64, step: u64, chunk: u64,
                begin: *mut u64, after: *mut u64,
            ) -> bool {
                let thread = Thread::current();
                let range = (is_up, first, end, step);
                enter_loop(thread, Iterations::unsigned(range, $kind, chunk));
                // SAFETY: by the contract.
                unsafe { next(thread, begin, after) }
            }
        )*
    )*};
}

starts! {
    LoopKind::Static, GOMP_loop_static_start GOMP_loop_ordered_static_start,
        GOMP_loop_ull_static_start GOMP_loop_ull_ordered_static_start;
    LoopKind::Dynamic,
        GOMP_loop_dynamic_start GOMP_loop_nonmonotonic_dynamic_start
        GOMP_loop_ordered_dynamic_start,
        GOMP_loop_ull_dynamic_start GOMP_loop_ull_nonmonotonic_dynamic_start
        GOMP_loop_ull_ordered_dynamic_start;
    LoopKind::Guided,
        GOMP_loop_guided_start GOMP_loop_nonmonotonic_guided_start GOMP_loop_ordered_guided_start,
        GOMP_loop_ull_guided_start GOMP_loop_ull_nonmonotonic_guided_start
        GOMP_loop_ull_ordered_guided_start;
}

macro_rules! runtime_starts {
    ($($signed:ident)*, $($unsigned:ident)*) => {
        $(
            /// Begins a loop with the schedule of the task.
            ///
            /// # Safety
            /// The last two addresses must be those of variables.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $signed(
                first: c_long, end: c_long, step: c_long, begin: *mut u64, after: *mut u64,
            ) -> bool {
                let thread = Thread::current();
                let (kind, chunk) = schedule(thread, None, 0);
                enter_loop(thread, Iterations::signed(first, end, step, kind, chunk));
                // SAFETY: by the contract.
                unsafe { next(thread, begin, after) }
            }
        )*
        $(
            /// Begins a loop with the schedule of the task.
            ///
            /// # Safety
            /// The last two addresses must be those of variables.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $unsigned(
                is_up: bool, first: u64, end: u64, step: u64, begin: *mut u64, after: *mut u64,
            ) -> bool {
                let thread = Thread::current();
                let (kind, chunk) = schedule(thread, None, 0);
                enter_loop(thread, Iterations::unsigned((is_up, first, end, step), kind, chunk));
                // SAFETY: by the contract.
                unsafe { next(thread, begin, after) }
            }
        )*
    };
}

runtime_starts! {
    GOMP_loop_runtime_start GOMP_loop_nonmonotonic_runtime_start
    GOMP_loop_maybe_nonmonotonic_runtime_start GOMP_loop_ordered_runtime_start,
    GOMP_loop_ull_runtime_start GOMP_loop_ull_nonmonotonic_runtime_start
    GOMP_loop_ull_maybe_nonmonotonic_runtime_start GOMP_loop_ull_ordered_runtime_start
}

/// What a construct has besides its iterations: reductions in which tasks take part, and memory
/// that its threads share.
#[derive(Clone, Copy)]
pub struct Additions {
    pub reductions: *mut usize,
    /// How many bytes the threads share; their address replaces it.
    pub memory: *mut *mut c_void,
}

impl Additions {
    pub const NONE: Self = Self { reductions: ptr::null_mut(), memory: ptr::null_mut() };

    /// For the first thread.
    ///
    /// # Safety
    /// The addresses must be null or those that the compiler has made.
    unsafe fn prepare(self, thread: &Thread, slot: &Slot) {
        if !self.reductions.is_null() {
            let threads = thread.team.get().size() as usize;
            // SAFETY: by the contract.
            slot.private.set(Some(unsafe { Private::allocate(self.reductions, threads) }));
        }
        if !self.memory.is_null() {
            // SAFETY: by the contract.
            let bytes = unsafe { *self.memory }.addr();
            slot.memory.set(vec![0; bytes.div_ceil(size_of::<u128>()).max(1)]);
        }
    }

    /// For each thread.
    ///
    /// # Safety
    /// The addresses must be null or those that the compiler has made.
    unsafe fn join(self, thread: &Thread, slot: &Slot) {
        if !self.reductions.is_null()
            && let Some(private) = slot.private.get()
        {
            // SAFETY: by the contract.
            unsafe { private.share(self.reductions) };
            let group = tasks::begin_group(thread);
            group.private.set(vec![private]);
        }
        if !self.memory.is_null() {
            // SAFETY: by the contract; all threads have the same address.
            unsafe { *self.memory = slot.memory.see(|all| all.as_ptr().cast_mut().cast()) };
        }
    }
}

/// Enters a construct with additions.
///
/// # Safety
/// The addresses must be null or those that the compiler has made.
pub unsafe fn enter_with(thread: &Thread, iterations: Iterations, additions: Additions) {
    let slot = enter(thread, |slot| {
        slot.iterations.set(iterations);
        // SAFETY: by the contract.
        unsafe { additions.prepare(thread, slot) };
    });
    // SAFETY: by the contract.
    unsafe { additions.join(thread, slot) };
}

/// Enters a loop with additions and gives its first iterations, if the program asks for them.
///
/// # Safety
/// As for `enter_with` and `next`.
unsafe fn start_with(
    iterations: Iterations,
    additions: Additions,
    (begin, after): (*mut u64, *mut u64),
) -> bool {
    let thread = Thread::current();
    // SAFETY: by the contract.
    unsafe { enter_with(thread, iterations, additions) };
    // SAFETY: by the contract.
    begin.is_null() || unsafe { next(thread, begin, after) }
}

/// The schedule with this number of the compiler's.
fn numbered(number: c_long, chunk: u64) -> (LoopKind, u64) {
    // Its upper bit permits only monotonic orders, which all are.
    schedule(Thread::current(), LoopKind::of(number & 0x7fff_ffff), chunk)
}

macro_rules! general_starts {
    ($($signed:ident)*, $($unsigned:ident)*) => {
        $(
            /// Begins a loop that has reductions of tasks, or memory that its threads share.
            ///
            /// # Safety
            /// The addresses must be those that the compiler has made.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $signed(
                first: c_long, end: c_long, step: c_long, number: c_long, chunk: c_long,
                begin: *mut u64, after: *mut u64,
                reductions: *mut usize, memory: *mut *mut c_void,
            ) -> bool {
                let (kind, chunk) = numbered(number, chunk.max(0) as u64);
                let iterations = Iterations::signed(first, end, step, kind, chunk);
                // SAFETY: by the contract.
                unsafe { start_with(iterations, Additions { reductions, memory }, (begin, after)) }
            }
        )*
        $(
            /// Begins a loop that has reductions of tasks, or memory that its threads share.
            ///
            /// # Safety
            /// The addresses must be those that the compiler has made.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $unsigned(
                is_up: bool, first: u64, end: u64, step: u64, number: c_long, chunk: u64,
                begin: *mut u64, after: *mut u64,
                reductions: *mut usize, memory: *mut *mut c_void,
            ) -> bool {
                let (kind, chunk) = numbered(number, chunk);
                let iterations = Iterations::unsigned((is_up, first, end, step), kind, chunk);
                // SAFETY: by the contract.
                unsafe { start_with(iterations, Additions { reductions, memory }, (begin, after)) }
            }
        )*
    };
}

general_starts! {
    GOMP_loop_start GOMP_loop_ordered_start, GOMP_loop_ull_start GOMP_loop_ull_ordered_start
}

/// Ends a loop with a barrier.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_loop_end() {
    let thread = Thread::current();
    thread.leave_construct();
    barrier::barrier(thread, Meeting::BarrierOfConstruct);
}

/// Ends a loop without a barrier.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_loop_end_nowait() {
    Thread::current().leave_construct();
}

/// Ends a loop with a barrier. True if the region is cancelled.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_loop_end_cancel() -> bool {
    let thread = Thread::current();
    thread.leave_construct();
    barrier::barrier_or_cancelled(thread, Meeting::BarrierOfConstruct)
}

/// The number of the next section of this thread, or 0.
fn next_section(thread: &Thread) -> c_uint {
    let (mut number, mut after) = (0, 0);
    // SAFETY: these are variables.
    let found = unsafe { next(thread, &raw mut number, &raw mut after) };
    if found { number as c_uint } else { 0 }
}

/// Begins sections; gives the number of the first one of this thread, or 0.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_sections_start(count: c_uint) -> c_uint {
    let thread = Thread::current();
    enter_loop(thread, super::parallel::sections(count));
    next_section(thread)
}

/// Begins sections that have reductions of tasks, or memory that their threads share.
///
/// # Safety
/// The addresses must be those that the compiler has made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_sections2_start(
    count: c_uint,
    reductions: *mut usize,
    memory: *mut *mut c_void,
) -> c_uint {
    let thread = Thread::current();
    let iterations = super::parallel::sections(count);
    // SAFETY: by the contract.
    unsafe { enter_with(thread, iterations, Additions { reductions, memory }) };
    next_section(thread)
}

/// The number of the next section of this thread, or 0.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_sections_next() -> c_uint {
    next_section(Thread::current())
}

/// Ends sections with a barrier.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_sections_end() {
    GOMP_loop_end();
}

/// Ends sections without a barrier.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_sections_end_nowait() {
    GOMP_loop_end_nowait();
}

/// Ends sections with a barrier. True if the region is cancelled.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_sections_end_cancel() -> bool {
    GOMP_loop_end_cancel()
}

/// Begins a scope that has reductions of tasks.
///
/// # Safety
/// The address must be that of words that the compiler has made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_scope_start(reductions: *mut usize) {
    let additions = Additions { reductions, ..Additions::NONE };
    let thread = Thread::current();
    // SAFETY: by the contract.
    unsafe { enter_with(thread, Iterations::default(), additions) };
    thread.leave_construct();
}

/// Begins a loop with `ordered(n)`, whose first of `counts` is that of the iterations to share.
///
/// # Safety
/// The addresses must be those that the compiler has made.
unsafe fn start_posting(
    (kind, chunk): (LoopKind, u64),
    counts: &[u64],
    additions: Additions,
    part: (*mut u64, *mut u64),
) -> bool {
    let thread = Thread::current();
    let range = (true, 0, counts[0], 1);
    let iterations = Iterations::unsigned(range, kind, chunk);
    let slot = enter(thread, |slot| {
        slot.iterations.set(iterations);
        // SAFETY: by the contract.
        unsafe { additions.prepare(thread, slot) };
        let chunks = iterations.chunks(u64::from(thread.team.get().size()));
        // The counts of the inner loops, then what each chunk has posted.
        let inner = counts[1..].iter().map(|count| AtomicU64::new(*count));
        let posted = { inner }.chain((0..chunks).map(|_| AtomicU64::new(0))).collect();
        slot.posted.set(posted);
        slot.depth.store(counts.len() as u64, Ordering::Relaxed);
    });
    // SAFETY: by the contract.
    unsafe { additions.join(thread, slot) };
    // SAFETY: by the contract.
    part.0.is_null() || unsafe { next(thread, part.0, part.1) }
}

/// The cell of the chunk of an iteration, and the number of the iteration in all loops, plus one.
fn cell(slot: &Slot, threads: u64, numbers: impl Fn(usize) -> u64) -> (&AtomicU64, u64) {
    // The vector does not change while threads are in the construct.
    slot.posted.see(|posted| {
        let inner = slot.depth.load(Ordering::Relaxed) as usize - 1;
        let iterations = slot.iterations.get();
        let mut number = numbers(0);
        let chunk = iterations.chunk_of(number.min(iterations.count - 1), threads);
        for (place, count) in posted[..inner].iter().enumerate() {
            let count = count.load(Ordering::Relaxed);
            number = number.wrapping_mul(count).wrapping_add(numbers(place + 1));
        }
        // SAFETY: the reference lives as long as the slot's vector, which is not changed before
        // all threads have left the construct.
        (unsafe { &*ptr::from_ref(&posted[inner + chunk]) }, number + 1)
    })
}

/// How many numbers an iteration of the present loop has.
#[unsafe(no_mangle)]
pub extern "C" fn combray_doacross_depth() -> c_uint {
    let slot = Thread::current().slot("GOMP_doacross_wait");
    slot.depth.load(Ordering::Relaxed) as c_uint
}

/// Waits until an iteration is posted.
///
/// # Safety
/// There are as many numbers as `combray_doacross_depth` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn combray_doacross_wait(numbers: *const u64) {
    let thread = Thread::current();
    let team = thread.team.get();
    let slot = thread.slot("GOMP_doacross_wait");
    // SAFETY: by the contract.
    let (cell, awaited) = cell(slot, team.size().into(), |place| unsafe { *numbers.add(place) });
    slot.turns.wait_until(|| cell.load(Ordering::SeqCst) >= awaited);
}

/// Posts an iteration.
///
/// # Safety
/// There must be as many numbers as the loop was begun with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_doacross_post(numbers: *const u64) {
    let thread = Thread::current();
    let team = thread.team.get();
    let slot = thread.slot("GOMP_doacross_post");
    // SAFETY: by the contract.
    let (cell, done) = cell(slot, team.size().into(), |place| unsafe { *numbers.add(place) });
    cell.store(done, Ordering::SeqCst);
    slot.turns.notify_all();
}

/// Posts an iteration.
///
/// # Safety
/// There must be as many numbers as the loop was begun with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_doacross_ull_post(numbers: *const u64) {
    // SAFETY: by the contract.
    unsafe { GOMP_doacross_post(numbers) }
}

/// The counts of the loops.
///
/// # Safety
/// There are so many.
unsafe fn counts<'a>(count: c_uint, counts: *const u64) -> &'a [u64] {
    // SAFETY: by the contract.
    unsafe { std::slice::from_raw_parts(counts, count as usize) }
}

macro_rules! posting_starts {
    ($($kind:ident: $($name:ident)*;)*) => {$($(
        /// Begins a loop with `ordered(n)`.
        ///
        /// # Safety
        /// The addresses must be those that the compiler has made.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            depth: c_uint, all: *const u64, chunk: c_long, begin: *mut u64, after: *mut u64,
        ) -> bool {
            let schedule = (LoopKind::$kind, chunk.max(0) as u64);
            // SAFETY: by the contract.
            unsafe { start_posting(schedule, counts(depth, all), Additions::NONE, (begin, after)) }
        }
    )*)*};
}

posting_starts! {
    Static: GOMP_loop_doacross_static_start GOMP_loop_ull_doacross_static_start;
    Dynamic: GOMP_loop_doacross_dynamic_start GOMP_loop_ull_doacross_dynamic_start;
    Guided: GOMP_loop_doacross_guided_start GOMP_loop_ull_doacross_guided_start;
}

macro_rules! posting_runtime_starts {
    ($($name:ident)*) => {$(
        /// Begins a loop with `ordered(n)` and the schedule of the task.
        ///
        /// # Safety
        /// The addresses must be those that the compiler has made.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            depth: c_uint, all: *const u64, begin: *mut u64, after: *mut u64,
        ) -> bool {
            let own = schedule(Thread::current(), None, 0);
            // SAFETY: by the contract.
            unsafe { start_posting(own, counts(depth, all), Additions::NONE, (begin, after)) }
        }
    )*};
}

posting_runtime_starts! { GOMP_loop_doacross_runtime_start GOMP_loop_ull_doacross_runtime_start }

macro_rules! posting_general_starts {
    ($($name:ident)*) => {$(
        /// Begins a loop with `ordered(n)` that has reductions of tasks or shared memory.
        ///
        /// # Safety
        /// The addresses must be those that the compiler has made.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            depth: c_uint, all: *const u64, number: c_long, chunk: c_long,
            begin: *mut u64, after: *mut u64,
            reductions: *mut usize, memory: *mut *mut c_void,
        ) -> bool {
            let schedule = numbered(number, chunk.max(0) as u64);
            let additions = Additions { reductions, memory };
            // SAFETY: by the contract.
            unsafe { start_posting(schedule, counts(depth, all), additions, (begin, after)) }
        }
    )*};
}

posting_general_starts! { GOMP_loop_doacross_start GOMP_loop_ull_doacross_start }
