//! Combines all drivers of a process, and numbers their rails consecutively.
//!
//! One table (`table.rs`) lists the technologies; no crate above names any of them. A network
//! driver is a crate and a line of that table. The drivers within the process and within the
//! machine are known by type, and compiled into the code that uses them. The drivers between
//! machines are a list of `dyn Driver`, any number of which may lead to one peer concurrently.

#![forbid(unsafe_code)]

mod ahead;
mod networks;
mod numbered;
mod rails;
mod table;

pub use ahead::open_ahead;
pub use driver::FoundRail;
pub use networks::{describe_unfitting, found_rails, possible_rails};
pub use rails::{PeerConnection, Rails};
pub use table::{
    Invitation, LocalWay, MACHINE, OpeningTrial, PeerBell, machine_name, machines, open_memory,
    share_memory, try_opening,
};
