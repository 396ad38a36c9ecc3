//! Collects what ranks have recorded for the trace of a job that ended early, or that a client asks
//! about. Parts are requested one after the other, so that no queue between an agent and the
//! launcher holds more than one.

use std::time::Duration;

use traces::RecordedTrace;
use wire::Codec;

use super::{Action, ClientId, Deadline, JobState, last_phases::JobPhase};
use crate::jobs::{TRACES_REPLY_BYTES_MAX, traces_reply_bytes};
use crate::protocol::{AgentOrder, TracePart};

/// The collection that runs, and what is left of earlier ones.
pub(super) struct TraceCollections {
    running: Option<TraceCollection>,
    /// The maximal length of an answer to a client, in bytes.
    pub(super) reply_bytes_max: usize,
    /// The rank and the offset of each part that was requested for a collection that was concluded
    /// before it arrived. It shows an earlier state than the parts that follow it.
    abandoned: Vec<(u32, u32)>,
}

/// A collection that is not complete.
struct TraceCollection {
    receivers: Vec<TraceReceiver>,
    /// Whether the job has ended meanwhile, so that the file gets a collection of its own: what
    /// this one has received shows the job before its end.
    is_file_next: bool,
    /// By rank, as far as they are complete; empty where nothing was recorded.
    complete: Vec<Vec<u8>>,
    /// The length of all of these, in bytes.
    complete_bytes: usize,
    /// The beginning of the next.
    partial: Vec<u8>,
    /// Whether a part was requested.
    is_requested: bool,
}

impl Default for TraceCollections {
    fn default() -> Self {
        Self { running: None, reply_bytes_max: TRACES_REPLY_BYTES_MAX, abandoned: Vec::new() }
    }
}

/// Where the traces go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TraceReceiver {
    /// The file that the user has named.
    File,
    /// A client that has connected.
    Client(ClientId),
}

/// How long all ranks may take.
const TRACES_TIME_MAX: Duration = Duration::from_secs(60);

/// How long they may take when a client waits.
const TRACES_TIME_MAX_OF_CLIENTS: Duration = Duration::from_secs(10);

impl JobState<'_> {
    /// Begins to collect what all ranks have recorded. A client joins a collection that runs and
    /// leaves its deadline alone. The file follows one for clients, as its own must begin after the
    /// end of the job.
    pub(super) fn collect_traces(&mut self, receiver: TraceReceiver) {
        match (&mut self.traces.running, receiver) {
            (Some(running), TraceReceiver::Client(_)) => running.receivers.push(receiver),
            (Some(running), TraceReceiver::File) => running.is_file_next = true,
            (None, _) => self.begin_collection(receiver),
        }
    }

    fn begin_collection(&mut self, receiver: TraceReceiver) {
        let limit = match receiver {
            TraceReceiver::File => TRACES_TIME_MAX,
            TraceReceiver::Client(_) => TRACES_TIME_MAX_OF_CLIENTS,
        };
        self.deadlines.set(Deadline::Traces, self.now + limit);
        self.traces.running = Some(TraceCollection {
            receivers: vec![receiver],
            is_file_next: false,
            complete: Vec::new(),
            complete_bytes: 0,
            partial: Vec::new(),
            is_requested: false,
        });
        self.request_traces();
    }

    /// Requests the next part, if none is awaited. Ranks of lost hosts are left out.
    pub(super) fn request_traces(&mut self) {
        while let Some(collection) = &mut self.traces.running {
            let rank = collection.complete.len();
            let Some(state) = self.ranks.get(rank) else { return self.conclude_traces() };
            if self.hosts[state.host].has_started() {
                if !std::mem::replace(&mut collection.is_requested, true) {
                    let offset = collection.partial.len() as u32;
                    self.send(state.host, AgentOrder::SendTrace(rank as u32, offset));
                }
                return;
            }
            collection.partial.clear();
            collection.complete.push(Vec::new());
            collection.is_requested = false;
        }
    }

    /// Handles a part of what a rank has recorded. One that was not requested last is ignored.
    pub(super) fn note_trace_part(&mut self, rank: u32, part: TracePart) {
        let TraceCollections { running, abandoned, .. } = &mut self.traces;
        // A rank's parts arrive in the order of the requests.
        if let Some(earlier) = abandoned.iter().position(|one| *one == (rank, part.offset)) {
            abandoned.remove(earlier);
            return;
        }
        let Some(collection) = running else { return };
        let is_next = rank as usize == collection.complete.len()
            && part.offset as usize == collection.partial.len();
        if !is_next || !std::mem::take(&mut collection.is_requested) {
            return;
        }
        collection.partial.extend_from_slice(&part.bytes);
        let is_complete = collection.partial.len() >= part.total as usize || part.bytes.is_empty();
        let pending = if is_complete { collection.partial.len() } else { part.total as usize };
        if !self.refuse_long_answers(pending) {
            return;
        }
        let Some(collection) = &mut self.traces.running else { return };
        if is_complete {
            collection.complete_bytes += collection.partial.len();
            collection.complete.push(std::mem::take(&mut collection.partial));
            // Then there is nothing to write.
            if rank == 0
                && collection.receivers[..] == [TraceReceiver::File]
                && is_written(&collection.complete)
            {
                return self.conclude_traces();
            }
        }
        self.request_traces();
    }

    /// Refuses the clients if what the ranks have recorded is more than an answer may have, given
    /// the length of what the next of them has recorded. Returns false if the collection was for
    /// them alone, so that it is over.
    fn refuse_long_answers(&mut self, pending: usize) -> bool {
        let Some(collection) = &mut self.traces.running else { return false };
        let length = traces_reply_bytes(self.ranks.len(), collection.complete_bytes + pending);
        if length <= self.traces.reply_bytes_max {
            return true;
        }
        collection.receivers.retain(|receiver| {
            if let TraceReceiver::Client(client) = receiver {
                self.actions.push(Action::SendTraces(*client, None));
            }
            *receiver == TraceReceiver::File
        });
        let is_over = collection.receivers.is_empty();
        if is_over {
            self.conclude_traces();
        }
        !is_over
    }

    /// Passes on what was received until now. The last receiver gets it without a copy.
    pub(super) fn conclude_traces(&mut self) {
        self.deadlines.clear(Deadline::Traces);
        let Some(concluded) = self.traces.running.take() else { return };
        let TraceCollection { mut receivers, is_file_next, mut complete, .. } = concluded;
        if concluded.is_requested {
            let awaited = (complete.len() as u32, concluded.partial.len() as u32);
            self.traces.abandoned.push(awaited);
        }
        // The file that rank 0 has written has more than what is here.
        let target = self
            .plan
            .trace
            .as_ref()
            .filter(|_| complete.iter().any(|one| !one.is_empty()) && !is_written(&complete));
        receivers.retain(|receiver| *receiver != TraceReceiver::File || target.is_some());
        let last = receivers.len().saturating_sub(1);
        for (number, receiver) in receivers.into_iter().enumerate() {
            let is_last = number == last;
            let traces = if is_last { std::mem::take(&mut complete) } else { complete.clone() };
            self.actions.push(match (receiver, target) {
                (TraceReceiver::Client(client), _) => Action::SendTraces(client, Some(traces)),
                (TraceReceiver::File, Some(target)) => Action::WriteTrace(target.clone(), traces),
                (TraceReceiver::File, None) => continue,
            });
        }
        let is_impatient = self.interrupts.len() > 1;
        if is_file_next && !is_impatient {
            return self.begin_collection(TraceReceiver::File);
        }
        if matches!(self.phase, JobPhase::CollectingTraces) {
            self.await_spawned_jobs();
        }
    }
}

/// Whether rank 0, whose memory is the first of `complete`, has written the trace of the job.
fn is_written(complete: &[Vec<u8>]) -> bool {
    let first = complete.first().and_then(|bytes| RecordedTrace::from_bytes(bytes));
    first.is_some_and(|recorded| recorded.is_written)
}
