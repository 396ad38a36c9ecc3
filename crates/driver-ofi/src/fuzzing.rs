//! The fuzz target of messages.

use driver::conformance::check_card;

use crate::card::OfiCard;
use crate::message::{HEAD_BYTES, MessageHead};
use crate::parts::Offer;

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

/// Reads the head of a message with the offer behind it, and the card of a process.
pub fn messages(bytes: &[u8]) {
    if let Some(head) = MessageHead::parse(bytes) {
        assert_eq!(head.bytes(), bytes[..HEAD_BYTES]);
        let rest = &bytes[HEAD_BYTES..];
        if let Some(offer) = Offer::parse(rest) {
            assert_eq!(offer.bytes(), rest);
        }
    }
    check_card::<OfiCard>(bytes);
}

#[cfg(test)]
#[test]
fn the_corpus_is_read() {
    replay::replay("ofi_messages", messages);
}
