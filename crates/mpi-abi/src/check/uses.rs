//! How operations and the program use memory, and how receives end.

/// How an operation, or the program itself, uses memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum BufferUse {
    Sends,
    Receives,
    Reads,
    Writes,
    Loads,
    Stores,
}

impl BufferUse {
    pub fn writes(self) -> bool {
        matches!(self, Self::Receives | Self::Writes | Self::Stores)
    }

    /// Returns the noun for a use of memory by the program itself.
    pub fn of_program(self) -> &'static str {
        if self.writes() { "a store" } else { "a load" }
    }
}

/// When memory is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LocalUse {
    /// When the call is made, or when the program stores.
    Now,
    /// At a time when the process may have received information from other processes: in a call
    /// that waits for them, or by a load, with which the program may wait for a value.
    Later,
}

/// How a receive ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveEnd {
    /// It has received a message.
    WithMessage,
    /// The program has cancelled it, so it may not have received a message.
    Cancelled,
}
