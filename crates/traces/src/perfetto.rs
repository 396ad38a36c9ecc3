//! Traces in Perfetto's binary format: ranks are processes, their threads are threads, calls and
//! waits are slices, and messages are arrows between instants inside the calls. Packets, counters
//! and the work beside the calls have tracks of their own (`perfetto/beside.rs`).
//!
//! Format: <https://perfetto.dev/docs/reference/trace-packet-proto>.

mod beside;
mod reading;

use std::collections::{HashMap, HashSet};

use miniz_oxide::deflate::compress_to_vec_zlib;
use prost::Message;

use crate::alignment::AlignedTrace;
use crate::event::name_of_wait;
use crate::schema::{
    DebugAnnotation, EventType, INCREMENTAL_STATE_CLEARED, InternedData, InternedName,
    NEEDS_INCREMENTAL_STATE, ProcessDescriptor, ThreadDescriptor, Trace, TracePacket,
    TrackDescriptor, TrackEvent,
};
use crate::{TraceEvent, TraceTrack, TracedExchange, TracedMessage, TracedOperation, TracedSpan};
use beside::OtherTrack;

pub use reading::read;

/// Returns the trace of a job as the content of a file.
pub fn trace_of(ranks: &[AlignedTrace]) -> Vec<u8> {
    let mut file = Vec::new();
    for rank in ranks {
        let mut writer = RankWriter::new(rank);
        writer.write();
        let mut packets = writer.packets.into_iter();
        loop {
            let packet: Vec<TracePacket> = packets.by_ref().take(COMPRESSED_TOGETHER).collect();
            if packet.is_empty() {
                break;
            }
            let part = TracePacket {
                compressed_packets: Some(compressed(&Trace { packet }.encode_to_vec())),
                ..TracePacket::default()
            };
            // Messages one after the other are one message with the packets of all.
            file.append(&mut Trace { packet: vec![part] }.encode_to_vec());
        }
    }
    file
}

/// The number of packets that are compressed together: some 200 KB.
const COMPRESSED_TOGETHER: usize = 4096;

fn compressed(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec_zlib(bytes, FASTEST)
}

/// The level of compression that takes the least time.
const FASTEST: u8 = 1;

/// Writes the packets of one rank.
struct RankWriter<'a> {
    rank: &'a AlignedTrace,
    packets: Vec<TracePacket>,
    /// The numbers of names that were written.
    names: HashMap<String, u64>,
    annotations: HashMap<&'static str, u64>,
    /// Names that the next packet introduces.
    introduced: InternedData,
    /// The indices of the threads, by their numbers.
    threads: HashMap<u64, u64>,
    /// The tracks beside those of the threads that were described.
    others: HashMap<OtherTrack, u64>,
    /// By track: when the last span in each of its lanes ended. Spans in one lane do not overlap.
    lanes: HashMap<TraceTrack, Vec<u64>>,
    /// By track of a thread: the beginnings and ends of the last spans that are in no other one.
    nested: HashMap<TraceTrack, Vec<(u64, u64)>>,
    /// The threads that make progress while the program computes.
    helpers: HashSet<u64>,
    /// When the calls that each thread is in began, in nanoseconds.
    open: HashMap<u64, Vec<u64>>,
}

/// The ids of the tracks of different ranks are this far apart.
const TRACKS_PER_RANK: u64 = 1 << 20;

/// The name of the track of phases.
const PHASES: &str = "phases";

/// The name of a thread that makes progress while the program computes.
const HELPER: &str = "helper";

/// The names of annotations.
const PLACE: &str = "place";
const PEER: &str = "peer";
const TAG: &str = "tag";
const BYTES: &str = "bytes";
const CONTEXT: &str = "context";
const NUMBER: &str = "number";
const SENT: &str = "bytes sent";
const RECEIVED: &str = "bytes received";
const ROOT: &str = "root";
const MESSAGES: &str = "messages";
const ANNOUNCEMENTS: &str = "announcements";
const PIECES: &str = "pieces";
const CONTROLS: &str = "control records";
const OFFSET: &str = "offset";
const COMMUNICATOR: &str = "communicator";
const DROPPED: &str = "dropped events";
const CLOCK_ERROR: &str = "clock error (ns)";

impl<'a> RankWriter<'a> {
    fn new(rank: &'a AlignedTrace) -> Self {
        Self {
            rank,
            packets: Vec::new(),
            names: HashMap::new(),
            annotations: HashMap::new(),
            introduced: InternedData::default(),
            threads: HashMap::new(),
            others: HashMap::new(),
            lanes: HashMap::new(),
            nested: HashMap::new(),
            helpers: rank.events.iter().filter_map(helper_of).collect(),
            open: HashMap::new(),
        }
    }

    fn write(&mut self) {
        self.describe_process();
        let events = &self.rank.events;
        let main = events.iter().find_map(|(time, event)| match event {
            TraceEvent::CallBegan { thread, .. } => Some((*time, *thread)),
            _ => None,
        });
        if let Some((begun, main)) = main {
            let notes = [
                self.unsigned(DROPPED, self.rank.dropped),
                self.unsigned(CLOCK_ERROR, self.rank.clock_error_ns),
            ];
            let track = self.thread_track(main);
            self.event(begun, track, EventType::Instant, Some("trace begins"), notes.into());
        }
        let mut end = 0;
        for (index, (time, event)) in events.iter().enumerate() {
            end = *time;
            match *event {
                TraceEvent::CallBegan { thread, place, operation } => {
                    let exchange = match events.get(index + 1) {
                        Some((_, TraceEvent::Exchanged(one))) if one.thread == thread => Some(*one),
                        _ => None,
                    };
                    self.begin_call(end, (thread, place), operation, exchange);
                }
                event => self.write_event(end, event),
            }
        }
        // Calls from which threads did not return, `MPI_Finalize` in general.
        for (thread, open) in std::mem::take(&mut self.open) {
            let track = self.thread_track(thread);
            for _ in open {
                self.event(end, track, EventType::SliceEnd, None, Vec::new());
            }
        }
    }

    /// Writes the beginning of a call at `time`, in nanoseconds.
    fn begin_call(
        &mut self,
        time: u64,
        (thread, place): (u64, u32),
        operation: Option<TracedOperation>,
        exchange: Option<TracedExchange>,
    ) {
        let place = self.rank.places.get(place as usize);
        let function = place.map_or("MPI", |place| &place.function);
        let caller = place.map(|place| place.caller.clone());
        let caller = caller.filter(|caller| !caller.is_empty());
        let place = caller.map(|caller| self.text(PLACE, caller));
        let mut notes: Vec<_> = place.into_iter().collect();
        if let Some(TracedOperation { communicator, number }) = operation {
            notes.push(self.unsigned(COMMUNICATOR, communicator));
            notes.push(self.unsigned(NUMBER, number.into()));
        }
        if let Some(TracedExchange { root, sent, received, .. }) = exchange {
            notes.extend(root.map(|root| self.unsigned(ROOT, root.into())));
            notes.push(self.unsigned(SENT, sent));
            notes.push(self.unsigned(RECEIVED, received));
        }
        let track = self.thread_track(thread);
        self.open.entry(thread).or_default().push(time);
        self.event(time, track, EventType::SliceBegin, Some(function), notes);
    }

    /// Writes an event that happened at `time`, in nanoseconds, and does not begin a call.
    fn write_event(&mut self, time: u64, event: TraceEvent) {
        match event {
            TraceEvent::CallEnded { thread } => {
                // The call may have begun in a part of the trace that was given up.
                if self.open.get_mut(&thread).and_then(Vec::pop).is_none() {
                    return;
                }
                let track = self.thread_track(thread);
                self.event(time, track, EventType::SliceEnd, None, Vec::new());
            }
            TraceEvent::Waited { thread, cause, peer, lasted } => {
                let track = self.thread_track(thread);
                let name = name_of_wait(cause, peer);
                let notes: Vec<_> =
                    peer.map(|peer| self.unsigned(PEER, peer.into())).into_iter().collect();
                let call = self.open.get(&thread).and_then(|open| open.last());
                let begun = time.saturating_sub(lasted).max(call.copied().unwrap_or(0));
                self.event(begun, track, EventType::SliceBegin, Some(&name), notes);
                self.event(time, track, EventType::SliceEnd, None, Vec::new());
            }
            // A wait that goes on matters only where the events end, and is a wait then. An
            // exchange is written with its call.
            TraceEvent::Waiting { .. }
            | TraceEvent::CallBegan { .. }
            | TraceEvent::Exchanged(_) => {}
            TraceEvent::Ran(span) => self.span(time, span),
            TraceEvent::Posted(packet) => self.posted(time, packet),
            TraceEvent::Counted { counter, value } => self.counted(time, counter, value),
            TraceEvent::PhaseBegan { name } => {
                let track = self.other_track(OtherTrack::Phases);
                let name = self.rank.names.get(name as usize).map_or("phase", |name| name);
                self.event(time, track, EventType::SliceBegin, Some(name), Vec::new());
            }
            TraceEvent::PhaseEnded => {
                let track = self.other_track(OtherTrack::Phases);
                self.event(time, track, EventType::SliceEnd, None, Vec::new());
            }
            TraceEvent::Sent(message) => {
                let flow = flow_id(self.rank.rank, message.peer, &message);
                let name = format!("to {}", message.peer);
                let event = self.message(time, &name, &message);
                event.flow_ids.push(flow);
            }
            TraceEvent::Matched(message) => {
                let flow = flow_id(message.peer, self.rank.rank, &message);
                let name = format!("from {}", message.peer);
                let event = self.message(time, &name, &message);
                event.terminating_flow_ids.push(flow);
            }
        }
    }

    /// Writes the instant at which a message is sent or matched.
    fn message(&mut self, time: u64, name: &str, message: &TracedMessage) -> &mut TrackEvent {
        let track = self.thread_track(message.thread);
        let notes = vec![
            self.unsigned(PEER, message.peer.into()),
            self.signed(TAG, message.tag.into()),
            self.unsigned(BYTES, message.bytes),
            self.unsigned(CONTEXT, message.context),
            self.unsigned(NUMBER, message.number.into()),
        ];
        self.event(time, track, EventType::Instant, Some(name), notes)
    }

    fn describe_process(&mut self) {
        let process = ProcessDescriptor {
            pid: Some(self.pid()),
            process_name: Some(format!("rank {} on {}", self.rank.rank, self.rank.host)),
        };
        let uuid = Some(self.process_track());
        let descriptor =
            TrackDescriptor { uuid, process: Some(process), ..TrackDescriptor::default() };
        let packet = self.packet();
        packet.track_descriptor = Some(descriptor);
        packet.sequence_flags = Some(INCREMENTAL_STATE_CLEARED);
    }

    /// Returns the track of a thread, and describes it before its first event.
    fn thread_track(&mut self, thread: u64) -> u64 {
        let known = self.threads.len() as u64;
        let index = *self.threads.entry(thread).or_insert(known);
        let uuid = self.process_track() + 1 + index;
        if index == known {
            let name = match index {
                _ if self.helpers.contains(&thread) => HELPER.to_owned(),
                0 => "main".to_owned(),
                _ => format!("thread {index}"),
            };
            // The main thread has the number of its process.
            let thread = ThreadDescriptor {
                pid: Some(self.pid()),
                tid: Some(i64::from(self.pid()) + (index as i64) * i64::from(THREADS_APART)),
                thread_name: Some(name),
            };
            let descriptor = TrackDescriptor {
                uuid: Some(uuid),
                thread: Some(thread),
                ..TrackDescriptor::default()
            };
            self.packet().track_descriptor = Some(descriptor);
        }
        uuid
    }

    fn process_track(&self) -> u64 {
        (u64::from(self.rank.rank) + 1) * TRACKS_PER_RANK
    }

    /// Processes of different hosts may have one number, so ranks count: from 1, as 0 is the
    /// system's.
    fn pid(&self) -> i32 {
        self.rank.rank as i32 + 1
    }

    fn event(
        &mut self,
        time: u64,
        track: u64,
        kind: EventType,
        name: Option<&str>,
        debug_annotations: Vec<DebugAnnotation>,
    ) -> &mut TrackEvent {
        let name_iid = name.map(|name| self.name(name));
        let interned = std::mem::take(&mut self.introduced);
        let packet = self.packet();
        packet.timestamp = Some(time);
        packet.interned_data = (interned != InternedData::default()).then_some(interned);
        packet.sequence_flags = Some(NEEDS_INCREMENTAL_STATE);
        packet.track_event.insert(TrackEvent {
            debug_annotations,
            r#type: Some(kind as i32),
            name_iid,
            track_uuid: Some(track),
            ..TrackEvent::default()
        })
    }

    fn packet(&mut self) -> &mut TracePacket {
        let sequence = Some(self.rank.rank + 1);
        let packet = TracePacket { trusted_packet_sequence_id: sequence, ..TracePacket::default() };
        self.packets.push(packet);
        self.packets.last_mut().expect("it was just pushed")
    }

    /// Returns the number of an event's name.
    fn name(&mut self, name: &str) -> u64 {
        if let Some(iid) = self.names.get(name) {
            return *iid;
        }
        let iid = self.names.len() as u64 + 1;
        self.names.insert(name.to_owned(), iid);
        self.introduced.event_names.push(interned(iid, name));
        iid
    }

    /// Returns an annotation without a value.
    fn annotation(&mut self, name: &'static str) -> DebugAnnotation {
        let next = self.annotations.len() as u64 + 1;
        let iid = *self.annotations.entry(name).or_insert(next);
        if iid == next {
            self.introduced.debug_annotation_names.push(interned(iid, name));
        }
        DebugAnnotation { name_iid: Some(iid), ..DebugAnnotation::default() }
    }

    fn unsigned(&mut self, name: &'static str, value: u64) -> DebugAnnotation {
        DebugAnnotation { uint_value: Some(value), ..self.annotation(name) }
    }

    fn signed(&mut self, name: &'static str, value: i64) -> DebugAnnotation {
        DebugAnnotation { int_value: Some(value), ..self.annotation(name) }
    }

    fn text(&mut self, name: &'static str, value: String) -> DebugAnnotation {
        DebugAnnotation { string_value: Some(value), ..self.annotation(name) }
    }
}

/// Returns the number of the helper's thread, if it has done what an event says.
fn helper_of((_, event): &(u64, TraceEvent)) -> Option<u64> {
    match event {
        TraceEvent::Ran(TracedSpan { track: TraceTrack::Helper(thread), .. }) => Some(*thread),
        _ => None,
    }
}

/// The numbers of a rank's threads are this far apart.
const THREADS_APART: i32 = 1 << 24;

fn interned(iid: u64, name: &str) -> InternedName {
    InternedName { iid: Some(iid), name: Some(name.to_owned()) }
}

/// Returns the id of the arrow of a message, which both sides compute: FNV-1a of what names it.
fn flow_id(sender: u32, receiver: u32, message: &TracedMessage) -> u64 {
    let TracedMessage { context, tag, number, .. } = *message;
    let words = [context, u64::from(sender) << 32 | u64::from(receiver), (tag as u32).into()];
    let bytes = words.into_iter().chain([number.into()]).flat_map(u64::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
