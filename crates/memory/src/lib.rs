//! User memory behind one unsafe constructor.
//!
//! MPI hands us raw pointers. Whoever takes one in makes a [`Buffer`] of it, once, and vouches
//! for it there; every crate above reads and writes through the buffer's safe methods, which stay
//! inside the bounds that were vouched for. How the bytes of a non-contiguous message lie is told
//! by a [`Layout`], which the `datatype` crate implements.
//!
//! Beside them stands arithmetic on arrays of bytes that safe Rust has no words for: instructions
//! of the processor for numbers that no type has ([`x87`], [`half`]), and wider vectors
//! ([`vector`]).
//!
//! Memory that several processes map is a [`SharedMemory`]; how they find it is not known here.
//!
//! On which NUMA nodes memory lies is told and changed by [`placing`].
//!
//! What engine and drivers say to each other about memory stands in [`transfer`].
//!
//! This crate does no I/O (it lends the memory, as slices, to who does), and knows neither
//! datatypes nor messages.

mod between;
mod buffer;
mod copy;
pub mod half;
mod manner;
pub mod placing;
mod scratch;
mod segment_list;
mod shared_memory;
mod slices;
pub mod transfer;
pub mod vector;
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub mod x87;

pub use buffer::{Buffer, Layout, Owner, Segment};
pub use copy::{AddressRange, Displacements};
pub use manner::Manner;
pub use shared_memory::{Nonce, SharedMemory};
