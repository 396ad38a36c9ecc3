//! What is wrong, in words.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

/// Where the program made a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CallSite {
    /// The function of MPI, such as `MPI_Send`.
    pub function: String,
    /// The functions of the program, the innermost first, each with file and line if they are
    /// known: `solve (poisson.c:41)`.
    pub stack: Vec<String>,
}

impl CallSite {
    /// `MPI_Send, called by solve (poisson.c:41), main (poisson.c:90)`.
    pub fn described(&self) -> String {
        // The program may also use memory without a call.
        let link = if self.function.starts_with("MPI") { ", called by" } else { " in" };
        match self.stack.is_empty() {
            true => self.function.clone(),
            false => format!("{}{link} {}", self.function, self.stack.join(", ")),
        }
    }
}

/// What kind of mistake it is: each place hears of one kind once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MistakeKind {
    /// Different collective operations at one place in the order.
    Order,
    /// The same operation, with different roots.
    Root,
    /// With different operations of reduction.
    Reduction,
    /// With amounts or types that contradict.
    Amount,
    /// Two threads of a process are in collective operations of one communicator.
    Threads,
    /// Threads are in MPI where the level of thread support does not allow it.
    ThreadLevel,
    /// Memory belongs to two operations at once.
    Overlap,
    /// A call has two buffers that overlap.
    OwnOverlap,
    /// An epoch of a window was never ended.
    Epoch,
    /// One-sided accesses to the same memory that nothing keeps apart.
    Conflict,
    /// Data was changed before its send was complete.
    Changed,
    /// A message is longer than the buffer.
    Truncation,
    /// A message is something else than what is received.
    Types,
    /// A ready send came before the receive.
    Ready,
    /// Sends that end only as messages are buffered.
    Buffering,
    /// A message that nobody received.
    Message,
    /// A request that was never completed, or freed.
    Request,
    /// An object that was never freed.
    Object,
}

/// A mistake of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Of what kind.
    pub kind: MistakeKind,
    /// What is wrong: a clause without a full stop, without the rank.
    pub what: String,
    /// The calls that are involved, each with the rank in the job of the process that made it. The
    /// first one is the place at which it is told.
    pub sites: Vec<(u32, CallSite)>,
}

impl Mistake {
    /// All that a person is told: a sentence, what to do, and the calls.
    pub fn text(&self) -> String {
        let mut text = format!("{}. {}.", self.what, self.kind.remedy());
        for (rank, site) in &self.sites {
            text.push_str(&format!("\n    rank {rank}: {}", site.described()));
        }
        text
    }
}

impl MistakeKind {
    /// What to do.
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
                "Collective operations of one communicator need one order, so one thread at a time \
                 may call them; give each thread a duplicate (MPI_Comm_dup), or let them take turns"
            }
            MistakeKind::ThreadLevel => {
                "Ask MPI_Init_thread for a level that allows what the threads do, and compare it with \
                 the level that it provides; or let threads take turns, or the main thread call MPI"
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
                "In one epoch of a window only accesses that read, and accumulates with one operation, \
                 may use the same memory; put MPI_Win_fence between them, or MPI_Win_flush where one \
                 process has locked another, or let processes that lock the same one take turns \
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
                "A ready send is allowed only when the receive is known to be posted; use \
                 MPI_Send or MPI_Isend, or let the receiver say that it is ready"
            }
            MistakeKind::Buffering => {
                "A program must not rely on that (MPI 5.0, section 3.5), as larger or more messages \
                 are not buffered: post receives first (MPI_Irecv), use MPI_Sendrecv, or MPI_Bsend \
                 with memory for it"
            }
            MistakeKind::Message => "Receive each message that is sent, or do not send it",
            MistakeKind::Request => {
                "Complete each request (MPI_Wait, MPI_Test), and free persistent ones \
                 (MPI_Request_free)"
            }
            MistakeKind::Object => "Free each object that the program makes",
        }
    }
}

/// What was told already.
#[derive(Debug, Default)]
pub struct MistakesTold(HashSet<(MistakeKind, CallSite)>);

impl MistakesTold {
    /// Whether this place has not yet heard of such a mistake; from now on it has.
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
        let mut told = MistakesTold::default();
        assert!(told.is_new(&mistake(MistakeKind::Root, &site)));
        assert!(!told.is_new(&mistake(MistakeKind::Root, &site)));
        assert!(told.is_new(&mistake(MistakeKind::Root, &other)));
        assert!(told.is_new(&mistake(MistakeKind::Amount, &site)));
        let text = mistake(MistakeKind::Root, &site).text();
        assert_eq!(
            text,
            "it is wrong. All processes must name the same root.\n    rank 1: MPI_Bcast, called by \
             main (a.c:4)"
        );
    }
}
