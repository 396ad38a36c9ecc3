//! The counters of an engine, for tools.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use base::ContextId;

use crate::unexpected::IncomingMessage;

/// A number that only the engine's own thread changes, and that any thread may read at any time.
///
/// Changing it is a plain load, addition and store: no locked instruction.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

/// The present level of a quantity, and its highest level.
#[derive(Debug, Default)]
pub struct Watermark {
    now: Counter,
    highest: Counter,
}

/// The counters of an engine. A short cut costs a message one addition.
#[derive(Debug, Default)]
pub struct Counters {
    /// Messages sent by the short cut, each in a packet of its own.
    pub short_cuts: Counter,
    /// Messages sent by the short cut in fragments.
    pub fragmented: Counter,
    /// Eager messages that went through an outbox.
    pub eager_queued: Counter,
    /// Messages announced instead of sent immediately.
    pub announced: Counter,
    /// Bytes of announced messages.
    pub announced_bytes: Counter,
    /// Short messages that were announced because there was no credit.
    pub credit_stalls: Counter,
    /// Packets that a strategy planned.
    pub packets_planned: Counter,
    /// Those of them with messages of several contexts.
    pub packets_shared: Counter,
    /// Parts of large messages, each in a packet of its own or on a bulk track.
    pub parts_sent: Counter,
    /// Packets and parts that were posted once more because their rail was lost.
    pub sent_again: Counter,
    /// Packets that held one short message for a posted receive.
    pub lone_received: Counter,
    /// Packets that were parsed record by record, or whose message found no posted receive.
    pub packets_parsed: Counter,
    /// Eager messages received, or dropped, that did not come alone in their packet.
    pub eager_received: Counter,
    /// Announced messages that were matched with a receive.
    pub announced_received: Counter,
    /// Messages fetched from the sender's memory.
    pub fetched: Counter,
    /// Bytes of fetched messages.
    pub fetched_bytes: Counter,
    /// Messages received in parts.
    pub streamed: Counter,
    /// Bytes of messages received in parts.
    pub streamed_bytes: Counter,
    /// Large messages that the process sent to itself, copied without any packet.
    pub copied_locally: Counter,
    /// Messages that arrived before their receive was posted.
    pub unexpected_total: Counter,
    /// Unexpected messages: they have arrived, and their receive is not posted yet.
    pub unexpected: Watermark,
    /// Bytes of data that the unexpected messages hold.
    pub unexpected_bytes: Watermark,
    /// Messages that overtook others of their flow.
    pub overtakers: Counter,
    /// Records that arrived before their context was opened in this process.
    pub orphans: Counter,
    /// Open contexts.
    pub contexts: Watermark,
    /// Chunks in all outboxes.
    pub outbox: Watermark,
    /// The eager bytes that may be underway to each peer; set once.
    pub eager_credit: Counter,
    /// Eager bytes that receivers reported as consumed, including the cost of each message.
    pub(crate) credit_returned: Counter,
    /// Eager bytes that this process reported as consumed, including the cost of each message.
    pub(crate) credit_reported: Counter,
}

/// Receives notifications of events that are rare enough to be reported one by one.
pub trait Observer: fmt::Debug + Send + Sync {
    /// A message arrived in a context before its receive was posted.
    fn message_unexpected(&self, context: ContextId, message: &IncomingMessage);
}

/// Observes the messages that are matched with receives.
pub trait MatchObserver: fmt::Debug {
    /// A message was matched with its receive.
    fn message_matched(
        &self,
        context: ContextId,
        receive: MatchedReceive,
        message: &IncomingMessage,
    );

    /// A posted receive was cancelled: no message will be matched with it.
    fn receive_cancelled(&self, _context: ContextId, _receive: MatchedReceive) {}
}

/// A receive that was matched with a message, or was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchedReceive {
    /// The posting number, by which [`Engine::next_posting`](crate::Engine::next_posting) has
    /// announced it.
    pub order: u64,
    /// Whether it accepts messages of every source.
    pub from_any_source: bool,
}

impl Counter {
    /// Adds to the counter. Only one thread may change it.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.0.store(self.value().wrapping_add(amount), Ordering::Relaxed);
    }

    /// Returns the value.
    #[inline]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Watermark {
    /// Raises the level. Only one thread may change it.
    #[inline]
    pub fn rise(&self, amount: u64) {
        self.now.add(amount);
        if self.now.value() > self.highest.value() {
            self.highest.0.store(self.now.value(), Ordering::Relaxed);
        }
    }

    /// Lowers the level. Only one thread may change it.
    #[inline]
    pub fn fall(&self, amount: u64) {
        self.now.add(amount.wrapping_neg());
    }

    /// Returns the present level.
    pub fn now(&self) -> u64 {
        self.now.value()
    }

    /// Returns the highest level since the last call, and starts the next interval. Any thread may
    /// call it; a rise at that moment may be counted in either interval.
    pub fn take_highest(&self) -> u64 {
        self.highest.0.swap(self.now(), Ordering::Relaxed)
    }
}

impl Counters {
    /// Eager messages sent.
    pub fn eager_sent(&self) -> u64 {
        self.short_cuts.value() + self.fragmented.value() + self.eager_queued.value()
    }

    /// Eager messages received.
    pub fn eager_received(&self) -> u64 {
        self.lone_received.value() + self.eager_received.value()
    }

    /// Packets handed to rails.
    pub fn packets_sent(&self) -> u64 {
        self.short_cuts.value() + self.packets_planned.value() + self.parts_sent.value()
    }

    /// Packets taken from rails.
    pub fn packets_received(&self) -> u64 {
        self.lone_received.value() + self.packets_parsed.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_begins_at_the_level_of_that_moment() {
        let level = Watermark::default();
        level.rise(5);
        level.fall(3);
        assert_eq!((level.now(), level.take_highest()), (2, 5));
        assert_eq!(level.take_highest(), 2);
        level.rise(1);
        level.fall(3);
        assert_eq!((level.now(), level.take_highest(), level.take_highest()), (0, 3, 0));
    }
}
