//! Shared memory that processes keep for their next request.

use std::cell::RefCell;
use std::rc::Rc;

use base::GateId;
use memory::{Nonce, SharedMemory};

/// The maximum number of spare memories that a process keeps.
const SPARE_MAX: usize = 32;

/// Shared memory that the processes of their groups no longer use, the most recent last.
#[derive(Debug, Default)]
pub(crate) struct SpareWords(RefCell<Vec<SpareMemory>>);

#[derive(Debug)]
struct SpareMemory {
    /// The processes of the group, by rank.
    gates: Box<[GateId]>,
    words: usize,
    memory: Rc<SharedMemory>,
}

impl SpareWords {
    /// Takes the last memory of these processes with these numbers of words and of bytes for
    /// buffers.
    pub(crate) fn take_of(
        &self,
        gates: &[GateId],
        (words, length): (usize, usize),
    ) -> Option<Rc<SharedMemory>> {
        let fits = |one: &SpareMemory| one.words == words && one.memory.len() == length;
        self.take(|one| fits(one) && *one.gates == *gates)
    }

    /// Takes the memory with this nonce.
    pub(crate) fn take_named(&self, nonce: &Nonce) -> Option<Rc<SharedMemory>> {
        self.take(|one| one.memory.nonce() == *nonce)
    }

    fn take(&self, wanted: impl Fn(&SpareMemory) -> bool) -> Option<Rc<SharedMemory>> {
        let mut spare = self.0.borrow_mut();
        let index = spare.iter().rposition(wanted)?;
        Some(spare.remove(index).memory)
    }

    /// Keeps a memory, in place of the oldest one if there are too many.
    pub(crate) fn keep(&self, gates: Box<[GateId]>, words: usize, memory: Rc<SharedMemory>) {
        let mut spare = self.0.borrow_mut();
        if spare.len() == SPARE_MAX {
            spare.remove(0);
        }
        spare.push(SpareMemory { gates, words, memory });
    }
}
