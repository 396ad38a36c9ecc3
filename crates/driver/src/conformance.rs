//! A suite of what every driver must do, which each driver runs in its tests.

use memory::transfer::FetchEnd;
use std::collections::VecDeque;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use base::GateId;
use memory::Buffer;

use crate::{
    Directory, Driver, DriverError, Label, Part, PartPlace, ReceiveState, Secret, SharedBytes, Sink,
};

mod places;
mod regions;
mod restoring;
mod unsteady;

pub use places::keeps_buffers;
pub use regions::{SpacedBlocks, memory, regions};
pub use restoring::restoring;
pub use unsteady::unsteady;

/// A directory of the drivers of several processes within this process: their cards by gate, and a
/// secret.
#[derive(Clone, Debug, Default)]
pub struct SharedCards(pub Arc<Mutex<Vec<String>>>, pub Secret);

impl Directory for SharedCards {
    fn card(&mut self, gate: GateId) -> Result<String, DriverError> {
        Ok(self.0.lock().expect("no peer failed")[gate.0 as usize].clone())
    }

    fn secret(&mut self) -> Result<Secret, DriverError> {
        Ok(self.1)
    }
}

/// A sink that records what it receives.
#[derive(Debug, Default)]
pub struct RecordingSink {
    /// The packets, in order of arrival.
    pub packets: VecDeque<(GateId, Vec<u8>)>,
    /// The ends of fetches.
    pub fetched: Vec<(u64, FetchEnd)>,
    /// The buffer into which parts are written, at the offset in the first eight bytes of their
    /// label. None: parts are dropped.
    pub parts_into: Option<Buffer>,
    /// The parts that have arrived: sender, label, length in bytes.
    pub parts: Vec<(GateId, Label, usize)>,
    /// The tokens of parts whose memory is not read any more.
    pub sent: Vec<u64>,
    /// The total of bytes reported with their duration.
    pub carried: u64,
    /// Rails that were lost.
    pub lost: Vec<(GateId, usize, String)>,
    /// Rails that were lost and work again.
    pub restored: Vec<(GateId, usize)>,
    /// The tokens of receives that no message has matched.
    pub posted: Vec<u64>,
    /// Whether other drivers reach the peers.
    pub reached_elsewhere: bool,
}

impl Sink for RecordingSink {
    fn packet(&mut self, gate: GateId, _rail: usize, bytes: SharedBytes<'_>) {
        self.packets.push_back((gate, bytes.to_vec()));
    }

    fn part(&mut self, _gate: GateId, _rail: usize, label: &Label, length: usize) -> PartPlace {
        let Some(buffer) = &self.parts_into else { return PartPlace::Nowhere };
        let offset = u64::from_le_bytes(*label.first_chunk().expect("labels are longer")) as usize;
        assert!(offset + length <= buffer.len(), "the part is one that was posted");
        PartPlace::At { buffer: buffer.clone(), offset, instead_of: None }
    }

    fn part_arrived(&mut self, gate: GateId, _rail: usize, label: &Label, length: usize) {
        self.parts.push((gate, *label, length));
    }

    fn sent(&mut self, _gate: GateId, _rail: usize, token: u64) {
        self.sent.push(token);
    }

    fn carried(&mut self, _rail: usize, bytes: u64, nanoseconds: u64) {
        assert!(bytes > 0 && nanoseconds > 0, "a rate can be worked out");
        self.carried += bytes;
    }

    fn written(&mut self, token: u64) {
        self.fetched.push((token, FetchEnd::Complete));
    }

    fn fetched(&mut self, token: u64, end: FetchEnd) {
        self.fetched.push((token, end));
    }

    fn restored(&mut self, gate: GateId, rail: usize) {
        self.restored.push((gate, rail));
    }

    fn lost(&mut self, gate: GateId, rail: usize, why: DriverError) {
        self.lost.push((gate, rail, why.message));
    }

    fn is_reached_elsewhere(&self, _gate: GateId) -> bool {
        self.reached_elsewhere
    }

    fn receive_state(&self, token: u64) -> ReceiveState {
        let is_posted = self.posted.contains(&token);
        if is_posted { ReceiveState::Posted } else { ReceiveState::Over }
    }
}

/// Reads any bytes as a card. A card that can be read must be written so that it reads back equal.
pub fn check_card<C: FromStr + Display + PartialEq>(bytes: &[u8]) {
    if let Some(card) = str::from_utf8(bytes).ok().and_then(|text| text.parse::<C>().ok()) {
        assert!(card.to_string().parse::<C>().is_ok_and(|again| again == card), "{card}");
    }
}

/// Takes packets, and parts up to a limit, as the engine does.
#[derive(Clone, Copy, Debug)]
pub struct BoundedSink;

impl Sink for BoundedSink {
    fn packet(&mut self, _gate: GateId, _rail: usize, _bytes: SharedBytes<'_>) {}

    fn part(&mut self, _gate: GateId, _rail: usize, _label: &Label, length: usize) -> PartPlace {
        if length > 1 << 16 {
            return PartPlace::Nowhere;
        }
        PartPlace::At { buffer: Buffer::zeroed(length), offset: 0, instead_of: None }
    }

    fn part_arrived(&mut self, _gate: GateId, _rail: usize, _label: &Label, _length: usize) {}
    fn sent(&mut self, _gate: GateId, _rail: usize, _token: u64) {}

    fn carried(&mut self, _rail: usize, bytes: u64, nanoseconds: u64) {
        assert!(bytes > 0 && nanoseconds > 0, "a rate can be worked out");
    }

    fn written(&mut self, _token: u64) {}
    fn fetched(&mut self, _token: u64, _end: FetchEnd) {}
    fn lost(&mut self, _gate: GateId, _rail: usize, _why: DriverError) {}
}

/// Sends packets of all interesting sizes from `sender` to the process of `receiver` (the sender
/// itself if `None`), more than there is room for. Checks that each arrives once, whole, in order,
/// and from `source`.
///
/// # Panics
/// If the driver does not conform.
pub fn packets(sender: &mut dyn Driver, mut receiver: Option<&mut dyn Driver>, source: GateId) {
    let max = sender.rails()[0].packet_bytes_max;
    let eager = sender.rails()[0].eager_bytes_max;
    assert!(eager <= max, "an eager message fits in a packet");
    let to = if receiver.is_some() { GateId(1 - source.0) } else { source };
    let sizes = [1, 7, 8, 40, 55, 56, 57, 63, 64, 65, 1000, eager, max - 1, max];
    let mut sink = RecordingSink::default();
    let (mut sent, mut arrived) = (0, 0);
    let total = 2000;
    while arrived < total {
        let mut refused = false;
        while sent < total && !refused {
            let length = sizes[sent % sizes.len()];
            let mut calls = 0;
            let posted = sender.post_packet(to, 0, length, &mut |out| {
                calls += 1;
                assert_eq!(out.len(), length);
                out.copy_from(&pattern(sent, length));
            });
            assert_eq!(calls, usize::from(posted), "fill is called exactly when posted");
            refused = !posted;
            sent += usize::from(posted);
        }
        if let Some(driver) = receiver.as_deref_mut() {
            driver.poll(&mut sink);
            // The sender may have to connect, and to write what it accepted.
            sender.poll(&mut RecordingSink::default());
        } else {
            sender.poll(&mut sink);
        }
        while let Some((gate, bytes)) = sink.packets.pop_front() {
            assert_eq!(gate, source);
            assert_eq!(bytes, pattern(arrived, sizes[arrived % sizes.len()]), "packet {arrived}");
            arrived += 1;
        }
    }
    assert!(!sender.poll(&mut RecordingSink::default()), "nothing is left");
}

/// Sends parts of a message, with packets between them, from `sender` to the process of `receiver`.
/// Checks that all bytes arrive in their places, and that the memory is released.
///
/// # Panics
/// If the driver does not conform.
pub fn parts(sender: &mut dyn Driver, receiver: &mut dyn Driver, source: GateId, from: &Buffer) {
    let to = GateId(1 - source.0);
    let length = from.len();
    let into = Buffer::zeroed(length);
    let mut sink = RecordingSink { parts_into: Some(into.clone()), ..RecordingSink::default() };
    let mut own = RecordingSink::default();
    let (mut posted, mut count, mut packets) = (0, 0, 0);
    while sink.parts.len() < count || posted < length || packets > sink.packets.len() {
        if posted < length && sender.has_room(to, 0) {
            let part = (1 + count * 37_777).min(length - posted);
            let mut label = Label::default();
            label[..8].copy_from_slice(&(posted as u64).to_le_bytes());
            let (buffer, token) = (from.clone(), count as u64);
            sender.post_part(to, 0, Part { label, buffer, offset: posted, length: part, token });
            posted += part;
            count += 1;
        }
        packets += usize::from(sender.post_packet(to, 0, 24, &mut |out| out.fill(7)));
        sender.poll(&mut own);
        receiver.poll(&mut sink);
    }
    while own.sent.len() < count {
        sender.poll(&mut own);
    }
    own.sent.sort_unstable();
    assert_eq!(own.sent, (0..count as u64).collect::<Vec<_>>(), "each part ends once");
    let (mut wanted, mut got) = (vec![0; length], vec![0; length]);
    from.read(0, &mut wanted);
    into.read(0, &mut got);
    assert!(wanted == got, "the bytes are those that were sent");
    assert!(sink.packets.iter().all(|(_, bytes)| bytes[..] == [7; 24]));
    assert!(sink.parts.iter().all(|part| part.0 == source));
}

fn pattern(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|i| (number * 31 + i * 7) as u8).collect()
}
