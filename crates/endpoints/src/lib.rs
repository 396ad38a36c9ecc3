#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod advance;
mod connection;
mod endpoint;
mod ends;
mod event;
mod message;
mod service;
mod signal;
mod slots;

pub use event::{EndpointEvent, EndpointEventKind, EventBody};
pub use service::{ConnectRequest, EndpointLimits, EndpointSend, Endpoints};
