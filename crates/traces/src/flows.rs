//! Messages that are received in the order in which they were sent. An event that refers to a flow
//! by its place in a table needs a few bytes only.
//!
//! The first message of a flow in a chunk, and the next one after another flow has taken its place,
//! is recorded with all its fields; later ones refer to the place. The reader of a chunk fills its
//! table from the former, so a chunk can be read alone.

use crate::TracedMessage;
use crate::counts::RecentCounts;

/// What keeps the order of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Flow {
    context: u64,
    /// The peer, and the tag in the lower half.
    peer_and_tag: u64,
}

/// The number of places: a power of two, below 128.
const PLACES: usize = 64;

impl Flow {
    #[inline(always)]
    fn of(message: &TracedMessage) -> Self {
        let TracedMessage { context, peer, tag, .. } = *message;
        Self { context, peer_and_tag: u64::from(peer) << 32 | u64::from(tag as u32) }
    }

    /// Returns its place in the tables.
    #[inline(always)]
    fn place(self) -> usize {
        // An odd number with random-looking bits, of which the upper ones depend on all bits.
        let mixed =
            (self.context.rotate_left(29) ^ self.peer_and_tag).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> (u64::BITS - PLACES.ilog2())) as usize
    }
}

/// The flows of one direction, for the writer.
#[derive(Debug)]
pub(crate) struct Flows {
    places: [NumberedFlow; PLACES],
    /// The counts of the flows that have no place.
    others: RecentCounts<Flow>,
}

#[derive(Clone, Copy, Debug, Default)]
struct NumberedFlow {
    flow: Flow,
    /// The number of messages.
    count: u32,
    /// The number of the chunk that contains a message of the flow with all fields; 0 if the place
    /// is free.
    chunk: u32,
}

/// How a message is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageForm {
    /// With all fields; this is its number in its flow.
    Whole(u32),
    /// As the next one of the flow at this place.
    Next(u64),
}

impl Flows {
    pub(crate) fn new() -> Self {
        Self { places: [NumberedFlow::default(); PLACES], others: RecentCounts::default() }
    }

    /// Counts a message that is recorded in the chunk with this number, which is not 0.
    #[inline(always)]
    pub(crate) fn count(&mut self, message: &TracedMessage, chunk: u32) -> MessageForm {
        let flow = Flow::of(message);
        let place = flow.place();
        let known = &mut self.places[place];
        if known.flow == flow && known.chunk == chunk {
            known.count = known.count.wrapping_add(1);
            return MessageForm::Next(place as u64);
        }
        self.count_whole(flow, place, chunk)
    }

    #[inline(never)]
    fn count_whole(&mut self, flow: Flow, place: usize, chunk: u32) -> MessageForm {
        let last = self.places[place];
        let number = if last.chunk != 0 && last.flow == flow {
            last.count
        } else {
            // `set` may forget the count of a flow that has rested.
            let number = self.others.take(&flow);
            if last.chunk != 0 {
                self.others.set(last.flow, last.count);
            }
            number
        };
        self.places[place] = NumberedFlow { flow, count: number.wrapping_add(1), chunk };
        MessageForm::Whole(number)
    }
}

/// The flows of one direction, for the reader of a chunk: at each place the last message.
#[derive(Debug)]
pub(crate) struct ReadFlows([Option<TracedMessage>; PLACES]);

impl ReadFlows {
    pub(crate) fn new() -> Self {
        Self([None; PLACES])
    }

    /// Adds a message that was recorded with all fields.
    pub(crate) fn add(&mut self, message: TracedMessage) {
        self.0[Flow::of(&message).place()] = Some(message);
    }

    /// Returns the next message of the flow at a place; `None` if there is no flow.
    pub(crate) fn next(&mut self, place: u64, thread: u64, bytes: u64) -> Option<TracedMessage> {
        let message = self.0.get_mut(usize::try_from(place).ok()?)?.as_mut()?;
        message.number = message.number.wrapping_add(1);
        (message.thread, message.bytes) = (thread, bytes);
        Some(*message)
    }
}
