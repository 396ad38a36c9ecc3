//! How elements of a datatype lie in memory, by its plan.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use memory::{AddressRange, Layout, Segment, SharedBytes, SharedBytesMut};

use super::sinks::{Packer, RunVisitor, Unpacker};
use crate::blocks::visited_blocks;
use crate::datatype::Datatype;

/// A datatype with more blocks of its own is compiled when it is committed.
const DEFERRED_BLOCKS_MAX: usize = 64;

impl Datatype {
    /// Prepares the datatype for communication; repeating it is harmless (section 5.1.9). A plan
    /// that takes little time is compiled on first use, as many datatypes only serve to construct
    /// others.
    pub fn commit(&self) {
        if visited_blocks(&self.construction) > DEFERRED_BLOCKS_MAX {
            self.plan();
        }
        self.committed.store(true, Ordering::Release);
    }

    /// Returns the run of `count` elements if they are contiguous; it begins at the displacement of
    /// the returned segment, which is 0 for most datatypes. `None` if there are gaps.
    #[inline]
    pub fn run(&self, count: usize) -> Option<Segment> {
        self.plan().run(count)
    }

    /// Returns the layout of `count` elements. The result is none if they are one run from
    /// displacement 0, or have no data: then the buffer is plain bytes.
    #[inline]
    pub fn layout(self: &Arc<Self>, count: usize) -> Option<Arc<dyn Layout>> {
        match self.run(count) {
            Some(Segment { displacement: 0, .. }) => None,
            _ => Some(Arc::clone(self) as Arc<dyn Layout>),
        }
    }
}

impl Layout for Datatype {
    fn size(&self) -> usize {
        Datatype::size(self)
    }

    fn bounds(&self, count: usize) -> (isize, isize) {
        if count == 0 || Datatype::size(self) == 0 {
            return (0, 0);
        }
        let reach = self.extent().saturating_mul(count as isize - 1);
        let low = self.true_lower_bound();
        let high = low + self.true_extent();
        (low.saturating_add(reach.min(0)), high.saturating_add(reach.max(0)))
    }

    fn segment_count(&self, count: usize) -> usize {
        match self.run(count) {
            Some(run) => usize::from(run.length > 0),
            None => self.plan().runs.saturating_mul(count),
        }
    }

    fn segments(
        &self,
        count: usize,
        offset: usize,
        length: usize,
        each: &mut dyn FnMut(Segment) -> bool,
    ) {
        self.plan().walk(count, offset, length, &mut RunVisitor { each });
    }

    fn pack(&self, memory: &AddressRange, count: usize, offset: usize, out: SharedBytesMut<'_>) {
        let length = out.len();
        self.plan().walk(count, offset, length, &mut Packer { memory, rest: out });
    }

    fn unpack(&self, memory: &AddressRange, count: usize, offset: usize, data: SharedBytes<'_>) {
        self.plan().walk(count, offset, data.len(), &mut Unpacker { memory, rest: data });
    }
}
