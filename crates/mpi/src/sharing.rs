//! How the processes of a communicator on one machine come to memory that all of them map.

use std::rc::Rc;

use base::{GateId, Result};
use memory::{Buffer, Nonce, SharedMemory};
use runtime::Invitation;

use crate::Process;
use crate::collective::{self, Invocation, Root};
use crate::communicator::Communicator;

/// What a process has of the memory that the one with rank 0 created for all.
pub struct Sharing {
    /// The memory as it is mapped here.
    pub memory: std::result::Result<Rc<SharedMemory>, NotShared>,
    /// Held by the process that created it, until all have it.
    _invitation: Option<Invitation>,
}

/// Why a process has no such memory.
#[derive(Clone, Debug)]
pub enum NotShared {
    /// The configuration of the process that would create it forbids it. So all are told.
    Forbidden,
    /// There is not enough. So all are told.
    NoMemory,
    /// This process cannot map what was created.
    Unreachable(String),
}

/// The card of the memory is told with so many bytes, the rest of which are zero: all, if there is
/// no memory.
const CARD_BYTES: usize = 256;

/// In place of a card: memory may not be shared.
const NEVER: &[u8] = b"never";

/// In place of a card, before what tells which: memory that the same processes shared before.
const AGAIN: &[u8] = b"again:";

/// So much memory that processes shared before stays for the next time.
const SPARE_MAX: usize = 32;

/// Words that the processes of a group shared and need no longer.
#[derive(Debug)]
pub(crate) struct SpareWords {
    /// By rank.
    gates: Box<[GateId]>,
    words: usize,
    memory: Rc<SharedMemory>,
}

impl Sharing {
    /// The process with rank 0 creates memory with so many words and so many bytes for buffers, if
    /// it `may`, and all others map it. The file stays open until this is dropped: not before all
    /// have agreed about what became of it.
    ///
    /// # Errors
    /// What [`Collective::complete`](crate::collective::Collective::complete) may return.
    pub fn among(
        process: &Process,
        communicator: &Rc<Communicator>,
        (words, length): (usize, usize),
        may: bool,
    ) -> Result<Self> {
        let told = Buffer::zeroed(CARD_BYTES);
        let mine = (communicator.rank() == 0).then(|| create(&told, words, length, may)).flatten();
        tell(process, communicator, &told)?;
        Ok(mine.unwrap_or_else(|| Self { memory: map(&told, words, length), _invitation: None }))
    }

    /// The same for words alone: those of an earlier time where the same processes have kept some,
    /// which are as they were left.
    ///
    /// # Errors
    /// As for [`Sharing::among`].
    pub fn words_among(
        process: &Process,
        communicator: &Rc<Communicator>,
        words: usize,
        may: bool,
    ) -> Result<Self> {
        let told = Buffer::zeroed(CARD_BYTES);
        let mut mine = None;
        if communicator.rank() == 0 {
            let gates: Box<[GateId]> = communicator.group().gates().collect();
            let is_such = |one: &SpareWords| one.words == words && one.gates == gates;
            mine = match process.take_spare_words(is_such).filter(|_| may) {
                Some(memory) => {
                    told.write(0, AGAIN);
                    told.write(AGAIN.len(), &memory.nonce());
                    Some(Self { memory: Ok(memory), _invitation: None })
                }
                None => create(&told, words, 0, may),
            };
        }
        tell(process, communicator, &told)?;
        if let Some(mine) = mine {
            return Ok(mine);
        }
        let mut again = [0; AGAIN.len()];
        told.read(0, &mut again);
        if again != *AGAIN {
            return Ok(Self { memory: map(&told, words, 0), _invitation: None });
        }
        let mut nonce = Nonce::default();
        told.read(AGAIN.len(), &mut nonce);
        let memory = process.take_spare_words(|one| one.memory.nonce() == nonce);
        let lost = || NotShared::Unreachable("what was shared before is gone".into());
        Ok(Self { memory: memory.ok_or_else(lost), _invitation: None })
    }
}

impl Process {
    fn take_spare_words(&self, wanted: impl Fn(&SpareWords) -> bool) -> Option<Rc<SharedMemory>> {
        let mut spare = self.spare_words.borrow_mut();
        let index = spare.iter().rposition(wanted)?;
        Some(spare.remove(index).memory)
    }

    /// Keeps words that the processes of a communicator shared, for the next time that the same
    /// processes share as many: none of them uses these any longer.
    pub fn keep_words(&self, communicator: &Communicator, words: usize, memory: &Rc<SharedMemory>) {
        let mut spare = self.spare_words.borrow_mut();
        if spare.len() == SPARE_MAX {
            spare.remove(0);
        }
        let gates = communicator.group().gates().collect();
        spare.push(SpareWords { gates, words, memory: Rc::clone(memory) });
    }
}

/// Creates the memory, and writes what the others are to be told; none if it cannot be.
fn create(told: &Buffer, words: usize, length: usize, may: bool) -> Option<Sharing> {
    if !may {
        told.write(0, NEVER);
        return None;
    }
    let (memory, invitation) = runtime::share_memory(words, length).ok()?;
    told.write(0, invitation.card.as_bytes());
    Some(Sharing { memory: Ok(memory), _invitation: Some(invitation) })
}

fn tell(process: &Process, communicator: &Rc<Communicator>, told: &Buffer) -> Result<()> {
    let invocation = Invocation::blocking(communicator);
    collective::bcast(&invocation, Root::Rank(0), told.clone())?.complete(process)
}

fn map(
    told: &Buffer,
    words: usize,
    length: usize,
) -> std::result::Result<Rc<SharedMemory>, NotShared> {
    let mut text = [0; CARD_BYTES];
    told.read(0, &mut text);
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    match &text[..end] {
        [] => Err(NotShared::NoMemory),
        NEVER => Err(NotShared::Forbidden),
        card => runtime::open_memory(&String::from_utf8_lossy(card), words, length)
            .map_err(|error| NotShared::Unreachable(error.to_string())),
    }
}
