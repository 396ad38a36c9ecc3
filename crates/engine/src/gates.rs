//! All gates of an engine, and the list of gates with waiting work.

#[cfg(debug_assertions)]
use std::cell::Cell;
use std::collections::VecDeque;
use std::mem;
use std::ops::{Index, IndexMut};

use base::{GateId, PeerTable};

use crate::gate::{Chunk, Gate, WaitingChunk};
use crate::list::{Chain, Links, List};
use crate::slab::NONE;

/// The gates by number. Those with work are linked into a list, in the order in which they got
/// their work. A gate is added or removed in O(1), independently of the number of gates.
#[derive(Debug)]
pub(crate) struct Gates {
    all: GatePlaces,
    with_work: List<WITH_WORK>,
    with_work_count: usize,
    /// How many gates have memory for their outbox.
    outboxes: usize,
    /// Memory for outboxes of gates that have none.
    spare_outboxes: Vec<VecDeque<WaitingChunk>>,
}

#[derive(Debug, Default)]
struct GatePlaces {
    gates: PeerTable<Gate, GATES_PER_PAGE>,
    /// How often a gate was accessed, for tests that count.
    #[cfg(debug_assertions)]
    accesses: Cell<u64>,
}

/// Few, as processes of large jobs use few, scattered peers.
const GATES_PER_PAGE: usize = 4;
const _: () = assert!(GATES_PER_PAGE * size_of::<Gate>() <= 1 << 10, "a page of gates has 1 KiB");

/// If more gates than this have memory for their outbox, an idle gate gives its memory away: the
/// outbox of each of many peers is empty nearly always, and would take more than all else that is
/// kept for the peer.
const OUTBOXES_KEPT: usize = 8;

/// The outboxes whose memory is used again have room for at most so many chunks.
const SPARE_CHUNKS_MAX: usize = 64;

/// The list of the gates with waiting work.
const WITH_WORK: usize = 0;

impl Chain<WITH_WORK> for Gate {
    fn links(&mut self) -> &mut Links {
        &mut self.work_links
    }
}

impl Gates {
    pub(crate) fn new() -> Self {
        Self {
            all: GatePlaces::default(),
            with_work: List::EMPTY,
            with_work_count: 0,
            outboxes: 0,
            spare_outboxes: Vec::new(),
        }
    }

    /// Returns the gate with this number. If it does not exist yet, it is made, unconnected.
    pub(crate) fn make(&mut self, gate: GateId) -> &mut Gate {
        self.all.gates.entry(gate.0, Gate::unconnected)
    }

    #[inline(always)]
    pub(crate) fn get(&self, gate: GateId) -> Option<&Gate> {
        self.all.gates.get(gate.0)
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, gate: GateId) -> Option<&mut Gate> {
        self.all.gates.get_mut(gate.0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Gate> {
        self.all.gates.iter().map(|(_, gate)| gate)
    }

    /// Adds a chunk to the outbox of a gate, which has work now.
    #[inline]
    pub(crate) fn push(&mut self, gate: GateId, chunk: Chunk) {
        let outbox = &mut self.all[gate.0].outbox;
        if outbox.capacity() == 0 {
            self.outboxes += 1;
            give_spare(outbox, &mut self.spare_outboxes);
        }
        outbox.push_back(WaitingChunk::new(chunk));
        self.list(gate);
    }

    /// Makes a gate as it was before it was connected.
    pub(crate) fn reset(&mut self, gate: GateId) {
        let before = mem::replace(&mut self[gate], Gate::unconnected());
        self.take_outbox(before.outbox);
    }

    /// Takes the outbox of a gate that is idle or gone. The next gate without one gets its memory.
    #[cold]
    fn take_outbox(&mut self, mut memory: VecDeque<WaitingChunk>) {
        if memory.capacity() > 0 {
            memory.clear();
            self.outboxes -= 1;
            if memory.capacity() <= SPARE_CHUNKS_MAX && self.spare_outboxes.len() < OUTBOXES_KEPT {
                self.spare_outboxes.push(memory);
            }
        }
    }

    /// Adds a gate to the list of gates with work.
    #[inline]
    pub(crate) fn list(&mut self, gate: GateId) {
        let state = &mut self[gate];
        if !state.is_listed {
            state.is_listed = true;
            self.with_work_count += 1;
            self.with_work.push_back(&mut self.all, gate.0);
        }
    }

    /// Takes a gate out of the list if nothing waits for it.
    pub(crate) fn unlist_if_idle(&mut self, gate: GateId) {
        let state = &mut self.all[gate.0];
        if state.is_listed && !state.has_work() {
            state.is_listed = false;
            if self.outboxes > OUTBOXES_KEPT {
                let outbox = mem::take(&mut state.outbox);
                self.take_outbox(outbox);
            }
            self.with_work_count -= 1;
            self.with_work.remove(&mut self.all, gate.0);
        }
    }

    /// Returns the next gate with work. The gates take turns: the first moves behind the others.
    #[inline]
    pub(crate) fn next_with_work(&mut self) -> Option<GateId> {
        let first = self.with_work.first;
        if first == NONE {
            return None;
        }
        if self.with_work_count > 1 {
            self.with_work.remove(&mut self.all, first);
            self.with_work.push_back(&mut self.all, first);
        }
        Some(GateId(first))
    }

    /// Counts one gate with work more than the list holds, so that the caller is polled in each
    /// round of progress.
    pub(crate) fn keep_asking(&mut self) {
        self.with_work_count += 1;
    }

    /// Reverts [`keep_asking`](Self::keep_asking).
    pub(crate) fn stop_asking(&mut self) {
        self.with_work_count -= 1;
    }

    /// Returns the number of gates with work.
    #[inline]
    pub(crate) fn with_work(&self) -> usize {
        self.with_work_count
    }

    /// Returns how often a gate was accessed so far.
    #[cfg(debug_assertions)]
    pub(crate) fn accesses(&self) -> u64 {
        self.all.accesses.get()
    }
}

#[cold]
fn give_spare(outbox: &mut VecDeque<WaitingChunk>, spare: &mut Vec<VecDeque<WaitingChunk>>) {
    if let Some(memory) = spare.pop() {
        *outbox = memory;
    }
}

impl GatePlaces {
    #[inline(always)]
    fn count_access(&self) {
        #[cfg(debug_assertions)]
        self.accesses.set(self.accesses.get() + 1);
    }
}

impl Index<u32> for GatePlaces {
    type Output = Gate;

    #[inline(always)]
    fn index(&self, index: u32) -> &Gate {
        self.count_access();
        &self.gates[index]
    }
}

impl IndexMut<u32> for GatePlaces {
    #[inline(always)]
    fn index_mut(&mut self, index: u32) -> &mut Gate {
        self.count_access();
        &mut self.gates[index]
    }
}

impl Index<GateId> for Gates {
    type Output = Gate;

    #[inline(always)]
    fn index(&self, gate: GateId) -> &Gate {
        &self.all[gate.0]
    }
}

impl IndexMut<GateId> for Gates {
    #[inline(always)]
    fn index_mut(&mut self, gate: GateId) -> &mut Gate {
        &mut self.all[gate.0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes gates with one waiting chunk each.
    fn busy(count: u32) -> Gates {
        let mut gates = Gates::new();
        for gate in (0..count).map(GateId) {
            gates.make(gate);
            gates.push(gate, Chunk::Eager(0));
        }
        gates
    }

    #[test]
    fn gates_with_work_take_turns() {
        for count in [1, 2, 3, 10] {
            let mut gates = busy(count);
            let turns: Vec<u32> =
                (0..3 * count).map(|_| gates.next_with_work().unwrap().0).collect();
            let wanted: Vec<u32> = (0..count).cycle().take(3 * count as usize).collect();
            assert_eq!(turns, wanted);
        }
    }

    #[test]
    fn a_gate_stays_listed_as_long_as_something_waits_for_it() {
        let mut gates = busy(3);
        gates.unlist_if_idle(GateId(1));
        assert_eq!(gates.with_work(), 3);
        gates[GateId(1)].outbox.clear();
        gates.unlist_if_idle(GateId(1));
        gates.unlist_if_idle(GateId(1));
        assert_eq!(gates.with_work(), 2);
        let turns: Vec<u32> = (0..4).map(|_| gates.next_with_work().unwrap().0).collect();
        assert_eq!(turns, [0, 2, 0, 2]);
        gates.list(GateId(1));
        gates.list(GateId(1));
        assert_eq!(gates.with_work(), 3);
    }

    #[test]
    fn idle_gates_share_the_memory_of_outboxes() {
        let mut gates = busy(100);
        let with_memory =
            |gates: &Gates| gates.iter().filter(|gate| gate.outbox.capacity() > 0).count();
        assert_eq!(with_memory(&gates), 100);
        for gate in (0..100).map(GateId) {
            gates[gate].outbox.clear();
            gates.unlist_if_idle(gate);
        }
        assert_eq!((with_memory(&gates), gates.outboxes), (OUTBOXES_KEPT, OUTBOXES_KEPT));
        for gate in (0..1000).map(|number| GateId(number % 100)) {
            gates.push(gate, Chunk::Eager(0));
            gates[gate].outbox.clear();
            gates.unlist_if_idle(gate);
            assert!(gates.spare_outboxes.len() <= OUTBOXES_KEPT);
        }
        assert_eq!((with_memory(&gates), gates.outboxes), (OUTBOXES_KEPT, OUTBOXES_KEPT));
        (0..100).for_each(|gate| gates.reset(GateId(gate)));
        assert_eq!((with_memory(&gates), gates.outboxes), (0, 0));
        let mut few = busy(3);
        few[GateId(1)].outbox.clear();
        few.unlist_if_idle(GateId(1));
        assert_eq!(with_memory(&few), 3, "few gates keep theirs");
    }
}
