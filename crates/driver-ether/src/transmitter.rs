//! How frames of a link are sent.

use memory::Buffer;

use crate::frame::FrameHeader;
use crate::seal::Seal;

/// Sends the frames of a link.
pub(crate) trait Transmitter {
    /// Sends frames with their data. Returns how many were sent: fewer if there is no room now.
    fn frames(&mut self, seal: &Seal, frames: &[(FrameHeader, &[u8])]) -> usize;

    /// Sends a frame for each of these pieces, which are consecutive in the `length` bytes from
    /// `offset` on in the buffer. Returns how many were sent.
    fn pieces(&mut self, seal: &Seal, heads: &[FrameHeader], run: PieceBytes<'_>) -> usize;
}

/// Where the bytes of pieces are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PieceBytes<'a> {
    pub buffer: &'a Buffer,
    pub offset: usize,
    pub length: usize,
    /// The length of each piece in bytes; the last may be shorter.
    pub each: usize,
}
