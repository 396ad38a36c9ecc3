//! What the fuzz target of collective transfers does with any bytes.

use crate::collective::pieces::{RunReader, united};

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

/// An aggregator reads what two processes say that they want, window by window of a length that the
/// first byte tells.
pub fn pieces(bytes: &[u8]) {
    let Some((&window, bytes)) = bytes.split_first() else { return };
    let (one, other) = bytes.split_at(bytes.len() / 2);
    let window = u64::from(window) + 1;
    let mut readers = [one, other].map(|bytes| RunReader::new(bytes.to_vec()));
    let mut start = 0;
    for _ in 0..64 {
        let end = start + window;
        let pieces = readers.each_mut().map(|reader| reader.take_before(start, end));
        for one in &pieces {
            let is_inside = |(offset, length)| offset >= start && offset + length <= end;
            assert!(one.runs().all(is_inside));
            assert_eq!(one.runs().map(|(_, length)| length as usize).sum::<usize>(), one.bytes);
            if let Ok(Some(layout)) = one.layout(start) {
                assert_eq!(layout.size(), one.bytes);
            }
        }
        assert!(united(pieces.iter().map(|one| one.runs())).len() as u64 <= window);
        start = end;
    }
}

#[cfg(test)]
#[test]
fn the_corpus_is_read() {
    replay::replay("file_pieces", pieces);
}
