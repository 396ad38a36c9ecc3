//! Compiles constructors to nodes.

use std::sync::Arc;

use crate::blocks::{Block, visit_blocks};
use crate::datatype::{Construction, Datatype};
use crate::plan::TypePlan;
use crate::plan::node::{Collector, Node, NodeShape};
use crate::predefined::{Predefined, ValueKind};

impl Datatype {
    /// Returns the plan, which is compiled at the first call.
    #[inline]
    pub(crate) fn plan(&self) -> &TypePlan {
        self.plan.get_or_init(|| TypePlan::new(node_of(self), self.size(), self.extent()))
    }
}

/// Returns the node of one element; `None` if it has no bytes.
fn node_of(datatype: &Datatype) -> Option<Node> {
    if let Some(base) = datatype.base() {
        return base.plan().node().cloned();
    }
    let construction = datatype.construction();
    if let Construction::Named(named) = construction {
        return Some(node_of_named(*named));
    }
    if let Some(node) = equal_blocks(construction) {
        return Some(node);
    }
    if is_one_block(construction) {
        let mut node = None;
        visit_blocks(construction, &mut |block| {
            node = node_of_block(&block);
            true
        });
        return node;
    }
    let mut collector = Collector::default();
    visit_blocks(construction, &mut |block| {
        if let Some(node) = node_of_block(&block) {
            collector.push(node);
        }
        true
    });
    collector.finish()
}

fn is_one_block(construction: &Construction) -> bool {
    matches!(
        construction,
        Construction::Contiguous { .. }
            | Construction::Vector { .. }
            | Construction::Hvector { .. }
    )
}

fn node_of_named(named: Predefined) -> Node {
    let mut collector = Collector::default();
    match named.kind() {
        ValueKind::Pair(value, index) => {
            collector.push(Node::run(0, value.size()));
            collector.push(Node::run(named.index_displacement() as isize, index.size()));
        }
        _ => collector.push(Node::run(0, named.size())),
    }
    collector.finish().expect("a named datatype has data")
}

/// Returns the node of a block. Geometry has checked that all its displacements fit; those of
/// blocks without data were not checked, and are not used.
fn node_of_block(block: &Block<'_>) -> Option<Node> {
    if block.is_empty() {
        return None;
    }
    let node = block.of.plan().node()?.clone();
    let node = node.repeated(block.length as usize, block.of.extent());
    let node = node.repeated(block.count as usize, block.stride as isize);
    Some(node.shifted(block.displacement as isize))
}

/// Returns the compact form of many equal blocks that are not plain runs of bytes.
fn equal_blocks(construction: &Construction) -> Option<Node> {
    let (length, displacements, unit, of) = match construction {
        Construction::IndexedBlock { block_length, displacements, of } => {
            (*block_length, displacements, of.extent(), of)
        }
        Construction::HindexedBlock { block_length, displacements, of } => {
            (*block_length, displacements, 1, of)
        }
        Construction::Indexed { block_lengths, displacements, of } => {
            (equal_lengths(block_lengths)?, displacements, of.extent(), of)
        }
        Construction::Hindexed { block_lengths, displacements, of } => {
            (equal_lengths(block_lengths)?, displacements, 1, of)
        }
        _ => return None,
    };
    let body = body_of_equal_blocks(length, of)?;
    if displacements.is_empty() {
        return None;
    }
    Some(body.scattered(displacements.iter().map(|&one| one as isize * unit).collect()))
}

fn equal_lengths(lengths: &[i64]) -> Option<i64> {
    let first = *lengths.first()?;
    lengths.iter().all(|&length| length == first).then_some(first)
}

fn body_of_equal_blocks(length: i64, of: &Arc<Datatype>) -> Option<Node> {
    if length == 0 {
        return None;
    }
    let body = of.plan().node()?.clone().repeated(length as usize, of.extent());
    (!matches!(body.shape, NodeShape::Run)).then_some(body)
}
