//! Levels of thread support.

/// The threads of the program that may call MPI (section 11.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadLevel {
    /// The program has one thread.
    Single,
    /// Only the thread that initialized MPI.
    Funneled,
    /// All threads, but only one at a time.
    Serialized,
    /// All threads, concurrently.
    Multiple,
}
