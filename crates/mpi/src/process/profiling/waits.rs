//! The waits in recorded calls.

use progress::System;
use progress::waiting::WaitingSystem;
use runtime::machine::ticks;
use traces::{TraceEvent, TraceNote};

use super::{NAMES_AFTER, OwnTrace, POLLS_FIRST, ProfileRecord, SHOWN_WAIT_MIN};

impl ProfileRecord {
    /// Begins a wait in the call that a thread is in. From now on the call is timed.
    pub(super) fn begin_wait(&mut self, thread: u64) -> Option<()> {
        let open = self.open.iter_mut().find(|open| open.is_of(thread))?;
        (open.awaited, open.checks_next) = (None, POLLS_FIRST);
        if open.waited {
            return Some(());
        }
        open.waited = true;
        let site = &mut self.sites[open.site.0 as usize];
        let (ticks_before, calls) = &mut self.unseen_waits;
        match open.begun {
            Some(begun) if site.are_short() => {
                *ticks_before += ticks().saturating_sub(begun);
                *calls += 1;
            }
            Some(_) => {}
            None => {
                // Assume the average time that other calls took before they were found waiting.
                let before = ticks_before.checked_div(*calls).unwrap_or(0);
                open.begun = Some(ticks().saturating_sub(before));
            }
        }
        Some(())
    }

    /// Adds to the trace how long a thread has waited for the event that it awaited last.
    pub(super) fn trace_wait(&mut self, thread: u64) {
        let Some(open) = self.open.iter_mut().find(|open| open.is_of(thread)) else { return };
        let lasted = std::mem::take(&mut open.untraced).as_nanos() as u64;
        open.shows_next = SHOWN_WAIT_MIN;
        if let (Some(OwnTrace { trace, .. }), Some((cause, peer))) = (&self.trace, open.awaited) {
            let thread = System.thread_number();
            trace.note(ticks(), &TraceEvent::Waited { thread, cause, peer, lasted });
        }
    }

    /// Adds to the trace that a wait goes on, for the case that it never ends. A thread that seems
    /// to wait for ever looks up the names of callers, during which it may make others wait.
    #[cold]
    pub(super) fn trace_long_wait(&mut self, thread: u64) {
        let Some(open) = self.open.iter_mut().find(|open| open.is_of(thread)) else { return };
        let (Some(OwnTrace { trace, .. }), Some((cause, peer))) = (&self.trace, open.awaited)
        else {
            return;
        };
        open.shows_next = open.untraced * 2;
        let thread = System.thread_number();
        let lasted = open.untraced.as_nanos() as u64;
        trace.note(ticks(), &TraceEvent::Waiting { thread, cause, peer, lasted });
        let (own, waited) = (open.site.0 as usize, open.untraced);
        if waited >= NAMES_AFTER {
            self.name_caller(own);
        }
        if waited >= 2 * NAMES_AFTER {
            self.name_callers();
        }
    }

    /// Adds the names of all callers to the trace, if there is one, as the process is about to end
    /// the job.
    pub(in crate::process) fn name_callers(&self) {
        if self.trace.is_some() {
            (0..self.sites.len()).for_each(|site| self.name_caller(site));
        }
    }

    fn name_caller(&self, site: usize) {
        let Some(OwnTrace { trace, .. }) = &self.trace else { return };
        if let (false, Some(name)) = (self.sites[site].is_named(), self.sites[site].caller()) {
            trace.add_note(&TraceNote::Caller(site as u32, name));
        }
    }
}
