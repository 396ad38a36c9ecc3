//! Determines which message a receive gets, as far as the order of messages and receives decides
//! it. Messages from one process with one tag arrive in the order in which they were sent. Receives
//! that match one message get their messages in the order in which they were posted.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::{CallSite, TypeSignature};

/// What the sender reports about a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentMessage {
    /// The rank of the sender in the communicator.
    pub source: u32,
    /// The tag.
    pub tag: i32,
    /// The number of this message among the messages that the sender has reported.
    pub number: u64,
    /// The number of bytes of data.
    pub bytes: u64,
    /// The types of the elements, if they are known.
    pub signature: Option<TypeSignature>,
    /// Whether it is a ready send: the program promises that the receive is posted already.
    pub is_ready: bool,
    /// Whether the sender waits for a report that a receive is posted for this message.
    pub awaits_receive: bool,
    /// The rank of the sender in the job.
    pub rank: u32,
    /// The call.
    pub site: CallSite,
}

/// The source and the tag that a receive accepts; `None` for any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveSelection {
    /// The rank in the communicator.
    pub source: Option<u32>,
    /// The tag.
    pub tag: Option<i32>,
}

/// The unmatched messages and receives of one communicator in one process.
#[derive(Debug, Default)]
pub struct MessageOrder {
    sent: BTreeMap<(u32, i32), VecDeque<SentMessage>>,
    posted: Vec<PostedReceive>,
    is_lost: bool,
    /// The messages whose senders must be informed that a receive is posted: the sender's rank in
    /// the job, and the number of the message.
    expected: Vec<(u32, u64)>,
}

#[derive(Debug)]
struct PostedReceive {
    number: u64,
    selection: ReceiveSelection,
    /// The source and the tag of the message that the receive got, once they are known.
    got: Option<(u32, i32)>,
}

impl ReceiveSelection {
    fn accepts(&self, source: u32, tag: i32) -> bool {
        self.source.is_none_or(|one| one == source) && self.tag.is_none_or(|one| one == tag)
    }

    /// Returns the source and the tag, if the receive names both.
    pub fn exact(&self) -> Option<(u32, i32)> {
        Some((self.source?, self.tag?))
    }
}

impl PostedReceive {
    fn may_get(&self, source: u32, tag: i32) -> bool {
        match self.got {
            None => self.selection.accepts(source, tag),
            Some(got) => got == (source, tag),
        }
    }
}

impl MessageOrder {
    /// Records a message that its sender has announced. Returns whether a posted receive may match
    /// it. If none is posted now, none was posted when the message was sent.
    pub fn add_received(&mut self, message: SentMessage) -> bool {
        let (source, tag) = (message.source, message.tag);
        let is_expected =
            self.is_lost || self.posted.iter().any(|receive| receive.may_get(source, tag));
        if !self.is_lost {
            self.sent.entry((source, tag)).or_default().push_back(message);
            self.expect();
        } else if message.awaits_receive {
            self.expected.push((message.rank, message.number));
        }
        is_expected
    }

    /// Removes a message that was announced but is not sent: the call failed, or the send was
    /// cancelled.
    pub fn forget(&mut self, source: u32, tag: i32, number: u64) {
        if let Some(messages) = self.sent.get_mut(&(source, tag)) {
            messages.retain(|message| message.number != number);
        }
    }

    /// Whether nothing is recorded that must be kept after the communicator is freed.
    pub fn is_empty(&self) -> bool {
        self.posted.is_empty() && self.sent.values().all(VecDeque::is_empty)
    }

    /// Records that the program posts a receive; `number` identifies the receive.
    pub fn post(&mut self, number: u64, selection: ReceiveSelection) {
        if !self.is_lost {
            self.posted.push(PostedReceive { number, selection, got: None });
            self.expect();
        }
    }

    /// Finds the messages for which a posted receive exists that matches or may match them, and
    /// notes those whose senders wait for that report.
    fn expect(&mut self) {
        for (&(source, tag), messages) in &mut self.sent {
            if messages.iter().all(|message| !message.awaits_receive) {
                continue;
            }
            let count = self.posted.iter().filter(|receive| receive.may_get(source, tag)).count();
            for message in messages.iter_mut().take(count) {
                if std::mem::take(&mut message.awaits_receive) {
                    self.expected.push((message.rank, message.number));
                }
            }
        }
    }

    /// Returns the messages (the sender's rank in the job, and the number of the message) for which
    /// a posted receive was found since the last call.
    pub fn take_expected(&mut self) -> Vec<(u32, u64)> {
        std::mem::take(&mut self.expected)
    }

    /// Records that no more receives will be posted, so that no sender waits for a report of a
    /// receive.
    pub fn close(&mut self) {
        for message in self.sent.values_mut().flatten() {
            if std::mem::take(&mut message.awaits_receive) {
                self.expected.push((message.rank, message.number));
            }
        }
    }

    /// Whether no receive is posted that may match this message.
    pub fn is_unexpected(&self, source: u32, tag: i32, number: u64) -> bool {
        let messages = self.sent.get(&(source, tag)).into_iter().flatten();
        messages.into_iter().any(|one| one.number == number && one.awaits_receive)
    }

    /// Returns the source that a receive names, if no message from there has arrived that the
    /// receive could match. `None` if the receive accepts any source, or if such a message has
    /// arrived.
    pub fn lacks(&self, number: u64) -> Option<u32> {
        let place = self.posted.iter().position(|receive| receive.number == number)?;
        let PostedReceive { selection, got: None, .. } = self.posted[place] else { return None };
        let source = selection.source?;
        let is_there = self.sent.iter().any(|(&(from, tag), messages)| {
            let sure = |one: &&PostedReceive| match one.got {
                None => one.selection.exact() == Some((from, tag)),
                Some(got) => got == (from, tag),
            };
            let ahead = || self.posted[..place].iter().filter(sure).count();
            selection.accepts(from, tag) && messages.len() > ahead()
        });
        (!is_there).then_some(source)
    }

    /// Records the source and the tag of the message that a receive got.
    pub fn resolve(&mut self, number: u64, source: u32, tag: i32) {
        if let Some(receive) = self.posted.iter_mut().find(|receive| receive.number == number) {
            receive.got = Some((source, tag));
        }
    }

    /// Removes a receive that ended without a message.
    pub fn withdraw(&mut self, number: u64) {
        self.posted.retain(|receive| receive.number != number);
    }

    /// Records that a receive got a message that cannot be identified. From now on the order is
    /// lost, and no more pairs are found.
    pub fn lose(&mut self) {
        self.close();
        let expected = self.take_expected();
        *self = Self { is_lost: true, expected, ..Self::default() };
    }

    /// Returns the pairs of receives and messages that are certain now, and removes them.
    pub fn pairs(&mut self) -> Vec<(u64, SentMessage)> {
        let mut pairs = Vec::new();
        for (&(source, tag), messages) in &mut self.sent {
            // The number of messages that certainly go to earlier receives whose message is not
            // known yet.
            let mut ahead = 0;
            let mut index = 0;
            while index < self.posted.len() && ahead < messages.len() {
                let receive = &self.posted[index];
                match receive.got {
                    Some(got) if got == (source, tag) => {
                        let number = self.posted.remove(index).number;
                        pairs.extend(messages.remove(ahead).map(|message| (number, message)));
                        continue;
                    }
                    None if receive.selection.exact() == Some((source, tag)) => ahead += 1,
                    None if receive.selection.accepts(source, tag) => break,
                    _ => {}
                }
                index += 1;
            }
        }
        self.sent.retain(|_, messages| !messages.is_empty());
        pairs
    }

    /// The messages that no receive has got and that no posted receive may get.
    pub fn left(&self) -> impl Iterator<Item = &SentMessage> {
        self.sent.iter().flat_map(|(&(source, tag), messages)| {
            let count = self.posted.iter().filter(|receive| receive.may_get(source, tag)).count();
            messages.iter().skip(count)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(source: u32, tag: i32, bytes: u64) -> SentMessage {
        let site = CallSite::default();
        let (number, rank) = (bytes, source);
        SentMessage {
            source,
            tag,
            number,
            bytes,
            signature: None,
            is_ready: false,
            awaits_receive: true,
            rank,
            site,
        }
    }

    fn selection(source: Option<u32>, tag: Option<i32>) -> ReceiveSelection {
        ReceiveSelection { source, tag }
    }

    fn found(order: &mut MessageOrder) -> Vec<(u64, u64)> {
        order.pairs().into_iter().map(|(number, message)| (number, message.bytes)).collect()
    }

    #[test]
    fn messages_with_one_tag_go_to_receives_in_the_order_of_posting() {
        let mut order = MessageOrder::default();
        (1..=3).for_each(|number| order.post(number, selection(Some(0), Some(7))));
        for bytes in 1..=3 {
            assert!(order.add_received(message(0, 7, bytes)));
        }
        order.resolve(2, 0, 7);
        assert_eq!(found(&mut order), [(2, 2)]);
        order.resolve(3, 0, 7);
        order.resolve(1, 0, 7);
        assert_eq!(found(&mut order), [(1, 1), (3, 3)]);
    }

    #[test]
    fn a_receive_from_anybody_keeps_later_ones_open() {
        let mut order = MessageOrder::default();
        order.post(1, selection(None, Some(7)));
        order.post(2, selection(Some(0), Some(7)));
        order.add_received(message(0, 7, 1));
        order.resolve(2, 0, 7);
        assert_eq!(found(&mut order), []);
        order.resolve(1, 4, 7);
        assert_eq!(found(&mut order), [(2, 1)]);
        order.add_received(message(4, 7, 9));
        assert_eq!(found(&mut order), [(1, 9)]);
        assert_eq!(order.left().count(), 0);
    }

    #[test]
    fn senders_hear_when_a_receive_is_posted_that_may_get_their_message() {
        let mut order = MessageOrder::default();
        (1..=3).for_each(|number| assert!(!order.add_received(message(0, 7, number))));
        assert!(order.is_unexpected(0, 7, 1));
        assert_eq!(order.take_expected(), []);
        order.post(1, selection(Some(0), Some(7)));
        assert_eq!(order.take_expected(), [(0, 1)]);
        assert!(!order.is_unexpected(0, 7, 1) && order.is_unexpected(0, 7, 2));
        order.post(2, selection(None, Some(7)));
        order.post(3, selection(Some(0), Some(8)));
        assert_eq!(order.take_expected(), [(0, 2)]);
        order.resolve(2, 5, 7);
        order.close();
        assert_eq!(order.take_expected(), [(0, 3)]);
        order.lose();
        order.add_received(message(0, 9, 4));
        assert_eq!(order.take_expected(), [(0, 4)], "nothing is known: nobody waits");
    }

    #[test]
    fn a_receive_lacks_its_message_only_if_no_order_of_matching_brings_it() {
        let mut order = MessageOrder::default();
        order.post(1, selection(Some(0), Some(7)));
        order.post(2, selection(Some(0), None));
        order.post(3, selection(None, Some(8)));
        assert_eq!([1, 2, 3].map(|number| order.lacks(number)), [Some(0), Some(0), None]);
        order.add_received(message(0, 7, 1));
        assert_eq!([1, 2].map(|number| order.lacks(number)), [None, Some(0)]);
        order.add_received(message(0, 8, 2));
        assert_eq!(order.lacks(2), None);
        order.lose();
        assert_eq!(order.lacks(1), None);
    }

    #[test]
    fn cancelled_receives_get_nothing_and_left_messages_are_known() {
        let mut order = MessageOrder::default();
        assert!(!order.add_received(message(1, 2, 5)));
        order.post(1, selection(None, None));
        order.withdraw(1);
        assert_eq!(found(&mut order), []);
        assert_eq!(order.left().map(|one| one.bytes).collect::<Vec<_>>(), [5]);
        order.post(2, selection(Some(1), None));
        assert_eq!(order.left().count(), 0, "the second receive may get it");
        order.withdraw(2);
        order.forget(1, 2, 5);
        assert!(order.is_empty());
        order.lose();
        assert_eq!(order.left().count(), 0);
        assert!(order.add_received(message(1, 2, 5)));
    }
}
