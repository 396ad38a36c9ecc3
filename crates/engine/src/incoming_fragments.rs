//! What a gate keeps of a message whose fragments are arriving.

use wire::Envelope;

use crate::request::RequestId;

/// A message whose fragments are arriving.
#[derive(Debug)]
pub(crate) struct IncomingFragments {
    /// Its length, and how much of it has come, in bytes.
    pub length: usize,
    pub arrived: usize,
    pub place: FragmentPlace,
}

/// Where fragments go.
#[derive(Debug)]
pub(crate) enum FragmentPlace {
    /// To the receive that the message has met.
    Receive(RequestId),
    /// Nobody has asked for it yet.
    Kept { envelope: Envelope, data: Vec<u8> },
}
