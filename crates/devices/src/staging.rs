//! Why data of devices was staged in memory of the processor although another process could have
//! read it where it was.

use parking_lot::Mutex;

/// At which process the direct way ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staging {
    /// The owner could not export the memory.
    NotExported,
    /// The receiver could not import it.
    NotImported,
}

/// The last reason of each kind, with the number of messages.
static REASONS: Mutex<[(u64, String); 2]> = Mutex::new([(0, String::new()), (0, String::new())]);

/// Notes that a message is staged.
#[cold]
pub(crate) fn note(kind: Staging, why: String) {
    let mut reasons = REASONS.lock();
    let reason = &mut reasons[kind as usize];
    *reason = (reason.0 + 1, why);
}

/// Returns how many messages were staged in memory of the processor, and the last reason, for
/// memory that was not exported or not imported.
pub fn staged(kind: Staging) -> (u64, String) {
    REASONS.lock()[kind as usize].clone()
}
