//! The fuzz target of collective transfers.

use crate::collective::pieces::{RunReader, united};

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

/// Lets an aggregator parse two lists of runs, window by window; the first byte gives the length of
/// a window.
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
