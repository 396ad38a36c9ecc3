//! The driver trait: what moves packets between processes.
//!
//! A driver moves framed packets and parts of large messages, fetches agreed data, is polled, and
//! declares a profile for each of its rails. It knows no envelope, no request, no engine: it sees
//! gates, lengths and bytes. Posting never blocks; whatever ends later is reported to the [`Sink`]
//! given to [`Driver::poll`].
//!
//! [`conformance`] is the suite that every driver passes. [`Loopback`] is the driver from a process
//! to itself, and the one that tests of upper layers use.

#![forbid(unsafe_code)]

pub mod conformance;
mod loopback;
mod regions;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base::{GateId, RailProfile};

pub use loopback::Loopback;
pub use memory::transfer::{Fetch, Label, Part, Place};
pub use regions::{Access, RegionError, Regions};

/// One technology: one rail to peers, or several. Rails are named by their place in
/// [`rails`](Self::rails).
pub trait Driver {
    /// What each rail can do; the same from beginning to end.
    fn rails(&self) -> &[RailProfile];

    /// Makes `gate` reachable. Called once, before anything is posted to it. It does not wait for
    /// the peer: a rail may have no room until the connection stands, and is reported as
    /// [`lost`](Sink::lost) if that fails.
    ///
    /// # Errors
    /// The peer cannot be reached: says why.
    fn connect(&mut self, gate: GateId) -> Result<Reach, DriverError>;

    /// Whether a rail may have room for a packet, or a part, to `gate`. Posting a packet can still
    /// be refused; a part cannot.
    fn has_room(&self, gate: GateId, rail: usize) -> bool;

    /// Posts a packet of exactly `length` bytes, at most the profile's maximum, which `fill` writes
    /// in place. Returns false, without having called `fill`, when there is no room now.
    fn post_packet(&mut self, gate: GateId, rail: usize, length: usize, fill: Fill<'_>) -> bool;

    /// Starts to send a part of a large message, on a rail that has a bulk track and, as
    /// [`has_room`](Self::has_room) said, room. [`Sink::sent`] reports when its memory is not read
    /// any more.
    fn post_part(&mut self, gate: GateId, rail: usize, part: Part);

    /// Starts to copy memory of a peer to memory here; the end is reported by
    /// [`Sink::fetched`] during a later [`poll`](Self::poll). Called only if
    /// [`connect`](Self::connect) said that it works.
    fn fetch(&mut self, fetch: Fetch, copying: Copying);

    /// Hands what has arrived or ended to `sink`, a bounded amount; returns whether there was
    /// anything.
    fn poll(&mut self, sink: &mut dyn Sink) -> bool;

    /// Bytes that were posted to `gate` on a rail and have not reached the peer, as far as the
    /// driver knows.
    fn backlog(&self, gate: GateId, rail: usize) -> u64;

    /// Uses a rail to `gate` no more; what was posted and has not arrived is dropped, and nothing
    /// of it is reported.
    fn give_up(&mut self, gate: GateId, rail: usize);

    /// What to sleep on until something may have arrived, if the driver can be slept on. One
    /// without it must be polled.
    fn doorbell(&self) -> Option<Arc<dyn Doorbell>>;
}

/// Writes a packet in place.
pub type Fill<'a> = &'a mut dyn FnMut(&mut [u8]);

/// How a peer is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The rails that lead there, at least one.
    pub rails: Vec<usize>,
    /// Whether the peer's memory can be fetched, as a trial showed.
    pub fetches: bool,
}

/// How the data of a large message is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copying {
    /// Once, by the system, at the receiver's order.
    Once,
    /// Once, by the system, at the order of both processes at the same time, part by part.
    Jointly,
    /// Twice, by both processes at the same time, through memory that stays in the cache they share.
    Piped,
    /// The same, through memory that the sender writes past its caches.
    PipedPastCaches,
}

/// Who takes what a driver reports.
pub trait Sink {
    /// A packet arrived from `gate`. The bytes are valid during the call only.
    fn packet(&mut self, gate: GateId, rail: usize, bytes: &[u8]);

    /// A part of `length` bytes begins to arrive: where do they belong?
    fn part(&mut self, gate: GateId, rail: usize, label: &Label, length: usize) -> Place;

    /// All bytes of a part are where [`part`](Self::part) said.
    fn part_arrived(&mut self, gate: GateId, rail: usize, label: &Label, length: usize);

    /// The memory of a part that was posted, or of a message that was sent ahead, is not read any more.
    fn sent(&mut self, gate: GateId, rail: usize, token: u64);

    /// A rail carried so many bytes in so many nanoseconds, in which it never had nothing to do.
    fn carried(&mut self, rail: usize, bytes: u64, nanoseconds: u64);

    /// The data that was to be fetched is where it belongs, and its sender knows it.
    fn written(&mut self, token: u64);

    /// A fetch ended; not `complete` means that some of the data could not be read.
    fn fetched(&mut self, token: u64, complete: bool);

    /// A rail to `gate` does not work any more, and what was posted there may not have arrived.
    fn lost(&mut self, gate: GateId, rail: usize, why: DriverError);
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
