//! Describes where a debugger finds the message queues of a process that it has stopped, and that
//! therefore cannot answer questions.
//!
//! The library of the process publishes, in a variable with a fixed name, the address of its engine
//! and the offsets at which the pending requests and messages lie in it. These offsets are known
//! when the library is compiled, so the queues themselves cost nothing more. The variable also has
//! the address of a list of communicators, which is updated when they are made and freed. The
//! reader from outside is the library `mqs`, which knows nothing of the engine but this table.
//!
//! Why: docs/internals/decisions/0065-debuggers-find-the-queues-by-a-table-of-offsets.md
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

/// The symbol name of the table in the library.
pub const TABLE_SYMBOL: &str = "combray_queues";

/// The first word of [`QueueTable`]. Another number means another layout.
pub const TABLE_VERSION: u64 = 0x0001_7371_6d62_6d63;

/// The table that the process publishes. All words but the version are 0 until it has joined its
/// job.
#[derive(Debug)]
#[repr(C)]
pub struct QueueTable {
    version: AtomicU64,
    /// A counter of changes of the list of communicators.
    changes: AtomicU64,
    /// The address of the list; `communicator_count` is its length.
    communicators: AtomicU64,
    communicator_count: AtomicU64,
    /// The address of the engine.
    engine: AtomicU64,
    layout: [AtomicU64; LAYOUT_WORDS],
}

/// The values of the table's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueTableView {
    /// The counter of changes of the list of communicators.
    pub changes: u64,
    /// The address of the first [`CommunicatorRow`].
    pub communicators: u64,
    /// The number of communicators.
    pub communicator_count: u64,
    /// The address of the engine; 0 if the process has not joined its job.
    pub engine: u64,
    /// The offsets of the parts of the engine.
    pub layout: EngineLayout,
}

/// Offsets and sizes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct EngineLayout {
    /// In the engine: the address of the first request.
    pub requests: u64,
    /// In the engine: the number of request slots.
    pub request_count: u64,
    /// The distance from one request to the next.
    pub request_bytes: u64,
    /// In a request: its state, one byte ([`states`]).
    pub state: u64,
    /// In a posted receive: a number that grows with the order of posting.
    pub order: u64,
    /// In a receive whose data is arriving: the length of the message.
    pub message_length: u64,
    /// In a request: the rank of the sender in the communicator; all bits set for any.
    pub source: u64,
    /// In a request: the tag; the lowest number for any.
    pub tag: u64,
    /// In a request: the message space.
    pub context: u64,
    /// In a request: the rank of the peer in the job.
    pub gate: u64,
    /// In a request: the address of its buffer.
    pub buffer: u64,
    /// In a request: the lowest displacement of the data from that address.
    pub buffer_low: u64,
    /// In a request: the highest displacement of the data from that address.
    pub buffer_high: u64,
    /// In a request: the address of a record that only some buffers have; 0 if the data is
    /// contiguous.
    pub rare: u64,
    /// In that record: the length of the data.
    pub rare_length: u64,
    /// In the engine: the address of the message spaces.
    pub contexts: u64,
    /// In the engine: the number of message spaces.
    pub context_count: u64,
    /// The distance from one message space to the next.
    pub context_bytes: u64,
    /// In a message space: the index of the first unexpected message, a number of 32 bits; all bits
    /// set for none.
    pub first_message: u64,
    /// In the engine: the address of the unexpected messages.
    pub messages: u64,
    /// In the engine: the number of slots for unexpected messages.
    pub message_count: u64,
    /// The distance from one unexpected message to the next.
    pub message_bytes: u64,
    /// In a message: the index of the next message in its message space.
    pub next_message: u64,
    /// In a message: the sender's rank in the communicator.
    pub message_source: u64,
    /// In a message: the tag.
    pub message_tag: u64,
    /// In a message: the length of its data.
    pub message_data_length: u64,
}

const LAYOUT_WORDS: usize = size_of::<EngineLayout>() / size_of::<u64>();
/// The length of [`QueueTable`] in bytes.
pub const TABLE_BYTES: usize = size_of::<QueueTable>();

/// The states of a request, which are the values of its state byte.
pub mod states {
    /// The slot has no request.
    pub const FREE: u8 = 0;
    /// A send that has not been passed to the network.
    pub const QUEUED: u8 = 1;
    /// A synchronous send that is not matched.
    pub const AWAITING_MATCH: u8 = 2;
    /// A send that has been announced to its receiver.
    pub const ANNOUNCED: u8 = 3;
    /// A send whose data is being transferred.
    pub const STREAMING: u8 = 4;
    /// A receive that is not matched.
    pub const POSTED: u8 = 5;
    /// A receive whose data is arriving.
    pub const FILLING: u8 = 6;
    /// A complete operation.
    pub const COMPLETE: u8 = 7;
    /// A receive that waits until a failure is acknowledged.
    pub const INTERRUPTED: u8 = 8;
}

/// The number for "any", and for "none" in lists.
pub const NONE: u32 = u32::MAX;
/// The number for any tag.
pub const ANY_TAG: i32 = i32::MIN;

/// The longest name in a row, without the terminating zero byte.
pub const NAME_MAX: usize = 63;

/// A communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct CommunicatorRow {
    /// The identifier of the communicator, equal in all its processes.
    pub id: u64,
    /// The processes of the communicator; for an intercommunicator the local group.
    pub own: GroupRow,
    /// The processes that messages go to; for an intercommunicator the remote group.
    pub peers: GroupRow,
    /// The message space of the communicator's messages.
    pub context: u32,
    /// The rank of this process in the communicator.
    pub rank: u32,
    /// The name of the communicator, terminated by a zero byte.
    pub name: [u8; NAME_MAX + 1],
}

/// An ordered group of processes, by their ranks in the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct GroupRow {
    /// The address of a table of `size` ranks of 32 bits. 0 if the ranks are `first`, `first +
    /// stride` and so on.
    pub table: u64,
    /// The number of processes.
    pub size: u32,
    /// The rank of the first process, if there is no table.
    pub first: u32,
    /// The difference between consecutive ranks, if there is no table.
    pub stride: i32,
}

impl QueueTable {
    /// Creates the table of a process that has not joined its job.
    #[expect(clippy::new_without_default, reason = "there is one, which is a static")]
    pub const fn new() -> Self {
        Self {
            version: AtomicU64::new(TABLE_VERSION),
            changes: AtomicU64::new(0),
            communicators: AtomicU64::new(0),
            communicator_count: AtomicU64::new(0),
            engine: AtomicU64::new(0),
            layout: [const { AtomicU64::new(0) }; LAYOUT_WORDS],
        }
    }

    /// Publishes the address of the engine, which must not change afterwards, and its layout.
    pub fn show_engine(&self, address: usize, layout: &EngineLayout) {
        for (word, value) in self.layout.iter().zip(layout.words()) {
            word.store(value, Ordering::Relaxed);
        }
        self.engine.store(address as u64, Ordering::Release);
    }

    /// Changes the list of communicators. The published list is empty while `change` runs, so that
    /// no debugger reads it then.
    pub fn change_communicators(
        &self,
        rows: &mut Vec<CommunicatorRow>,
        change: impl FnOnce(&mut Vec<CommunicatorRow>),
    ) {
        self.communicator_count.store(0, Ordering::SeqCst);
        change(rows);
        self.communicators.store(rows.as_ptr().addr() as u64, Ordering::SeqCst);
        self.communicator_count.store(rows.len() as u64, Ordering::SeqCst);
        self.changes.fetch_add(1, Ordering::SeqCst);
    }
}

impl QueueTableView {
    /// Reads the values from the bytes of a table. `None` if the table has another version.
    pub fn read(bytes: &[u8; TABLE_BYTES]) -> Option<Self> {
        let mut words = bytes
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().expect("a word has 8 bytes")));
        let mut next = || words.next().unwrap_or_default();
        if next() != TABLE_VERSION {
            return None;
        }
        let (changes, communicators, communicator_count, engine) = (next(), next(), next(), next());
        let layout = EngineLayout::of_words(next);
        Some(Self { changes, communicators, communicator_count, engine, layout })
    }
}

macro_rules! words {
    ($($field:ident)*) => {
        impl EngineLayout {
            fn words(&self) -> [u64; LAYOUT_WORDS] {
                [$(self.$field),*]
            }

            fn of_words(mut next: impl FnMut() -> u64) -> Self {
                Self { $($field: next()),* }
            }
        }
    };
}

words! {
    requests request_count request_bytes state order message_length source tag context gate
    buffer buffer_low buffer_high rare rare_length
    contexts context_count context_bytes first_message
    messages message_count message_bytes next_message message_source message_tag
    message_data_length
}

impl CommunicatorRow {
    /// Sets the name, truncated to [`NAME_MAX`] bytes.
    pub fn set_name(&mut self, name: &[u8]) {
        let length = name.len().min(NAME_MAX);
        self.name = [0; NAME_MAX + 1];
        self.name[..length].copy_from_slice(&name[..length]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(table: &QueueTable) -> [u8; TABLE_BYTES] {
        let head =
            [&table.version, &table.changes, &table.communicators, &table.communicator_count];
        let words = head.into_iter().chain([&table.engine]).chain(&table.layout);
        let mut bytes = [0; TABLE_BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn what_is_told_is_what_is_read() {
        let table = QueueTable::new();
        let empty = QueueTableView::read(&bytes_of(&table)).unwrap();
        assert_eq!(empty, QueueTableView::default());
        let mut number = 0;
        let layout = EngineLayout::of_words(|| {
            number += 1;
            number
        });
        table.show_engine(0x1000, &layout);
        let group = GroupRow { table: 0, size: 2, first: 0, stride: 1 };
        let mut row =
            CommunicatorRow { id: 7, own: group, peers: group, context: 3, rank: 1, name: [0; 64] };
        row.set_name(&[b'x'; 100]);
        assert_eq!((row.name[NAME_MAX - 1], row.name[NAME_MAX]), (b'x', 0));
        let mut rows = Vec::new();
        table.change_communicators(&mut rows, |rows| rows.push(row));
        let view = QueueTableView::read(&bytes_of(&table)).unwrap();
        assert_eq!((view.engine, view.layout, view.changes), (0x1000, layout, 1));
        assert_eq!(view.communicators, rows.as_ptr().addr() as u64);
        assert_eq!(view.communicator_count, 1);
        let mut other = bytes_of(&table);
        other[0] ^= 1;
        assert_eq!(QueueTableView::read(&other), None);
    }
}
