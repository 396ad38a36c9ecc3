//! The messages between clients and servers, and what blocks contain.

use std::fmt;

use crate::Result;

/// The bytes of a block.
pub const BLOCK_BYTES: usize = 4096;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A client wants a block. The answer is `Data`.
    Read,
    /// A client replaces the version of a block by the data that follows. The answer is `Written`
    /// or `Conflict`.
    Write,
    /// The block has this version, and the data that follows.
    Data,
    /// The block has this version now.
    Written,
    /// The block has this version, and the data that follows; nothing was written.
    Conflict,
    /// A client wants the name of the memory with all blocks. The answer is `Name`.
    Locate,
    /// The name, and zeros to the length of a block.
    Name,
    /// A client wants the number of open connections; the answer is `Connections`.
    Count,
    /// As many connections as the version says.
    Connections,
    /// The request makes no sense.
    Refused,
}

const KINDS: [Kind; 10] = [
    Kind::Read,
    Kind::Write,
    Kind::Data,
    Kind::Written,
    Kind::Conflict,
    Kind::Locate,
    Kind::Name,
    Kind::Count,
    Kind::Connections,
    Kind::Refused,
];

impl Kind {
    /// Whether as many bytes as a block has follow.
    fn has_data(self) -> bool {
        matches!(self, Self::Write | Self::Data | Self::Conflict | Self::Name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "Read",
            Self::Write => "Write",
            Self::Data => "Data",
            Self::Written => "Written",
            Self::Conflict => "Conflict",
            Self::Locate => "Locate",
            Self::Name => "Name",
            Self::Count => "Count",
            Self::Connections => "Connections",
            Self::Refused => "Refused",
        })
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, tag, block, version } = self;
        write!(f, "{kind} (tag {tag}, block {block} of the server, version {version})")
    }
}

/// How a message begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub kind: Kind,
    /// Chosen by the client; the answer has it, too.
    pub tag: u64,
    pub block: u64,
    pub version: u64,
}

pub const HEAD_BYTES: usize = 32;

/// Builds a message.
pub fn message(head: Head, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + data.len());
    let kind = KINDS.iter().position(|kind| *kind == head.kind).unwrap_or_default() as u64;
    for word in [kind, head.tag, head.block, head.version] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(data);
    bytes
}

/// Takes a message apart; `None` if it is none.
pub fn parse(bytes: &[u8]) -> Option<(Head, &[u8])> {
    let (head, data) = bytes.split_at_checked(HEAD_BYTES)?;
    let word = |index: usize| head[8 * index..][..8].try_into().map(u64::from_le_bytes).ok();
    let kind = *KINDS.get(usize::try_from(word(0)?).ok()?)?;
    let length = if kind.has_data() { BLOCK_BYTES } else { 0 };
    let head = Head { kind, tag: word(1)?, block: word(2)?, version: word(3)? };
    (data.len() == length).then_some((head, data))
}

/// One life of a client: its number, and how often it was started before.
pub fn writer(client: u64, life: u64) -> u64 {
    client << 32 | life
}

/// Returns what a writer writes into a block as a version: all of it depends on these three.
pub fn contents(block: u64, version: u64, writer: u64) -> Vec<u8> {
    let mut words = vec![block, version, writer];
    let mut state = mixed(block ^ mixed(version ^ mixed(writer)));
    words.resize_with(BLOCK_BYTES / 8, || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed(state)
    });
    words.into_iter().flat_map(u64::to_le_bytes).collect()
}

/// Checks that a block is what one writer has written as this version; returns the writer. Version
/// 0 of each block is zeros, by no writer.
pub fn check(data: &[u8], block: u64, version: u64) -> Result<Option<u64>> {
    if version == 0 {
        let is_zero = data.iter().all(|byte| *byte == 0);
        return if is_zero { Ok(None) } else { Err(format!("block {block} is not empty").into()) };
    }
    let writer = data.get(16..24).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    match writer.filter(|writer| contents(block, version, *writer) == data) {
        Some(writer) => Ok(Some(writer)),
        None => {
            Err(format!("block {block} is not as anybody has written version {version}").into())
        }
    }
}

/// Checks a block that was read from the memory of its server, which may have changed it meanwhile;
/// returns its version, or `None` if it is a mixture of versions.
pub fn check_any(data: &[u8], block: u64) -> Option<u64> {
    let version = data.get(8..16)?.try_into().map(u64::from_le_bytes).ok()?;
    check(data, block, version).ok().map(|_| version)
}

/// Mixes the bits of a word (the finalizer of splitmix64).
pub fn mixed(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ word >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_and_others_are_none() {
        for kind in KINDS {
            let head = Head { kind, tag: 1, block: 2, version: 3 };
            let data = contents(2, 3, 4);
            let data = if kind.has_data() { &data[..] } else { &[] };
            let bytes = message(head, data);
            assert_eq!(parse(&bytes), Some((head, data)));
            assert_eq!(parse(&bytes[1..]), None);
        }
        assert_eq!(parse(&[9; HEAD_BYTES]), None);
    }

    #[test]
    fn a_changed_block_is_noticed() {
        let mut data = contents(5, 6, 7);
        assert_eq!(check(&data, 5, 6).unwrap(), Some(7));
        assert!(check(&data, 5, 7).is_err() && check(&data, 4, 6).is_err());
        assert!(check(&data, 5, 0).is_err());
        data[4095] ^= 1;
        assert!(check(&data, 5, 6).is_err());
        assert_eq!((check_any(&data, 5), check_any(&contents(5, 9, 7), 5)), (None, Some(9)));
        assert_eq!(check_any(&[0; BLOCK_BYTES], 5), Some(0));
        assert_eq!(check(&[0; BLOCK_BYTES], 5, 0).unwrap(), None);
    }
}
