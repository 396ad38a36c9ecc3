//! Reads what processes of other users, or of unknown users, offer: answers at Unix sockets, and
//! texts in memory, in files and in messages.
//!
//! Root asks the jobs of all users, and any user can offer something in the place of a job. So the
//! owner is checked, total size and time are bounded, and text shown to a user contains no
//! characters that control a terminal.

#![forbid(unsafe_code)]

mod asking;
mod text;

pub use asking::{Asked, ask, is_memory_file, owner_of};
pub use text::{from_json, message, one_line, several_lines};
