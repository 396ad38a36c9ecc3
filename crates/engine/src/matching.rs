//! Matching: decides which receive gets which message.
//!
//! Each context has two sides, posted receives and unexpected messages. Both are kept in bins by
//! (source, tag), so that an exact match is found in O(1) with thousands waiting. Receives with a
//! wildcard are in a list of their own; a posting number decides between the first exact and the
//! first wildcard receive. Unexpected messages are also in one list by arrival, which wildcard
//! receives search. MPI 5.0, section 3.5: messages of one source do not overtake, and are matched
//! in the order in which they were sent.

use base::ContextId;

use crate::list::{Chain, List};
use crate::request::{ANY_SOURCE, ANY_TAG};
use crate::requests::Requests;
use crate::slab::NONE;
use crate::unexpected::{BY_ARRIVAL, BY_BIN, UnexpectedMessages};

/// The matching state of one context.
#[derive(Debug)]
pub(crate) struct Matching {
    pub id: ContextId,
    /// The own rank in the context.
    pub rank: u32,
    posted: Bins<0>,
    posted_wild: List<0>,
    /// The number of receives in `posted_wild`.
    posted_wild_held: usize,
    arrived: Bins<BY_BIN>,
    by_arrival: List<BY_ARRIVAL>,
    postings: u64,
}

/// The source and tag that a receive or probe selects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selector {
    pub source: u32,
    pub tag: i32,
}

impl Selector {
    #[inline]
    fn accepts(self, source: u32, tag: i32) -> bool {
        (self.source == source || self.source == ANY_SOURCE)
            && (self.tag == tag || self.tag == ANY_TAG)
    }

    fn is_wild(self) -> bool {
        self.source == ANY_SOURCE || self.tag == ANY_TAG
    }
}

impl Matching {
    /// The offset of the number of the unexpected message that arrived first.
    pub(crate) const FIRST_ARRIVED: usize =
        std::mem::offset_of!(Self, by_arrival) + List::<BY_ARRIVAL>::FIRST;

    pub(crate) fn new(id: ContextId, rank: u32) -> Self {
        Self {
            id,
            rank,
            posted: Bins::new(),
            posted_wild: List::EMPTY,
            posted_wild_held: 0,
            arrived: Bins::new(),
            by_arrival: List::EMPTY,
            postings: 0,
        }
    }

    /// Returns the posting number for the next receive that is posted.
    #[inline(always)]
    pub(crate) fn next_order(&mut self) -> u64 {
        self.postings += 1;
        self.postings
    }

    /// Returns the number that [`next_order`](Self::next_order) returns next.
    pub(crate) fn next_posting(&self) -> u64 {
        self.postings + 1
    }

    /// Adds a receive that matches no unexpected message.
    #[inline(always)]
    pub(crate) fn post(&mut self, requests: &mut Requests, index: u32) {
        let request = &requests[index];
        if request.is_wild() {
            self.posted_wild_held += 1;
            self.posted_wild.push_back(requests, index);
        } else {
            let (source, tag) = (request.source, request.tag);
            self.posted
                .push_back(requests, index, (source, tag), |request| (request.source, request.tag));
        }
    }

    /// Returns the number of posted receives.
    pub(crate) fn posted_count(&self) -> usize {
        self.posted.held + self.posted_wild_held
    }

    /// Removes a posted receive.
    pub(crate) fn withdraw(&mut self, requests: &mut Requests, index: u32) {
        let request = &requests[index];
        if request.is_wild() {
            self.posted_wild_held -= 1;
            self.posted_wild.remove(requests, index);
        } else {
            let key = (request.source, request.tag);
            self.posted.remove(requests, index, key);
        }
    }

    /// Takes out and returns the receive that matches a message from `source` with `tag`.
    #[inline(always)]
    pub(crate) fn match_posted(
        &mut self,
        requests: &mut Requests,
        source: u32,
        tag: i32,
    ) -> Option<u32> {
        let bin = self.posted.bin((source, tag));
        let mut exact = self.posted.lists[bin].first;
        while exact != NONE {
            let request = &requests[exact];
            if request.source == source && request.tag == tag {
                break;
            }
            exact = request.links.next;
        }
        if self.posted_wild.first != NONE {
            return self.match_with_wildcards(requests, exact, source, tag);
        }
        if exact == NONE {
            return None;
        }
        self.posted.remove_from(bin, requests, exact);
        Some(exact)
    }

    #[inline(never)]
    fn match_with_wildcards(
        &mut self,
        requests: &mut Requests,
        exact: u32,
        source: u32,
        tag: i32,
    ) -> Option<u32> {
        let mut wild = self.posted_wild.first;
        while wild != NONE {
            let request = &requests[wild];
            let selector = Selector { source: request.source, tag: request.tag };
            if selector.accepts(source, tag) {
                break;
            }
            wild = request.links.next;
        }
        let exact_first =
            wild == NONE || exact != NONE && requests[exact].order() < requests[wild].order();
        if exact_first {
            if exact == NONE {
                return None;
            }
            self.posted.remove(requests, exact, (source, tag));
            Some(exact)
        } else {
            self.posted_wild_held -= 1;
            self.posted_wild.remove(requests, wild);
            Some(wild)
        }
    }

    /// Returns the posted receives with wildcards, in the order of posting.
    pub(crate) fn posted_wild(&self, requests: &Requests) -> Vec<u32> {
        let mut all = Vec::new();
        let mut index = self.posted_wild.first;
        while index != NONE {
            all.push(index);
            index = requests[index].links.next;
        }
        all
    }

    /// Whether this receive, which has no wildcards, comes before every other posted receive that
    /// could match its messages.
    pub(crate) fn is_first(&self, requests: &Requests, index: u32) -> bool {
        let (source, tag) = (requests[index].source, requests[index].tag);
        let accepts = |other: u32| {
            let request = &requests[other];
            Selector { source: request.source, tag: request.tag }.accepts(source, tag)
        };
        let first_of = |list: u32| {
            let mut place = list;
            while place != NONE && !accepts(place) {
                place = requests[place].links.next;
            }
            place
        };
        let exact = first_of(self.posted.first((source, tag)));
        exact == index && first_of(self.posted_wild.first) == NONE
    }

    /// Adds a message for which no receive is posted.
    pub(crate) fn arrive(&mut self, messages: &mut UnexpectedMessages, index: u32) {
        self.by_arrival.push_back(messages, index);
        let key = (messages[index].source, messages[index].tag);
        self.arrived.push_back(messages, index, key, |message| (message.source, message.tag));
    }

    /// Returns the first message that `selector` accepts. The message stays in the lists.
    #[inline(always)]
    pub(crate) fn find_arrived(
        &self,
        messages: &UnexpectedMessages,
        selector: Selector,
    ) -> Option<u32> {
        if self.by_arrival.first == NONE { None } else { self.search_arrived(messages, selector) }
    }

    #[inline(never)]
    fn search_arrived(&self, messages: &UnexpectedMessages, selector: Selector) -> Option<u32> {
        let wild = selector.is_wild();
        let mut index = if wild {
            self.by_arrival.first
        } else {
            self.arrived.first((selector.source, selector.tag))
        };
        while index != NONE {
            let message = &messages[index];
            if selector.accepts(message.source, message.tag) {
                return Some(index);
            }
            index = if wild { message.arrival.next } else { message.bin.next };
        }
        None
    }

    /// Takes a message out of the lists; its place in the store stays occupied.
    pub(crate) fn take_arrived(&mut self, messages: &mut UnexpectedMessages, index: u32) {
        self.by_arrival.remove(messages, index);
        let key = (messages[index].source, messages[index].tag);
        self.arrived.remove(messages, index, key);
    }

    /// Returns all unexpected messages, in the order of arrival.
    pub(crate) fn arrived(&self, messages: &UnexpectedMessages) -> Vec<u32> {
        let mut all = Vec::new();
        let mut index = self.by_arrival.first;
        while index != NONE {
            all.push(index);
            index = messages[index].arrival.next;
        }
        all
    }
}

/// Lists by a hash of (source, tag). The number of lists grows with the number of their elements.
#[derive(Debug)]
struct Bins<const WHICH: usize> {
    lists: Box<[List<WHICH>]>,
    held: usize,
}

const BINS_AT_FIRST: usize = 8;

impl<const WHICH: usize> Bins<WHICH> {
    fn new() -> Self {
        Self { lists: vec![List::EMPTY; BINS_AT_FIRST].into(), held: 0 }
    }

    #[inline(always)]
    fn bin(&self, (source, tag): (u32, i32)) -> usize {
        let mixed =
            (u64::from(source) << 32 | u64::from(tag as u32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize & (self.lists.len() - 1)
    }

    #[inline]
    fn first(&self, key: (u32, i32)) -> u32 {
        self.lists[self.bin(key)].first
    }

    #[inline]
    fn push_back<S, T>(
        &mut self,
        store: &mut S,
        index: u32,
        key: (u32, i32),
        key_of: fn(&T) -> (u32, i32),
    ) where
        S: std::ops::IndexMut<u32, Output = T>,
        T: Chain<WHICH>,
    {
        if self.held > 2 * self.lists.len() {
            self.grow(store, key_of);
        }
        self.held += 1;
        let bin = self.bin(key);
        self.lists[bin].push_back(store, index);
    }

    #[inline]
    fn remove<S>(&mut self, store: &mut S, index: u32, key: (u32, i32))
    where
        S: std::ops::IndexMut<u32, Output: Chain<WHICH>>,
    {
        self.remove_from(self.bin(key), store, index);
    }

    #[inline(always)]
    fn remove_from<S>(&mut self, bin: usize, store: &mut S, index: u32)
    where
        S: std::ops::IndexMut<u32, Output: Chain<WHICH>>,
    {
        self.held -= 1;
        self.lists[bin].remove(store, index);
    }

    /// Makes four times as many lists. The elements of one key keep their order.
    #[cold]
    fn grow<S, T>(&mut self, store: &mut S, key_of: fn(&T) -> (u32, i32))
    where
        S: std::ops::IndexMut<u32, Output = T>,
        T: Chain<WHICH>,
    {
        let more = vec![List::EMPTY; self.lists.len() * 4].into();
        let old = std::mem::replace(&mut self.lists, more);
        for list in old {
            let mut index = list.first;
            while index != NONE {
                let next = store[index].links().next;
                let bin = self.bin(key_of(&store[index]));
                self.lists[bin].push_back(store, index);
                index = next;
            }
        }
    }
}
