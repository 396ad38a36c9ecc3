//! What the fuzz target of requests to a window does with any bytes.

use super::message::WindowRequest;

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

/// A request of another process, or nonsense: where its data begins lies in it.
pub fn requests(message: &[u8]) {
    if let Some((_, begin)) = WindowRequest::parse(message) {
        assert!(begin <= message.len());
    }
}

#[cfg(test)]
#[test]
fn the_corpus_is_read() {
    replay::replay("window_requests", requests);
}
