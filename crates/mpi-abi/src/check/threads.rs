//! Checks calls of threads at a level of thread support that allows one thread at a time.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use checks::{Mistake, MistakeKind, ReportedMistakes};
use mpi::ThreadLevel;

use super::sites;
use crate::entry_point::EntryPoint;
use crate::library::LibraryState;
use crate::output::print_message;
use crate::phase;

/// The turn of a thread, which lasts while its call runs.
pub struct Turn(());

/// The state that all threads share.
#[derive(Default)]
struct Turns {
    /// The threads in calls, with the function of each call.
    inside: Vec<(ThreadId, &'static str)>,
    reported: Option<ReportedMistakes>,
}

static TURNS: Mutex<Turns> = Mutex::new(Turns { inside: Vec::new(), reported: None });
static LEFT: Condvar = Condvar::new();

/// How long a thread waits for another thread that is in a call. The library does not support two
/// threads in calls, but the other thread may be waiting for this one.
const TIMEOUT: Duration = Duration::from_secs(1);

impl Turn {
    /// Begins the turn of this thread for a call. If another thread is in a call, or if only the
    /// main thread may make calls, this is reported as a mistake.
    pub fn take(entry: &'static EntryPoint, library: &LibraryState) -> Self {
        let this_thread = thread::current().id();
        let mut turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
        let other = turns.inside.iter().find(|(thread, _)| *thread != this_thread).copied();
        let level = library.process.highest_level();
        let is_main = phase::is_main_thread();
        let what = match (other, level) {
            (Some((_, function)), ThreadLevel::Serialized) => Some(format!(
                "while another of its threads is in {function}, at MPI_THREAD_SERIALIZED"
            )),
            (_, ThreadLevel::Single | ThreadLevel::Funneled) if !is_main => Some(format!(
                "in a thread that is not the main thread, at {}",
                if level == ThreadLevel::Single {
                    "MPI_THREAD_SINGLE"
                } else {
                    "MPI_THREAD_FUNNELED"
                }
            )),
            _ => None,
        };
        if let Some(what) = what {
            let rank = library.process.rank();
            let site = sites::described(entry.name);
            let what = format!("rank {rank} calls {} {what}", entry.name);
            let mistake =
                Mistake { kind: MistakeKind::ThreadLevel, what, sites: vec![(rank, site)] };
            if turns.reported.get_or_insert_default().is_new(&mistake) {
                print_message(&format!("check: {}", mistake.text()));
            }
        }
        let is_taken =
            |turns: &mut Turns| turns.inside.iter().any(|(thread, _)| *thread != this_thread);
        let waited = LEFT.wait_timeout_while(turns, TIMEOUT, is_taken);
        let (mut turns, _) = waited.unwrap_or_else(PoisonError::into_inner);
        turns.inside.push((this_thread, entry.name));
        Self(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let this_thread = thread::current().id();
        let mut turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
        let place = turns.inside.iter().rposition(|(thread, _)| *thread == this_thread);
        place.map(|place| turns.inside.remove(place));
        LEFT.notify_all();
    }
}
