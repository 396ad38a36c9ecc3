//! What is known of a message that was told ahead.

use serde::{Deserialize, Serialize};

/// A message that the other end has heard of.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct AnnouncedMessage {
    pub to: u32,
    pub communicator: u64,
    pub source: u32,
    pub tag: i32,
    pub number: u64,
}
