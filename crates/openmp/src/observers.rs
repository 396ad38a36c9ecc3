//! The observers of what the program does: a tool (`tools`), and the trace of a job (`tracing`).
//! Other modules report each event here, once; while nobody observes, it costs a load of one word.

use std::sync::atomic::{AtomicU32, Ordering};

pub use crate::tools::{Meeting, ThreadKind};

use crate::tasks::Task;
use crate::team::ThreadTeam;
use crate::thread::Thread;
use crate::tools::{self, ScopeEnd, Why};
use crate::tracing::{self, TeamWork};

/// An observer, with its bit of [`PRESENT`].
#[derive(Clone, Copy)]
pub enum ObserverKind {
    Tool = 1,
    Trace = 2,
}

/// Those that are there.
static PRESENT: AtomicU32 = AtomicU32::new(0);

/// An observer begins or ends. Afterwards events may still be reported to it, by threads that have
/// not seen the change.
pub fn note(observer: ObserverKind, is_there: bool) {
    match is_there {
        true => PRESENT.fetch_or(observer as u32, Ordering::Release),
        false => PRESENT.fetch_and(!(observer as u32), Ordering::Release),
    };
}

/// Whether anybody observes.
pub fn are_there() -> bool {
    PRESENT.load(Ordering::Relaxed) != 0
}

/// A thread is known to this library from now on.
pub fn thread_begins(thread: &Thread, kind: ThreadKind) {
    if are_there() {
        tools::thread_begins(thread, kind);
    }
}

pub fn thread_ends(thread: &Thread) {
    if are_there() {
        tools::thread_ends(thread);
    }
}

/// A thread opens a region, before it enters it.
pub fn region_begins(thread: &Thread, team: &ThreadTeam, threads: u32) {
    if are_there() {
        tools::region_begins(thread.task(), team, threads);
    }
}

/// A thread has left a region that it had opened.
pub fn region_ends(thread: &Thread, team: &ThreadTeam) {
    if are_there() {
        tools::region_ends(thread.task(), team);
    }
}

/// A thread has entered a region, and has an implicit task.
pub fn implicit_task_begins(thread: &Thread) {
    if are_there() {
        tools::implicit_task(thread, ScopeEnd::Begin);
    }
}

/// A thread is about to leave a region.
pub fn implicit_task_ends(thread: &Thread) {
    if are_there() {
        tools::implicit_task(thread, ScopeEnd::End);
    }
}

/// Runs the function of a region on a thread of its team.
pub fn while_in_region<R>(thread: &Thread, function: usize, run: impl FnOnce() -> R) -> R {
    if !are_there() {
        return run();
    }
    let what = match thread.id.get() {
        0 => TeamWork::OpenedRegion,
        _ => TeamWork::Region,
    };
    tracing::during(what, function, run)
}

/// The task that a thread runs creates another one.
pub fn task_created(thread: &Thread, task: &Task, has_dependences: bool) {
    if are_there() {
        tools::task_created(thread.task(), task, has_dependences);
    }
}

/// Runs a task on a thread that goes on with `outer` afterwards.
pub fn while_task_runs<R>(outer: &Task, task: &Task, run: impl FnOnce() -> R) -> R {
    if !are_there() {
        return run();
    }
    tools::task_scheduled(outer, Why::Switch, task);
    let result = tracing::during(TeamWork::Task, 0, run);
    let why = if task.kind().has_event { Why::Detach } else { Why::Complete };
    tools::task_scheduled(task, why, outer);
    result
}

/// Waits for other threads, or for tasks.
pub fn while_meeting<R>(thread: &Thread, meeting: Meeting, wait: impl FnOnce() -> R) -> R {
    if !are_there() {
        return wait();
    }
    let is_traced = match meeting {
        Meeting::BarrierExplicit | Meeting::BarrierOfConstruct => true,
        // Other threads wait there for the next region.
        Meeting::BarrierOfRegion => thread.id.get() == 0,
        Meeting::Taskwait | Meeting::Taskgroup => false,
    };
    tools::meets(thread, meeting, ScopeEnd::Begin);
    let result = match is_traced && thread.team.get().size() > 1 {
        true => tracing::during(TeamWork::Barrier, 0, wait),
        false => wait(),
    };
    tools::meets(thread, meeting, ScopeEnd::End);
    result
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::ffi::c_void;
    use std::ptr;

    use super::*;
    use crate::regions::{self, Extras};
    use crate::tasks;
    use crate::{Address, barrier};

    thread_local! {
        static SPANS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    }

    extern "C" fn note_span(what: u32, _thread: u32, _function: usize, _lasted_ns: u64) {
        SPANS.with_borrow_mut(|spans| spans.push(what));
    }

    unsafe extern "C" fn meet(_: *mut c_void) {
        let thread = Thread::current();
        barrier::barrier(thread, Meeting::BarrierExplicit);
        while_meeting(thread, Meeting::Taskwait, || tasks::wait_for_children(thread));
    }

    #[test]
    fn a_trace_has_each_wait_of_a_team_once() {
        let thread = Thread::current();
        let run = |threads| {
            regions::run(thread, meet, Address(ptr::null_mut()), threads, Extras::default());
            SPANS.take()
        };
        let (region, barrier) = (TeamWork::OpenedRegion as u32, TeamWork::Barrier as u32);
        assert_eq!(run(2), []);
        tracing::combray_openmp_trace(Some(note_span));
        assert_eq!(run(2), [barrier, region, barrier]);
        assert_eq!(run(1), [region]);
        tracing::combray_openmp_trace(None);
        assert_eq!(run(2), []);
    }
}
