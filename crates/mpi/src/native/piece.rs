//! Pieces: the parts in which a packed message is sent.
//!
//! A piece begins with the first of the two tags for data (4 bytes). Entries follow. An entry is
//! a word of 4 bytes. Its two low bits are its kind, the other bits the length of a short
//! segment, whose data follows. A long segment's length follows in 8 bytes. The last entry is
//! either "another piece follows" or "the message ends". All numbers are little-endian.

use base::{Error, ErrorClass, Result};
use memory::Buffer;

use super::Delivery;

/// The maximum length of a piece in bytes: a length that every rail sends without a rendezvous.
pub(super) const PIECE_BYTES: usize = 8 << 10;

/// The maximum length in bytes of a cheaper segment that is copied into a piece. Up to this
/// length, two more copies cost less than a separate message.
const CHEAPER_INSIDE_MAX: usize = 4 << 10;

/// The maximum length in bytes of an express segment that is copied into a piece: all that fits.
/// An express segment is best sent in the piece that announces it.
const EXPRESS_INSIDE_MAX: usize = PIECE_BYTES - HEADER_BYTES - 2 * WORD_BYTES;

const HEADER_BYTES: usize = 4;
const WORD_BYTES: usize = 4;
const LENGTH_BYTES: usize = 8;

const INSIDE: u32 = 0;
const APART: u32 = 1;
const MORE: u32 = 2;
const END: u32 = 3;
const KIND_BITS: u32 = 2;

/// Whether a segment is copied into a piece.
pub(super) fn goes_inside(bytes: usize, mode: Delivery) -> bool {
    let most = match mode {
        Delivery::Express => EXPRESS_INSIDE_MAX,
        Delivery::Cheaper => CHEAPER_INSIDE_MAX,
    };
    bytes <= most
}

/// Memory for a piece.
#[derive(Debug)]
pub(super) struct PieceMemory {
    buffer: Buffer,
}

impl PieceMemory {
    pub(super) fn new() -> Self {
        let buffer = Buffer::zeroed(PIECE_BYTES);
        Self { buffer }
    }

    /// Whether no transfer uses the memory any more.
    pub(super) fn is_free(&self) -> bool {
        self.buffer.is_sole_owner()
    }
}

/// A piece that is being filled.
#[derive(Debug)]
pub(super) struct PieceWriter {
    room: PieceMemory,
    used: usize,
}

impl PieceWriter {
    /// Begins a piece of a message whose further data is sent with the tags `first_tag` and
    /// `first_tag + 1`.
    pub(super) fn new(room: PieceMemory, first_tag: i32) -> Self {
        room.buffer.write(0, &first_tag.to_le_bytes());
        Self { room, used: HEADER_BYTES }
    }

    /// Whether there is room for the entry of a segment with `inside` bytes in the piece (0 for a
    /// separate one), and for the last entry.
    pub(super) fn has_room(&self, inside: usize) -> bool {
        self.used + WORD_BYTES + inside.max(LENGTH_BYTES) + WORD_BYTES <= PIECE_BYTES
            || self.used == HEADER_BYTES
    }

    /// Adds a segment with its data.
    #[inline]
    pub(super) fn put_inside(&mut self, data: &Buffer) {
        self.put_word(INSIDE | (data.len() as u32) << KIND_BITS);
        data.copy_range(0, &self.room.buffer, self.used, data.len());
        self.used += data.len();
    }

    /// Adds the length of a segment that is sent as a separate message.
    pub(super) fn put_apart(&mut self, bytes: usize) {
        self.put_word(APART);
        self.room.buffer.write(self.used, &(bytes as u64).to_le_bytes());
        self.used += LENGTH_BYTES;
    }

    /// Ends the piece. Returns the bytes to send, and the memory that contains them.
    pub(super) fn close(mut self, end: PieceEnd) -> (Buffer, PieceMemory) {
        self.put_word(match end {
            PieceEnd::Last => END,
            PieceEnd::More => MORE,
        });
        (self.room.buffer.contiguous_part(0, self.used), self.room)
    }

    #[inline]
    fn put_word(&mut self, word: u32) {
        self.room.buffer.write(self.used, &word.to_le_bytes());
        self.used += WORD_BYTES;
    }
}

/// The last entry of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PieceEnd {
    /// The message ends with this piece.
    Last,
    /// Another piece follows.
    More,
}

/// An entry of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PieceEntry {
    /// A segment of this number of bytes, which follow in the piece.
    Inside(usize),
    /// A segment of this number of bytes, which is sent as a separate message.
    Apart(u64),
    /// Another piece follows.
    More,
    /// The message ends.
    End,
}

/// A piece that is received and read.
#[derive(Debug)]
pub(super) struct PieceReader {
    room: PieceMemory,
    length: usize,
    at: usize,
}

impl PieceReader {
    /// Makes a reader for a piece that has not arrived yet.
    pub(super) fn expecting(room: PieceMemory) -> Self {
        Self { room, length: 0, at: HEADER_BYTES }
    }

    /// The buffer in which the piece must be received.
    pub(super) fn buffer(&self) -> Buffer {
        self.room.buffer.clone()
    }

    /// Begins to read a piece that has arrived with `length` bytes. Returns the first of the two
    /// tags for data.
    ///
    /// # Errors
    /// `Intern` if no sender could have written this.
    pub(super) fn arrived(&mut self, length: u64) -> Result<i32> {
        self.length = (length as usize).min(PIECE_BYTES);
        if self.length < HEADER_BYTES {
            return Err(nonsense());
        }
        let tag = i32::from_le_bytes(self.bytes_at(0));
        if (0..i32::MAX).contains(&tag) { Ok(tag) } else { Err(nonsense()) }
    }

    /// Returns the next entry without moving past it.
    ///
    /// # Errors
    /// Those of [`PieceReader::arrived`].
    #[inline]
    pub(super) fn entry(&self) -> Result<PieceEntry> {
        let left = self.length - self.at;
        if left < WORD_BYTES {
            return Err(nonsense());
        }
        let word = u32::from_le_bytes(self.bytes_at(self.at));
        let length = (word >> KIND_BITS) as usize;
        match word & ((1 << KIND_BITS) - 1) {
            INSIDE if length <= left - WORD_BYTES => Ok(PieceEntry::Inside(length)),
            APART if left >= WORD_BYTES + LENGTH_BYTES => {
                Ok(PieceEntry::Apart(u64::from_le_bytes(self.bytes_at(self.at + WORD_BYTES))))
            }
            MORE => Ok(PieceEntry::More),
            END => Ok(PieceEntry::End),
            _ => Err(nonsense()),
        }
    }

    /// Copies the data of the next entry, which must be a segment inside the piece with the
    /// length of `into`.
    #[inline]
    pub(super) fn copy(&self, into: &Buffer) {
        self.room.buffer.copy_range(self.at + WORD_BYTES, into, 0, into.len());
    }

    /// Moves past the next entry.
    #[inline]
    pub(super) fn pass(&mut self, entry: PieceEntry) {
        self.at += WORD_BYTES
            + match entry {
                PieceEntry::Inside(length) => length,
                PieceEntry::Apart(_) => LENGTH_BYTES,
                PieceEntry::More | PieceEntry::End => 0,
            };
    }

    /// Returns the memory, for use by another piece.
    pub(super) fn into_room(self) -> PieceMemory {
        self.room
    }

    #[inline]
    fn bytes_at<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        self.room.buffer.read(at, &mut bytes);
        bytes
    }
}

/// The error for a piece that no sender could have written.
pub(super) fn nonsense() -> Error {
    let what = "the sender's description of the packed message is invalid";
    Error::new(ErrorClass::Intern, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(bytes: &[u8]) -> Buffer {
        let buffer = Buffer::zeroed(bytes.len());
        buffer.write(0, bytes);
        buffer
    }

    fn reader(piece: &Buffer) -> PieceReader {
        let reader = PieceReader::expecting(PieceMemory::new());
        piece.copy_to(&reader.buffer());
        reader
    }

    #[test]
    fn what_is_written_is_read() {
        let mut writer = PieceWriter::new(PieceMemory::new(), 7);
        writer.put_inside(&scratch(b"abc"));
        writer.put_inside(&scratch(b""));
        writer.put_apart(1 << 40);
        let (piece, _) = writer.close(PieceEnd::More);
        let mut reader = reader(&piece);
        assert_eq!(reader.arrived(piece.len() as u64), Ok(7));
        let into = scratch(b"...");
        for expected in [
            PieceEntry::Inside(3),
            PieceEntry::Inside(0),
            PieceEntry::Apart(1 << 40),
            PieceEntry::More,
        ] {
            let entry = reader.entry().unwrap();
            assert_eq!(entry, expected);
            if entry == PieceEntry::Inside(3) {
                reader.copy(&into);
            }
            reader.pass(entry);
        }
        let mut bytes = [0; 3];
        into.read(0, &mut bytes);
        assert_eq!(&bytes, b"abc");
        assert!(reader.entry().is_err());
    }

    #[test]
    fn a_piece_is_full_before_it_is_too_long() {
        for mode in [Delivery::Express, Delivery::Cheaper] {
            let most = (0..PIECE_BYTES).rev().find(|&bytes| goes_inside(bytes, mode)).unwrap();
            for bytes in [0, 1, 8, 100, most] {
                let mut writer = PieceWriter::new(PieceMemory::new(), 0);
                while writer.has_room(bytes) {
                    writer.put_inside(&scratch(&vec![1; bytes]));
                }
                assert!(writer.close(PieceEnd::Last).0.len() <= PIECE_BYTES);
            }
        }
    }

    #[test]
    fn nonsense_is_found_out() {
        let mut writer = PieceWriter::new(PieceMemory::new(), 7);
        writer.put_inside(&scratch(b"abc"));
        let (piece, _) = writer.close(PieceEnd::Last);
        for length in 0..piece.len() as u64 {
            let mut reader = reader(&piece);
            let Ok(_) = reader.arrived(length) else { continue };
            let mut steps = 0;
            while let Ok(entry) = reader.entry() {
                assert_ne!(entry, PieceEntry::End);
                reader.pass(entry);
                steps += 1;
                assert!(steps < 3);
            }
        }
        for tag in [-1, i32::MAX] {
            let (piece, _) = PieceWriter::new(PieceMemory::new(), tag).close(PieceEnd::Last);
            assert!(reader(&piece).arrived(piece.len() as u64).is_err());
        }
    }
}
