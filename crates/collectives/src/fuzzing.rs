//! The fuzz target of agreements, which decodes arbitrary bytes.

use crate::agreement::AgreementMessage;

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

/// Decodes a message of an agreement: the first byte is the number of members.
pub fn agreement(bytes: &[u8]) {
    let Some((&size, bytes)) = bytes.split_first() else { return };
    if let Some(message) = AgreementMessage::from_bytes(bytes, u32::from(size)) {
        assert_eq!(message.to_bytes(), bytes);
    }
}

#[cfg(test)]
#[test]
fn the_corpus_is_read() {
    replay::replay("agreement_messages", agreement);
}
