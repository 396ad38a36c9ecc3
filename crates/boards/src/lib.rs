//! Boards: memory that the members of a communicator on one machine share, in which they carry out
//! collective operations without messages.
//!
//! What an operation does on a board is not known here, nor how the members come to the memory, or
//! are woken: they hand in both.

mod board;

pub use board::{Board, BoardTurn, LONG_BYTES_MIN, Series, SeriesOrder, bytes_of};
