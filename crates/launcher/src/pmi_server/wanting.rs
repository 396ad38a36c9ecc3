//! The processes that wait for values which others have not published yet.
//!
//! Several programs may run one after the other as the same rank, each of which publishes values.
//! A program must not see values of earlier ones, so a process that has published `n` times waits
//! until the publisher has published `n` times too.

use std::collections::{BTreeSet, HashMap};

/// A request for a value that waits for the processes which may still publish it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The process that waits.
    pub rank: u32,
    pub publisher: Publisher,
    pub key: String,
}

/// The processes that publish a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Publisher {
    /// The value is that of one process.
    One(u32),
    /// The value is made of those of all processes.
    All,
}

/// Which processes have published their values, and which requests wait for the others.
#[derive(Debug)]
pub(super) struct Wanting {
    /// How often each process has published.
    counts: Vec<u32>,
    /// How many processes have published at least once, at least twice and so on.
    reached: Vec<usize>,
    /// The processes that will not publish any more.
    gone: BTreeSet<u32>,
    of_one: HashMap<u32, Vec<Wanted>>,
    of_all: Vec<Wanted>,
}

impl Publisher {
    /// Reads the word of a request that names the process, or all; none if it names nothing.
    pub(super) fn parse(word: &str, size: usize) -> Option<Self> {
        if word == launch::ALL_PUBLISHERS {
            return Some(Self::All);
        }
        word.parse().ok().filter(|&rank: &u32| (rank as usize) < size).map(Self::One)
    }
}

impl Wanting {
    pub(super) fn new(size: usize) -> Self {
        Self {
            counts: vec![0; size],
            reached: Vec::new(),
            gone: BTreeSet::new(),
            of_one: HashMap::new(),
            of_all: Vec::new(),
        }
    }

    /// Whether the process `rank` must wait for what these processes may still publish.
    pub(super) fn must_wait(&self, rank: u32, publisher: Publisher) -> bool {
        let needed = self.counts[rank as usize];
        let is_there = match publisher {
            Publisher::One(of) => self.counts[of as usize] >= needed.max(1),
            Publisher::All => {
                let reached = self.reached.get(needed.max(1) as usize - 1);
                reached == Some(&self.counts.len())
            }
        };
        !is_there && self.missing(rank, publisher).is_none()
    }

    /// Returns one of these processes that has ended without publishing what `rank` needs, if one
    /// has.
    pub(super) fn missing(&self, rank: u32, publisher: Publisher) -> Option<u32> {
        let needed = self.counts[rank as usize].max(1);
        let is_missing = |of: &u32| self.counts[*of as usize] < needed;
        match publisher {
            Publisher::One(of) => Some(of).filter(|of| self.gone.contains(of) && is_missing(of)),
            Publisher::All => self.gone.iter().copied().find(is_missing),
        }
    }

    /// Adds a request that [must wait](Self::must_wait).
    pub(super) fn wait(&mut self, wanted: Wanted) {
        match wanted.publisher {
            Publisher::One(of) => self.of_one.entry(of).or_default().push(wanted),
            Publisher::All => self.of_all.push(wanted),
        }
    }

    /// Records that a process has published its values once more, and returns the requests to
    /// examine again.
    pub(super) fn note_published(&mut self, rank: u32) -> Vec<Wanted> {
        let count = &mut self.counts[rank as usize];
        *count += 1;
        if self.reached.len() < *count as usize {
            self.reached.push(0);
        }
        let reached = &mut self.reached[*count as usize - 1];
        *reached += 1;
        let mut released = self.of_one.remove(&rank).unwrap_or_default();
        if *reached == self.counts.len() {
            released.append(&mut self.of_all);
        }
        released
    }

    /// Records that a process that has not published anything, and goes on, is none of ours.
    /// Returns the requests to examine again.
    pub(super) fn note_other_library(&mut self, rank: u32) -> Vec<Wanted> {
        match self.counts[rank as usize] {
            0 => self.note_published(rank),
            _ => Vec::new(),
        }
    }

    /// Records that a process has ended, and returns the requests to examine again.
    pub(super) fn note_gone(&mut self, rank: u32) -> Vec<Wanted> {
        self.gone.insert(rank);
        let mut released = self.of_one.remove(&rank).unwrap_or_default();
        released.append(&mut self.of_all);
        released
    }
}
