//! Messages whose data was staged in memory of the processor, although their receiver could have
//! read it where it was.

use std::sync::Mutex;
use std::sync::PoisonError;

/// Such messages, with the last reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StagedMessages {
    /// How many there were.
    pub count: u64,
    /// Why the last one was staged.
    pub reason: String,
}

static STAGED: Mutex<StagedMessages> =
    Mutex::new(StagedMessages { count: 0, reason: String::new() });

/// Notes that a message is staged.
#[cold]
pub fn note_staged(reason: impl Into<String>) {
    let mut staged = STAGED.lock().unwrap_or_else(PoisonError::into_inner);
    *staged = StagedMessages { count: staged.count + 1, reason: reason.into() };
}

/// Returns the messages that this process has sent or received and that were staged.
pub fn staged() -> StagedMessages {
    STAGED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_reason_is_kept() {
        note_staged("one");
        note_staged("two");
        assert_eq!(staged(), StagedMessages { count: 2, reason: "two".to_owned() });
    }
}
