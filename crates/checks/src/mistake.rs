//! Mistakes of a program, and the sentences that describe them.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

/// The place where the program made a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CallSite {
    /// The MPI function, such as `MPI_Send`.
    pub function: String,
    /// The functions of the program, innermost first, each with file and line if they are known:
    /// `solve (poisson.c:41)`.
    pub stack: Vec<String>,
}

impl CallSite {
    /// Returns the place as text: `MPI_Send, called by solve (poisson.c:41), main (poisson.c:90)`.
    pub fn described(&self) -> String {
        // A use of memory by the program itself has no MPI function.
        let link = if self.function.starts_with("MPI") { ", called by" } else { " in" };
        match self.stack.is_empty() {
            true => self.function.clone(),
            false => format!("{}{link} {}", self.function, self.stack.join(", ")),
        }
    }
}

/// The kind of a mistake. Each kind is reported once for each call site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MistakeKind {
    /// Processes call different collective operations at one place in the order.
    Order,
    /// Processes name different roots for one collective operation.
    Root,
    /// Processes name different operations for one reduction.
    Reduction,
    /// Amounts or types of one collective operation contradict each other.
    Amount,
    /// Two threads of a process are in collective operations of one communicator at the same time.
    Threads,
    /// Threads are in MPI calls that the level of thread support does not allow.
    ThreadLevel,
    /// Two operations use one piece of memory at the same time.
    Overlap,
    /// One call has two buffers that overlap.
    OwnOverlap,
    /// An epoch of a window was never ended.
    Epoch,
    /// One-sided accesses to one piece of memory are not separated by any synchronization.
    Conflict,
    /// Data was changed before its send was complete.
    Changed,
    /// A message is longer than the receive buffer.
    Truncation,
    /// The types of a message differ from the types of its receive.
    Types,
    /// A ready send came before its receive was posted.
    Ready,
    /// Sends complete only because messages are buffered.
    Buffering,
    /// A message was never received.
    Message,
    /// A request was neither completed nor freed.
    Request,
    /// An object was never freed.
    Object,
}

/// A mistake of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The kind of the mistake.
    pub kind: MistakeKind,
    /// What is wrong: a clause without a full stop, without the rank.
    pub what: String,
    /// The calls that are involved, each with the rank in the job of the process that made it. The
    /// mistake is reported at the first call site.
    pub sites: Vec<(u32, CallSite)>,
}

impl Mistake {
    /// Returns the report for the user: a sentence, what to do, and the calls.
    pub fn text(&self) -> String {
        let mut text = format!("{}. {}.", self.what, self.kind.remedy());
        for (rank, site) in &self.sites {
            text.push_str(&format!("\n    rank {rank}: {}", site.described()));
        }
        text
    }
}

impl MistakeKind {
    /// Returns what the user can do about this kind of mistake.
    fn remedy(self) -> &'static str {
        match self {
            MistakeKind::Order => {
                "All processes of a communicator must call the same collective operations in the \
                 same order; look for a branch that only some of them take"
            }
            MistakeKind::Root => "All processes must name the same root",
            MistakeKind::Reduction => "All processes must name the same operation",
            MistakeKind::Amount => {
                "Counts and datatypes must describe the same data on all processes; look for where \
                 they are computed differently"
            }
            MistakeKind::Threads => {
                "Collective operations of one communicator must be called in one order, so only \
                 one thread at a time may call them; give each thread a duplicate of the \
                 communicator (MPI_Comm_dup), or let the threads take turns"
            }
            MistakeKind::ThreadLevel => {
                "Request a thread level from MPI_Init_thread that allows these calls, and compare \
                 it with the level that it provides; or let the threads take turns, or make all \
                 calls of MPI in the main thread"
            }
            MistakeKind::OwnOverlap => {
                "The buffers of one call must have no bytes in common; use another buffer, or \
                 MPI_IN_PLACE or MPI_Sendrecv_replace where the data is to be replaced"
            }
            MistakeKind::Epoch => {
                "One-sided operations are complete after the call that ends their epoch: put \
                 MPI_Win_fence between the last of them and MPI_Win_free"
            }
            MistakeKind::Overlap => {
                "Memory that an operation receives into belongs to it until it is complete; use \
                 another buffer, or complete the operation first"
            }
            MistakeKind::Conflict => {
                "In one epoch of a window, only reads, or accumulates with one operation, may use \
                 the same memory; put MPI_Win_fence between the accesses, or MPI_Win_flush in an \
                 epoch of MPI_Win_lock, or let the processes that lock this target take turns \
                 (MPI_Barrier, a message, MPI_LOCK_EXCLUSIVE), or use other memory"
            }
            MistakeKind::Changed => {
                "The data that an operation sends belongs to it until it is complete; complete it \
                 (MPI_Wait, or for one-sided operations MPI_Win_flush_local or the end of the epoch) \
                 before the memory is written or freed"
            }
            MistakeKind::Truncation => "Receive with a count that is large enough for the message",
            MistakeKind::Types => "Send and receive with datatypes of the same elements",
            MistakeKind::Ready => {
                "A ready send is allowed only when the receive is known to be posted; use MPI_Send \
                 or MPI_Isend, or let the receiver send a message when it has posted the receive"
            }
            MistakeKind::Buffering => {
                "A program must not rely on buffering (MPI 5.0, section 3.5), because larger or \
                 more messages are not buffered: post receives first (MPI_Irecv), use \
                 MPI_Sendrecv, or use MPI_Bsend with an attached buffer"
            }
            MistakeKind::Message => "Receive each message that is sent, or do not send it",
            MistakeKind::Request => {
                "Complete each request (MPI_Wait, MPI_Test), and free persistent requests \
                 (MPI_Request_free)"
            }
            MistakeKind::Object => "Free each object that the program creates",
        }
    }
}

/// The mistakes that were reported already.
#[derive(Debug, Default)]
pub struct ReportedMistakes(HashSet<(MistakeKind, CallSite)>);

impl ReportedMistakes {
    /// Whether a mistake of this kind has not been reported at its call site yet. Records that it
    /// now has been.
    pub fn is_new(&mut self, mistake: &Mistake) -> bool {
        let site = mistake.sites.first().map(|(_, site)| site.clone()).unwrap_or_default();
        self.0.insert((mistake.kind, site))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_hears_of_a_mistake_once() {
        let site = CallSite { function: "MPI_Bcast".into(), stack: vec!["main (a.c:4)".into()] };
        let other = CallSite { stack: vec!["main (a.c:5)".into()], ..site.clone() };
        let mistake = |kind, site: &CallSite| Mistake {
            kind,
            what: "it is wrong".into(),
            sites: vec![(1, site.clone())],
        };
        let mut reported = ReportedMistakes::default();
        assert!(reported.is_new(&mistake(MistakeKind::Root, &site)));
        assert!(!reported.is_new(&mistake(MistakeKind::Root, &site)));
        assert!(reported.is_new(&mistake(MistakeKind::Root, &other)));
        assert!(reported.is_new(&mistake(MistakeKind::Amount, &site)));
        let text = mistake(MistakeKind::Root, &site).text();
        assert_eq!(
            text,
            "it is wrong. All processes must name the same root.\n    rank 1: MPI_Bcast, called by \
             main (a.c:4)"
        );
    }
}
