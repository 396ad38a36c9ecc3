//! Checks what the processes of a collective operation send to each other, and what they expect.
//!
//! Amounts that must be equal on all processes are compared with those of the first process
//! ([`super::collectives`]). This module compares the other amounts: the two sides of one process,
//! and amounts that differ by process, which each sender reports to the receiver.

use std::cell::RefCell;
use std::collections::HashMap;

use checks::{CallSite, Mistake, MistakeKind};
use mpi::Communicator;
use serde::{Deserialize, Serialize};

use super::memory::{self, BlockNames, RECEIVED, SENT};
use super::operations::operation_of;
use super::transfers::{self, ElementData};
use super::{CheckMessage, Checks, SeenCall};
use crate::arguments::is_in_place;
use crate::c::{Datatype, Handle};

/// The blocks of which only one side is known: what was sent, or what is expected.
#[derive(Debug, Default)]
pub struct BlockChecks {
    sent: RefCell<HashMap<BlockName, KnownBlock>>,
    expected: RefCell<HashMap<BlockName, KnownBlock>>,
}

/// Identifies a block: the number of the communicator, the number of the operation on it, and the
/// rank of the sender.
pub type BlockName = (u64, u64, u32);

/// One side of a block.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KnownBlock {
    /// The operation, such as `alltoallv`.
    operation: String,
    data: ElementData,
    /// The rank in the job of the process that reports the block; `site` is its call.
    rank: u32,
    site: CallSite,
}

/// The blocks that a process sends to the others of a communicator, and those that it receives.
struct OwnBlocks<'a> {
    seen: &'a SeenCall,
    operation: String,
    size: u32,
    rank: u32,
    root: Option<u32>,
}

fn is_in_place_here(seen: &SeenCall, names: &BlockNames) -> bool {
    let buffer = seen.word(names.buffer);
    buffer.is_some_and(|word| is_in_place(std::ptr::with_exposed_provenance(word)))
}

/// Compares the sides of the collective operation with a number, which begins.
pub fn begin(seen: &SeenCall, communicator: &Communicator, communicator_number: u64, number: u64) {
    let Some(operation) = operation_of(seen.entry.name) else { return };
    if communicator.remote().is_some() || operation.starts_with("neighbor") {
        return;
    }
    let root = seen.integer("root").and_then(|root| u32::try_from(root).ok());
    let (size, rank) = (communicator.size(), communicator.rank());
    let own = OwnBlocks { seen, operation, size, rank, root };
    own.compare_own_sides();
    if !matches!(
        &own.operation[..],
        "gatherv" | "scatterv" | "allgatherv" | "alltoallv" | "alltoallw"
    ) {
        return;
    }
    let (checks, site) = (&seen.checks, seen.site());
    let known = |data| KnownBlock {
        operation: own.operation.clone(),
        data,
        rank: checks.rank,
        site: (*site).clone(),
    };
    for (peer, gate) in communicator.all_members().gates().enumerate() {
        let peer = peer as u32;
        if peer == rank {
            continue;
        }
        if let Some(data) = own.given_to(peer) {
            let name = (communicator_number, number, rank);
            checks.messages.send_to(seen, gate.0, &CheckMessage::Block(name, known(data)));
        }
        if let Some(data) = own.taken_from(peer) {
            checks.blocks.expect(checks, (communicator_number, number, peer), known(data));
        }
    }
}

impl OwnBlocks<'_> {
    /// Returns the data for a peer in one of the buffers.
    fn data(&self, names: &BlockNames, peer: u32) -> Option<ElementData> {
        let seen = self.seen;
        let count = match seen.word(names.counts) {
            Some(_) => {
                let counts =
                    memory::integers(seen, names.counts, self.size, memory::width_of_counts(seen))?;
                *counts.get(peer as usize)?
            }
            None => seen.integer(names.count)?,
        };
        let datatype = match seen.word(names.datatypes) {
            Some(_) => *memory::datatypes(seen, names, self.size)?.get(peer as usize)?,
            None => Datatype::from_raw(seen.word(names.datatype)?),
        };
        transfers::data(count, &seen.call().datatype(1, datatype).ok()?)
    }

    fn given_to(&self, peer: u32) -> Option<ElementData> {
        match &self.operation[..] {
            "gather" | "gatherv" if self.root != Some(peer) => None,
            "scatter" | "scatterv" if self.root != Some(self.rank) => None,
            // In place, the data that a process sends is in its receive buffer.
            "allgather" | "allgatherv" if is_in_place_here(self.seen, &SENT) => {
                self.data(&RECEIVED, self.rank)
            }
            _ if is_in_place_here(self.seen, &SENT) => self.data(&RECEIVED, peer),
            _ => self.data(&SENT, peer),
        }
    }

    fn taken_from(&self, peer: u32) -> Option<ElementData> {
        match &self.operation[..] {
            "gather" | "gatherv" if self.root != Some(self.rank) => None,
            "scatter" | "scatterv" if self.root != Some(peer) => None,
            _ => self.data(&RECEIVED, peer),
        }
    }

    /// Checks that the block that this process sends to itself is equal to the block that it
    /// receives.
    fn compare_own_sides(&self) {
        let seen = self.seen;
        if is_in_place_here(seen, &SENT) || is_in_place_here(seen, &RECEIVED) {
            return;
        }
        let known = ["gather", "scatter", "alltoall"];
        if !known.iter().any(|part| self.operation.contains(part))
            || self.operation.contains("reduce")
        {
            return;
        }
        let sides = self.given_to(self.rank).zip(self.taken_from(self.rank));
        let Some((given, taken)) = sides else { return };
        let Some((given, taken)) = difference(&given, &taken) else { return };
        let rank = seen.checks.rank;
        let what = format!(
            "rank {rank} calls {} with {given} to send to itself, but {taken} to receive from \
             itself",
            seen.entry.name
        );
        let sites = vec![(rank, (*seen.site()).clone())];
        seen.checks.report_mistake(&Mistake { kind: MistakeKind::Amount, what, sites });
    }
}

/// Describes the difference between the two sides of one block.
fn difference(given: &ElementData, taken: &ElementData) -> Option<(String, String)> {
    if given.bytes != taken.bytes {
        return Some((format!("{} bytes", given.bytes), format!("{} bytes", taken.bytes)));
    }
    given.signature.as_ref()?.contradiction(taken.signature.as_ref()?)
}

impl BlockChecks {
    /// Records a block that another process sends to this one.
    pub fn add_received(&self, checks: &Checks, name: BlockName, given: KnownBlock) {
        match self.expected.borrow_mut().remove(&name) {
            Some(taken) => compare(checks, &given, &taken),
            None => drop(self.sent.borrow_mut().insert(name, given)),
        }
    }

    fn expect(&self, checks: &Checks, name: BlockName, taken: KnownBlock) {
        match self.sent.borrow_mut().remove(&name) {
            Some(given) => compare(checks, &given, &taken),
            None => drop(self.expected.borrow_mut().insert(name, taken)),
        }
    }

    /// Removes the records of communicators that are gone.
    pub fn purge(&self, is_alive: &dyn Fn(u64) -> bool) {
        self.sent.borrow_mut().retain(|(number, ..), _| is_alive(*number));
        self.expected.borrow_mut().retain(|(number, ..), _| is_alive(*number));
    }
}

fn compare(checks: &Checks, given: &KnownBlock, taken: &KnownBlock) {
    if given.operation != taken.operation {
        return;
    }
    let Some((sent, expected)) = difference(&given.data, &taken.data) else { return };
    let what = format!(
        "rank {} calls {} with {expected} to receive from rank {}, which sends {sent}",
        taken.rank, taken.site.function, given.rank
    );
    let sites = vec![(taken.rank, taken.site.clone()), (given.rank, given.site.clone())];
    checks.report_mistake(&Mistake { kind: MistakeKind::Amount, what, sites });
}
