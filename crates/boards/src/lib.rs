//! Boards: memory that the members of a communicator on one machine share, in which they execute
//! collective operations without messages.
//!
//! This crate does not know the collective operations. Its users also provide the memory, and the
//! means to wake members.

mod board;

pub use board::{Board, BoardTurn, LONG_BYTES_MIN, Series, SeriesOrder, awaited_changes, bytes_of};
