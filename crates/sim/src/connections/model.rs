//! What the programs of a world have done with their connections, and what they may expect.

use std::collections::{HashMap, VecDeque};

use endpoints::MemoryName;
use memory::Buffer;

/// A connection as the two programs see it. End 0 has connected, end 1 accepts.
#[derive(Debug, Default)]
pub(super) struct ModelConnection {
    /// The processes; the one at end 1 is the owner of the port.
    pub nodes: [u32; 2],
    /// The endpoint at end 1, by number in the world.
    pub target: usize,
    pub request: Vec<u8>,
    pub rejection: Option<Vec<u8>>,
    pub ends: [ModelEnd; 2],
}

/// One end of a connection.
#[derive(Debug, Default)]
pub(super) struct ModelEnd {
    pub key: Option<u32>,
    pub stage: ModelStage,
    /// Whether the program has closed this end, or its endpoint.
    pub has_closed: bool,
    /// Whether a call was refused, so that the event `Writable` must follow.
    pub is_refused: bool,
    /// How many calls were refused for which no event has come.
    pub refusals: u64,
    /// The shortest keepalive limit that was set, in milliseconds: the report of a silence may be
    /// in the queue while the program sets a longer one.
    pub keepalive: Option<u64>,
    /// What was sent from here in order and has not been received.
    pub ordered: VecDeque<ModelMessage>,
    /// What was sent from here without order and has not been received.
    pub unordered: HashMap<u64, ModelMessage>,
    /// How many unreliable messages were sent from here, and received.
    pub unreliable: (u64, u64),
    /// The sends whose memory is lent to the library, by the word of their events.
    pub lent: HashMap<usize, Buffer>,
    /// The reads and writes that will be reported, by the word of their events.
    pub operations: HashMap<usize, ModelOperation>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ModelStage {
    /// The program of this end knows nothing of the connection.
    #[default]
    Unknown,
    /// The program waits for an answer, or must give one.
    Waiting,
    Open,
    /// The event that ends the connection has come, or none can come.
    Ended,
}

#[derive(Clone, Debug)]
pub(super) struct ModelMessage {
    pub number: u64,
    pub length: usize,
    pub is_unreliable: bool,
    /// The write after which the message must come: the memory, the range and its content.
    pub after: Option<(usize, usize, Vec<u8>)>,
}

/// A read or write of registered memory.
#[derive(Debug)]
pub(super) struct ModelOperation {
    pub memory: usize,
    pub offset: usize,
    /// What the range must contain when the operation is complete.
    pub content: Vec<u8>,
    /// The memory that was read into.
    pub into: Option<Buffer>,
}

/// Registered memory.
#[derive(Debug)]
pub(super) struct ModelMemory {
    pub endpoint: usize,
    pub buffer: Buffer,
    pub name: MemoryName,
    /// How many bytes at the beginning were given to operations, each range to one.
    pub used: usize,
    /// The content at the time when it was deregistered.
    pub frozen: Option<Vec<u8>>,
}

/// The content of memory that its program has used for something else.
pub(super) const REUSED: u8 = 0x55;

impl ModelMessage {
    /// Returns the bytes of the message. Those of at least 8 bytes begin with its number.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = crate::region::pattern(self.number as usize, self.length);
        if self.length >= 8 {
            bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        }
        bytes
    }
}

impl ModelEnd {
    /// Notes that a call was refused for now.
    pub fn refuse(&mut self) {
        self.is_refused = true;
        self.refusals += 1;
    }

    /// Ends this end: its program uses the memory that it has lent for something else.
    pub fn end(&mut self) {
        self.stage = ModelStage::Ended;
        self.is_refused = false;
        self.lent.drain().for_each(|(_, buffer)| overwrite(&buffer));
    }
}

/// Uses the memory of a message for something else.
pub(super) fn overwrite(buffer: &Buffer) {
    buffer.write(0, &vec![REUSED; buffer.len()]);
}

/// Returns the content of a buffer.
pub(super) fn content_of(buffer: &Buffer) -> Vec<u8> {
    let mut content = vec![0; buffer.len()];
    buffer.read(0, &mut content);
    content
}
