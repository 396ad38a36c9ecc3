//! The trace of a job: what each process recorded is collected at the end, and process 0 writes it.

use std::backtrace::Backtrace;
use std::cell::Cell;
use std::path::Path;

use runtime::machine::{Moment, ticks};
use runtime::{Trace, configuration, samples};
use topology::JobMap;
use traces::alignment::{aligned, keep_last};
use traces::{ClockExchange, ClockOffset, RankTrace, TraceEvent, TraceNote, TracedPlace, perfetto};
use wire::Codec;

use super::Process;
use crate::contexts::ContextBlock;
use crate::side_channel::SideChannel;

/// The trace of this process, and what is known about the clocks of the machines.
#[derive(Debug)]
pub(super) struct OwnTrace {
    pub trace: Trace,
    /// For comparing clocks, if the job has several machines.
    channel: Option<SideChannel>,
    /// The offsets of the machines' clocks at the beginning, on process 0.
    begun: Vec<ClockOffset>,
    is_in_phase: Cell<bool>,
    region_opener: RegionOpener,
}

/// Returns the function of the program that has opened an OpenMP region, from the stack in it.
pub type RegionOpener = fn(&Backtrace) -> Option<String>;

impl OwnTrace {
    /// Records that the program enters a phase; an empty name ends the phase.
    pub(super) fn note_phase(&self, name: &str) {
        let now = ticks();
        if self.is_in_phase.replace(!name.is_empty()) {
            self.trace.note(now, &TraceEvent::PhaseEnded);
        }
        if name.is_empty() {
            return;
        }
        let name = self.trace.name(name);
        self.trace.note(now, &TraceEvent::PhaseBegan { name });
    }
}

impl Process {
    /// Begins the trace of this process.
    pub(super) fn begin_trace(&self, region_opener: RegionOpener) -> OwnTrace {
        let is_alone = self.map().is_one_machine();
        let channel = (!is_alone).then(|| SideChannel::open(self, ContextBlock::CLOCKS));
        let begun = self.clock_offsets(channel.as_ref());
        let trace = Trace::begin(configuration::trace_bytes()).unwrap_or_else(|cause| {
            self.abort(1, &format!("MPI_Init: there is no memory for the trace: {cause}"))
        });
        let (rank, node) = (self.rank(), self.map().own_node());
        trace.add_note(&TraceNote::Begun(rank, node, samples::host(), trace.begun()));
        if !begun.is_empty() {
            trace.add_note(&TraceNote::Offsets(begun.clone()));
        }
        self.runtime().trace(&trace);
        OwnTrace { trace, channel, begun, is_in_phase: Cell::default(), region_opener }
    }

    /// Collects the traces of all processes on process 0, which writes them to a file. Writes
    /// nothing if processes have failed: then the launcher does.
    pub(super) fn write_trace(&self, places: Vec<TracedPlace>, own: &OwnTrace) {
        let (clock, chunks, dropped) = own.trace.finish();
        let (rank, host) = (self.rank(), samples::host());
        let names = own.trace.names(own.region_opener);
        let trace = RankTrace { rank, host, clock, places, names, dropped, chunks };
        let ended = self.clock_offsets(own.channel.as_ref());
        let Some(rows) = self.gather(&trace.to_bytes()) else { return };
        let offset = |offsets: &[ClockOffset], node: u32| {
            offsets.get(node as usize).copied().unwrap_or_default()
        };
        let located = |trace: RankTrace| {
            let node = self.map().node(trace.rank);
            (trace, node, [offset(&own.begun, node), offset(&ended, node)])
        };
        let traces = rows.iter().filter_map(|row| RankTrace::from_bytes(row)).map(located);
        if let Some(file) = configuration::trace() {
            let mut traces = aligned(traces.collect());
            configuration::trace_last().into_iter().for_each(|ns| keep_last(&mut traces, ns));
            write(&file, &perfetto::trace_of(&traces));
            own.trace.set_written();
        }
    }

    /// Compares the clock of process 0's machine with that of each other one. Returns the offsets
    /// by machine on process 0, and zeros on other processes.
    fn clock_offsets(&self, channel: Option<&SideChannel>) -> Vec<ClockOffset> {
        let Some(channel) = channel else { return Vec::new() };
        let leaders = leaders(self.map());
        let mut offsets = vec![ClockOffset::default(); leaders.len()];
        for (offset, leader) in offsets.iter_mut().zip(leaders).filter(|(_, leader)| *leader != 0) {
            if self.rank() == 0 {
                *offset = self.offset_of(channel, leader);
            } else if self.rank() == leader {
                self.answer_with_time(channel);
            }
        }
        offsets
    }

    /// Returns how far the clock of the machine of `peer` is ahead.
    fn offset_of(&self, channel: &SideChannel, peer: u32) -> ClockOffset {
        let exchange = |_| {
            let before = Moment::now().nanoseconds();
            channel.send(self, peer, &[]);
            let answer = self.next_of(channel);
            let after = Moment::now().nanoseconds();
            Some(ClockExchange { before, there: u64::from_bytes(&answer?)?, after })
        };
        let exchanges: Vec<ClockExchange> = (0..EXCHANGES).filter_map(exchange).collect();
        ClockOffset::of(&exchanges).unwrap_or_default()
    }

    fn answer_with_time(&self, channel: &SideChannel) {
        for _ in 0..EXCHANGES {
            if self.next_of(channel).is_some() {
                channel.send(self, 0, &Moment::now().nanoseconds().to_bytes());
            }
        }
    }

    /// Waits for a message; `None` if a process has failed.
    fn next_of(&self, channel: &SideChannel) -> Option<Vec<u8>> {
        let mut next = None;
        self.wait_until(&mut |process| {
            next = channel.next(process).map(|(_, bytes)| bytes);
            next.is_some() || process.has_lost_processes()
        });
        next
    }
}

/// The number of exchanges with which two clocks are compared.
const EXCHANGES: u32 = 100;

/// Returns the first process of each machine, by the number of the machine.
fn leaders(map: &JobMap) -> Vec<u32> {
    let machines = map.nodes().iter().max().map_or(0, |last| last + 1);
    let mut leaders = vec![0; machines as usize];
    for rank in (0..map.size()).rev() {
        leaders[map.node(rank) as usize] = rank;
    }
    leaders
}

fn write(file: &Path, trace: &[u8]) {
    if let Err(cause) = std::fs::write(file, trace) {
        super::record::report_unwritten("the trace", file, &cause);
    }
}
