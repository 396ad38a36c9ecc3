//! All drivers of a process behind one face: rails, numbered through.
//!
//! Which technologies there are is told by one table (`table.rs`); no crate above names any. A
//! network driver is a crate and a line of that table. The drivers inside the process and inside
//! the machine are known by type, and compiled into the code that uses them; those between machines
//! are a list of `dyn Driver`, any number of which may lead to the same peer at the same time.

#![forbid(unsafe_code)]

mod ahead;
mod networks;
mod numbered;
mod rails;
mod table;

pub use ahead::open_ahead;
pub use driver::FoundRail;
pub use networks::found_rails;
pub use rails::{PeerConnection, Rails};
pub use table::{
    Invitation, LocalWay, OpeningTrial, PeerBell, machine_name, machines, open_memory,
    share_memory, try_opening,
};
