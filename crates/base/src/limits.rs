//! Limits, all in one place.

/// The length of a cache line that the layouts in shared memory assume, in bytes.
pub const CACHE_LINE: usize = 64;

/// The largest tag of a message (`MPI_TAG_UB`): any non-negative `int` is a tag.
pub const TAG_MAX: i32 = i32::MAX;

/// The eager data that may be underway to one gate before the receiver has consumed it, in bytes.
/// Messages beyond it are announced first.
pub const EAGER_CREDIT_BYTES: usize = 4 << 20;

/// The credit that one eager message takes in addition to its payload, in bytes: about the
/// receiver's cost to keep it.
pub const EAGER_MESSAGE_COST: usize = 64;

/// The maximum length of data that is sent with the announcement of its message if there is no
/// credit, in bytes. Keeping it costs the receiver about as much as keeping the announcement.
pub const ANNOUNCED_DATA_BYTES_MAX: usize = 128;

/// The longest message that is sent in fragments, or pushed, on any rail, in bytes.
pub const FRAGMENTED_BYTES_MAX: usize = 512 << 10;

/// The maximum number of rails that are used to one peer.
pub const RAILS_MAX: usize = 8;

const _: () = assert!(EAGER_CREDIT_BYTES > 64 * EAGER_MESSAGE_COST);

/// The greatest number of processes of a program that `-n` and `MPI_Comm_spawn` take.
pub const PROGRAM_PROCESSES_MAX: u32 = 1 << 20;
