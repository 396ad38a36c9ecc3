//! The memory layout by which debuggers read a request.

use super::{AnnouncedReceive, Request};

impl Request {
    /// The offset of the state's number.
    pub(crate) const STATE: usize = std::mem::offset_of!(Self, state);

    /// The offset of a posted receive's posting number. A state's contents follow its number, at
    /// the distance that their alignment requires.
    pub(crate) const ORDER: usize = Self::STATE + align_of::<u64>();

    /// The offset of the length of the message that a receive is being filled with.
    pub(crate) const MESSAGE_LENGTH: usize = Self::STATE
        + align_of::<AnnouncedReceive>()
        + std::mem::offset_of!(AnnouncedReceive, message);
}
