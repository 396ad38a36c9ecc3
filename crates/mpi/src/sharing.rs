//! How the processes of a communicator on one machine come to memory that all of them map.

use std::rc::Rc;

use base::Result;
use memory::{Buffer, SharedMemory};
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
        let mut mine = None;
        if communicator.rank() == 0 {
            if !may {
                told.write(0, NEVER);
            } else if let Ok((memory, invitation)) = runtime::share_memory(words, length) {
                told.write(0, invitation.card.as_bytes());
                mine = Some((memory, invitation));
            }
        }
        let invocation = Invocation::blocking(communicator);
        collective::bcast(&invocation, Root::Rank(0), told.clone())?.complete(process)?;
        Ok(match mine {
            Some((memory, invitation)) => {
                Self { memory: Ok(memory), _invitation: Some(invitation) }
            }
            None => Self { memory: map(&told, words, length), _invitation: None },
        })
    }
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
