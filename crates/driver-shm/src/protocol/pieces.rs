//! The lengths of the pieces into which the data of a message is cut.

/// The longest piece of the pool in bytes.
pub const PIECE_BYTES: usize = 16 << 10;

/// The maximal number of pieces that one copy to or from memory fills or takes that the processor
/// does not address: such a copy costs microseconds, whatever its length.
pub const PIECES_AT_ONCE: usize = 8;

/// The shortest useful piece of the pool in bytes.
const PIECE_BYTES_MIN: usize = 8 << 10;

/// Returns the length in bytes of the piece of the pool that begins at `offset` of `whole` bytes.
/// The pieces of a short message are shorter, so that both processes still copy at the same time.
pub fn piece_bytes(offset: usize, whole: usize) -> usize {
    let piece = (whole / 4 / 64 * 64).clamp(PIECE_BYTES_MIN, PIECE_BYTES);
    piece.min(whole - offset)
}

/// Returns the length of each piece but the last when `length` bytes are copied jointly: half of
/// the bytes, as each system call has a start-up cost. It is limited, in case the other process
/// comes late.
fn joint_piece_bytes(length: usize) -> usize {
    const SHORTEST: usize = 32 << 10;
    const LONGEST: usize = 4 << 20;
    (length / 2).clamp(SHORTEST, LONGEST).next_multiple_of(4096)
}

/// Returns the range of a jointly copied piece of `length` bytes, as offset and length in bytes.
pub fn range_of(piece: u32, length: usize) -> (usize, usize) {
    let bytes = joint_piece_bytes(length);
    let offset = (piece as usize).saturating_mul(bytes).min(length);
    (offset, bytes.min(length - offset))
}

/// Returns the number of jointly copied pieces of `length` bytes.
pub fn pieces_of(length: usize) -> u32 {
    u32::try_from(length.div_ceil(joint_piece_bytes(length))).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_the_whole() {
        for whole in [1, 63, 4096, 10_000, 65_536, 1_000_003] {
            let mut offset = 0;
            while offset < whole {
                let piece = piece_bytes(offset, whole);
                assert!((1..=PIECE_BYTES).contains(&piece), "{piece} at {offset} of {whole}");
                offset += piece;
            }
            assert_eq!(offset, whole);
        }
    }

    #[test]
    fn both_processes_copy_most_of_a_short_message_at_the_same_time() {
        for whole in (32 << 10)..=(64 << 10) {
            let piece = piece_bytes(0, whole);
            let expected = whole / 4 - 63..=whole / 4;
            assert!(expected.contains(&piece) && piece.is_multiple_of(64), "{piece} of {whole}");
        }
        assert_eq!([20_000, 1 << 20].map(|whole| piece_bytes(0, whole)), [8 << 10, PIECE_BYTES]);
    }
}
