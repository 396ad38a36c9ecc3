//! How processes of one machine come to memory that they share.

use std::io;
use std::os::fd::AsRawFd;
use std::rc::Rc;

use driver::DriverError;
use memory::SharedMemory;

use crate::card::SegmentCard;
use crate::passing::{self, KeptDescriptors};

/// What the process that created shared memory keeps until the others have opened it.
pub struct Invitation {
    /// By which the others find it: a short text.
    pub card: String,
    _passed: KeptDescriptors,
}

/// Creates memory with so many words and so many bytes for buffers, which others can open.
///
/// # Errors
/// There is not enough memory.
pub fn share_memory(words: usize, length: usize) -> io::Result<(Rc<SharedMemory>, Invitation)> {
    let (memory, file) = SharedMemory::create(words, length)?;
    let card = SegmentCard::own(file.as_raw_fd(), memory.nonce());
    let passed = KeptDescriptors::new(memory.nonce(), vec![file.into()]);
    Ok((memory, Invitation { card: card.to_string(), _passed: passed }))
}

/// Why memory of another process cannot be opened in each of the ways that there are.
pub struct OpeningTrial {
    /// Through /proc.
    pub by_proc: io::Result<()>,
    /// As a descriptor that the process passes over a Unix socket.
    pub by_socket: io::Result<()>,
}

impl Invitation {
    /// Invites also those to whom /proc is closed, by a thread of this process: whatever else it
    /// does, it answers them.
    pub fn answer_by_thread(&self) {
        passing::serve();
    }
}

/// Tries all ways to open what another process of this machine shares.
///
/// # Errors
/// The card is none.
pub fn try_opening(card: &str) -> Result<OpeningTrial, DriverError> {
    let card: SegmentCard = card.parse().map_err(|message| DriverError { message })?;
    Ok(OpeningTrial {
        by_proc: card.open_memory_in_proc().map(drop),
        by_socket: card.request().map(drop),
    })
}

/// Maps what another process of this machine shares under this card, with the same numbers.
///
/// # Errors
/// Why it cannot be opened, or that it is something else.
pub fn open_memory(
    card: &str,
    words: usize,
    length: usize,
) -> Result<Rc<SharedMemory>, DriverError> {
    let error = |message: String| DriverError { message };
    let card: SegmentCard = card.parse().map_err(error)?;
    let (file, _) = card.open()?;
    SharedMemory::map(&file, card.nonce, words, length).map_err(|cause| {
        error(match cause.kind() {
            io::ErrorKind::InvalidData => {
                format!("{} is not the shared memory of this job", card.path())
            }
            _ => format!("shared memory cannot be mapped: {cause}"),
        })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn whoever_has_the_card_opens_the_memory() {
        let (one, invitation) = share_memory(20, 10_000).unwrap();
        let other = open_memory(&invitation.card, 20, 10_000).unwrap();
        one.word(19).store(7, Ordering::Relaxed);
        assert_eq!(other.word(19).load(Ordering::Relaxed), 7);
    }

    #[test]
    fn other_memory_is_refused() {
        let (_one, invitation) = share_memory(1, 100).unwrap();
        let refused = |card: &str, length| open_memory(card, 1, length).unwrap_err().message;
        let foreign = "not the shared memory of this job";
        assert!(refused(&invitation.card, 101).contains(foreign));
        let mut card: SegmentCard = invitation.card.parse().unwrap();
        card.nonce[3] ^= 1;
        assert!(refused(&card.to_string(), 100).contains(foreign));
        assert!(refused("no card", 100).contains("no card"));
    }
}
