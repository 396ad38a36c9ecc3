#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod pairs;
mod peers;
mod silence;

pub use pairs::{RailPair, is_reached_otherwise, pair_rails, parse_card};
pub use peers::{Ends, LinkName, LinkTable, Network, Peer, PeerRail};
pub use silence::{Arrivals, KeepAlive, LinkCheck, Quiet, SilenceClock, Traffic, WatchedLink};
