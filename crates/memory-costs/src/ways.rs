//! The methods of transferring a message between two processes of a machine, as kernels.

use crate::access::MemoryOperation;
use crate::kernel::{Access, BlockNumber, CopyBySystem, Kernel, KernelPhase, Loop, ThreadNumber};
use crate::prediction::{BlockStates, predict};
use crate::table::CostTable;

/// The method of transferring the bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MessageWay {
    /// Two copies: the sender copies the bytes into shared memory, piece by piece, and the receiver
    /// follows.
    Through(Passage),
    /// One copy, by a system call of the receiver.
    Once,
    /// One copy, by system calls of both processes, which copy one half each.
    Jointly,
}

/// Shared memory through which messages pass, whose parts are used in turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Passage {
    /// Its size, in bytes.
    pub bytes: u64,
    /// The sender signals the receiver after each so many bytes.
    pub piece_bytes: u64,
    /// Stores through the caches or past them.
    pub store: MemoryOperation,
    /// The number of bytes that the sender has taken into its cache since the previous message.
    pub taken_ahead_bytes: u64,
    /// Whether the receiver writes to the lines that it has read.
    pub is_cleared: bool,
}

/// The history of a message's bytes before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentBytes {
    /// The sender has written them.
    Fresh,
    /// They were sent before, and no process has used them since, at either end.
    Again,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MessageMove {
    /// The method of transfer.
    pub way: MessageWay,
    /// Its length in bytes.
    pub bytes: u64,
    /// The history of its bytes.
    pub sent: SentBytes,
    /// How often one process signals the other before the first byte is copied.
    pub signals: u32,
    /// The time of the library's other work for it at both ends, in nanoseconds.
    pub library_ns: f64,
}

const SENDER: ThreadNumber = ThreadNumber(0);
const RECEIVER: ThreadNumber = ThreadNumber(1);

const SOURCE: BlockNumber = BlockNumber(0);
const TARGET: BlockNumber = BlockNumber(1);
/// The part of a passage that the sender has taken into its cache, and the rest of the passage.
const TAKEN: BlockNumber = BlockNumber(2);
const PASSAGE: BlockNumber = BlockNumber(3);
/// The halves that the sender copies, if both processes copy.
const SENDERS_SOURCE: BlockNumber = BlockNumber(4);
const SENDERS_TARGET: BlockNumber = BlockNumber(5);

impl MessageMove {
    /// Returns the time from the sender's call until the bytes are at their destination, in
    /// nanoseconds, if the receiver waits for them and a line crosses in `crossing_ns` nanoseconds.
    /// `None` if the table lacks a required figure.
    pub fn predict(&self, table: &CostTable, crossing_ns: f64) -> Option<f64> {
        predict(&self.kernel(), &mut self.states(), table, crossing_ns)
    }

    /// Returns the mean over all distances of the table. The distance of two processes is not known
    /// before they have communicated, and it changes on virtual processors.
    pub fn expect(&self, table: &CostTable) -> Option<f64> {
        let at = |crossing_ns| self.predict(table, crossing_ns);
        let all: Option<Vec<f64>> =
            table.distances.iter().map(|distance| at(distance.crossing_ns)).collect();
        all.filter(|all| !all.is_empty()).map(|all| all.iter().sum::<f64>() / all.len() as f64)
    }

    /// Returns the message as a kernel.
    pub fn kernel(&self) -> Kernel {
        let mut phases = vec![KernelPhase::Elapsing(self.library_ns)];
        phases.extend((0..self.signals).map(|_| KernelPhase::Signalled));
        let by_receiver =
            |bytes| CopyBySystem { thread: RECEIVER, from: SOURCE, into: TARGET, bytes };
        match self.way {
            MessageWay::Through(passage) => phases.push(self.through(&passage)),
            MessageWay::Once => phases.push(KernelPhase::BySystem(vec![by_receiver(self.bytes)])),
            MessageWay::Jointly => {
                let bytes = self.bytes / 2;
                let (from, into) = (SENDERS_SOURCE, SENDERS_TARGET);
                let by_sender = CopyBySystem { thread: SENDER, from, into, bytes };
                let copies = vec![by_sender, by_receiver(self.bytes - bytes)];
                phases.extend([KernelPhase::BySystem(copies), KernelPhase::Signalled]);
            }
        }
        Kernel { phases }
    }

    fn through(&self, passage: &Passage) -> KernelPhase {
        let ahead = self.bytes.min(passage.taken_ahead_bytes);
        let parts = [(TAKEN, ahead), (PASSAGE, self.bytes - ahead)];
        let accesses = |operation| {
            let part = move |(block, bytes)| Access {
                operation,
                block,
                bytes,
                area_bytes: if block == TAKEN { 0 } else { passage.bytes },
            };
            parts.into_iter().filter(|(_, bytes)| *bytes > 0).map(part)
        };
        let source = Access::load(SOURCE, self.bytes);
        let sending = Loop::new(SENDER, accesses(passage.store).chain([source]));
        let target = Access::store(TARGET, self.bytes);
        let receiving = Loop::new(RECEIVER, accesses(MemoryOperation::Load).chain([target]));
        let pieces = self.bytes.div_ceil(passage.piece_bytes.max(1));
        KernelPhase::Following(sending, receiving, u32::try_from(pieces).unwrap_or(u32::MAX))
    }

    /// Returns the state of all blocks before the message.
    fn states(&self) -> BlockStates {
        let mut states = BlockStates::default();
        let mut note = |block, thread, operation| states.access(block, thread, operation);
        for source in [SOURCE, SENDERS_SOURCE] {
            note(source, SENDER, MemoryOperation::Store);
        }
        if self.sent == SentBytes::Again {
            note(SOURCE, RECEIVER, MemoryOperation::Load);
        }
        note(TARGET, RECEIVER, MemoryOperation::Store);
        // The state after the previous message, unless its bytes were used since.
        let user = if self.sent == SentBytes::Again { SENDER } else { RECEIVER };
        note(SENDERS_TARGET, user, MemoryOperation::Store);
        if let MessageWay::Through(passage) = self.way {
            note(TAKEN, SENDER, MemoryOperation::Store);
            note(PASSAGE, SENDER, passage.store);
            note(PASSAGE, RECEIVER, MemoryOperation::Load);
            if passage.is_cleared {
                note(PASSAGE, RECEIVER, MemoryOperation::Store);
            }
        }
        states
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::access::{AccessCondition, CONDITIONS, LineState, Met, SystemCopy};
    use crate::curve::Curve;
    use crate::table::{Distance, SystemCosts};

    const LANE: Passage = Passage {
        bytes: 256 << 10,
        piece_bytes: 8 << 10,
        store: MemoryOperation::Store,
        taken_ahead_bytes: 8 << 10,
        is_cleared: true,
    };

    /// Accesses to lines of the own core cost `own` picoseconds per byte, others `crossing`.
    fn table(own: f64, crossing: f64, copy_call_ns: f64) -> CostTable {
        let cost = |condition: &AccessCondition| match condition.met {
            Met::Own(LineState::Shared) if condition.operation != MemoryOperation::Load => crossing,
            Met::Own(_) => own,
            Met::Other(_) | Met::Memory => crossing,
        };
        let curve = |cost: f64| Curve::new([(1 << 10, 1.024 * cost), (1 << 24, 16777.216 * cost)]);
        let curves = CONDITIONS.map(|condition| (condition, curve(cost(&condition)))).into();
        let mut table = CostTable::default();
        table.learn(Distance { crossing_ns: 50.0, curves, ..Distance::default() });
        table.system = SystemCosts { copy_call_ns, copy_page_ns: 10.0, ..SystemCosts::default() };
        table
    }

    fn message(way: MessageWay, bytes: u64) -> MessageMove {
        let (sent, signals, library_ns) = (SentBytes::Fresh, 0, 100.0);
        MessageMove { way, bytes, sent, signals, library_ns }
    }

    #[test]
    fn a_short_message_is_written_told_and_read() {
        // 2 KiB: the sender loads and stores data of its own cache, which overlaps. A line crosses.
        // The receiver loads the data that the sender has written, and stores it at the same time.
        let time = message(MessageWay::Through(LANE), 2048).expect(&table(10.0, 100.0, 500.0));
        let expected = 100.0 + 20.48 + 50.0 + 204.8;
        assert!((time.unwrap() - expected).abs() < 1.0, "{time:?} for {expected}");
    }

    #[test]
    fn one_copy_pays_where_calls_are_cheap_or_messages_long() {
        let is_faster = |bytes, copy_call_ns| {
            let table = table(10.0, 80.0, copy_call_ns);
            let [once, twice] = [MessageWay::Once, MessageWay::Through(LANE)]
                .map(|way| message(way, bytes).expect(&table).unwrap());
            once < twice
        };
        assert!(!is_faster(16 << 10, 3000.0));
        assert!(is_faster(16 << 10, 100.0));
        // Data that was read before comes from the receiver's private caches.
        let again = MessageMove { sent: SentBytes::Again, ..message(MessageWay::Once, 1 << 16) };
        let fresh = message(MessageWay::Once, 1 << 16);
        let table = table(10.0, 80.0, 500.0);
        assert!(again.expect(&table) < fresh.expect(&table));
    }

    #[test]
    fn two_that_copy_need_half_of_the_time_and_a_crossing() {
        let table = table(10.0, 80.0, 500.0);
        let [once, jointly] = [MessageWay::Once, MessageWay::Jointly]
            .map(|way| message(way, 1 << 20).expect(&table).unwrap());
        let expected = (once - 600.0) / 2.0 + 650.0;
        assert!((jointly - expected).abs() < 0.01 * expected, "{jointly} for {expected}");
    }

    #[test]
    fn copies_of_the_system_cost_what_was_measured() {
        let mut table = table(10.0, 80.0, 500.0);
        let flat = |ns: f64| Curve::new([(1 << 10, ns), (1 << 24, ns)]);
        table.distances[0].copies = [
            (SystemCopy::Fetched, flat(3000.0)),
            (SystemCopy::FetchedAgain, flat(2000.0)),
            (SystemCopy::Given, flat(4000.0)),
        ]
        .into();
        let time = |way, sent| {
            let message = MessageMove { sent, ..message(way, 1 << 17) };
            message.expect(&table).unwrap()
        };
        assert_eq!(time(MessageWay::Once, SentBytes::Fresh), 3100.0);
        assert_eq!(time(MessageWay::Once, SentBytes::Again), 2100.0);
        // The slower of both halves, and a crossing.
        assert_eq!(time(MessageWay::Jointly, SentBytes::Fresh), 4150.0);
    }

    #[test]
    fn what_is_told_takes_a_crossing_and_an_empty_table_tells_nothing() {
        let table = table(10.0, 80.0, 500.0);
        let plain = message(MessageWay::Once, 4096);
        let asked = MessageMove { signals: 2, ..plain };
        let apart = asked.expect(&table).unwrap() - plain.expect(&table).unwrap();
        assert!((apart - 100.0).abs() < 1e-6, "{apart}");
        assert_eq!(plain.expect(&CostTable::default()), None);
    }

    #[test]
    fn a_passage_past_the_caches_is_read_from_memory() {
        let past = Passage { store: MemoryOperation::StorePast, is_cleared: false, ..LANE };
        let states = message(MessageWay::Through(past), 1 << 20).states();
        assert_eq!(states.met(PASSAGE, SENDER), Met::Other(LineState::Exclusive));
        assert_eq!(states.met(SOURCE, RECEIVER), Met::Other(LineState::Modified));
    }
}
