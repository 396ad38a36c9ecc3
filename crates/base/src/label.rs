//! How both sides name a message before it is sent.

/// What names a message to its receiver, and to its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageLabel {
    /// The receiver's number for the flow.
    pub flow: u32,
    /// The tag.
    pub tag: i32,
    /// The message's number in its flow.
    pub sequence: u32,
}
