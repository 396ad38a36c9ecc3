//! The leaves on which ranks are placed.

use crate::tree::BranchTree;

/// The leaf of each rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    leaves: Vec<u32>,
}

impl Placement {
    /// A placement with these leaves, indexed by rank.
    pub fn new(leaves: Vec<u32>) -> Self {
        Self { leaves }
    }

    /// The leaf of each rank.
    pub fn leaves(&self) -> &[u32] {
        &self.leaves
    }

    /// The leaf of one rank.
    pub fn leaf(&self, rank: u32) -> u32 {
        self.leaves[rank as usize]
    }

    pub(crate) fn put(&mut self, rank: u32, leaf: u32) {
        self.leaves[rank as usize] = leaf;
    }
}

/// The minimum and maximum number of ranks for each leaf and each branch.
#[derive(Clone, Debug)]
pub(crate) struct FreeLeaves {
    /// By vertex of the tree.
    pub least: Vec<u64>,
    pub most: Vec<u64>,
    /// By leaf.
    pub leaf_least: Vec<u64>,
    pub leaf_most: Vec<u64>,
}

impl FreeLeaves {
    pub fn new(ranks: u32, tree: &BranchTree, fixed: &[Option<u32>]) -> Result<Self, String> {
        let (ranks, slots) = (u64::from(ranks), tree.slots_in_all());
        if slots == 0 && ranks > 0 {
            return Err("there is no slot on which a rank may be put".to_owned());
        }
        if !fixed.is_empty() && fixed.len() as u64 != ranks {
            return Err(format!("places are given for {} ranks of {ranks}", fixed.len()));
        }
        let is_free = fixed.iter().all(Option::is_none);
        let mut least = vec![0; tree.vertex_count() as usize];
        let mut most = vec![0; tree.vertex_count() as usize];
        let (mut leaf_least, mut leaf_most) = (Vec::new(), Vec::new());
        for leaf in 0..tree.leaf_count() {
            let own = u64::from(tree.slots(leaf));
            let (low, high) = if ranks <= slots {
                (0, own)
            } else {
                let low = if is_free { ranks * own / slots } else { 0 };
                (low, (ranks * own).div_ceil(slots))
            };
            let mut path = tree.path(leaf).to_vec();
            path.dedup();
            for vertex in path {
                least[vertex as usize] += low;
                most[vertex as usize] += high;
            }
            leaf_least.push(low);
            leaf_most.push(high);
        }
        let room = Self { least, most, leaf_least, leaf_most };
        room.check(fixed)?;
        Ok(room)
    }

    fn check(&self, fixed: &[Option<u32>]) -> Result<(), String> {
        let mut loads = vec![0_u64; self.leaf_most.len()];
        for (rank, leaf) in fixed.iter().enumerate() {
            let Some(leaf) = leaf else { continue };
            let Some(load) = loads.get_mut(*leaf as usize) else {
                return Err(format!(
                    "rank {rank} must be on leaf {leaf}, but the leaves are 0 to {}",
                    self.leaf_most.len() - 1
                ));
            };
            *load += 1;
            let most = self.leaf_most[*leaf as usize];
            if *load > most {
                return Err(format!(
                    "more ranks must be on leaf {leaf} than the {most} that it can hold"
                ));
            }
        }
        Ok(())
    }
}
