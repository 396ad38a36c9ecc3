#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod advance;
mod batches;
mod blocked;
mod connection;
mod endpoint;
mod ends;
mod event;
mod host;
mod keepalive;
mod message;
mod registered;
mod service;
mod signal;
mod slots;
mod transfers;

pub use event::{EndpointEvent, EndpointEventKind, EventBody, LentData};
pub use host::{EndpointHost, EndpointPort, EndpointWatcher, RegionCopy};
pub use registered::{MemoryName, MemoryPermissions};
pub use service::{ConnectRequest, EndpointDelivery, EndpointOptions, EndpointSend, Endpoints};
pub use transfers::MemoryAction;
