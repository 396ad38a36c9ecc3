//! What the fuzz target of answers of launchers does with any bytes.

use crate::{mapping, pmi2};

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

/// What a launcher tells: words of PMI-2, and on which machines the processes are.
pub fn answers(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for key in pmi2::split(&text).keys() {
        assert!(!key.contains('='));
    }
    const SIZE: u32 = 20;
    if let Ok(Some(machines)) = mapping::machines(Some(text.into_owned()), SIZE) {
        assert_eq!(machines.len(), SIZE as usize);
    }
}

#[cfg(test)]
#[test]
fn the_corpus_is_read() {
    replay::replay("pmi_answers", answers);
}
