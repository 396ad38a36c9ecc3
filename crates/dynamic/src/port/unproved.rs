//! Connections to a port whose other sides have not proved yet that they have its key.
//!
//! There is room for a limited number. A process that has the key shows that with its first
//! message, which mostly has arrived when its connection is accepted. Connections on which nothing
//! has arrived are therefore closed first, chosen at random. A process that loses its core between
//! connecting and sending keeps its place with some probability, however many strangers come, and
//! it tries again.
//!
//! Why: docs/internals/decisions/0129-strangers-make-room-for-each-other.md

use std::collections::VecDeque;

use crate::handshake::Nonce;
use crate::link::RootLink;

/// A connection as its port sees it.
pub(super) trait UnprovedLink {
    /// Sends and receives what is possible now. Returns whether the connection is still of use.
    fn go_on(&mut self) -> bool;

    /// Returns the nonce with which the other side has shown that it has the key, or that it
    /// replays what a process with the key has sent.
    fn opening_nonce(&self) -> Option<Nonce>;

    /// Whether the other side has proved that it has the key.
    fn is_proved(&self) -> bool;
}

impl UnprovedLink for RootLink {
    fn go_on(&mut self) -> bool {
        self.advance().is_ok() || self.is_proved()
    }

    fn opening_nonce(&self) -> Option<Nonce> {
        self.opening_nonce()
    }

    fn is_proved(&self) -> bool {
        self.is_proved()
    }
}

/// The connections of a port.
pub(super) struct UnprovedLinks<L> {
    links: Vec<Waiting<L>>,
    max: usize,
    openings: Openings,
    /// How many connections were closed.
    refused: u64,
    /// The state of a generator of numbers by which connections are chosen.
    random: u64,
}

struct Waiting<L> {
    link: L,
    /// Whether the other side has shown that it has the key, with a nonce that was not used before.
    is_opened: bool,
}

/// The nonces of openings, oldest first: each may be used only once.
#[derive(Default)]
struct Openings(VecDeque<Nonce>);

/// How many openings are remembered.
const OPENINGS_KEPT: usize = 4096;

impl Openings {
    /// Lets a connection go on. Returns false if it must be closed.
    fn go_on<L: UnprovedLink>(&mut self, waiting: &mut Waiting<L>) -> bool {
        if !waiting.link.go_on() {
            return false;
        }
        match waiting.link.opening_nonce() {
            Some(nonce) if !waiting.is_opened => {
                waiting.is_opened = true;
                self.is_new(nonce)
            }
            _ => true,
        }
    }

    fn is_new(&mut self, nonce: Nonce) -> bool {
        if self.0.contains(&nonce) {
            return false;
        }
        if self.0.len() == OPENINGS_KEPT {
            self.0.pop_front();
        }
        self.0.push_back(nonce);
        true
    }
}

impl<L: UnprovedLink> UnprovedLinks<L> {
    /// Room for `max` connections.
    pub(super) fn new(max: usize, seed: u64) -> Self {
        let (links, openings) = Default::default();
        Self { links, max, openings, refused: 0, random: seed | 1 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.links.len()
    }

    /// Returns how many connections were closed.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Adds a connection that was just accepted. Another one may be closed for it.
    pub(super) fn add(&mut self, link: L) {
        let mut added = Waiting { link, is_opened: false };
        let has_place = self.openings.go_on(&mut added)
            && (self.links.len() < self.max || self.make_room(added.is_opened));
        match has_place {
            true => self.links.push(added),
            false => self.refused += 1,
        }
    }

    /// Closes a connection, at best one whose other side has shown nothing. Returns whether there
    /// was one for which another one, that `is_opened` or is not, may be closed.
    fn make_room(&mut self, is_opened: bool) -> bool {
        while let Some(place) = self.choose(|one| !one.is_opened) {
            // What it has sent may have arrived meanwhile.
            if !self.openings.go_on(&mut self.links[place]) || !self.links[place].is_opened {
                self.close(place);
                return true;
            }
        }
        let chosen = self.choose(|one| !one.link.is_proved()).filter(|_| is_opened);
        chosen.inspect(|place| self.close(*place)).is_some()
    }

    fn close(&mut self, place: usize) {
        self.links.swap_remove(place);
        self.refused += 1;
    }

    /// Returns one of the connections of a kind, each with the same probability.
    fn choose(&mut self, is_kind: impl Fn(&Waiting<L>) -> bool) -> Option<usize> {
        let places = self.links.iter().enumerate().filter(|(_, one)| is_kind(one));
        let count = places.clone().count() as u64;
        // xorshift64.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let number = self.random.checked_rem(count)?;
        places.map(|(place, _)| place).nth(number as usize)
    }

    /// Lets all connections go on. Returns one whose other side has proved that it has the key.
    pub(super) fn take_proved(&mut self) -> Option<L> {
        let Self { links, openings, .. } = self;
        let before = links.len();
        links.retain_mut(|one| openings.go_on(one));
        self.refused += (before - links.len()) as u64;
        let place = links.iter().position(|one| one.link.is_proved())?;
        Some(links.remove(place).link)
    }
}

#[cfg(test)]
mod tests;
