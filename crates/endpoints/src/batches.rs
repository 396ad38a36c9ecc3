//! Batches: short messages to one process that wait for room on its rails become one message.
//!
//! While the queue to a process is full, each message would need a copy in a buffer, a request and
//! a record, at both ends: several thousand instructions. In a batch it needs a header of a few
//! bytes. A batch has messages of all connections to the process, in their order; what is sent to
//! the process otherwise follows it.

use std::time::{Duration, Instant};

use base::GateId;
use engine::Send;
use memory::{Buffer, HeldBytes, SharedBytes};

use crate::host::EndpointHost;
use crate::message::BATCH;
use crate::service::ServiceState;

/// The short messages to a process that wait.
#[derive(Debug)]
pub(crate) struct Batch {
    /// When its first message was sent.
    begun: Instant,
    bytes: Vec<u8>,
    /// What they take of the windows of connections of this process.
    costs: Vec<(u32, u64)>,
}

/// Longer messages are sent alone, in bytes.
pub(crate) const BATCHED_BYTES_MAX: usize = 512;

/// The longest batch in bytes: no longer than what all rails send without an announcement.
pub(crate) const BATCH_BYTES_MAX: usize = 8 << 10;

/// A batch waits no longer than this for the messages of others, such as those of MPI, that wait
/// before it.
const BATCH_AGE_MAX: Duration = Duration::from_millis(10);

/// Before each message of a batch: its tag and its length.
const HEADER_BYTES: usize = 8;

impl Batch {
    pub fn new(begun: Instant) -> Self {
        Self { begun, bytes: Vec::new(), costs: Vec::new() }
    }

    /// Whether it must be sent at time `now`, while so many messages wait before it.
    fn is_due(&self, waiting: usize, now: impl FnOnce() -> Instant) -> bool {
        waiting == 0 || now().saturating_duration_since(self.begun) >= BATCH_AGE_MAX
    }

    /// Adds a message, with what it takes of the window of a connection.
    pub fn add(&mut self, tag: i32, data: &Buffer, (key, cost): (u32, u64)) {
        self.bytes.extend_from_slice(&tag.to_le_bytes());
        self.bytes.extend_from_slice(&(data.len() as u32).to_le_bytes());
        let begin = self.bytes.len();
        self.bytes.resize(begin + data.len(), 0);
        data.read(0, &mut self.bytes[begin..]);
        match self.costs.last_mut() {
            Some((last, sum)) if *last == key => *sum += cost,
            _ => self.costs.push((key, cost)),
        }
    }

    /// Whether there may be no room for another message.
    fn is_full(&self) -> bool {
        self.bytes.len() > BATCH_BYTES_MAX - HEADER_BYTES - BATCHED_BYTES_MAX
    }
}

/// Returns the messages of a batch with their tags. A peer that is wrong may have made it: what
/// does not fit is left out.
pub(crate) fn messages_of(bytes: SharedBytes<'_>) -> impl Iterator<Item = (i32, SharedBytes<'_>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let header = bytes.get(at, HEADER_BYTES)?.u64_at(0);
        let data = bytes.get(at + HEADER_BYTES, (header >> 32) as usize)?;
        at += HEADER_BYTES + data.len();
        Some((header as u32 as i32, data))
    })
}

impl<Process: EndpointHost> ServiceState<Process> {
    /// Whether messages to a process wait in a batch, which must be sent before others.
    pub fn has_batch(&self, gate: GateId) -> bool {
        !self.batches.is_empty() && self.batches.contains_key(&gate)
    }

    /// Adds a message to the batch of a process.
    pub fn add_to_batch(
        &mut self,
        process: &Process,
        gate: GateId,
        (tag, data): (i32, &Buffer),
        cost: (u32, u64),
    ) {
        let batch = self.batches.entry(gate).or_insert_with(|| Batch::new(process.now()));
        batch.add(tag, data, cost);
        if batch.is_full() {
            self.send_batch(process, gate);
        }
    }

    /// Sends the messages to a process that wait in a batch, if there are any.
    pub fn send_batch(&mut self, process: &Process, gate: GateId) {
        if self.batches.is_empty() {
            return;
        }
        let Some((batch, context)) = self.batches.remove(&gate).zip(self.space) else { return };
        let buffer = HeldBytes::copy_of((&*batch.bytes).into()).into_buffer();
        let message = Send { gate, peer: gate.0, context, tag: BATCH, synchronous: false, buffer };
        if process.try_send(&message) {
            return;
        }
        let Some(request) = process.send(message) else { return };
        process.detach(request);
        for (key, cost) in batch.costs {
            if let Some(connection) = self.connections.get_mut(key) {
                connection.outbox.add(request, cost, |send| process.is_complete(send));
            }
        }
    }

    /// Sends the batches to processes on whose rails nothing else waits, and those that have waited
    /// long. Returns whether there were any.
    pub fn send_batches(&mut self, process: &Process) -> bool {
        if self.batches.is_empty() {
            return false;
        }
        let is_due = |(gate, batch): &(&GateId, &Batch)| {
            batch.is_due(process.waiting(**gate), || process.now())
        };
        let due: Vec<GateId> = self.batches.iter().filter(is_due).map(|(gate, _)| *gate).collect();
        due.iter().for_each(|gate| self.send_batch(process, *gate));
        !due.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer_of(bytes: &[u8]) -> Buffer {
        HeldBytes::copy_of(bytes.into()).into_buffer()
    }

    #[test]
    fn messages_come_out_of_a_batch_as_they_went_in() {
        let mut batch = Batch::new(Instant::now());
        let sent: Vec<(i32, Vec<u8>)> = (0..20)
            .map(|number| (number << 20 | 5, vec![number as u8; 7 * number as usize]))
            .collect();
        for (tag, bytes) in &sent {
            batch.add(*tag, &buffer_of(bytes), (*tag as u32, 64));
        }
        batch.add(3, &Buffer::empty(), (19 << 20 | 5, 64));
        assert_eq!(batch.costs.last(), Some(&(19 << 20 | 5, 128)));
        let taken: Vec<_> =
            messages_of((&*batch.bytes).into()).map(|(tag, bytes)| (tag, bytes.to_vec())).collect();
        assert_eq!((&taken[..20], &taken[20..]), (&sent[..], &[(3, Vec::new())][..]));
    }

    #[test]
    fn a_batch_is_full_before_it_is_too_long() {
        let mut batch = Batch::new(Instant::now());
        while !batch.is_full() {
            batch.add(1, &buffer_of(&[7; BATCHED_BYTES_MAX]), (1, 1));
        }
        assert!(batch.bytes.len() <= BATCH_BYTES_MAX && batch.bytes.len() > BATCH_BYTES_MAX / 2);
    }

    #[test]
    fn a_batch_leaves_although_the_messages_of_others_never_end() {
        let begun = Instant::now();
        let batch = Batch::new(begun);
        assert!(batch.is_due(0, || begun));
        assert!(!batch.is_due(7, || begun + BATCH_AGE_MAX / 2));
        assert!(batch.is_due(7, || begun + BATCH_AGE_MAX));
    }

    /// Nonsense of a peer ends the batch, and nothing else.
    #[test]
    fn what_does_not_fit_is_left_out() {
        let mut batch = Batch::new(Instant::now());
        batch.add(1, &buffer_of(b"first"), (1, 1));
        let whole = batch.bytes.len();
        batch.add(2, &buffer_of(b"second"), (1, 1));
        for length in whole..batch.bytes.len() {
            assert_eq!(messages_of((&batch.bytes[..length]).into()).count(), 1);
        }
        batch.bytes[whole + 4..].fill(0xff);
        assert_eq!(messages_of((&*batch.bytes).into()).count(), 1);
        assert_eq!(messages_of((&[0xff; 7]).into()).count(), 0);
    }
}
