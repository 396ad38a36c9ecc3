//! The memory in which the processes of this machine record their traces. It outlives them, so that
//! the trace of a job that ends early can be written.

use std::fs::File;
use std::os::fd::AsRawFd;

use base::variables::TRACE_MEMORY;
use memory::SharedMemory;
use sys::counter;
use traces::{TraceMemory, TraceMoment};
use wire::Codec;

use crate::protocol::{AgentReport, TRACE_PART_BYTES_MAX, TracePart};

/// The memory of all processes, by their index.
#[derive(Default)]
pub(super) struct LocalTraces {
    ranks: Vec<RankMemory>,
    /// What is being sent: the index of the process, and the bytes.
    copy: Option<(usize, Vec<u8>)>,
}

/// The memory of a process, and the variable by which it finds it.
pub(super) type NamedMemory<'a> = (&'a File, (&'static str, String));

struct RankMemory {
    /// None: the system has no memory for it, so the process uses its own.
    file: Option<File>,
    /// When the process ended.
    ended: Option<TraceMoment>,
}

impl LocalTraces {
    /// Creates memory of `bytes` for each of `count` processes; none if `bytes` is 0.
    pub(super) fn create(bytes: u32, count: u32) -> Self {
        let memory = |_| {
            let length = TraceMemory::bytes_for(bytes as usize);
            let created = SharedMemory::create(TraceMemory::WORDS, length);
            RankMemory { file: created.map(|(_, file)| file).ok(), ended: None }
        };
        let count = if bytes == 0 { 0 } else { count };
        Self { ranks: (0..count).map(memory).collect(), copy: None }
    }

    /// Returns the memory of a process, and the variable by which it finds it: the process inherits
    /// the descriptor under the number that it has here.
    pub(super) fn of(&self, index: usize) -> Option<NamedMemory<'_>> {
        let file = self.ranks.get(index)?.file.as_ref()?;
        Some((file, (TRACE_MEMORY, file.as_raw_fd().to_string())))
    }

    /// Records that a process has ended.
    pub(super) fn note_end(&mut self, index: usize) {
        let rank = self.ranks.get_mut(index);
        rank.into_iter().for_each(|rank| rank.ended = Some(counter::moment(counter::read)));
    }

    /// Returns the part from `offset` on of what the process with this index, the rank `number`,
    /// has recorded. The part from 0 on is the first.
    pub(super) fn part(&mut self, (index, number): (usize, u32), offset: u32) -> AgentReport {
        if offset == 0 {
            self.copy = Some((index, self.recorded(index).unwrap_or_default()));
        }
        let copy = self.copy.as_ref().filter(|(of, _)| *of == index);
        let bytes = copy.map_or(&[][..], |(_, bytes)| bytes);
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let part = rest[..rest.len().min(TRACE_PART_BYTES_MAX)].to_vec();
        let total = bytes.len() as u32;
        if part.len() == rest.len() {
            self.copy = None;
        }
        AgentReport::TracePart(number, TracePart { offset, total, bytes: part })
    }

    fn recorded(&self, index: usize) -> Option<Vec<u8>> {
        let RankMemory { file, ended } = self.ranks.get(index)?;
        let memory = memory_in(file.as_ref()?)?;
        let (count, ns) = ended.unwrap_or_else(|| counter::moment(counter::read));
        // Without a steady counter, processes count the nanoseconds since a moment of their own.
        let now = |(first, first_ns): TraceMoment| match counter::is_steady() {
            true => (count, ns),
            false => (first + ns.saturating_sub(first_ns), ns),
        };
        Some(memory.recorded(now)?.to_bytes())
    }
}

fn memory_in(file: &File) -> Option<TraceMemory> {
    TraceMemory::of(SharedMemory::open(file, TraceMemory::WORDS).ok()?)
}

#[cfg(test)]
mod tests {
    use traces::{RecordedTrace, TraceEvent, TraceNote, TraceRing};

    use super::*;

    fn part(report: AgentReport) -> (u32, TracePart) {
        let AgentReport::TracePart(rank, part) = report else { panic!("{report:?}") };
        (rank, part)
    }

    #[test]
    fn what_a_process_recorded_is_sent_in_parts() {
        let mut traces = LocalTraces::create(4 << 20, 2);
        let (file, _) = traces.of(1).unwrap();
        let (first, first_ns) = counter::moment(counter::read);
        let mut ring = TraceRing::new(memory_in(file).unwrap(), first);
        ring.memory().note(&TraceNote::Begun(5, 0, "here".to_owned(), (first, first_ns)));
        for number in 0..1_000_000 {
            ring.note(first + number, &TraceEvent::CallEnded { thread: 1 });
        }
        traces.note_end(1);
        let mut bytes = Vec::new();
        loop {
            let (rank, part) = part(traces.part((1, 5), bytes.len() as u32));
            assert_eq!((rank, part.offset as usize), (5, bytes.len()));
            assert!(!part.bytes.is_empty() && part.bytes.len() <= TRACE_PART_BYTES_MAX);
            bytes.extend(part.bytes);
            if bytes.len() == part.total as usize {
                break;
            }
        }
        assert!(bytes.len() > 2 * TRACE_PART_BYTES_MAX);
        let recorded = RecordedTrace::from_bytes(&bytes).unwrap();
        assert_eq!((recorded.trace.rank, recorded.trace.events().len()), (5, 1_000_000));
        assert!(recorded.trace.clock.last_ns >= first_ns);
        for (index, offset) in [(0, 0), (1, 7), (2, 0)] {
            let empty = TracePart { offset, total: 0, bytes: Vec::new() };
            assert_eq!(part(traces.part((index, 4), offset)), (4, empty));
        }
        assert!(LocalTraces::create(0, 2).of(0).is_none());
    }
}
