//! The nodes that plans consist of, and the rules that keep them normalised.

use std::sync::Arc;

use memory::Displacements;

/// A list of bytes in packed order, around an origin.
///
/// Cloning is cheap: long lists and bodies are shared.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The offset added to all displacements inside, in bytes.
    pub displacement: isize,
    /// The number of bytes; never 0.
    pub size: usize,
    pub shape: NodeShape,
}

#[derive(Clone, Debug)]
pub(crate) enum NodeShape {
    /// All bytes in one run.
    Run,
    /// `body`, repeated at multiples of `stride`; the displacement of `body` is 0.
    Loop { count: usize, stride: isize, body: Arc<Node> },
    /// `body` at each of several places; the displacement of `body` is 0.
    Scattered { places: Displacements, body: Arc<Node> },
    /// Runs of different lengths: run `i` begins at packed byte `starts[i]` and ends where the next
    /// begins; there is one start more than runs, which is the end of the last one.
    Runs { displacements: Arc<[isize]>, starts: Arc<[usize]> },
    /// Different parts one after the other; `starts` has the meaning that it has for runs.
    Sequence { parts: Arc<[Node]>, starts: Arc<[usize]> },
}

/// The largest number of runs, and the largest average length of a run in bytes, up to which
/// walking a loop run by run is faster than turn by turn.
const FEW_RUNS: usize = 16;
const SHORT_RUN_BYTES: usize = 128;

impl Node {
    pub fn run(displacement: isize, size: usize) -> Self {
        Self { displacement, size, shape: NodeShape::Run }
    }

    pub fn shifted(&self, by: isize) -> Self {
        Self { displacement: self.displacement + by, ..self.clone() }
    }

    /// Returns an upper bound of the number of runs of bytes (neighbours may touch).
    pub fn runs(&self) -> usize {
        match &self.shape {
            NodeShape::Run => 1,
            NodeShape::Loop { count, body, .. } => count.saturating_mul(body.runs()),
            NodeShape::Scattered { places, body } => {
                places.list().len().saturating_mul(body.runs())
            }
            NodeShape::Runs { displacements, .. } => displacements.len(),
            NodeShape::Sequence { parts, .. } => {
                parts.iter().fold(0, |sum: usize, part| sum.saturating_add(part.runs()))
            }
        }
    }

    /// Returns how elements at a distance of `extent` repeat this node: as turns of the loop that
    /// it is, if each element continues the loop of the previous one, otherwise as the whole node.
    /// The result is the number of turns in one element (1: not a continued loop) and the distance
    /// between turns.
    pub fn continued(&self, extent: isize) -> (usize, isize) {
        match &self.shape {
            NodeShape::Loop { count, stride, .. }
                if stride.checked_mul(*count as isize) == Some(extent) =>
            {
                (*count, *stride)
            }
            _ => (1, extent),
        }
    }

    /// Returns a loop's body and the displacement of its first turn.
    pub fn body(&self) -> (&Node, isize) {
        match &self.shape {
            NodeShape::Loop { body, .. } => (body, self.displacement),
            _ => (self, 0),
        }
    }

    /// Whether it is a flat list of so few and so short runs that a loop over it should be walked
    /// run by run.
    pub fn has_few_short_runs(&self) -> bool {
        let runs = match &self.shape {
            NodeShape::Runs { displacements, .. } => displacements.len(),
            NodeShape::Loop { count, body, .. } if body.is_run() => *count,
            NodeShape::Scattered { places, body } if body.is_run() => places.list().len(),
            _ => return false,
        };
        runs <= FEW_RUNS && self.size / runs <= SHORT_RUN_BYTES
    }

    /// Calls `each` with displacement, length and packed offset of every run of a flat list.
    pub fn each_run(&self, mut each: impl FnMut(isize, usize, usize)) {
        match &self.shape {
            NodeShape::Runs { displacements, starts } => {
                for (at, ends) in displacements.iter().zip(starts.windows(2)) {
                    each(self.displacement + at, ends[1] - ends[0], ends[0]);
                }
            }
            NodeShape::Loop { count, stride, body } => {
                for turn in 0..*count {
                    let at = self.displacement + turn as isize * stride;
                    each(at, body.size, turn * body.size);
                }
            }
            NodeShape::Scattered { places, body } => {
                for (index, at) in places.list().iter().enumerate() {
                    each(self.displacement + at, body.size, index * body.size);
                }
            }
            NodeShape::Run | NodeShape::Sequence { .. } => unreachable!("not a flat list of runs"),
        }
    }

    fn is_run(&self) -> bool {
        matches!(self.shape, NodeShape::Run)
    }

    /// Returns this node `count` times at multiples of `stride`; `count` is not 0.
    pub fn repeated(self, count: usize, stride: isize) -> Self {
        if count == 1 {
            return self;
        }
        let size = self.size * count;
        if matches!(self.shape, NodeShape::Run) && stride == self.size as isize {
            return Self::run(self.displacement, size);
        }
        let displacement = self.displacement;
        let (turns, turn_stride) = self.continued(stride);
        if let (true, NodeShape::Loop { body, .. }) = (turns > 1, &self.shape) {
            let body = Arc::clone(body);
            let shape = NodeShape::Loop { count: turns * count, stride: turn_stride, body };
            return Self { displacement, size, shape };
        }
        let body = Arc::new(Self { displacement: 0, ..self });
        Self { displacement, size, shape: NodeShape::Loop { count, stride, body } }
    }

    /// Returns this node at each of `displacements`, of which there is at least one.
    pub fn scattered(self, displacements: Vec<isize>) -> Self {
        let first = displacements[0];
        if displacements.len() == 1 {
            return self.shifted(first);
        }
        if let Some(stride) = constant_stride(&displacements) {
            return self.repeated(displacements.len(), stride).shifted(first);
        }
        let displacement = self.displacement;
        let size = self.size * displacements.len();
        let body = Arc::new(Self { displacement: 0, ..self });
        let places = Displacements::new(displacements);
        Self { displacement, size, shape: NodeShape::Scattered { places, body } }
    }
}

fn constant_stride(displacements: &[isize]) -> Option<isize> {
    let stride = displacements[1] - displacements[0];
    displacements.windows(2).all(|pair| pair[1] - pair[0] == stride).then_some(stride)
}

/// Collects nodes in packed order and combines them into one.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    parts: Vec<Node>,
    /// The runs since the last part, merged where they touch.
    displacements: Vec<isize>,
    lengths: Vec<usize>,
}

impl Collector {
    pub fn push(&mut self, node: Node) {
        if !matches!(node.shape, NodeShape::Run) {
            let runs = self.end_runs();
            self.parts.extend(runs);
            self.parts.push(node);
            return;
        }
        if let (Some(displacement), Some(length)) =
            (self.displacements.last(), self.lengths.last_mut())
            && displacement + *length as isize == node.displacement
        {
            *length += node.size;
            return;
        }
        self.displacements.push(node.displacement);
        self.lengths.push(node.size);
    }

    /// Returns the combined node; `None` if nothing was pushed.
    pub fn finish(mut self) -> Option<Node> {
        let runs = self.end_runs();
        if self.parts.is_empty() {
            return runs;
        }
        self.parts.extend(runs);
        if self.parts.len() == 1 {
            return self.parts.pop();
        }
        let starts = starts_of(self.parts.iter().map(|part| part.size));
        let size = starts[self.parts.len()];
        let shape = NodeShape::Sequence { parts: self.parts.into(), starts };
        Some(Node { displacement: 0, size, shape })
    }

    /// Returns the runs since the last part as one node.
    fn end_runs(&mut self) -> Option<Node> {
        let displacements = std::mem::take(&mut self.displacements);
        let lengths = std::mem::take(&mut self.lengths);
        let length = *lengths.first()?;
        if lengths.iter().all(|&other| other == length) {
            return Some(Node::run(0, length).scattered(displacements));
        }
        let starts = starts_of(lengths.iter().copied());
        let size = starts[lengths.len()];
        let shape = NodeShape::Runs { displacements: displacements.into(), starts };
        Some(Node { displacement: 0, size, shape })
    }
}

fn starts_of(sizes: impl Iterator<Item = usize>) -> Arc<[usize]> {
    let mut sum = 0;
    let ends = sizes.map(|size| {
        sum += size;
        sum
    });
    // The length of the iterator is known, so this needs one allocation.
    std::iter::once(0).chain(ends).collect()
}
