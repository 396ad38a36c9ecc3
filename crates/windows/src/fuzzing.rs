//! The fuzz target of requests to a window.

use super::message::WindowRequest;

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

/// Parses any bytes as a request of another process. The offset of its data must lie in the
/// message.
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
