#![doc = include_str!("../README.md")]

pub mod accesses;
mod between;
mod buffer;
mod copy;
mod distant;
mod fences;
pub mod half;
mod held;
mod kernels;
mod layout;
mod lent;
pub mod placing;
mod process_lock;
mod scratch;
mod segment_list;
mod shared_bytes;
mod shared_memory;
mod slices;
mod staging;
mod store_choice;
pub mod transfer;
pub mod vector;
mod vector_words;
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub mod x87;

pub use buffer::{Buffer, BufferLayout, Owner};
pub use copy::{AddressRange, Displacements};
pub use distant::{
    Blocks, CopyUnderway, DistantMemory, ExportRecord, ForeignCopy, ForeignMemory, MemoryExport,
    PendingCopy, expect_distant, may_be_distant,
};
pub use fences::{full_fence, hand_over};
pub use held::HeldBytes;
pub use layout::{Layout, Segment};
pub use lent::LentBuffer;
pub use process_lock::ProcessLock;
pub use shared_bytes::{SharedBytes, SharedBytesMut};
pub use shared_memory::{Nonce, SharedMemory};
pub use staging::{StagedMessages, note_staged, staged};
pub use store_choice::{StoreChoice, Stores};
pub use vector_words::VectorWords;
