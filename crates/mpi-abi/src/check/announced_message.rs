//! Messages that are announced to their receivers.

use serde::{Deserialize, Serialize};

/// A message that was announced to the receiver.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct AnnouncedMessage {
    pub to: u32,
    pub communicator: u64,
    pub source: u32,
    pub tag: i32,
    pub number: u64,
}
