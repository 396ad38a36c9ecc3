//! Reads the traces that this crate has written.

use std::collections::HashMap;

use prost::Message;

use super::{BYTES, CLOCK_ERROR, COMMUNICATOR, CONTEXT, DROPPED, NUMBER, PEER, PHASES, PLACE, TAG};
use crate::alignment::AlignedTrace;
use crate::schema::{DebugAnnotation, EventType, Trace, TracePacket, TrackDescriptor, TrackEvent};
use crate::{TraceEvent, TracedMessage, TracedOperation, TracedPlace, WaitReason};

/// More ranks than any job has. Exports have a list for each rank up to the last one.
const RANKS_MAX: u32 = 1 << 22;

/// Reads a trace of a job. Threads get numbers in the order in which they appear.
///
/// # Errors
/// A sentence if the file is no trace, or none that this library has written.
pub fn read(file: &[u8]) -> Result<Vec<AlignedTrace>, String> {
    let trace =
        Trace::decode(file).map_err(|error| format!("this is no Perfetto trace: {error}"))?;
    let mut ranks: Vec<RankReader> = Vec::new();
    let mut by_sequence = HashMap::new();
    for packet in &trace.packet {
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
    all.sort_by_key(|trace| trace.rank);
    match all.last() {
        Some(last) if last.rank >= RANKS_MAX => {
            Err(format!("this trace is damaged: no job has a rank {}", last.rank))
        }
        _ => Ok(all),
    }
}

/// Reads the packets of one rank.
#[derive(Default)]
struct RankReader {
    trace: AlignedTrace,
    names: HashMap<u64, String>,
    annotations: HashMap<u64, String>,
    /// The threads by their tracks.
    threads: HashMap<u64, u64>,
    /// The track of phases.
    phase_track: Option<u64>,
    places: HashMap<TracedPlace, u32>,
    /// The slices that each thread is in.
    open: HashMap<u64, Vec<OpenSlice>>,
}

/// A slice that has not ended.
enum OpenSlice {
    Call,
    Wait { begun: u64, reason: WaitReason, peer: Option<u32> },
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
        if descriptor.name.as_deref() == Some(PHASES) {
            self.phase_track = descriptor.uuid;
        }
        if descriptor.thread.is_some() {
            let next = self.threads.len() as u64;
            self.threads.entry(descriptor.uuid.unwrap_or(0)).or_insert(next);
        }
    }

    fn event(&mut self, time: u64, event: &TrackEvent) -> Option<TraceEvent> {
        let kind = EventType::try_from(event.r#type?).ok()?;
        if event.track_uuid == self.phase_track {
            return self.phase(kind, event);
        }
        let thread = *self.threads.get(&event.track_uuid?)?;
        match kind {
            EventType::SliceEnd => match self.open.get_mut(&thread)?.pop()? {
                OpenSlice::Call => Some(TraceEvent::CallEnded { thread }),
                OpenSlice::Wait { begun, reason, peer } => {
                    let lasted = time.saturating_sub(begun);
                    Some(TraceEvent::Waited { thread, reason, peer, lasted })
                }
            },
            EventType::SliceBegin => self.begin(time, thread, event),
            EventType::Instant => self.instant(thread, event),
            EventType::Unspecified => None,
        }
    }

    fn phase(&mut self, kind: EventType, event: &TrackEvent) -> Option<TraceEvent> {
        if kind == EventType::SliceEnd {
            return Some(TraceEvent::PhaseEnded);
        }
        let name = self.names.get(&event.name_iid?)?;
        let known = self.trace.phases.iter().position(|one| one == name);
        let index = known.unwrap_or_else(|| {
            self.trace.phases.push(name.clone());
            self.trace.phases.len() - 1
        });
        Some(TraceEvent::PhaseBegan { name: index as u32 })
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
        let open = self.open.entry(thread).or_default();
        if let Some(reason) = WaitReason::named(&name, peer) {
            open.push(OpenSlice::Wait { begun: time, reason, peer });
            return None;
        }
        open.push(OpenSlice::Call);
        let place = TracedPlace { function: name, caller };
        let next = self.places.len() as u32;
        let number = *self.places.entry(place.clone()).or_insert(next);
        if number == next {
            self.trace.places.push(place);
        }
        Some(TraceEvent::CallBegan { thread, place: number, operation })
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
            for _ in 0..random.u32(0..3) {
                time += random.u64(100..1000);
                let message = TracedMessage {
                    thread,
                    context: random.u64(..),
                    peer: random.u32(0..9),
                    tag: random.i32(..),
                    bytes: random.u64(..),
                    number: random.u32(..),
                };
                let peer = random.bool().then(|| random.u32(0..9));
                let reasons = [WaitReason::LateSender, WaitReason::Members, WaitReason::Other];
                trace.events.push((
                    time,
                    match random.u32(0..3) {
                        0 => TraceEvent::Sent(message),
                        1 => TraceEvent::Matched(message),
                        _ => TraceEvent::Waited {
                            thread,
                            reason: reasons[random.usize(0..3)],
                            peer,
                            lasted: random.u64(0..100),
                        },
                    },
                ));
            }
            time += 1;
            trace.events.push((time, TraceEvent::CallEnded { thread }));
            if random.bool() {
                let name = trace.phases.len() as u32;
                trace.phases.push(format!("phase {name}"));
                trace.events.push((time, TraceEvent::PhaseBegan { name }));
                trace.events.push((time + 1, TraceEvent::PhaseEnded));
            }
        }
        trace
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
        for _ in 0..2000 {
            let mut file = file.clone();
            let place = random.usize(0..file.len());
            file[place] = random.u8(..);
            let _ = read(&file[..random.usize(0..=file.len())]);
        }
    }
}
