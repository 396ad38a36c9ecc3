//! The plan: the compiled form of a datatype, which describes where its bytes lie.

mod compile;
mod layout;
mod node;
mod sinks;
mod walk;

use memory::Segment;

use node::{Node, NodeShape};
use walk::{RunSink, walk, walk_repeated, walk_turns};

/// Where the bytes of one element lie, and how elements follow each other.
#[derive(Debug)]
pub(crate) struct TypePlan {
    /// The bytes of one element; `None` if it has none.
    node: Option<Node>,
    /// The number of repetitions in one element of the body that several elements repeat, and their
    /// distance. The body is the node itself, or a loop's body if elements continue the loop.
    turns: usize,
    stride: isize,
    size: usize,
    extent: isize,
    runs: usize,
}

impl TypePlan {
    fn new(node: Option<Node>, size: usize, extent: isize) -> Self {
        let (turns, stride) = match &node {
            Some(node) => node.continued(extent),
            None => (1, extent),
        };
        let runs = node.as_ref().map_or(0, Node::runs);
        Self { node, turns, stride, size, extent, runs }
    }

    pub fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }

    /// Returns the run of `count` elements, if they are contiguous.
    #[inline]
    pub fn run(&self, count: usize) -> Option<Segment> {
        match &self.node {
            Some(Node { shape: NodeShape::Run, displacement, size })
                if count <= 1 || self.extent == *size as isize =>
            {
                let displacement = if count == 0 { 0 } else { *displacement };
                Some(Segment { displacement, length: size.saturating_mul(count) })
            }
            None => Some(Segment { displacement: 0, length: 0 }),
            Some(_) if count == 0 => Some(Segment { displacement: 0, length: 0 }),
            Some(_) => None,
        }
    }

    /// Passes the packed bytes `offset .. offset + length` of `count` elements to `sink`.
    fn walk<S: RunSink>(&self, count: usize, offset: usize, length: usize, sink: &mut S) {
        let Some(node) = &self.node else {
            assert!(length == 0, "{length} bytes of a datatype without data");
            return;
        };
        let total = self.size.saturating_mul(count);
        assert!(
            offset <= total && length <= total - offset,
            "packed bytes {offset}.. ({length} of them) of {count} elements of {} bytes",
            self.size
        );
        if length == 0 {
            return;
        }
        if let Some(run) = self.run(count) {
            sink.run(run.displacement + offset as isize, length);
            return;
        }
        // For whole elements and for parts of one, no division is necessary to find their ends.
        let (body, origin) = if self.turns > 1 { node.body() } else { (node, 0) };
        if length == total {
            walk_turns(body, self.turns * count, self.stride, origin, sink);
        } else if count == 1 {
            walk(node, 0, offset, length, sink);
        } else {
            walk_repeated(body, self.stride, origin, offset, length, sink);
        }
    }
}
