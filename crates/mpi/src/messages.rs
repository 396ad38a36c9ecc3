//! The interface of messages between the members of an operation that takes many steps.

use base::Result;
use engine::RequestId;
use memory::Buffer;

/// Messages between the members of one operation, which are numbered from 0.
pub trait MemberMessages {
    /// Begins to send `buffer` to member `peer`. Returns `None` if it is sent already.
    fn send(&self, peer: u32, tag: i32, buffer: Buffer) -> Option<RequestId>;

    /// Begins to receive into `buffer` from member `peer`.
    fn receive(&self, peer: u32, tag: i32, buffer: Buffer) -> RequestId;

    /// Returns the result of a message once, and releases it; `None` while it is underway. Makes
    /// no progress.
    fn take(&self, id: RequestId) -> Option<Result<()>>;
}
