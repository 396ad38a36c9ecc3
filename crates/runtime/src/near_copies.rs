//! Copies of read-only memory, one on each NUMA node from which it is read often enough.

use std::collections::BTreeMap;
use std::fmt;

use memory::Buffer;
use memory::placing::{Placing, PlacingError};
use memory_costs::{CopyForecast, UsePlaces};
use parking_lot::Mutex;
use sys::numa;
use sys::pages::page_bytes;

use crate::migration::{self, Nodes};

/// All copies of this process, by the address and length of the original and by node.
static COPIES: Mutex<BTreeMap<(usize, usize), BTreeMap<u32, NearCopy>>> =
    Mutex::new(BTreeMap::new());

struct NearCopy {
    memory: Vec<u8>,
    /// Where the copy begins in `memory`: its offset in a page is that of the original.
    offset: usize,
}

/// Where memory must be read, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyDecision {
    /// The address of the original, or of the copy.
    pub address: usize,
    reads: f64,
    bytes: usize,
    /// The forecast behind the decision; none if all memory is equally near, the original was never
    /// touched, or nothing could be measured.
    forecast: Option<(CopyForecast, UsePlaces)>,
}

/// Returns from where the calling thread should read memory that it is going to read `reads` times:
/// from a copy on its NUMA node, which is made if there is none, or from the original.
///
/// # Errors
/// The system refuses.
pub fn nearest(original: &Buffer, reads: f64) -> Result<CopyDecision, PlacingError> {
    let (start, bytes) = (original.base_address(), original.len());
    let stays = CopyDecision { address: start, reads, bytes, forecast: None };
    let Some(nodes) = Nodes::here() else { return Ok(stays) };
    let memory = migration::places_of(&(start..start + bytes))?;
    if memory.is_empty() {
        return Ok(stays);
    }
    let places = UsePlaces { memory, here: numa::current_node()?, others: Vec::new() };
    let costs = migration::costs(&nodes);
    // Other threads that need a copy on this node wait for it here.
    let mut all = COPIES.lock();
    let of_this = all.get(&(start, bytes));
    let is_there = of_this.is_some_and(|copies| copies.contains_key(&places.here));
    let distance = |from, to| nodes.distance(from, to);
    let Some(forecast) = costs.forecast_copy(reads, &places, is_there, distance) else {
        return Ok(stays);
    };
    let mut address = start;
    if forecast.pays() {
        numa::check_mapped(start..start + bytes)?;
        let copies = all.entry((start, bytes)).or_default();
        let copy = copies.entry(places.here).or_insert_with(|| NearCopy::of(original));
        address = copy.address();
    }
    Ok(CopyDecision { address, forecast: Some((forecast, places)), ..stays })
}

/// Frees all copies of the memory that begins at this address.
pub fn free(address: usize) {
    COPIES.lock().retain(|&(start, _), _| start != address);
}

impl NearCopy {
    fn of(original: &Buffer) -> Self {
        let mut memory = vec![0; original.len() + page_bytes()];
        let start = memory.as_ptr() as usize;
        let offset = original.base_address().wrapping_sub(start) % page_bytes();
        original.read(0, &mut memory[offset..offset + original.len()]);
        // Memory that the allocator reused may lie on another node. A failure here costs only
        // speed.
        let _ = Placing::Here.apply(start + offset..start + offset + original.len());
        Self { memory, offset }
    }

    fn address(&self) -> usize {
        self.memory.as_ptr() as usize + self.offset
    }
}

impl fmt::Display for CopyDecision {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((forecast, places)) = &self.forecast else {
            return to.write_str(
                "it is read where it is: all memory is equally near, or no thread has touched this \
                 memory, or the cost of memory of other nodes could not be measured",
            );
        };
        match forecast.pays() {
            true => write!(to, "the copy on node {} is read", places.here)?,
            false => write!(to, "it is read where it is")?,
        }
        let ms = |ns: f64| ns / 1e6;
        write!(
            to,
            ": to read {} bytes {} times takes {:.3} ms where they are, {:.3} ms by a copy on node \
             {}",
            self.bytes,
            self.reads,
            ms(forecast.stay_ns),
            ms(forecast.copied_ns),
            places.here
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_as_far_from_a_page_as_their_originals() {
        let original = Buffer::zeroed(10_000);
        original.write(0, &[7; 10_000]);
        let copy = NearCopy::of(&original);
        assert_eq!((copy.address() - original.base_address()) % page_bytes(), 0);
        assert!(copy.memory[copy.offset..copy.offset + 10_000].iter().all(|byte| *byte == 7));
    }

    #[test]
    fn memory_of_this_node_is_read_where_it_is() {
        let original = Buffer::zeroed(1 << 20);
        original.write(0, &vec![7; 1 << 20]);
        let decision = nearest(&original, 1000.0).unwrap();
        assert_eq!(decision.address, original.base_address(), "{decision}");
        free(original.base_address());
    }
}
