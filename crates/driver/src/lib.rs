//! The driver trait: what moves packets between processes.
//!
//! A driver moves framed packets and fetches agreed data, is polled, and declares a profile. It
//! knows no envelope, no request, no engine: it sees gates, lengths and bytes. Posting never blocks;
//! whatever ends later is reported to the [`Sink`] given to [`Driver::poll`].
//!
//! [`conformance`] is the suite that every driver passes. [`Loopback`] is the driver from a process
//! to itself, and the one that tests of upper layers use.

#![forbid(unsafe_code)]

pub mod conformance;
mod loopback;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base::{GateId, RailProfile, RemoteMemory};
use memory::Buffer;

pub use loopback::Loopback;

/// One rail: one way to reach peers.
pub trait Driver: Send {
    /// What the rail can do.
    fn profile(&self) -> &RailProfile;

    /// Makes `gate` reachable. Called once, before anything is posted to it. Returns whether that
    /// peer's memory can be fetched, as a trial showed.
    ///
    /// # Errors
    /// The peer cannot be reached: says why.
    fn connect(&mut self, gate: GateId) -> Result<bool, DriverError>;

    /// Posts a packet of exactly `length` bytes, at most the profile's maximum, which `fill` writes
    /// in place. Returns false, without having called `fill`, when there is no room now.
    fn post_packet(&mut self, gate: GateId, length: usize, fill: &mut dyn FnMut(&mut [u8]))
    -> bool;

    /// Starts to copy memory of a peer to memory here; the end is reported by
    /// [`Sink::fetched`] during a later [`poll`](Self::poll). Called only if
    /// [`connect`](Self::connect) said that it works.
    fn fetch(&mut self, fetch: Fetch);

    /// Hands what has arrived or ended to `sink`, a bounded amount; returns whether there was
    /// anything.
    fn poll(&mut self, sink: &mut dyn Sink) -> bool;

    /// What to sleep on until something may have arrived, if the rail can be slept on. A rail
    /// without one must be polled.
    fn doorbell(&self) -> Option<Arc<dyn Doorbell>>;
}

/// A transfer of a peer's memory to here.
#[derive(Debug)]
pub struct Fetch {
    /// The peer.
    pub gate: GateId,
    /// Where the data lies there.
    pub memory: RemoteMemory,
    /// How many bytes, from the first.
    pub length: usize,
    /// Where they go.
    pub into: Buffer,
    /// What [`Sink::fetched`] is told.
    pub token: u64,
}

/// Who takes what a driver reports.
pub trait Sink {
    /// A packet arrived from `gate`. The bytes are valid during the call only.
    fn packet(&mut self, gate: GateId, bytes: &[u8]);

    /// A fetch ended; not `complete` means that some of the data could not be read.
    fn fetched(&mut self, token: u64, complete: bool);
}

/// A word to sleep on. Whoever wants to sleep calls [`arm`](Self::arm), looks once more whether
/// there is something to do, and only if not calls [`wait`](Self::wait). What is posted after `arm`
/// rings.
pub trait Doorbell: Send + Sync {
    /// Announces that somebody is going to sleep; returns what `wait` needs.
    fn arm(&self) -> u32;

    /// Sleeps until the bell has rung since `arm` returned `ticket`, or `timeout` has passed.
    fn wait(&self, ticket: u32, timeout: Duration);

    /// Wakes everybody who sleeps on it.
    fn ring(&self);
}

/// Why a driver cannot do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverError {
    /// What failed and what a person can do, as a sentence.
    pub message: String,
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DriverError {}
