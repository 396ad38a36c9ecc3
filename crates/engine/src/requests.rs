//! The requests of an engine.

use base::GateId;
use memory::Buffer;

use crate::flow::ContextSlot;
use crate::request::{Completion, Outcome, Owner, Request, RequestId, SendCompletion};
use crate::slab::{NONE, SlabKey};

/// All requests of an engine, in numbered places with generations. A place's generation changes
/// when its request is forgotten, so that an old id never matches a new request. Places are reused,
/// the last freed first. A request is constructed in its place: the fast path moves none.
#[derive(Debug)]
pub(crate) struct Requests {
    places: Vec<Request>,
    /// The first free place; each free place links to the next.
    free: u32,
}

impl Requests {
    /// The offset of the vector of places.
    pub(crate) const PLACES: usize = std::mem::offset_of!(Self, places);

    pub(crate) fn new() -> Self {
        Self { places: Vec::new(), free: NONE }
    }

    /// Adds a posted receive with the posting number `order`. Returns its place.
    #[inline(always)]
    pub(crate) fn receive(
        &mut self,
        context: ContextSlot,
        (source, tag): (u32, i32),
        buffer: Buffer,
        order: u64,
    ) -> u32 {
        let index = self.free;
        let Some(request) = self.places.get_mut(index as usize) else {
            self.grow();
            return self.receive(context, (source, tag), buffer, order);
        };
        self.free = request.links.next;
        request.occupy(context, (source, tag), buffer);
        request.post(order);
        index
    }

    /// Returns the id that the next send gets.
    pub(crate) fn next_id(&mut self) -> RequestId {
        if self.free == NONE {
            self.grow();
        }
        self.id(self.free)
    }

    /// Adds a send to a gate, with message number `sequence` in the flow to rank `peer`. Returns
    /// its place.
    pub(crate) fn send(
        &mut self,
        context: ContextSlot,
        (source, tag): (u32, i32),
        (gate, peer, sequence): (GateId, u32, u32),
        mode: SendCompletion,
        buffer: Buffer,
    ) -> u32 {
        if self.free == NONE {
            self.grow();
        }
        let index = self.free;
        let request = &mut self.places[index as usize];
        self.free = request.links.next;
        request.occupy(context, (source, tag), buffer);
        request.gate = gate;
        request.queue(peer, sequence, mode);
        index
    }

    #[cold]
    fn grow(&mut self) {
        let index = u32::try_from(self.places.len()).expect("fewer than 2^32 requests");
        assert!(index != NONE, "all numbers of requests are taken");
        self.places.push(Request::free());
        self.free = index;
    }

    /// Frees the place of a complete request.
    #[inline(always)]
    fn discard(&mut self, index: u32) {
        let request = &mut self.places[index as usize];
        request.forget();
        request.links.next = self.free;
        self.free = index;
    }

    #[inline]
    pub(crate) fn get(&self, id: RequestId) -> Option<&Request> {
        let request = self.places.get(id.0.index as usize)?;
        let same = request.generation == id.0.generation && !request.is_free();
        same.then_some(request)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: RequestId) -> Option<&mut Request> {
        let request = self.places.get_mut(id.0.index as usize)?;
        let same = request.generation == id.0.generation && !request.is_free();
        same.then_some(request)
    }

    /// Returns the request that a word on the wire names.
    pub(crate) fn by_word(&self, word: u64) -> Option<&Request> {
        self.get(RequestId::from_u64(word))
    }

    pub(crate) fn is_posted(&self, id: RequestId) -> bool {
        self.get(id).is_some_and(Request::is_posted)
    }

    #[inline]
    pub(crate) fn is_complete(&self, id: RequestId) -> bool {
        self.get(id).is_none_or(Request::is_complete)
    }

    #[inline]
    pub(crate) fn id(&self, index: u32) -> RequestId {
        RequestId(SlabKey { index, generation: self.places[index as usize].generation })
    }

    /// Frees a request that has become complete if the program has detached it.
    #[inline]
    pub(crate) fn discard_if_detached(&mut self, index: u32) {
        let request = &self.places[index as usize];
        debug_assert!(request.is_complete(), "it has become complete");
        if request.owner == Owner::Nobody {
            self.discard(index);
        }
    }

    /// Returns the outcome of a complete request, and frees it; `None` if it is not complete.
    #[inline(always)]
    pub(crate) fn take(&mut self, id: RequestId) -> Option<Outcome> {
        let place = self.places.get(id.0.index as usize);
        let outcome = place.filter(|request| request.generation == id.0.generation)?.outcome()?;
        self.discard(id.0.index);
        Some(outcome)
    }

    /// Takes the outcome as [`take`](Self::take) does, but distinguishes a request that is underway
    /// from one that does not exist.
    #[inline(always)]
    pub(crate) fn settle(&mut self, id: RequestId) -> Completion {
        let Some(request) = self.get(id) else { return Completion::Unknown };
        match request.outcome() {
            Some(outcome) => {
                self.discard(id.0.index);
                Completion::Over(outcome)
            }
            None if request.owner == Owner::Nobody => Completion::Unknown,
            None if request.is_interrupted() => Completion::Interrupted,
            None => Completion::Underway,
        }
    }

    /// Frees a request that is complete, was not cancelled, and has no problem. Returns whether it
    /// did.
    #[inline(always)]
    pub(crate) fn forget_if_fine(&mut self, id: RequestId) -> bool {
        let Some(request) = self.places.get(id.0.index as usize) else { return false };
        let fine = request.generation == id.0.generation && request.is_done();
        if fine {
            self.discard(id.0.index);
        }
        fine
    }

    /// Whether the program may still query a request.
    #[inline]
    pub(crate) fn is_known(&self, id: RequestId) -> bool {
        self.get(id).is_some_and(|request| request.owner == Owner::Program)
    }

    /// Returns the request in a place.
    pub(crate) fn at(&self, index: u32) -> Option<RequestId> {
        let request = self.places.get(index as usize)?;
        (!request.is_free()).then(|| self.id(index))
    }

    pub(crate) fn outcome(&self, id: RequestId) -> Option<Outcome> {
        self.get(id)?.outcome()
    }

    pub(crate) fn detach(&mut self, id: RequestId) {
        match self.get_mut(id) {
            None => {}
            Some(request) if request.outcome().is_some() => self.discard(id.0.index),
            Some(request) => request.owner = Owner::Nobody,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Request> {
        self.places.iter().filter(|request| !request.is_free())
    }

    /// Returns the places of the requests for which `holds` is true.
    pub(crate) fn places_where(&self, holds: impl Fn(&Request) -> bool) -> Vec<u32> {
        let places = (0..).zip(&self.places);
        places.filter(|(_, one)| !one.is_free() && holds(one)).map(|(place, _)| place).collect()
    }

    /// Returns the number of requests. Takes time in proportion to the largest number that there
    /// ever was.
    pub(crate) fn len(&self) -> usize {
        self.iter().count()
    }
}

impl std::ops::Index<u32> for Requests {
    type Output = Request;

    #[inline]
    fn index(&self, index: u32) -> &Request {
        &self.places[index as usize]
    }
}

impl std::ops::IndexMut<u32> for Requests {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Request {
        &mut self.places[index as usize]
    }
}
