//! The label by which sender and receiver name a message before it is sent.

/// The identity of a message for its receiver and its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageLabel {
    /// The receiver's number for the flow.
    pub flow: u32,
    /// The tag.
    pub tag: i32,
    /// The message's number in its flow.
    pub sequence: u32,
}
