//! The entry point of the fuzz target for recorded matrices.

use crate::{Matrix, Weighing};

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

/// Parses a matrix. The result must be a matrix that can be written and weighed, or an error
/// message.
pub fn matrices(bytes: &[u8]) {
    match Matrix::from_text(&String::from_utf8_lossy(bytes)) {
        Ok(matrix) => {
            assert_eq!(Matrix::from_text(&matrix.to_text()).as_ref(), Ok(&matrix));
            assert_eq!(matrix.affinity(Weighing::Bytes).ranks(), matrix.ranks());
        }
        Err(sentence) => assert!(!sentence.is_empty()),
    }
}

#[cfg(test)]
#[test]
fn the_corpus_is_read() {
    replay::replay("matrices", matrices);
}
