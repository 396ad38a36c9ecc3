//! Memory that the processes of a team on one machine share and all map.

pub(crate) mod spare;

use std::rc::Rc;

use base::{GateId, Result};
use memory::{Buffer, Nonce, SharedMemory};
use runtime::Invitation;

use crate::Process;
use crate::collective::{self, Invocation, Root};
use crate::team::Team;

/// The result of [`Sharing::among`] on one process: the memory that rank 0 created for all.
pub struct Sharing {
    /// The memory as it is mapped in this process.
    pub memory: std::result::Result<Rc<SharedMemory>, NotShared>,
    /// Keeps the memory's file open in the process that created it, until all processes have
    /// mapped it.
    _invitation: Option<Invitation>,
}

/// Why a process did not get the shared memory.
#[derive(Clone, Debug)]
pub enum NotShared {
    /// The configuration of the creating process (rank 0) forbids shared memory. All processes
    /// get this result.
    Forbidden,
    /// Rank 0 could not create the memory, for example because there is not enough. All processes
    /// get this result.
    NoMemory,
    /// This process cannot map the memory that rank 0 created.
    Unreachable(String),
}

/// The length in bytes of the broadcast card, which identifies the memory to the other processes.
/// A shorter card is padded with zeros; a card of zeros only means that there is no memory.
const CARD_BYTES: usize = 256;

/// Sent in place of a card if memory may not be shared.
const NEVER: &[u8] = b"never";

/// Sent in place of a card, before the nonce of the memory: the processes use again memory that
/// they shared before.
const AGAIN: &[u8] = b"again:";

impl Sharing {
    /// Creates memory with the given number of words and of bytes for buffers on rank 0 if `may`
    /// is true, and maps it in all other processes. The memory's file stays open until the
    /// `Sharing` of rank 0 is dropped. Rank 0 must keep it until all processes have agreed on the
    /// result.
    ///
    /// # Errors
    /// The errors of [`Collective::complete`](crate::collective::Collective::complete).
    pub fn among(
        process: &Process,
        team: &Rc<Team>,
        (words, length): (usize, usize),
        may: bool,
    ) -> Result<Self> {
        let card_buffer = Buffer::zeroed(CARD_BYTES);
        let mine = (team.rank() == 0).then(|| create(&card_buffer, words, length, may)).flatten();
        broadcast(process, team, &card_buffer)?;
        Ok(mine.unwrap_or_else(|| Self {
            memory: map(&card_buffer, words, length),
            _invitation: None,
        }))
    }

    /// As [`Sharing::among`]; but if these processes have kept a memory of this size
    /// ([`Process::keep_shared`]), they use it again, with the contents that it had.
    ///
    /// # Errors
    /// Those of [`Sharing::among`].
    pub fn again_among(
        process: &Process,
        team: &Rc<Team>,
        (words, length): (usize, usize),
        may: bool,
    ) -> Result<Self> {
        let card_buffer = Buffer::zeroed(CARD_BYTES);
        let mut mine = None;
        if team.rank() == 0 {
            let gates: Box<[GateId]> = team.group().gates().collect();
            mine = match process.spare_words.take_of(&gates, (words, length)).filter(|_| may) {
                Some(memory) => {
                    card_buffer.write(0, AGAIN);
                    card_buffer.write(AGAIN.len(), &memory.nonce());
                    Some(Self { memory: Ok(memory), _invitation: None })
                }
                None => create(&card_buffer, words, length, may),
            };
        }
        broadcast(process, team, &card_buffer)?;
        if let Some(mine) = mine {
            return Ok(mine);
        }
        let mut again = [0; AGAIN.len()];
        card_buffer.read(0, &mut again);
        if again != *AGAIN {
            return Ok(Self { memory: map(&card_buffer, words, length), _invitation: None });
        }
        let mut nonce = Nonce::default();
        card_buffer.read(AGAIN.len(), &mut nonce);
        let memory = process.spare_words.take_named(&nonce);
        let lost =
            || NotShared::Unreachable("the memory that was shared before no longer exists".into());
        Ok(Self { memory: memory.ok_or_else(lost), _invitation: None })
    }
}

impl Process {
    /// Keeps memory with this number of words that the processes of a team shared and that none of
    /// them uses any longer. [`Sharing::again_among`] uses it again when these processes share
    /// memory of its size.
    pub fn keep_shared(&self, team: &Team, words: usize, memory: &Rc<SharedMemory>) {
        self.spare_words.keep(team.group().gates().collect(), words, Rc::clone(memory));
    }
}

/// Creates the memory and writes its card into `card_buffer`. Returns `None` if the memory cannot
/// be created.
fn create(card_buffer: &Buffer, words: usize, length: usize, may: bool) -> Option<Sharing> {
    if !may {
        card_buffer.write(0, NEVER);
        return None;
    }
    let (memory, invitation) = runtime::share_memory(words, length).ok()?;
    card_buffer.write(0, invitation.card.as_bytes());
    Some(Sharing { memory: Ok(memory), _invitation: Some(invitation) })
}

fn broadcast(process: &Process, team: &Rc<Team>, card_buffer: &Buffer) -> Result<()> {
    let invocation = Invocation::blocking(team);
    collective::bcast(&invocation, Root::Rank(0), card_buffer.clone())?.complete(process)
}

fn map(
    card_buffer: &Buffer,
    words: usize,
    length: usize,
) -> std::result::Result<Rc<SharedMemory>, NotShared> {
    let mut text = [0; CARD_BYTES];
    card_buffer.read(0, &mut text);
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    match &text[..end] {
        [] => Err(NotShared::NoMemory),
        NEVER => Err(NotShared::Forbidden),
        card => runtime::open_memory(&String::from_utf8_lossy(card), words, length)
            .map_err(|error| NotShared::Unreachable(error.to_string())),
    }
}
