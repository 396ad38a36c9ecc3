//! Limits, all in one place.

/// The length of a cache line that the layouts in shared memory assume, in bytes.
pub const CACHE_LINE: usize = 64;

/// The largest tag of a message (`MPI_TAG_UB`): any non-negative `int` is a tag.
pub const TAG_MAX: i32 = i32::MAX;

/// Eager data that one gate may have underway without the receiver having asked for it, in bytes;
/// past that, messages are announced first.
pub const EAGER_CREDIT_BYTES: usize = 4 << 20;

/// What one eager message takes from the credit beside its payload, in bytes: about what it costs
/// the receiver to keep it.
pub const EAGER_MESSAGE_COST: usize = 64;

/// Where credit lacks, data up to this length goes with the announcement of its message, in bytes:
/// keeping it costs the receiver about as much as keeping the announcement.
pub const ANNOUNCED_DATA_BYTES_MAX: usize = 128;

/// The longest message that goes in fragments on any rail, in bytes.
pub const FRAGMENTED_BYTES_MAX: usize = 64 << 10;

/// More rails than these to one peer are not used.
pub const RAILS_MAX: usize = 8;

const _: () = assert!(EAGER_CREDIT_BYTES > 64 * EAGER_MESSAGE_COST);
