//! Limits, all in one place.

/// The length of a cache line that the layouts in shared memory assume, in bytes.
pub const CACHE_LINE: usize = 64;

/// The largest tag of a message (`MPI_TAG_UB`): any non-negative `int` is a tag.
pub const TAG_MAX: i32 = i32::MAX;

/// The eager data that may be underway to one gate before the receiver has consumed it, in bytes,
/// in large jobs. Messages beyond it are announced first.
pub const EAGER_CREDIT_BYTES: usize = 4 << 20;

/// The same limit in jobs of up to four processes, in bytes.
pub const EAGER_CREDIT_BYTES_MAX: usize = 16 << 20;

/// Returns the eager data that may be underway to one gate in a job of so many processes, in bytes.
/// Between the two limits, all processes together may send one process as much as four may.
pub fn eager_credit(processes: usize) -> usize {
    (4 * EAGER_CREDIT_BYTES_MAX / processes.max(4)).max(EAGER_CREDIT_BYTES)
}

/// A receiver reports at the latest after so many bytes that it has consumed them. A report costs a
/// packet; what is not reported is lacking to the sender.
pub const CREDIT_REPORT_BYTES: usize = 1 << 20;

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
