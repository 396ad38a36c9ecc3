//! The reference matcher: it follows the text of the standard, without any index.
//!
//! MPI 5.0, section 3.5: messages of one process do not overtake each other, and a receive that was
//! posted earlier matches first.

/// The sender's rank and the tag that a receive or probe selects; `None` is a wildcard.
pub(crate) type Selector = (Option<u32>, Option<i32>);

/// The label of a message that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArrivedLabel {
    /// Its number in the world.
    pub message: usize,
    /// The sender's rank in the context.
    pub source: u32,
    pub tag: i32,
    /// Its sequence number in the stream of its sender.
    pub sequence: u32,
}

/// A consequence of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// A posted receive matched a message.
    Matched { message: usize, receive: usize },
    /// A message was withdrawn by its sender.
    Withdrawn { message: usize },
}

/// One context of one process.
#[derive(Debug)]
pub(crate) struct Space {
    open: bool,
    first_sequence: u32,
    /// Everything that arrived before the context was open.
    waiting: Vec<WaitingReceive>,
    posted: Vec<(usize, Selector)>,
    unexpected: Vec<ArrivedLabel>,
    streams: Vec<MessageStream>,
}

#[derive(Clone, Copy, Debug)]
enum WaitingReceive {
    Arrival(ArrivedLabel),
    Cancel(usize),
}

#[derive(Debug)]
struct MessageStream {
    source: u32,
    next: u32,
    early: Vec<ArrivedLabel>,
}

impl Space {
    pub(crate) fn new(first_sequence: u32) -> Self {
        Self {
            open: false,
            first_sequence,
            waiting: Vec::new(),
            posted: Vec::new(),
            unexpected: Vec::new(),
            streams: Vec::new(),
        }
    }

    /// Opens the context. Messages that waited for that arrive now.
    pub(crate) fn open(&mut self) -> Vec<Fact> {
        self.open = true;
        let mut facts = Vec::new();
        for waiting in std::mem::take(&mut self.waiting) {
            match waiting {
                WaitingReceive::Arrival(label) => facts.extend(self.arrive(label)),
                WaitingReceive::Cancel(message) => facts.extend(self.cancel(message)),
            }
        }
        facts
    }

    /// Whether a posted receive for this source and tag stands behind a wildcard receive that
    /// accepts these messages too.
    pub(crate) fn is_behind_wildcard(&self, receive: usize, (source, tag): (u32, i32)) -> bool {
        let before = self.posted.iter().take_while(|(posted, _)| *posted != receive);
        before.clone().count() < self.posted.len()
            && before.clone().any(|(_, selector)| {
                (selector.0.is_none() || selector.1.is_none())
                    && selector.0.is_none_or(|wanted| wanted == source)
                    && selector.1.is_none_or(|wanted| wanted == tag)
            })
    }

    /// Processes the arrival of a message, which may be out of order.
    pub(crate) fn arrive(&mut self, label: ArrivedLabel) -> Vec<Fact> {
        if !self.open {
            self.waiting.push(WaitingReceive::Arrival(label));
            return Vec::new();
        }
        let found = self.streams.iter().position(|stream| stream.source == label.source);
        let at = found.unwrap_or_else(|| {
            let next = self.first_sequence;
            self.streams.push(MessageStream { source: label.source, next, early: Vec::new() });
            self.streams.len() - 1
        });
        self.streams[at].early.push(label);
        let mut facts = Vec::new();
        loop {
            let MessageStream { next, early, .. } = &mut self.streams[at];
            let Some(found) = early.iter().position(|label| label.sequence == *next) else {
                return facts;
            };
            let label = early.remove(found);
            *next = next.wrapping_add(1);
            facts.extend(self.deliver(label));
        }
    }

    fn deliver(&mut self, label: ArrivedLabel) -> Option<Fact> {
        match self.posted.iter().position(|(_, selector)| accepts(*selector, &label)) {
            Some(at) => {
                let (receive, _) = self.posted.remove(at);
                Some(Fact::Matched { message: label.message, receive })
            }
            None => {
                self.unexpected.push(label);
                None
            }
        }
    }

    /// Whether a posted receive accepts a message from this source with this tag.
    pub(crate) fn is_awaited(&self, source: u32, tag: i32) -> bool {
        let label = ArrivedLabel { message: 0, source, tag, sequence: 0 };
        self.posted.iter().any(|(_, selector)| accepts(*selector, &label))
    }

    /// Processes a sender's request to cancel a message.
    pub(crate) fn cancel(&mut self, message: usize) -> Option<Fact> {
        let is_it = |label: &ArrivedLabel| label.message == message;
        let waits = |waiting: &WaitingReceive| matches!(waiting, WaitingReceive::Arrival(label) if is_it(label));
        if self.waiting.iter().any(waits) {
            self.waiting.push(WaitingReceive::Cancel(message));
            return None;
        }
        let at = self.unexpected.iter().position(is_it)?;
        self.unexpected.remove(at);
        Some(Fact::Withdrawn { message })
    }

    /// Posts a receive. Returns the message that it matches immediately, if there is one.
    pub(crate) fn post(&mut self, receive: usize, selector: Selector) -> Option<usize> {
        let found = self.take(selector);
        if found.is_none() {
            self.posted.push((receive, selector));
        }
        found.map(|label| label.message)
    }

    /// The message that a probe finds.
    pub(crate) fn find(&self, selector: Selector) -> Option<ArrivedLabel> {
        self.unexpected.iter().find(|label| accepts(selector, label)).copied()
    }

    /// Takes the message that a matched probe finds.
    pub(crate) fn take(&mut self, selector: Selector) -> Option<ArrivedLabel> {
        let at = self.unexpected.iter().position(|label| accepts(selector, label))?;
        Some(self.unexpected.remove(at))
    }

    /// Cancels a receive. Returns false if it had already matched a message.
    pub(crate) fn withdraw(&mut self, receive: usize) -> bool {
        let at = self.posted.iter().position(|(posted, _)| *posted == receive);
        at.map(|at| self.posted.remove(at)).is_some()
    }

    /// The number of messages that wait for earlier messages or for the context.
    pub(crate) fn early(&self) -> usize {
        self.waiting.len() + self.streams.iter().map(|stream| stream.early.len()).sum::<usize>()
    }
}

fn accepts((source, tag): Selector, label: &ArrivedLabel) -> bool {
    source.is_none_or(|source| source == label.source) && tag.is_none_or(|tag| tag == label.tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(message: usize, source: u32, tag: i32, sequence: u32) -> ArrivedLabel {
        ArrivedLabel { message, source, tag, sequence }
    }

    #[test]
    fn order_is_kept_across_arrival_and_opening() {
        let mut space = Space::new(u32::MAX);
        assert_eq!(space.arrive(label(1, 0, 5, 0)), []);
        assert_eq!(space.arrive(label(0, 0, 5, u32::MAX)), []);
        assert_eq!(space.open(), []);
        assert_eq!(
            (space.post(7, (None, Some(6))), space.post(8, (Some(0), None))),
            (None, Some(0))
        );
        assert_eq!(space.post(9, (Some(0), Some(5))), Some(1));
        let matched = Fact::Matched { message: 2, receive: 7 };
        assert_eq!(space.arrive(label(2, 1, 6, u32::MAX)), [matched]);
        assert!(!space.withdraw(7));
    }
}
