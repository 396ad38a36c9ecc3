//! Creates and opens memory that processes of one machine share.

use std::io;
use std::os::fd::AsRawFd;
use std::rc::Rc;

use driver::DriverError;
use memory::SharedMemory;

use crate::card::SegmentCard;
use crate::passing::{self, KeptDescriptors};

/// What the creator of shared memory keeps until the other processes have opened it.
pub struct Invitation {
    /// The text by which other processes find the memory.
    pub card: String,
    _passed: KeptDescriptors,
}

/// Creates memory with `words` words and `length` bytes for buffers, which other processes can
/// open.
///
/// # Errors
/// There is not enough memory.
pub fn share_memory(words: usize, length: usize) -> io::Result<(Rc<SharedMemory>, Invitation)> {
    let (memory, file) = SharedMemory::create(words, length)?;
    let card = SegmentCard::own(file.as_raw_fd(), memory.nonce());
    let passed = KeptDescriptors::new(memory.nonce(), vec![file.into()]);
    Ok((memory, Invitation { card: card.to_string(), _passed: passed }))
}

/// The results of opening memory of another process, for each way of opening it.
pub struct OpeningTrial {
    /// Through /proc.
    pub by_proc: io::Result<()>,
    /// As a descriptor that the process passes over a Unix socket.
    pub by_socket: io::Result<()>,
}

impl Invitation {
    /// Starts a thread that passes the memory to processes that cannot use /proc, whatever the rest
    /// of this process does.
    pub fn answer_by_thread(&self) {
        passing::serve();
    }
}

/// Tries each way of opening the shared memory of another process of this machine.
///
/// # Errors
/// The card is malformed.
pub fn try_opening(card: &str) -> Result<OpeningTrial, DriverError> {
    let card: SegmentCard = card.parse().map_err(|message| DriverError { message })?;
    Ok(OpeningTrial {
        by_proc: card.open_memory_in_proc().map(drop),
        by_socket: card.request().map(drop),
    })
}

/// Maps the memory that another process of this machine shares under this card. `words` and
/// `length` must be those with which it was created.
///
/// # Errors
/// The memory cannot be opened, or does not match; the message gives the reason.
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
            _ => format!("the shared memory {} cannot be mapped: {cause}", card.path()),
        })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn a_process_with_the_card_opens_the_memory() {
        let (one, invitation) = share_memory(20, 10_000).unwrap();
        let other = open_memory(&invitation.card, 20, 10_000).unwrap();
        one.word(19).store(7, Ordering::Relaxed);
        assert_eq!(other.word(19).load(Ordering::Relaxed), 7);
    }

    #[test]
    fn a_wrong_length_nonce_or_card_is_refused() {
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
