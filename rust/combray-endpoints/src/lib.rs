#![doc = include_str!("../README.md")]

mod connection;
mod endpoint;
mod error;
mod event;
mod library;
mod memory;
#[cfg(feature = "tokio")]
pub mod streams;

pub use connection::{Connection, ConnectionId, Request, TransferId};
pub use endpoint::{Endpoint, Options};
pub use error::{Error, ErrorKind, Result};
pub use event::{Event, Message, Rejection};
pub use memory::{MemoryName, Permissions, Registered};
