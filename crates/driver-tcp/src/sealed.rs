//! An encrypted byte stream over another one.
//!
//! What is written is taken when all of its records have left, and not before: a caller that gets
//! "not now" offers bytes that begin with the same ones again, as [`TcpConnection`] does. So this
//! stream never holds bytes that its connection counts as written.
//!
//! A read that returns fewer bytes than it has room for leaves no complete record behind. After
//! other reads [`holds_bytes`](ByteStream::holds_bytes) returns whether there is one.
//!
//! [`TcpConnection`]: crate::connection::TcpConnection

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};

use parking_lot::Mutex;
use sealing::{CONTENT_BYTES_MAX, RECORD_OVERHEAD, Sealing, Tampered};

use crate::stream::ByteStream;

/// An encrypted stream over `S`.
pub(crate) struct SealedStream<S> {
    pub stream: S,
    state: Mutex<SealedState>,
}

struct SealedState {
    sealing: Sealing,
    /// Records that are being written, how many of their bytes have left, and how many bytes they
    /// carry.
    out: Vec<u8>,
    left: usize,
    promised: usize,
    /// Memory for what is read; the bytes from `taken` to `filled` wait to be opened.
    incoming: Vec<u8>,
    taken: usize,
    filled: usize,
    /// The content of a record for which a read had too little room, from `given` on.
    content: Vec<u8>,
    given: usize,
}

/// How many bytes are encrypted at a time.
const WRITTEN_AT_ONCE: usize = 4 * CONTENT_BYTES_MAX;

/// How many bytes are read at a time if nothing is here, so that a read in vain costs little, and
/// while a record is incomplete.
const READ_FIRST: usize = 2 << 10;
const READ_NEXT: usize = 64 << 10;

/// Buffers that are longer than this are released when they are empty, so that an idle connection
/// keeps little memory.
const KEPT_BYTES_MAX: usize = 1 << 10;

impl<S> SealedStream<S> {
    pub(crate) fn new(stream: S, sealing: Sealing) -> Self {
        let state = SealedState {
            sealing,
            out: Vec::new(),
            left: 0,
            promised: 0,
            incoming: Vec::new(),
            taken: 0,
            filled: 0,
            content: Vec::new(),
            given: 0,
        };
        Self { stream, state: Mutex::new(state) }
    }
}

impl SealedState {
    /// Seals the first bytes of these pieces.
    fn seal(&mut self, pieces: &[IoSlice<'_>]) {
        let Self { sealing, out, promised, .. } = self;
        let mut gathered = Vec::new();
        for piece in pieces {
            let mut rest = &piece[..piece.len().min(WRITTEN_AT_ONCE - *promised)];
            *promised += rest.len();
            while !rest.is_empty() {
                let room = CONTENT_BYTES_MAX - gathered.len();
                let (now, after) = rest.split_at(rest.len().min(room));
                rest = after;
                if gathered.is_empty() && (now.len() == CONTENT_BYTES_MAX || pieces.len() == 1) {
                    sealing.seal(now, out);
                    continue;
                }
                gathered.extend_from_slice(now);
                if gathered.len() == CONTENT_BYTES_MAX {
                    sealing.seal(&gathered, out);
                    gathered.clear();
                }
            }
        }
        if !gathered.is_empty() {
            sealing.seal(&gathered, out);
        }
    }

    fn write(&mut self, stream: &impl ByteStream, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.promised == 0 {
            self.seal(pieces);
        }
        while self.left < self.out.len() {
            self.left += stream.write(&self.out[self.left..])?;
        }
        self.left = 0;
        empty(&mut self.out);
        Ok(std::mem::take(&mut self.promised))
    }

    /// Returns the length of the complete record that is here.
    fn record(&self) -> Result<Option<usize>, Tampered> {
        sealing::record_bytes(&self.incoming[self.taken..self.filled])
    }

    /// Gives as many bytes of complete records as there is room for.
    fn give(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        while count < into.len() {
            let room = &mut into[count..];
            if self.given < self.content.len() {
                let some = room.len().min(self.content.len() - self.given);
                room[..some].copy_from_slice(&self.content[self.given..][..some]);
                (self.given, count) = (self.given + some, count + some);
                continue;
            }
            let Some(length) = self.record().map_err(changed)? else { break };
            let record = &self.incoming[self.taken..][..length];
            let carried = sealing::content_bytes(length);
            if carried <= room.len() {
                self.sealing.open(record, room).map_err(changed)?;
                count += carried;
            } else {
                self.content.resize(carried, 0);
                self.given = 0;
                self.sealing.open(record, &mut self.content).map_err(changed)?;
            }
            self.taken += length;
        }
        if self.given == self.content.len() {
            self.given = 0;
            empty(&mut self.content);
        }
        Ok(count)
    }

    /// Reads what is here; false: nothing is.
    fn refill(&mut self, stream: &impl ByteStream) -> io::Result<bool> {
        let Self { incoming, taken, filled, .. } = self;
        incoming.copy_within(*taken..*filled, 0);
        (*taken, *filled) = (0, *filled - *taken);
        let read = if *filled == 0 {
            empty(incoming);
            let mut first = [0; READ_FIRST];
            stream.read(&mut first).inspect(|count| incoming.extend(&first[..*count]))
        } else {
            if incoming.len() < *filled + READ_NEXT {
                incoming.resize(*filled + READ_NEXT, 0);
            }
            stream.read(&mut incoming[*filled..])
        };
        *filled += read.as_ref().map_or(0, |count| *count);
        match read {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn read(&mut self, stream: &impl ByteStream, into: &mut [u8]) -> io::Result<usize> {
        let mut count = self.give(into)?;
        while count < into.len() {
            match self.refill(stream) {
                Ok(true) => count += self.give(&mut into[count..])?,
                Ok(false) if count == 0 => return Err(ErrorKind::WouldBlock.into()),
                // An error is returned by the next read.
                Err(error) if count == 0 => return Err(error),
                Ok(false) | Err(_) => break,
            }
        }
        Ok(count)
    }
}

impl<S: ByteStream> ByteStream for SealedStream<S> {
    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        self.state.lock().read(&self.stream, into)
    }

    fn read_vectored(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let state = &mut *self.state.lock();
        let mut count = 0;
        for piece in into.iter_mut().filter(|piece| !piece.is_empty()) {
            let length = piece.len();
            match state.read(&self.stream, piece) {
                Ok(read) => count += read,
                Err(_) if count > 0 => break,
                Err(error) => return Err(error),
            }
            if count < length {
                break;
            }
        }
        Ok(count)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.state.lock().write(&self.stream, &[IoSlice::new(bytes)])
    }

    fn write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.state.lock().write(&self.stream, pieces)
    }

    /// One record more than what its content alone would be.
    fn unacknowledged(&self) -> u64 {
        self.stream.unacknowledged().saturating_sub(RECORD_OVERHEAD as u64)
    }

    fn holds_bytes(&self) -> bool {
        let state = self.state.lock();
        state.given < state.content.len() || state.record() != Ok(None)
    }
}

fn changed(tampered: Tampered) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, tampered)
}

/// Whether a connection ends because something between the processes changed what they sent.
pub(crate) fn is_tampering(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|cause| cause.is::<Tampered>())
}

/// Empties a buffer.
fn empty(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.shrink_to(KEPT_BYTES_MAX);
}

/// Returns both ends of an encrypted stream.
#[cfg(any(test, fuzzing))]
pub(crate) fn sealing_pair() -> [Sealing; 2] {
    use sealing::{KeyAgreement, SealingSide};

    let new = |side| KeyAgreement::new(side, &[1; 32], b"a test");
    let mut one = new(SealingSide::Initiator);
    let offer = one.offer().unwrap();
    let (answer, other) = new(SealingSide::Responder).answer(&offer).unwrap();
    [one.finish(&answer).unwrap(), other]
}

#[cfg(test)]
mod tests;
