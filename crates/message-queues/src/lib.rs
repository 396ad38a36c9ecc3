//! Where a debugger finds the message queues of a process that it has stopped, and that cannot
//! answer any more.
//!
//! The library of the process tells, in a variable with a fixed name, where its engine lies in
//! memory, and at which offsets there the requests and messages are that wait; these offsets are
//! known when the library is compiled, so the queues themselves cost nothing more. Communicators
//! are listed beside them, as they are made and freed. Who reads that from outside is the library
//! `mqs`, which knows nothing of the engine but this table.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

/// The name of the table among the symbols of the library.
pub const TABLE_SYMBOL: &str = "combray_queues";

/// What [`QueueTable`] begins with; another number means another layout.
pub const TABLE_VERSION: u64 = 0x0001_7371_6d62_6d63;

/// What the process tells. All words are 0 until it has joined its job.
#[derive(Debug)]
#[repr(C)]
pub struct QueueTable {
    version: AtomicU64,
    /// Changes whenever the list of communicators does.
    changes: AtomicU64,
    /// Where the list begins, and how many it has.
    communicators: AtomicU64,
    communicator_count: AtomicU64,
    /// Where the engine lies.
    engine: AtomicU64,
    layout: [AtomicU64; LAYOUT_WORDS],
}

/// The table as its words are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueTableView {
    /// See [`QueueTable`].
    pub changes: u64,
    /// The address of the first [`CommunicatorRow`].
    pub communicators: u64,
    /// How many there are.
    pub communicator_count: u64,
    /// The address of the engine; 0: the process has not joined its job.
    pub engine: u64,
    /// What lies where in the engine.
    pub layout: EngineLayout,
}

/// Offsets and sizes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct EngineLayout {
    /// In the engine: the address of the first request, and how many places there are.
    pub requests: u64,
    /// See above.
    pub request_count: u64,
    /// From one request to the next.
    pub request_bytes: u64,
    /// In a request: its state, one byte ([`states`]).
    pub state: u64,
    /// In a posted receive: when it was posted, as a number that grows.
    pub order: u64,
    /// In a receive whose data is coming: the length of the message.
    pub message_length: u64,
    /// The rank of the sender in the communicator; all bits set: any.
    pub source: u64,
    /// The tag; the lowest number: any.
    pub tag: u64,
    /// The message space.
    pub context: u64,
    /// The process at the other end: its rank in the job.
    pub gate: u64,
    /// The address of its buffer, and the displacements between which its data lies.
    pub buffer: u64,
    /// See above.
    pub buffer_low: u64,
    /// See above.
    pub buffer_high: u64,
    /// The address of what only some buffers have; 0: the data is one run.
    pub rare: u64,
    /// There: the length of the data.
    pub rare_length: u64,
    /// In the engine: the address of the message spaces, and how many places there are.
    pub contexts: u64,
    /// See above.
    pub context_count: u64,
    /// From one to the next.
    pub context_bytes: u64,
    /// In a message space: the first unexpected message, a number of 32 bits; all bits set: none.
    pub first_message: u64,
    /// In the engine: the address of the unexpected messages, and how many places there are.
    pub messages: u64,
    /// See above.
    pub message_count: u64,
    /// From one to the next.
    pub message_bytes: u64,
    /// In a message: the next one of the same space.
    pub next_message: u64,
    /// The sender's rank in the communicator.
    pub message_source: u64,
    /// Its tag.
    pub message_tag: u64,
    /// Its length.
    pub message_data_length: u64,
}

const LAYOUT_WORDS: usize = size_of::<EngineLayout>() / size_of::<u64>();
/// The length of [`QueueTable`] in bytes.
pub const TABLE_BYTES: usize = size_of::<QueueTable>();

/// The states of a request, by the number in its first byte.
pub mod states {
    /// There is no request.
    pub const FREE: u8 = 0;
    /// A send that has not gone.
    pub const QUEUED: u8 = 1;
    /// A synchronous send that was not matched.
    pub const AWAITING_MATCH: u8 = 2;
    /// A send whose receiver knows of it.
    pub const ANNOUNCED: u8 = 3;
    /// A send whose data is going.
    pub const STREAMING: u8 = 4;
    /// A receive without a message.
    pub const POSTED: u8 = 5;
    /// A receive whose data is coming.
    pub const FILLING: u8 = 6;
    /// It is over.
    pub const COMPLETE: u8 = 7;
    /// A receive that waits until a failure is acknowledged.
    pub const INTERRUPTED: u8 = 8;
}

/// The number for "any", and for "none" in lists.
pub const NONE: u32 = u32::MAX;
/// The number for any tag.
pub const ANY_TAG: i32 = i32::MIN;

/// The longest name that a row has, without the zero byte at its end.
pub const NAME_MAX: usize = 63;

/// A communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct CommunicatorRow {
    /// What all its processes know it by.
    pub id: u64,
    /// Its processes; of an intercommunicator, those of its own side.
    pub own: GroupRow,
    /// Those that messages go to.
    pub peers: GroupRow,
    /// The message space of its messages.
    pub context: u32,
    /// The rank of this process.
    pub rank: u32,
    /// Its name, ended by a zero byte.
    pub name: [u8; NAME_MAX + 1],
}

/// Processes in an order, by their ranks in the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct GroupRow {
    /// The address of as many numbers of 32 bits; 0: they are `first`, `first + stride` and so on.
    pub table: u64,
    /// How many.
    pub size: u32,
    /// See above.
    pub first: u32,
    /// See above.
    pub stride: i32,
}

impl QueueTable {
    /// The table of a process that has not joined its job.
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

    /// Tells where the engine lies, which stays there.
    pub fn show_engine(&self, address: usize, layout: &EngineLayout) {
        for (word, value) in self.layout.iter().zip(layout.words()) {
            word.store(value, Ordering::Relaxed);
        }
        self.engine.store(address as u64, Ordering::Release);
    }

    /// Changes the list of communicators: until `change` has come to its end nobody reads it.
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
    /// From the bytes of the table; none: it is of another version.
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
    /// Gives it a name, of which what is too long is left out.
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
