//! The fuzz target of records, which parses arbitrary bytes.

use crate::{LoneMessage, Records};

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

/// Parses a packet. A parsed record that is emitted and parsed again must be equal.
pub fn records(packet: &[u8]) {
    let lone = LoneMessage::parse(packet);
    let mut payloads = Vec::new();
    for record in Records::new(packet).map_while(Result::ok) {
        let mut written = vec![0; record.buffer_len()];
        assert_eq!(record.emit(&mut written), written.len());
        let again = Records::new(&written).next();
        assert_eq!(again, Some(Ok(record)));
        payloads.push(record.buffer_len() - record.header_len());
    }
    if let Some(lone) = lone {
        let padded = lone.payload.len().next_multiple_of(8);
        assert_eq!(payloads, [padded], "both ways of reading agree");
    }
}

#[cfg(test)]
#[test]
fn the_corpus_is_read() {
    replay::replay("wire_records", records);
}
