//! Reads the message queues of a process from its memory.

use message_queues::{
    ANY_TAG, CommunicatorRow, GroupRow, NAME_MAX, NONE, QueueTableView, TABLE_BYTES, states,
};

/// The memory of a process that is stopped.
pub trait StoppedMemory {
    /// Fills `into` with the bytes from `address` on. Returns whether they could be read.
    fn read(&self, address: u64, into: &mut [u8]) -> bool;

    /// Reads a number of 32 bits.
    fn word(&self, address: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        self.read(address, &mut bytes).then(|| u32::from_ne_bytes(bytes))
    }

    /// Reads a number of 64 bits.
    fn long(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes).then(|| u64::from_ne_bytes(bytes))
    }

    /// Reads the bytes of a table. The length may be garbage, so memory for them is allocated in
    /// steps.
    fn bytes(&self, address: u64, length: u64) -> Option<Vec<u8>> {
        let end = address.checked_add(length)?;
        let mut bytes = Vec::new();
        let mut from = address;
        while from < end {
            let (place, more) = (bytes.len(), (end - from).min(READ_MAX));
            bytes.resize(place + more as usize, 0);
            if !self.read(from, &mut bytes[place..]) {
                return None;
            }
            from += more;
        }
        Some(bytes)
    }
}

/// The largest number of bytes of a table that one read fetches.
const READ_MAX: u64 = 1 << 20;

/// A count above this limit is regarded as garbage. The process may have been stopped at any
/// instruction, or may have overwritten its tables.
const COUNT_MAX: u64 = 1 << 24;

/// A send, a receive or an unexpected message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedOperation {
    /// The rank of the peer in the communicator; `None` for any.
    pub peer: Option<u32>,
    /// The rank of the peer in the job, if it is known.
    pub process: Option<u32>,
    /// The tag; `None` for any.
    pub tag: Option<i32>,
    /// The length of the buffer, or of an unexpected message, in bytes.
    pub bytes: u64,
    /// The address of the data; 0 if it is not known.
    pub address: u64,
    /// The length of the message in bytes, for receives that are matched.
    pub message_bytes: Option<u64>,
    /// What the operation waits for, in words.
    pub text: &'static str,
}

/// Why the table cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableProblem {
    /// The process has another version of the library.
    OtherVersion,
    /// The memory of the process cannot be read.
    Unreadable,
}

/// Reads the table at `address`.
///
/// # Errors
/// The memory cannot be read, or the table has another version.
pub fn table(memory: &impl StoppedMemory, address: u64) -> Result<QueueTableView, TableProblem> {
    let mut bytes = [0; TABLE_BYTES];
    if !memory.read(address, &mut bytes) {
        return Err(TableProblem::Unreadable);
    }
    QueueTableView::read(&bytes).ok_or(TableProblem::OtherVersion)
}

/// Reads the list of communicators.
pub fn communicators(
    memory: &impl StoppedMemory,
    table: &QueueTableView,
) -> Option<Vec<CommunicatorRow>> {
    let count = table.communicator_count.min(COUNT_MAX);
    let rows = memory.bytes(table.communicators, count * size_of::<CommunicatorRow>() as u64)?;
    Some(rows.chunks_exact(size_of::<CommunicatorRow>()).map(row).collect())
}

fn row(bytes: &[u8]) -> CommunicatorRow {
    use std::mem::offset_of;
    let word = |place: usize| {
        u32::from_ne_bytes(bytes[place..place + 4].try_into().expect("a word has 4 bytes"))
    };
    let long = |place: usize| {
        u64::from_ne_bytes(bytes[place..place + 8].try_into().expect("it has 8 bytes"))
    };
    let group = |place: usize| GroupRow {
        table: long(place + offset_of!(GroupRow, table)),
        size: word(place + offset_of!(GroupRow, size)),
        first: word(place + offset_of!(GroupRow, first)),
        stride: word(place + offset_of!(GroupRow, stride)).cast_signed(),
    };
    let name = offset_of!(CommunicatorRow, name);
    CommunicatorRow {
        id: long(offset_of!(CommunicatorRow, id)),
        own: group(offset_of!(CommunicatorRow, own)),
        peers: group(offset_of!(CommunicatorRow, peers)),
        context: word(offset_of!(CommunicatorRow, context)),
        rank: word(offset_of!(CommunicatorRow, rank)),
        name: bytes[name..name + NAME_MAX + 1].try_into().expect("the length is the same"),
    }
}

/// Returns the ranks in the job of the members of a group.
pub fn members(memory: &impl StoppedMemory, group: &GroupRow) -> Option<Vec<u32>> {
    if u64::from(group.size) > COUNT_MAX {
        return None;
    }
    if group.table == 0 {
        let member = |rank: u32| {
            group.first.wrapping_add_signed(group.stride.wrapping_mul(rank.cast_signed()))
        };
        return Some((0..group.size).map(member).collect());
    }
    let table = memory.bytes(group.table, u64::from(group.size) * 4)?;
    let number = |word: &[u8]| u32::from_ne_bytes(word.try_into().expect("a word has 4 bytes"));
    Some(table.chunks_exact(4).map(number).collect())
}

/// The queues of one communicator, which are read on request.
pub struct Queues<'a, M> {
    pub memory: &'a M,
    pub table: &'a QueueTableView,
    pub communicator: &'a CommunicatorRow,
    /// The ranks in the job of the processes that messages go to, by their ranks in the
    /// communicator.
    pub peers: &'a [u32],
}

impl<M: StoppedMemory> Queues<'_, M> {
    /// Returns the sends that are not complete.
    pub fn sends(&self) -> Option<Vec<QueuedOperation>> {
        let layout = self.table.layout;
        let sends = self.requests()?.into_iter().filter_map(|request| {
            let text = match request.state {
                states::QUEUED => "waits for the network",
                states::AWAITING_MATCH => "synchronous: waits for its receive",
                states::ANNOUNCED => "announced: waits for its receive",
                states::STREAMING => "its data is being sent",
                _ => return None,
            };
            let process = request.word(layout.gate);
            let peer = self.peers.iter().position(|&one| one == process);
            let operation = self.operation(&request, text)?;
            Some(QueuedOperation {
                peer: peer.map(|rank| rank as u32),
                process: Some(process),
                ..operation
            })
        });
        Some(sends.collect())
    }

    /// Returns the receives that are not complete: first those whose data is arriving, then those
    /// that are not matched, in the order in which they were posted.
    pub fn receives(&self) -> Option<Vec<QueuedOperation>> {
        let layout = self.table.layout;
        let mut receives: Vec<(u64, QueuedOperation)> = Vec::new();
        for request in self.requests()? {
            let (order, text, message_bytes) = match request.state {
                states::POSTED => (request.long(layout.order), "waits for a message", None),
                states::FILLING => {
                    (0, "its data is being received", Some(request.long(layout.message_length)))
                }
                _ => continue,
            };
            let peer = Some(request.word(layout.source)).filter(|&source| source != NONE);
            let process = peer.and_then(|rank| self.peers.get(rank as usize).copied());
            let Some(operation) = self.operation(&request, text) else { continue };
            receives.push((order, QueuedOperation { peer, process, message_bytes, ..operation }));
        }
        receives.sort_by_key(|(order, _)| *order);
        Some(receives.into_iter().map(|(_, operation)| operation).collect())
    }

    /// Returns the unexpected messages, in the order in which they arrived.
    pub fn messages(&self) -> Option<Vec<QueuedOperation>> {
        let layout = self.table.layout;
        let contexts = self.of_engine(layout.contexts)?;
        let places = self.of_engine(layout.context_count)?;
        if u64::from(self.communicator.context) >= places {
            return None;
        }
        let context = u64::from(self.communicator.context).wrapping_mul(layout.context_bytes);
        let context = contexts.wrapping_add(context);
        let mut next = self.memory.word(context.wrapping_add(layout.first_message))?;
        let messages = self.of_engine(layout.messages)?;
        let count = self.of_engine(layout.message_count)?;
        let mut found = Vec::new();
        while next != NONE {
            // A list that is longer than the table that it lies in has a cycle.
            if u64::from(next) >= count || found.len() as u64 >= count.min(COUNT_MAX) {
                return None;
            }
            let place = u64::from(next).wrapping_mul(layout.message_bytes);
            let at = |offset: u64| messages.wrapping_add(place).wrapping_add(offset);
            let source = self.memory.word(at(layout.message_source))?;
            found.push(QueuedOperation {
                peer: Some(source),
                process: self.peers.get(source as usize).copied(),
                tag: Some(self.memory.word(at(layout.message_tag))?.cast_signed()),
                bytes: self.memory.long(at(layout.message_data_length))?,
                address: 0,
                message_bytes: None,
                text: "arrived before its receive",
            });
            next = self.memory.word(at(layout.next_message))?;
        }
        Some(found)
    }

    fn operation(&self, request: &RequestBytes, text: &'static str) -> Option<QueuedOperation> {
        let layout = self.table.layout;
        let rare = request.long(layout.rare);
        let (low, high) = (request.long(layout.buffer_low), request.long(layout.buffer_high));
        let bytes = match rare {
            0 => high.wrapping_sub(low),
            _ => self.memory.long(rare.wrapping_add(layout.rare_length))?,
        };
        let tag = Some(request.word(layout.tag).cast_signed()).filter(|&tag| tag != ANY_TAG);
        let address = request.long(layout.buffer).wrapping_add(low);
        let (peer, process, message_bytes) = (None, None, None);
        Some(QueuedOperation { peer, process, tag, bytes, address, message_bytes, text })
    }

    /// Reads a number of 64 bits at an offset in the engine.
    fn of_engine(&self, offset: u64) -> Option<u64> {
        self.memory.long(self.table.engine.wrapping_add(offset))
    }

    /// Reads all requests of the communicator in one pass.
    fn requests(&self) -> Option<Vec<RequestBytes>> {
        let layout = self.table.layout;
        let first = self.of_engine(layout.requests)?;
        let count = self.of_engine(layout.request_count)?;
        if count > COUNT_MAX || layout.request_bytes == 0 || layout.state >= layout.request_bytes {
            return None;
        }
        let bytes = self.memory.bytes(first, count.checked_mul(layout.request_bytes)?)?;
        let requests = bytes
            .chunks_exact(layout.request_bytes as usize)
            .map(|bytes| RequestBytes { state: bytes[layout.state as usize], bytes: bytes.into() });
        let own = self.communicator.context;
        let is_own = |request: &RequestBytes| {
            !matches!(request.state, states::FREE | states::COMPLETE)
                && request.word(layout.context) == own
        };
        Some(requests.filter(is_own).collect())
    }
}

/// The bytes of one request.
struct RequestBytes {
    state: u8,
    bytes: Box<[u8]>,
}

impl RequestBytes {
    fn word(&self, offset: u64) -> u32 {
        let offset = offset as usize;
        let word = self.bytes.get(offset..).and_then(|rest| rest.first_chunk());
        u32::from_ne_bytes(word.copied().unwrap_or_default())
    }

    fn long(&self, offset: u64) -> u64 {
        u64::from(self.word(offset)) | u64::from(self.word(offset.saturating_add(4))) << 32
    }
}
