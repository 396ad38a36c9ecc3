//! Collects what ranks have recorded for the trace of a job that ended early, or that a client asks
//! about. Parts are requested one after the other, so that no queue between an agent and the
//! launcher holds more than one.

use std::time::Duration;

use traces::RecordedTrace;
use wire::Codec;

use super::{Action, ClientId, Deadline, JobState, last_phases::JobPhase};
use crate::protocol::{AgentOrder, TracePart};

/// A collection that is not complete.
pub(super) struct TraceCollection {
    receivers: Vec<TraceReceiver>,
    /// By rank, as far as they are complete; empty where nothing was recorded.
    complete: Vec<Vec<u8>>,
    /// The beginning of the next.
    partial: Vec<u8>,
    /// Whether a part was requested.
    is_requested: bool,
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
    /// Begins to collect what all ranks have recorded. An earlier collection is given up; its
    /// receivers get this one.
    pub(super) fn collect_traces(&mut self, receiver: TraceReceiver) {
        let mut receivers = self.traces.take().map_or_else(Vec::new, |earlier| earlier.receivers);
        receivers.push(receiver);
        let limit = match receiver {
            TraceReceiver::File => TRACES_TIME_MAX,
            TraceReceiver::Client(_) => TRACES_TIME_MAX_OF_CLIENTS,
        };
        self.deadlines.set(Deadline::Traces, self.now + limit);
        let (complete, partial, is_requested) = (Vec::new(), Vec::new(), false);
        self.traces = Some(TraceCollection { receivers, complete, partial, is_requested });
        self.request_traces();
    }

    /// Requests the next part, if none is awaited. Ranks of lost hosts are left out.
    pub(super) fn request_traces(&mut self) {
        while let Some(collection) = &mut self.traces {
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
        let Some(collection) = &mut self.traces else { return };
        let TraceCollection { receivers, complete, partial, is_requested } = collection;
        let is_next = rank as usize == complete.len() && part.offset as usize == partial.len();
        if !is_next || !std::mem::take(is_requested) {
            return;
        }
        partial.extend_from_slice(&part.bytes);
        if partial.len() >= part.total as usize || part.bytes.is_empty() {
            complete.push(std::mem::take(partial));
            let is_written = || {
                RecordedTrace::from_bytes(&complete[0]).is_some_and(|recorded| recorded.is_written)
            };
            // Then there is nothing to write.
            if rank == 0 && receivers[..] == [TraceReceiver::File] && is_written() {
                complete.clear();
                return self.conclude_traces();
            }
        }
        self.request_traces();
    }

    /// Passes on what was received until now.
    pub(super) fn conclude_traces(&mut self) {
        self.deadlines.clear(Deadline::Traces);
        let Some(TraceCollection { receivers, complete, .. }) = self.traces.take() else { return };
        for receiver in receivers {
            match (receiver, &self.plan.trace) {
                (TraceReceiver::Client(client), _) => {
                    self.actions.push(Action::SendTraces(client, complete.clone()));
                }
                (TraceReceiver::File, Some(target))
                    if complete.iter().any(|one| !one.is_empty()) =>
                {
                    self.actions.push(Action::WriteTrace(target.clone(), complete.clone()));
                }
                (TraceReceiver::File, _) => {}
            }
        }
        if matches!(self.phase, JobPhase::CollectingTraces) {
            self.await_spawned_jobs();
        }
    }
}
