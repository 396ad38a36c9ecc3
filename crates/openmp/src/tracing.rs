//! What the threads of teams do, for the trace of a job. The library of MPI takes the spans while
//! it records one; otherwise a construct loads one word.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::Instant;

use crate::observers::{self, ObserverKind};

/// Takes a span that ends now: what it was, the number of the thread, the function of the region,
/// and the duration in nanoseconds.
type Sink = extern "C" fn(what: u32, thread: u32, function: usize, lasted_ns: u64);

/// What a thread does. `spans::add_of_team` has these numbers, too.
#[derive(Clone, Copy)]
pub enum TeamWork {
    /// A region, on the thread that has opened it.
    OpenedRegion = 0,
    /// A region, on another thread of its team.
    Region = 1,
    /// A wait at a barrier or at the end of a region, with the tasks that it runs meanwhile.
    Barrier = 2,
    /// An explicit task.
    Task = 3,
}

static SINK: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The number of threads that have done something while spans were taken.
static THREADS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The number of this thread plus 1; 0 if it has none yet.
    static NUMBER: Cell<u32> = const { Cell::new(0) };
}

/// Reports all spans to `sink` from now on, or none. For the library of MPI.
#[unsafe(no_mangle)]
pub extern "C" fn combray_openmp_trace(sink: Option<Sink>) {
    observers::note(ObserverKind::Trace, sink.is_some());
    SINK.store(sink.map_or(ptr::null_mut(), |sink| sink as *mut c_void), Ordering::Release);
}

/// Does some work, and reports it if spans are taken. `function` is the function of a region, or 0.
#[inline]
pub fn during<R>(what: TeamWork, function: usize, work: impl FnOnce() -> R) -> R {
    let begun = (!SINK.load(Ordering::Relaxed).is_null()).then(Instant::now);
    let result = work();
    if let Some(begun) = begun {
        report(what, function, begun);
    }
    result
}

#[cold]
fn report(what: TeamWork, function: usize, begun: Instant) {
    let sink = SINK.load(Ordering::Acquire);
    if sink.is_null() {
        return;
    }
    // SAFETY: `combray_openmp_trace` has stored a function of this type.
    let sink = unsafe { std::mem::transmute::<*mut c_void, Sink>(sink) };
    let number = match NUMBER.get() {
        0 => {
            let number = THREADS.fetch_add(1, Ordering::Relaxed) + 1;
            NUMBER.set(number);
            number
        }
        number => number,
    };
    sink(what as u32, number - 1, function, begun.elapsed().as_nanos() as u64);
}
