//! Where debuggers find what they tell of a request.

use super::{AnnouncedReceive, Request};

impl Request {
    /// Where the number of its state is.
    pub(crate) const STATE: usize = std::mem::offset_of!(Self, state);

    /// Where the order of a posted receive is: what a state has comes after its number, as far
    /// from it as its alignment wants.
    pub(crate) const ORDER: usize = Self::STATE + align_of::<u64>();

    /// Where the length of the message is that a receive is being filled with.
    pub(crate) const MESSAGE_LENGTH: usize = Self::STATE
        + align_of::<AnnouncedReceive>()
        + std::mem::offset_of!(AnnouncedReceive, message);
}
