//! What processes of other users, or of nobody knows whom, offer to whoever looks: answers at Unix
//! sockets, and texts in memory, in files and in messages.
//!
//! The administrator asks the jobs of all users, and any user can offer something in the place of a
//! job. So the owner is checked, size and time are bounded in total, and what is shown to a person
//! holds no character that a terminal would obey.

#![forbid(unsafe_code)]

mod asking;
mod text;

pub use asking::{Asked, ask, is_memory_file, owner_of};
pub use text::{from_json, message, one_line, several_lines};
