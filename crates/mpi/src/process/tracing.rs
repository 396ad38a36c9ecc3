//! The trace of a job: what each process recorded is collected at the end, and process 0 writes it.

use std::path::Path;

use runtime::machine::Moment;
use runtime::{Trace, configuration, samples};
use topology::JobMap;
use traces::{ClockOffset, RankTrace, TracedPlace, perfetto};
use wire::Codec;

use super::Process;
use super::profiling::ProfileRecord;
use crate::contexts::ContextBlock;
use crate::side_channel::SideChannel;

impl Process {
    /// Begins the trace of this process.
    pub(super) fn begin_trace(&self) -> Trace {
        let trace = Trace::begin(configuration::trace_bytes());
        self.runtime().trace(&trace);
        trace
    }

    /// Collects the traces of all processes on process 0, which writes them to a file. Writes
    /// nothing if processes have failed.
    pub(super) fn write_trace(&self, notes: &ProfileRecord, trace: &Trace) {
        let (clock, chunks, dropped) = trace.finish();
        let place = |site: &super::profiling::SiteRecord| TracedPlace {
            function: site.function.clone(),
            caller: (site.caller)().unwrap_or_default(),
        };
        let places = notes.sites.iter().map(place).collect();
        let (rank, host) = (self.rank(), samples::host());
        let own = RankTrace { rank, host, clock, places, dropped, chunks };
        let offsets = self.clock_offsets();
        let Some(rows) = self.gather(&own.to_bytes()) else { return };
        let ranks = rows.iter().filter_map(|row| RankTrace::from_bytes(row));
        let map = self.map();
        let all: Vec<(RankTrace, ClockOffset)> = ranks
            .map(|one| {
                let node = map.node(one.rank) as usize;
                (one, offsets.get(node).copied().unwrap_or_default())
            })
            .collect();
        if let Some(file) = configuration::trace() {
            write(&file, &perfetto::trace_of(&all));
        }
    }

    /// Compares the clock of process 0's machine with that of each other one. Returns the offsets
    /// by machine on process 0, and zeros on other processes.
    fn clock_offsets(&self) -> Vec<ClockOffset> {
        let map = self.map();
        if map.is_one_machine() {
            return Vec::new();
        }
        let leaders = leaders(map);
        let channel = SideChannel::open(self, ContextBlock::CLOCKS);
        let mut offsets = vec![ClockOffset::default(); leaders.len()];
        for (offset, leader) in offsets.iter_mut().zip(leaders).filter(|(_, leader)| *leader != 0) {
            if self.rank() == 0 {
                *offset = self.offset_of(&channel, leader);
            } else if self.rank() == leader {
                self.answer_with_time(&channel);
            }
        }
        offsets
    }

    /// Returns how far the clock of the machine of `peer` is ahead, from the exchange that took
    /// the shortest time.
    fn offset_of(&self, channel: &SideChannel, peer: u32) -> ClockOffset {
        let exchange = |_| {
            let before = Moment::now().nanoseconds();
            channel.send(self, peer, &[]);
            let answer = self.next_of(channel);
            let after = Moment::now().nanoseconds();
            let there = u64::from_bytes(&answer?)?;
            let error_ns = (after - before).div_ceil(2);
            let ahead_ns = there.wrapping_sub(before + (after - before) / 2) as i64;
            Some((error_ns, ahead_ns))
        };
        let best = (0..EXCHANGES).filter_map(exchange).min();
        best.map_or_else(ClockOffset::default, |(error_ns, ahead_ns)| ClockOffset {
            ahead_ns,
            error_ns,
        })
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

/// The number of exchanges from which the one that took the shortest time is used.
const EXCHANGES: u32 = 32;

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
        eprintln!("combray: the trace cannot be written to {}: {cause}", file.display());
    }
}
