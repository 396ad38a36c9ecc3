//! Reads the traces that this crate has written.

use std::collections::HashMap;

use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;
use prost::Message;

use super::beside::RAIL;
use super::{
    ANNOUNCEMENTS, BYTES, CLOCK_ERROR, COMMUNICATOR, CONTEXT, CONTROLS, DROPPED, HELPER, MESSAGES,
    NUMBER, OFFSET, PEER, PHASES, PIECES, PLACE, RECEIVED, ROOT, SENT, TAG,
};
use crate::alignment::AlignedTrace;
use crate::event::cause_named;
use crate::schema::{DebugAnnotation, EventType, Trace, TracePacket, TrackDescriptor, TrackEvent};
use crate::{
    TraceCounter, TraceEvent, TraceTrack, TracedContent, TracedExchange, TracedMessage,
    TracedOperation, TracedPacket, TracedPlace, TracedSpan, WaitCause,
};

/// More ranks than any job has. Exports have a list for each rank up to the last one.
const RANKS_MAX: u32 = 1 << 22;

/// Reads a trace of a job. Threads get numbers in the order in which they appear.
///
/// # Errors
/// A sentence if the file is no trace, or none that this library has written.
pub fn read(file: &[u8]) -> Result<Vec<AlignedTrace>, String> {
    let packets = packets_of(file)?;
    let mut ranks: Vec<RankReader> = Vec::new();
    let mut by_sequence = HashMap::new();
    for packet in &packets {
        let sequence = packet.trusted_packet_sequence_id.unwrap_or(0);
        let index = *by_sequence.entry(sequence).or_insert_with(|| {
            ranks.push(RankReader::default());
            ranks.len() - 1
        });
        ranks[index].take(packet);
    }
    ranks.retain(|reader| !reader.trace.host.is_empty());
    if ranks.is_empty() {
        return Err("this trace was not written by combray run --trace".to_owned());
    }
    let mut all: Vec<AlignedTrace> = ranks.into_iter().map(|reader| reader.trace).collect();
    for trace in &mut all {
        // They are in order unless the file is damaged.
        trace.events.sort_by_key(|(time, _)| *time);
    }
    all.sort_by_key(|trace| trace.rank);
    match all.last() {
        Some(last) if last.rank >= RANKS_MAX => {
            Err(format!("this trace is damaged: no job has a rank {}", last.rank))
        }
        _ => Ok(all),
    }
}

/// Returns the packets of a file, those inside compressed packets, too.
fn packets_of(file: &[u8]) -> Result<Vec<TracePacket>, String> {
    let decoded = |bytes: &[u8]| {
        Trace::decode(bytes).map_err(|error| format!("this is no Perfetto trace: {error}"))
    };
    let mut packets = Vec::new();
    for packet in decoded(file)?.packet {
        let Some(compressed) = &packet.compressed_packets else {
            packets.push(packet);
            continue;
        };
        let bytes = decompress_to_vec_zlib_with_limit(compressed, PART_BYTES_MAX)
            .map_err(|error| format!("this trace is damaged: {error}"))?;
        packets.append(&mut decoded(&bytes)?.packet);
    }
    Ok(packets)
}

/// The largest length of the content of a compressed packet, in bytes. Longer ones are damaged.
const PART_BYTES_MAX: usize = 16 << 20;

/// Reads the packets of one rank.
#[derive(Default)]
struct RankReader {
    trace: AlignedTrace,
    names: HashMap<u64, String>,
    annotations: HashMap<u64, String>,
    /// The tracks by their ids.
    tracks: HashMap<u64, ReadTrack>,
    /// The number of threads among them.
    threads: u64,
    places: HashMap<TracedPlace, u32>,
    /// The numbers of the names of phases, rails and other work.
    numbers: HashMap<String, u32>,
    /// The slices that each thread is in.
    open: HashMap<u64, Vec<OpenSlice>>,
    /// The span that began last on each track of spans: its beginning, name, peer and bytes.
    spans: HashMap<u64, (u64, u32, Option<u32>, u64)>,
}

/// What a track shows.
#[derive(Clone, Copy)]
enum ReadTrack {
    /// The calls of the thread with this number.
    Thread(u64),
    /// The spans of a thread, and its messages.
    Helper(u64),
    Spans(TraceTrack),
    Phases,
    /// The packets of the rail with this name.
    Rail(u32),
    Counter(TraceCounter),
}

/// A slice that has not ended.
enum OpenSlice {
    Call,
    Wait { begun: u64, cause: WaitCause, peer: Option<u32> },
}

/// The annotations of an event.
struct Notes<'a>(HashMap<&'a str, &'a DebugAnnotation>);

impl RankReader {
    fn take(&mut self, packet: &TracePacket) {
        if let Some(interned) = &packet.interned_data {
            let number = |name: &crate::schema::InternedName| {
                (name.iid.unwrap_or(0), name.name.clone().unwrap_or_default())
            };
            self.names.extend(interned.event_names.iter().map(number));
            self.annotations.extend(interned.debug_annotation_names.iter().map(number));
        }
        if let Some(descriptor) = &packet.track_descriptor {
            self.describe(descriptor);
        }
        if let (Some(time), Some(event)) = (packet.timestamp, &packet.track_event)
            && let Some(event) = self.event(time, event)
        {
            self.trace.events.push((time, event));
        }
    }

    fn describe(&mut self, descriptor: &TrackDescriptor) {
        if let Some(name) = descriptor.process.as_ref().and_then(|one| one.process_name.as_ref())
            && let Some((rank, host)) =
                name.strip_prefix("rank ").and_then(|rest| rest.split_once(" on "))
            && let Ok(rank) = rank.parse()
        {
            (self.trace.rank, self.trace.host) = (rank, host.to_owned());
        }
        let uuid = descriptor.uuid.unwrap_or(0);
        if let Some(thread) = &descriptor.thread {
            let number = self.threads;
            self.threads += 1;
            let is_helper = thread.thread_name.as_deref() == Some(HELPER);
            let track =
                if is_helper { ReadTrack::Helper(number) } else { ReadTrack::Thread(number) };
            self.tracks.entry(uuid).or_insert(track);
        } else if let Some(name) = &descriptor.name
            && let Some(track) = self.track_named(name)
        {
            self.tracks.insert(uuid, track);
        }
    }

    /// Returns the track of no thread that has this name.
    fn track_named(&mut self, name: &str) -> Option<ReadTrack> {
        if name == PHASES {
            return Some(ReadTrack::Phases);
        }
        if let Some(rail) = name.strip_prefix(RAIL) {
            return Some(ReadTrack::Rail(self.number_of(rail)));
        }
        let counter = TraceCounter::ALL.into_iter().find(|counter| counter.name() == name);
        counter.map(ReadTrack::Counter).or_else(|| TraceTrack::named(name, 0).map(ReadTrack::Spans))
    }

    /// Returns the number of a name.
    fn number_of(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.trace.names.len() as u32;
        self.trace.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    fn event(&mut self, time: u64, event: &TrackEvent) -> Option<TraceEvent> {
        let kind = EventType::try_from(event.r#type?).ok()?;
        let uuid = event.track_uuid?;
        match (*self.tracks.get(&uuid)?, kind) {
            (_, EventType::Unspecified) => None,
            (ReadTrack::Phases, _) => self.phase(kind, event),
            (ReadTrack::Rail(rail), _) => self.packet(rail, event),
            (ReadTrack::Counter(counter), _) => {
                let value = event.counter_value?.try_into().ok()?;
                Some(TraceEvent::Counted { counter, value })
            }
            (ReadTrack::Spans(track), _) => self.span(time, uuid, track, event),
            (ReadTrack::Helper(thread), EventType::SliceBegin | EventType::SliceEnd) => {
                self.span(time, uuid, TraceTrack::Helper(thread), event)
            }
            (ReadTrack::Thread(thread), EventType::SliceBegin) => self.begin(time, thread, event),
            (ReadTrack::Thread(thread), EventType::SliceEnd) => {
                match self.open.get_mut(&thread)?.pop()? {
                    OpenSlice::Call => Some(TraceEvent::CallEnded { thread }),
                    OpenSlice::Wait { begun, cause, peer } => {
                        let lasted = time.saturating_sub(begun);
                        Some(TraceEvent::Waited { thread, cause, peer, lasted })
                    }
                }
            }
            (ReadTrack::Thread(thread) | ReadTrack::Helper(thread), EventType::Instant) => {
                self.instant(thread, event)
            }
            (ReadTrack::Thread(_) | ReadTrack::Helper(_), EventType::Counter) => None,
        }
    }

    fn phase(&mut self, kind: EventType, event: &TrackEvent) -> Option<TraceEvent> {
        if kind == EventType::SliceEnd {
            return Some(TraceEvent::PhaseEnded);
        }
        let name = self.names.get(&event.name_iid?)?.clone();
        Some(TraceEvent::PhaseBegan { name: self.number_of(&name) })
    }

    /// Reads the beginning or the end of a span.
    fn span(
        &mut self,
        time: u64,
        uuid: u64,
        track: TraceTrack,
        event: &TrackEvent,
    ) -> Option<TraceEvent> {
        if event.r#type == Some(EventType::SliceBegin as i32) {
            let name = self.names.get(&event.name_iid?)?.clone();
            let notes = self.notes(event);
            let (peer, bytes) = (notes.number(PEER), notes.unsigned(BYTES).unwrap_or(0));
            let name = self.number_of(&name);
            self.spans.insert(uuid, (time, name, peer, bytes));
            return None;
        }
        let (begun, name, peer, bytes) = self.spans.remove(&uuid)?;
        let (lasted, ago) = (time.saturating_sub(begun), 0);
        Some(TraceEvent::Ran(TracedSpan { track, name, peer, bytes, lasted, ago }))
    }

    fn packet(&self, rail: u32, event: &TrackEvent) -> Option<TraceEvent> {
        let notes = self.notes(event);
        let content = match (notes.number(MESSAGES), notes.unsigned(OFFSET)) {
            (Some(messages), _) => TracedContent::Records {
                messages,
                announcements: notes.number(ANNOUNCEMENTS)?,
                pieces: notes.number(PIECES)?,
                controls: notes.number(CONTROLS)?,
            },
            (None, Some(offset)) => TracedContent::Part(offset),
            (None, None) => TracedContent::Again,
        };
        let (peer, bytes) = (notes.number(PEER)?, notes.unsigned(BYTES)?);
        Some(TraceEvent::Posted(TracedPacket { rail, peer, bytes, content }))
    }

    fn begin(&mut self, time: u64, thread: u64, event: &TrackEvent) -> Option<TraceEvent> {
        let name = self.names.get(&event.name_iid?)?.clone();
        let notes = self.notes(event);
        let peer = notes.number(PEER);
        let caller = notes.text(PLACE).unwrap_or_default();
        let communicator = notes.unsigned(COMMUNICATOR);
        let operation = communicator.zip(notes.number(NUMBER));
        let operation =
            operation.map(|(communicator, number)| TracedOperation { communicator, number });
        let exchange = notes.unsigned(SENT).zip(notes.unsigned(RECEIVED));
        let exchange = exchange.map(|(sent, received)| TracedExchange {
            thread,
            root: notes.number(ROOT),
            sent,
            received,
        });
        let open = self.open.entry(thread).or_default();
        if let Some(cause) = cause_named(&name, peer) {
            open.push(OpenSlice::Wait { begun: time, cause, peer });
            return None;
        }
        open.push(OpenSlice::Call);
        let place = TracedPlace { function: name, caller };
        let next = self.places.len() as u32;
        let number = *self.places.entry(place.clone()).or_insert(next);
        if number == next {
            self.trace.places.push(place);
        }
        self.trace.events.push((time, TraceEvent::CallBegan { thread, place: number, operation }));
        exchange.map(TraceEvent::Exchanged)
    }

    fn instant(&mut self, thread: u64, event: &TrackEvent) -> Option<TraceEvent> {
        let notes = self.notes(event);
        if let Some(dropped) = notes.unsigned(DROPPED) {
            let error = notes.unsigned(CLOCK_ERROR).unwrap_or(0);
            (self.trace.dropped, self.trace.clock_error_ns) = (dropped, error);
            return None;
        }
        let message = TracedMessage {
            thread,
            context: notes.unsigned(CONTEXT)?,
            peer: notes.number(PEER)?,
            tag: notes.0.get(TAG)?.int_value?.try_into().ok()?,
            bytes: notes.unsigned(BYTES)?,
            number: notes.number(NUMBER)?,
        };
        Some(match event.flow_ids.is_empty() {
            true => TraceEvent::Matched(message),
            false => TraceEvent::Sent(message),
        })
    }

    fn notes<'a>(&'a self, event: &'a TrackEvent) -> Notes<'a> {
        let named = |note: &'a DebugAnnotation| {
            Some((self.annotations.get(&note.name_iid?)?.as_str(), note))
        };
        Notes(event.debug_annotations.iter().filter_map(named).collect())
    }
}

impl Notes<'_> {
    fn unsigned(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.uint_value
    }

    fn number(&self, name: &str) -> Option<u32> {
        self.unsigned(name)?.try_into().ok()
    }

    fn text(&self, name: &str) -> Option<String> {
        self.0.get(name)?.string_value.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfetto::trace_of;

    /// A trace of one rank with calls of two threads, in which waits and messages happen.
    fn any(rank: u32, random: &mut fastrand::Rng) -> AlignedTrace {
        let places: Vec<TracedPlace> = (0..3)
            .map(|number| TracedPlace {
                function: format!("MPI_{number}"),
                caller: if number == 0 { String::new() } else { format!("main (a.c:{number})") },
            })
            .collect();
        let mut trace = AlignedTrace {
            rank,
            host: "a host".to_owned(),
            dropped: random.u64(0..3),
            clock_error_ns: random.u64(0..3),
            ..AlignedTrace::default()
        };
        let mut time = 1000;
        let mut known = Vec::new();
        for _ in 0..random.usize(1..50) {
            let thread = if known.is_empty() { 0 } else { random.u64(0..2) };
            let place = &places[random.usize(0..3)];
            let found = trace.places.iter().position(|one| one == place);
            let place = found.unwrap_or_else(|| {
                trace.places.push(place.clone());
                trace.places.len() - 1
            }) as u32;
            let operation = random
                .bool()
                .then(|| TracedOperation { communicator: random.u64(..), number: random.u32(..) });
            known.push(thread);
            trace.events.push((time, TraceEvent::CallBegan { thread, place, operation }));
            if random.bool() {
                let (sent, received) = (random.u64(..), random.u64(..));
                let root = random.bool().then(|| random.u32(0..9));
                let exchange = TracedExchange { thread, root, sent, received };
                trace.events.push((time, TraceEvent::Exchanged(exchange)));
            }
            for _ in 0..random.u32(0..3) {
                time += random.u64(100..1000);
                trace.events.push((time, inside(thread, random)));
            }
            time += 1;
            trace.events.push((time, TraceEvent::CallEnded { thread }));
            if random.bool() {
                let name = trace.names.len() as u32;
                trace.names.push(format!("phase {name}"));
                trace.events.push((time, TraceEvent::PhaseBegan { name }));
                time += 1;
                trace.events.push((time, TraceEvent::PhaseEnded));
            }
            for _ in 0..random.u32(0..4) {
                time += random.u64(0..100);
                let name = trace.names.len() as u32;
                let event = beside(name, random);
                if !matches!(event, TraceEvent::Counted { .. }) {
                    trace.names.push(format!("name {name}"));
                }
                trace.events.push((time, event));
            }
        }
        trace
    }

    /// An event inside a call.
    fn inside(thread: u64, random: &mut fastrand::Rng) -> TraceEvent {
        let message = TracedMessage {
            thread,
            context: random.u64(..),
            peer: random.u32(0..9),
            tag: random.i32(..),
            bytes: random.u64(..),
            number: random.u32(..),
        };
        let peer = random.bool().then(|| random.u32(0..9));
        let causes = [WaitCause::LateSender, WaitCause::Members, WaitCause::Other];
        match random.u32(0..3) {
            0 => TraceEvent::Sent(message),
            1 => TraceEvent::Matched(message),
            _ => TraceEvent::Waited {
                thread,
                cause: causes[random.usize(0..3)],
                peer,
                lasted: random.u64(0..100),
            },
        }
    }

    /// An event beside the calls, with a name.
    fn beside(name: u32, random: &mut fastrand::Rng) -> TraceEvent {
        let peer = random.u32(0..9);
        match random.u32(0..3) {
            0 => {
                let track = match random.u32(0..3) {
                    0 => TraceTrack::Copies,
                    1 => TraceTrack::Files,
                    _ => TraceTrack::Processor(random.u64(0..3)),
                };
                TraceEvent::Ran(TracedSpan {
                    track,
                    name,
                    peer: random.bool().then_some(peer),
                    bytes: random.u64(0..3),
                    // Spans of one track overlap.
                    lasted: random.u64(0..500),
                    ago: 0,
                })
            }
            1 => {
                let content = match random.u32(0..3) {
                    0 => TracedContent::Part(random.u64(..)),
                    1 => TracedContent::Again,
                    _ => TracedContent::Records {
                        messages: random.u32(..),
                        announcements: random.u32(..),
                        pieces: random.u32(..),
                        controls: random.u32(..),
                    },
                };
                let bytes = random.u64(..);
                TraceEvent::Posted(TracedPacket { rail: name, peer, bytes, content })
            }
            _ => TraceEvent::Counted {
                counter: TraceCounter::ALL[random.usize(0..TraceCounter::ALL.len())],
                value: random.u64(..) >> 1,
            },
        }
    }

    #[test]
    fn the_thread_of_the_helper_is_named() {
        let mut trace = any(0, &mut fastrand::Rng::with_seed(1));
        trace.names.push("progress".to_owned());
        let (end, name) = (trace.events.last().unwrap().0, trace.names.len() as u32 - 1);
        // Two threads of the program and the helper; tracks get numbers as they appear.
        let threads = trace.events.iter().filter_map(|(_, event)| match event {
            TraceEvent::CallBegan { thread, .. } => Some(*thread),
            _ => None,
        });
        let number = threads.max().unwrap() + 1;
        let track = TraceTrack::Helper(number);
        let span = TracedSpan { track, name, peer: None, bytes: 0, lasted: 40, ago: 0 };
        let message =
            TracedMessage { thread: number, context: 1, peer: 2, tag: 3, bytes: 4, number: 5 };
        trace.events.push((end + 90, TraceEvent::Ran(span)));
        trace.events.push((end + 95, TraceEvent::Matched(message)));
        assert_eq!(read(&trace_of(&[trace.clone()])), Ok(vec![trace]));
    }

    #[test]
    fn spans_that_overlap_are_in_different_lanes() {
        let span = |lasted| {
            let (track, name) = (TraceTrack::Files, 0);
            TraceEvent::Ran(TracedSpan { track, name, peer: None, bytes: 1, lasted, ago: 0 })
        };
        let (host, names) = ("one".to_owned(), vec!["read".to_owned()]);
        let events = vec![(1000, span(100)), (1010, span(5)), (1200, span(300)), (1300, span(50))];
        let trace = AlignedTrace { host, names, events, ..AlignedTrace::default() };
        let packets = packets_of(&trace_of(&[trace])).unwrap();
        let mut open = HashMap::new();
        let mut slices: Vec<(u64, u64, u64)> = Vec::new();
        for packet in packets {
            let (Some(time), Some(event)) = (packet.timestamp, packet.track_event) else {
                continue;
            };
            let track = event.track_uuid.unwrap();
            match open.remove(&track) {
                Some(begun) => slices.push((track, begun, time)),
                None => drop(open.insert(track, time)),
            }
        }
        assert_eq!(slices.len(), 4);
        for (index, one) in slices.iter().enumerate() {
            for other in &slices[..index] {
                assert!(one.0 != other.0 || one.1 >= other.2 || other.1 >= one.2, "{slices:?}");
            }
        }
    }

    /// A region with two tasks at a barrier, of which the second begins a little before it as the
    /// clock shows it, and a region after it.
    #[test]
    fn spans_of_a_thread_are_inside_each_other() {
        let span = |lasted| {
            let (track, name) = (TraceTrack::Team(2), 0);
            TraceEvent::Ran(TracedSpan { track, name, peer: None, bytes: 0, lasted, ago: 0 })
        };
        let ends = [(1050, 20), (1100, 50), (1200, 180), (1300, 275), (1500, 100)];
        let events = ends.into_iter().map(|(end, lasted)| (end, span(lasted))).collect();
        let names = vec!["region a (b.c:3)".to_owned()];
        let trace =
            AlignedTrace { host: "one".to_owned(), names, events, ..AlignedTrace::default() };
        let read = read(&trace_of(&[trace])).unwrap();
        let spans: Vec<(u64, u64)> = read[0]
            .events
            .iter()
            .filter_map(|(time, event)| match event {
                TraceEvent::Ran(TracedSpan { track: TraceTrack::Team(2), lasted, .. }) => {
                    Some((*time - lasted, *time))
                }
                _ => None,
            })
            .collect();
        assert_eq!(spans, [(1030, 1050), (1050, 1100), (1020, 1200), (1020, 1300), (1400, 1500)]);
    }

    #[test]
    fn a_trace_is_read_as_it_was_written() {
        for seed in 0..500 {
            let mut random = fastrand::Rng::with_seed(seed);
            let ranks: Vec<AlignedTrace> = (0..3).map(|rank| any(rank, &mut random)).collect();
            assert_eq!(read(&trace_of(&ranks)), Ok(ranks), "seed {seed}");
        }
    }

    #[test]
    fn other_files_are_refused() {
        assert!(read(b"#!/bin/sh\n").unwrap_err().contains("no Perfetto trace"));
        assert!(read(b"").unwrap_err().contains("not written by combray"));
        let mut random = fastrand::Rng::with_seed(1);
        let far = trace_of(&[any(0, &mut random), any(RANKS_MAX, &mut random)]);
        assert!(read(&far).unwrap_err().contains("no job has a rank 4194304"));
        let file = trace_of(&[any(0, &mut random)]);
        let plain = Trace { packet: packets_of(&file).unwrap() }.encode_to_vec();
        for mut file in [file, plain].into_iter().flat_map(|file| vec![file; 1000]) {
            let place = random.usize(0..file.len());
            file[place] = random.u8(..);
            let _ = read(&file[..random.usize(0..=file.len())]);
        }
        // Many zeros in few bytes.
        let bomb = Some(crate::perfetto::compressed(&vec![0; PART_BYTES_MAX + 1]));
        let packet = vec![TracePacket { compressed_packets: bomb, ..TracePacket::default() }];
        assert!(read(&Trace { packet }.encode_to_vec()).is_err());
    }
}
