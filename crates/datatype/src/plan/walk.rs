//! Walks a node: passes every byte of a packed range to a sink, in packed order.

use std::ops::Range;

use memory::Displacements;

use crate::plan::node::{Node, NodeShape};

/// Processes the bytes of a walk. Methods return false to end the walk.
pub(crate) trait RunSink {
    /// Whether bytes may be passed out of packed order, by `interleaved`.
    const INTERLEAVES: bool;

    /// Processes one run of bytes.
    fn run(&mut self, displacement: isize, length: usize) -> bool;

    /// Processes `count` runs of `block` bytes at a distance of `stride`.
    fn strided(&mut self, displacement: isize, stride: isize, block: usize, count: usize) -> bool;

    /// Processes runs of `block` bytes at `origin` plus each of a range of `places`.
    fn listed(
        &mut self,
        origin: isize,
        places: &Displacements,
        range: Range<usize>,
        block: usize,
    ) -> bool;

    /// Processes runs at `origin` plus each of `displacements`; the length of a run is the distance
    /// between its start and the next one in `starts`.
    fn runs(&mut self, origin: isize, displacements: &[isize], starts: &[usize]) -> bool;

    /// Processes runs that have one distance in memory and another one in packed bytes.
    fn interleaved(&mut self, runs: Interleaved);

    /// Advances by `length` packed bytes, all of which have been passed.
    fn advance(&mut self, length: usize);
}

/// `count` runs of `block` bytes: run `i` lies at `displacement + i * stride` in memory, and at
/// `start + i * packed_stride` in the remaining packed bytes.
pub(crate) struct Interleaved {
    pub displacement: isize,
    pub stride: isize,
    pub block: usize,
    pub count: usize,
    pub start: usize,
    pub packed_stride: usize,
}

/// Returns how many turns of a loop are walked run by run in one step: enough to make the cost of a
/// step small, few enough that the next run finds their cache lines in the cache.
fn turns_at_once(stride: isize) -> usize {
    const CACHED_BYTES: usize = 12 << 10;
    (CACHED_BYTES / stride.unsigned_abs().max(1)).clamp(32, 512)
}

/// Walks `length` bytes from packed byte `skip` on, of `body` repeated endlessly from `origin` at a
/// distance of `stride`. `length` is not 0.
pub(crate) fn walk_repeated<S: RunSink>(
    body: &Node,
    stride: isize,
    origin: isize,
    skip: usize,
    length: usize,
    sink: &mut S,
) -> bool {
    let turn = skip / body.size;
    let (head, full, tail) = split(skip - turn * body.size, length, body.size);
    let mut at = origin + turn as isize * stride;
    if let Some((skip, length)) = head {
        if !walk(body, at, skip, length, sink) {
            return false;
        }
        at = at.wrapping_add(stride);
    }
    if full > 0 && !walk_turns(body, full, stride, at, sink) {
        return false;
    }
    tail == 0 || walk(body, at + full as isize * stride, 0, tail, sink)
}

/// Walks `length` bytes of `node` from packed byte `skip` on. `length` is not 0.
pub(crate) fn walk<S: RunSink>(
    node: &Node,
    origin: isize,
    skip: usize,
    length: usize,
    sink: &mut S,
) -> bool {
    let origin = origin + node.displacement;
    match &node.shape {
        NodeShape::Run => sink.run(origin + skip as isize, length),
        NodeShape::Loop { stride, body, .. } => {
            walk_repeated(body, *stride, origin, skip, length, sink)
        }
        NodeShape::Scattered { places, body } => {
            walk_scattered(places, body, origin, skip, length, sink)
        }
        NodeShape::Runs { displacements, starts } => {
            walk_runs(displacements, starts, origin, skip, length, sink)
        }
        NodeShape::Sequence { parts, starts } => {
            let (end, first) = (skip + length, containing(starts, skip));
            let whole = |index: usize| skip <= starts[index] && starts[index + 1] <= end;
            for (index, part) in parts.iter().enumerate().skip(first) {
                let start = starts[index];
                if start >= end {
                    break;
                }
                let goes_on = if whole(index) {
                    walk_whole(part, origin, sink)
                } else {
                    let from = skip.max(start) - start;
                    walk(part, origin, from, end.min(starts[index + 1]) - start - from, sink)
                };
                if !goes_on {
                    return false;
                }
            }
            true
        }
    }
}

/// Walks all bytes of `node`.
fn walk_whole<S: RunSink>(node: &Node, origin: isize, sink: &mut S) -> bool {
    let origin = origin + node.displacement;
    match &node.shape {
        NodeShape::Run => sink.run(origin, node.size),
        NodeShape::Loop { count, stride, body } => walk_turns(body, *count, *stride, origin, sink),
        NodeShape::Scattered { places, body } => {
            walk_places(places, 0..places.list().len(), body, origin, sink)
        }
        NodeShape::Runs { displacements, starts } => sink.runs(origin, displacements, starts),
        NodeShape::Sequence { parts, .. } => {
            parts.iter().all(|part| walk_whole(part, origin, sink))
        }
    }
}

/// Walks `count` whole turns of a loop.
pub(crate) fn walk_turns<S: RunSink>(
    body: &Node,
    count: usize,
    stride: isize,
    origin: isize,
    sink: &mut S,
) -> bool {
    if let NodeShape::Run = body.shape {
        return sink.strided(origin + body.displacement, stride, body.size, count);
    }
    if S::INTERLEAVES && count > 2 && body.has_few_short_runs() {
        walk_interleaved(body, count, stride, origin, sink);
        return true;
    }
    (0..count as isize).all(|turn| walk_whole(body, origin + turn * stride, sink))
}

/// Walks `count` turns of a body with few short runs: all first runs, all second runs…
fn walk_interleaved<S: RunSink>(
    body: &Node,
    count: usize,
    stride: isize,
    origin: isize,
    sink: &mut S,
) {
    let step = turns_at_once(stride);
    for first in (0..count).step_by(step) {
        let count = step.min(count - first);
        let at = origin + first as isize * stride;
        let packed_stride = body.size;
        body.each_run(|displacement, block, start| {
            let displacement = at + displacement;
            sink.interleaved(Interleaved {
                displacement,
                stride,
                block,
                count,
                start,
                packed_stride,
            });
        });
        sink.advance(count * body.size);
    }
}

/// Walks all bytes of `body` at each of a range of `places`.
fn walk_places<S: RunSink>(
    places: &Displacements,
    range: Range<usize>,
    body: &Node,
    origin: isize,
    sink: &mut S,
) -> bool {
    if let NodeShape::Run = body.shape {
        return sink.listed(origin + body.displacement, places, range, body.size);
    }
    places.list()[range].iter().all(|displacement| walk_whole(body, origin + displacement, sink))
}

fn walk_scattered<S: RunSink>(
    places: &Displacements,
    body: &Node,
    origin: isize,
    skip: usize,
    length: usize,
    sink: &mut S,
) -> bool {
    let mut place = skip / body.size;
    let (head, full, tail) = split(skip - place * body.size, length, body.size);
    if let Some((skip, length)) = head {
        if !walk(body, origin + places.list()[place], skip, length, sink) {
            return false;
        }
        place += 1;
    }
    let last = place + full;
    if full > 0 && !walk_places(places, place..last, body, origin, sink) {
        return false;
    }
    tail == 0 || walk(body, origin + places.list()[last], 0, tail, sink)
}

fn walk_runs<S: RunSink>(
    displacements: &[isize],
    starts: &[usize],
    origin: isize,
    skip: usize,
    length: usize,
    sink: &mut S,
) -> bool {
    let end = skip + length;
    let mut first = containing(starts, skip);
    let last = containing(starts, end);
    if starts[first] < skip {
        let into = skip - starts[first];
        let part = end.min(starts[first + 1]) - skip;
        if !sink.run(origin + displacements[first] + into as isize, part) {
            return false;
        }
        if first == last {
            return true;
        }
        first += 1;
    }
    let whole = first < last;
    if whole && !sink.runs(origin, &displacements[first..last], &starts[first..=last]) {
        return false;
    }
    starts[last] == end || sink.run(origin + displacements[last], end - starts[last])
}

/// Returns the index of the part in which packed byte `offset` lies; the number of parts at the
/// end.
fn containing(starts: &[usize], offset: usize) -> usize {
    starts.partition_point(|&start| start <= offset) - 1
}

/// Divides `length` bytes, which begin `skip` bytes into a body of `size`. Returns the rest of the
/// first body (its begin and length) if it is not whole, the number of whole bodies, and the number
/// of bytes of the last one.
fn split(skip: usize, length: usize, size: usize) -> (Option<(usize, usize)>, usize, usize) {
    if skip == 0 {
        return (None, length / size, length % size);
    }
    let head = length.min(size - skip);
    let rest = length - head;
    (Some((skip, head)), rest / size, rest % size)
}
