//! Tracks beside those of the threads that call MPI: phases, rails, counters, and work that other
//! threads do.

use super::{
    ANNOUNCEMENTS, BYTES, CONTROLS, MESSAGES, OFFSET, PEER, PHASES, PIECES, RankWriter,
    TRACKS_PER_RANK,
};
use crate::schema::{CounterDescriptor, CounterUnit, EventType, TrackDescriptor};
use crate::{TraceCounter, TraceTrack, TracedContent, TracedPacket, TracedSpan};

/// A track that is no thread's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum OtherTrack {
    /// The phases of the program.
    Phases,
    /// The packets of a rail, by the number of its name.
    Rail(u32),
    Counter(TraceCounter),
    /// A lane of the spans on a track.
    Lane(TraceTrack, usize),
}

/// What precedes the name of a rail in the name of its track.
pub(super) const RAIL: &str = "rail ";

impl RankWriter<'_> {
    /// Returns a track, and describes it before its first event.
    pub(super) fn other_track(&mut self, track: OtherTrack) -> u64 {
        let next = self.process_track() + TRACKS_PER_RANK - 1 - self.others.len() as u64;
        let uuid = *self.others.entry(track).or_insert(next);
        if uuid != next {
            return uuid;
        }
        let name = match track {
            OtherTrack::Phases => PHASES.to_owned(),
            OtherTrack::Rail(rail) => {
                let name = self.rank.names.get(rail as usize).map_or("", |name| name);
                format!("{RAIL}{name}")
            }
            OtherTrack::Counter(counter) => counter.name().to_owned(),
            OtherTrack::Lane(track, _) => track.name(),
        };
        let counter = match track {
            OtherTrack::Counter(counter) => {
                let is_size = counter.name().contains("bytes");
                let unit = if is_size { CounterUnit::Bytes } else { CounterUnit::Count };
                Some(CounterDescriptor { unit: Some(unit as i32) })
            }
            _ => None,
        };
        let descriptor = TrackDescriptor {
            uuid: Some(uuid),
            name: Some(name),
            parent_uuid: Some(self.process_track()),
            counter,
            ..TrackDescriptor::default()
        };
        self.packet().track_descriptor = Some(descriptor);
        uuid
    }

    /// Writes a span that ended at `time`, in nanoseconds.
    pub(super) fn span(&mut self, time: u64, span: TracedSpan) {
        let TracedSpan { track, name, peer, bytes, lasted, .. } = span;
        let mut begun = time.saturating_sub(lasted);
        let track = match track {
            TraceTrack::Helper(thread) => self.thread_track(thread),
            TraceTrack::Team(_) => {
                begun = self.around(track, begun, time);
                self.other_track(OtherTrack::Lane(track, 0))
            }
            _ => {
                let lane = self.lane(track, begun, time);
                self.other_track(OtherTrack::Lane(track, lane))
            }
        };
        let name = self.rank.names.get(name as usize).map_or("work", |name| name);
        let mut notes = Vec::new();
        notes.extend(peer.map(|peer| self.unsigned(PEER, peer.into())));
        notes.extend((bytes > 0).then(|| self.unsigned(BYTES, bytes)));
        self.event(begun, track, EventType::SliceBegin, Some(name), notes);
        self.event(time, track, EventType::SliceEnd, None, Vec::new());
    }

    /// Returns the first lane of a track that is free since `begun`. It is used until `ended`.
    fn lane(&mut self, track: TraceTrack, begun: u64, ended: u64) -> usize {
        let lanes = self.lanes.entry(track).or_default();
        let free = lanes.iter().position(|last| *last <= begun);
        let lane = free.unwrap_or_else(|| {
            lanes.push(0);
            lanes.len() - 1
        });
        lanes[lane] = ended;
        lane
    }

    /// Returns the beginning of a span of a thread that is in several spans at the same time, one
    /// inside the other. They are written in the order in which they end. A span that the clock
    /// shows as begun a little after another one inside of it begins with that.
    fn around(&mut self, track: TraceTrack, begun: u64, ended: u64) -> u64 {
        let inner = self.nested.entry(track).or_default();
        let mut begun = begun;
        while let Some((first, _)) = inner.pop_if(|(_, last)| *last > begun) {
            begun = begun.min(first);
        }
        inner.push((begun, ended));
        begun
    }

    /// Writes a packet that was handed to a rail at `time`, in nanoseconds.
    pub(super) fn posted(&mut self, time: u64, packet: TracedPacket) {
        let TracedPacket { rail, peer, bytes, content } = packet;
        let track = self.other_track(OtherTrack::Rail(rail));
        let mut notes = vec![self.unsigned(PEER, peer.into()), self.unsigned(BYTES, bytes)];
        let what = match content {
            TracedContent::Records { messages, announcements, pieces, controls } => {
                notes.push(self.unsigned(MESSAGES, messages.into()));
                notes.push(self.unsigned(ANNOUNCEMENTS, announcements.into()));
                notes.push(self.unsigned(PIECES, pieces.into()));
                notes.push(self.unsigned(CONTROLS, controls.into()));
                "packet"
            }
            TracedContent::Part(offset) => {
                notes.push(self.unsigned(OFFSET, offset));
                "part"
            }
            TracedContent::Again => "again",
        };
        let name = format!("{what} to {peer}");
        self.event(time, track, EventType::Instant, Some(&name), notes);
    }

    /// Writes the value that a counter has at `time`, in nanoseconds.
    pub(super) fn counted(&mut self, time: u64, counter: TraceCounter, value: u64) {
        let track = self.other_track(OtherTrack::Counter(counter));
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        let event = self.event(time, track, EventType::Counter, None, Vec::new());
        event.counter_value = Some(value);
    }
}
