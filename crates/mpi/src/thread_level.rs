//! Which threads may call.

/// Which threads of the program may call MPI (section 11.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadLevel {
    /// There is one thread.
    Single,
    /// The one that initialized.
    Funneled,
    /// All, one at a time.
    Serialized,
    /// All at once.
    Multiple,
}
