//! Which message a receive gets, as far as it follows from the order of both: messages from one
//! process with one tag arrive in the order in which they were sent, and receives that could get
//! the same message get theirs in the order in which they were posted.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::{CallSite, TypeSignature};

/// What the sender says of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentMessage {
    /// The rank of the sender in the communicator.
    pub source: u32,
    /// The tag.
    pub tag: i32,
    /// Its number among those that the sender has told of.
    pub number: u64,
    /// Bytes of data.
    pub bytes: u64,
    /// What the elements are, if that is known.
    pub signature: Option<TypeSignature>,
    /// The program promises that the receive is posted.
    pub is_ready: bool,
    /// The sender wants to know when a receive is posted for it.
    pub awaits_receive: bool,
    /// The rank of the sender in the job.
    pub rank: u32,
    /// The call.
    pub site: CallSite,
}

/// What a receive accepts: from one process or any, with one tag or any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveSelection {
    /// The rank in the communicator.
    pub source: Option<u32>,
    /// The tag.
    pub tag: Option<i32>,
}

/// The messages and receives of one communicator in one process that have not found each other.
#[derive(Debug, Default)]
pub struct MessageOrder {
    sent: BTreeMap<(u32, i32), VecDeque<SentMessage>>,
    posted: Vec<PostedReceive>,
    is_lost: bool,
    /// The messages whose senders are to know that a receive is posted.
    expected: Vec<(u32, u64)>,
}

#[derive(Debug)]
struct PostedReceive {
    number: u64,
    selection: ReceiveSelection,
    /// Whose message it got, since that is known.
    got: Option<(u32, i32)>,
}

impl ReceiveSelection {
    fn accepts(&self, source: u32, tag: i32) -> bool {
        self.source.is_none_or(|one| one == source) && self.tag.is_none_or(|one| one == tag)
    }

    /// The one process and the one tag, if it names both.
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
    /// A message is on its way. Whether a receive is posted that might get it: if there is none
    /// now, there was none when it was sent.
    pub fn hear(&mut self, message: SentMessage) -> bool {
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

    /// A message that was told of is not sent: the call failed, or the send was cancelled.
    pub fn forget(&mut self, source: u32, tag: i32, number: u64) {
        if let Some(messages) = self.sent.get_mut(&(source, tag)) {
            messages.retain(|message| message.number != number);
        }
    }

    /// Whether nothing is known that is to be kept, if the communicator is gone.
    pub fn is_empty(&self) -> bool {
        self.posted.is_empty() && self.sent.values().all(VecDeque::is_empty)
    }

    /// The program posts a receive, which has a number of its own.
    pub fn post(&mut self, number: u64, selection: ReceiveSelection) {
        if !self.is_lost {
            self.posted.push(PostedReceive { number, selection, got: None });
            self.expect();
        }
    }

    /// Notes of which messages a receive is posted that gets them, or may get them.
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

    /// The messages (the sender's rank in the job, and the number) of which it is known since the
    /// last time that a receive is posted for them.
    pub fn take_expected(&mut self) -> Vec<(u32, u64)> {
        std::mem::take(&mut self.expected)
    }

    /// No more receives will be posted: nobody shall wait for that.
    pub fn close(&mut self) {
        for message in self.sent.values_mut().flatten() {
            if std::mem::take(&mut message.awaits_receive) {
                self.expected.push((message.rank, message.number));
            }
        }
    }

    /// Whether no receive is posted that could get this message.
    pub fn is_unexpected(&self, source: u32, tag: i32, number: u64) -> bool {
        let messages = self.sent.get(&(source, tag)).into_iter().flatten();
        messages.into_iter().any(|one| one.number == number && one.awaits_receive)
    }

    /// The process, if it is one, from which nothing has come that this receive could get.
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

    /// It got a message from this process with this tag.
    pub fn resolve(&mut self, number: u64, source: u32, tag: i32) {
        if let Some(receive) = self.posted.iter_mut().find(|receive| receive.number == number) {
            receive.got = Some((source, tag));
        }
    }

    /// It got no message.
    pub fn withdraw(&mut self, number: u64) {
        self.posted.retain(|receive| receive.number != number);
    }

    /// A receive got a message, and it is not known which: from now on nothing is known.
    pub fn lose(&mut self) {
        self.close();
        let expected = self.take_expected();
        *self = Self { is_lost: true, expected, ..Self::default() };
    }

    /// The pairs of receives and messages that are known now, which are forgotten.
    pub fn pairs(&mut self) -> Vec<(u64, SentMessage)> {
        let mut pairs = Vec::new();
        for (&(source, tag), messages) in &mut self.sent {
            // Those that are sure to go to receives whose end is not known yet.
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

    /// The messages that no receive has got, nor may get that is posted.
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
            assert!(order.hear(message(0, 7, bytes)));
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
        order.hear(message(0, 7, 1));
        order.resolve(2, 0, 7);
        assert_eq!(found(&mut order), []);
        order.resolve(1, 4, 7);
        assert_eq!(found(&mut order), [(2, 1)]);
        order.hear(message(4, 7, 9));
        assert_eq!(found(&mut order), [(1, 9)]);
        assert_eq!(order.left().count(), 0);
    }

    #[test]
    fn senders_hear_when_a_receive_is_posted_that_may_get_their_message() {
        let mut order = MessageOrder::default();
        (1..=3).for_each(|number| assert!(!order.hear(message(0, 7, number))));
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
        order.hear(message(0, 9, 4));
        assert_eq!(order.take_expected(), [(0, 4)], "nothing is known: nobody waits");
    }

    #[test]
    fn a_receive_lacks_its_message_only_if_no_order_of_matching_brings_it() {
        let mut order = MessageOrder::default();
        order.post(1, selection(Some(0), Some(7)));
        order.post(2, selection(Some(0), None));
        order.post(3, selection(None, Some(8)));
        assert_eq!([1, 2, 3].map(|number| order.lacks(number)), [Some(0), Some(0), None]);
        order.hear(message(0, 7, 1));
        assert_eq!([1, 2].map(|number| order.lacks(number)), [None, Some(0)]);
        order.hear(message(0, 8, 2));
        assert_eq!(order.lacks(2), None);
        order.lose();
        assert_eq!(order.lacks(1), None);
    }

    #[test]
    fn cancelled_receives_get_nothing_and_left_messages_are_known() {
        let mut order = MessageOrder::default();
        assert!(!order.hear(message(1, 2, 5)));
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
        assert!(order.hear(message(1, 2, 5)));
    }
}
