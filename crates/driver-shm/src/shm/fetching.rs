//! Fetches the data of messages that peers announce.

use crate::declared::WayOut;
use std::time::Instant;

use base::{GateId, RegionToken};
use driver::{
    Copying, Driver, Fetch, FetchEnd, ProgramState, RegionAccess, RegionError, Regions, Sink,
};

use super::Shm;
use crate::incoming::{AssistedCopy, ImportedFetch, JointFetch, OfferedPlace, PipedFetch};
use crate::protocol::TransferProgress;
use crate::supply::place_of;

/// While data arrives and the program waits for it, the clock is read once in this many polls.
const POLLS_PER_TIME: u32 = 32;

impl Shm {
    /// Begins the oldest fetch. Returns whether there was one.
    #[cold]
    pub(super) fn run_fetch(&mut self, sink: &mut (impl Sink + ?Sized)) -> bool {
        let Some((fetch, copying)) = self.fetches.pop_front() else { return false };
        match self.find_offer(fetch.token) {
            Some((_, offered)) => offered.note_announced(fetch, copying),
            None => self.begin(fetch, copying, sink),
        }
        true
    }

    pub(super) fn begin(
        &mut self,
        fetch: Fetch,
        copying: Copying,
        sink: &mut (impl Sink + ?Sized),
    ) {
        let token = fetch.token;
        match self.begin_fetch(fetch, copying) {
            Ok(false) => {}
            ended => sink.fetched(token, FetchEnd::of(ended.is_ok())),
        }
    }

    /// Begins a fetch in the way `copying`, or through the pipe if that is impossible. Returns
    /// whether the fetch has completed.
    fn begin_fetch(&mut self, fetch: Fetch, copying: Copying) -> Result<bool, RegionError> {
        let Fetch { gate, region, length, ref into, .. } = fetch;
        if !into.is_addressable()
            && !self.is_sent_ahead(gate, region)
            && let Some(Some(peer)) = self.peers.get(gate.0)
            && let Some(imported) = ImportedFetch::begin(&fetch, peer)
        {
            self.incoming.push(AssistedCopy::Imported(imported));
            return Ok(false);
        }
        let begun = match copying {
            // The sender may complete the send before the data has arrived: only the process that
            // has claimed the data may read it.
            _ if self.is_sent_ahead(gate, region) => Err(RegionError::NotReadable),
            Copying::Jointly if self.reaches_memory_of(gate) => {
                self.begin_joint(&fetch).map(|()| false)
            }
            Copying::Once if self.reaches_memory_of(gate) => {
                self.read_region(gate, region, 0, length, into, 0).map(|()| true)
            }
            _ => Err(RegionError::NotReadable),
        };
        if begun != Err(RegionError::NotReadable) {
            return begun;
        }
        // The peer may have been given up after it announced the message.
        let peer = self.peers.get_mut(gate.0).and_then(Option::as_deref_mut);
        let peer =
            peer.ok_or_else(|| RegionError::Unreachable("it is not connected".to_owned()))?;
        let mut piped = PipedFetch::begin(fetch, copying, peer)?;
        if piped.advance(None, peer) == TransferProgress::Ended(true) {
            return Ok(true);
        }
        self.incoming.push(AssistedCopy::Piped(piped));
        Ok(false)
    }

    /// Whether the data of a peer's region is sent ahead.
    fn is_sent_ahead(&self, gate: GateId, region: RegionToken) -> bool {
        let peer = self.peers.get(gate.0).and_then(Option::as_deref);
        let (slot, generation) = place_of(region);
        let entry = peer.and_then(|peer| peer.bell.segment.find_region(slot));
        entry.is_some_and(|entry| entry.exchange.is_ahead(generation))
    }

    /// Begins a fetch that both processes copy.
    fn begin_joint(&mut self, fetch: &Fetch) -> Result<(), RegionError> {
        let declared =
            self.own.declared.declare(&fetch.into, RegionAccess::ReadAndWrite, WayOut::Read);
        let into = declared.ok_or(RegionError::NotReadable)?;
        let peer = self.peers[fetch.gate.0].as_ref().expect("the gate is connected");
        match JointFetch::begin(fetch, into, peer, self.program) {
            Ok(joint) => {
                self.incoming.push(AssistedCopy::Jointly(joint));
                Ok(())
            }
            Err(error) => self.revoke(into).and(Err(error)),
        }
    }

    /// Advances the transfers that need the sender's help.
    #[cold]
    pub(super) fn advance(&mut self, sink: &mut (impl Sink + ?Sized)) -> bool {
        let now = self.time_of_poll();
        let (mut active, mut index) = (false, 0);
        while let Some(incoming) = self.incoming.get_mut(index) {
            let progress = match self.peers.get_mut(incoming.gate().0) {
                Some(Some(peer)) => incoming.advance(now, self.program, &self.own.segment, peer),
                _ => TransferProgress::Ended(false),
            };
            active |= progress != TransferProgress::Still;
            if matches!(progress, TransferProgress::Still | TransferProgress::Moved) {
                index += 1;
            } else {
                let incoming = self.incoming.remove(index);
                self.end(incoming, progress, sink);
            }
        }
        active
    }

    /// Returns the time, if the clock is read at this poll. A program that computes polls rarely,
    /// so then the clock is always read.
    fn time_of_poll(&mut self) -> Option<Instant> {
        self.polls = self.polls.wrapping_add(1);
        let reads_clock =
            self.program == ProgramState::Computes || self.polls.is_multiple_of(POLLS_PER_TIME);
        reads_clock.then(Instant::now)
    }

    fn end(
        &mut self,
        incoming: AssistedCopy,
        progress: TransferProgress,
        sink: &mut (impl Sink + ?Sized),
    ) {
        let token = incoming.token();
        // Revoking waits for the sender if it is still writing.
        let whole = match incoming {
            AssistedCopy::Jointly(JointFetch { into, .. })
            | AssistedCopy::Offered(OfferedPlace { into, .. }) => self.revoke(into).is_ok(),
            AssistedCopy::Piped(_) | AssistedCopy::Imported(_) => true,
        };
        match (progress, incoming) {
            (TransferProgress::Written, _) => sink.written(token),
            (_, AssistedCopy::Offered(OfferedPlace { fetch, .. })) => {
                if let Some((fetch, copying)) = fetch {
                    self.begin(fetch, copying, sink);
                }
            }
            (progress, _) => {
                let is_complete = progress == TransferProgress::Ended(true) && whole;
                sink.fetched(token, FetchEnd::of(is_complete));
            }
        }
    }
}
