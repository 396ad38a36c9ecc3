//! The state that a gate keeps of a message whose fragments are arriving.

use memory::Buffer;
use wire::Envelope;

use crate::request::RequestId;

/// A message whose fragments are arriving.
#[derive(Debug)]
pub(crate) struct IncomingFragments {
    /// The length of the message, and how much of it has arrived, in bytes.
    pub length: usize,
    pub arrived: usize,
    pub place: FragmentPlace,
}

/// The destination of the fragments.
#[derive(Debug)]
pub(crate) enum FragmentPlace {
    /// The receive that the message has matched.
    Receive(RequestId),
    /// No receive matches the message yet: its data is kept here.
    Kept { envelope: Envelope, data: Vec<u8> },
    /// The message is pushed, and the matched receive is shorter, or there is none: its data is
    /// kept here.
    Pushed { envelope: Envelope, receive: Option<RequestId>, data: Buffer },
}
