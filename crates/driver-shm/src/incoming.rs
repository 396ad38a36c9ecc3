//! The receiver's side of the protocol, with the memory of this process and of the sender.

use std::time::Instant;

use base::{GateId, RegionToken};
use driver::{Copying, Fetch, ProgramState, RegionAccess, RegionError};
use memory::{ForeignCopy, ForeignMemory, PendingCopy};
use queues::exchange::{CopyRequest, Exchange};
use queues::offer::OfferNumber;

use crate::protocol::{
    JointReceive, OfferedReceive, PipedReceive, ReceiverWorld, TransferProgress,
};
use crate::regions::RegionAccessGranted;
use crate::segment::MappedSegment;
use crate::segment::peer::PeerSegment;
use crate::transfer::{CopyDirection, RegionRange};

/// A region that is being copied to this process with the sender's help.
pub(crate) enum AssistedCopy {
    Piped(PipedFetch),
    Jointly(JointFetch),
    Offered(OfferedPlace),
    Imported(ImportedFetch),
}

/// A region of memory that processors do not address, which this process copies.
pub(crate) struct ImportedFetch {
    fetch: Fetch,
    found: RegionAccessGranted,
    copy: PendingCopy,
}

/// A region that arrives through the sender's pool.
pub(crate) struct PipedFetch {
    fetch: Fetch,
    /// Whether the region can be read without its owner.
    is_readable: bool,
    state: PipedReceive,
}

/// A region that both processes copy.
pub(crate) struct JointFetch {
    pub fetch: Fetch,
    /// The region of this process into which the sender writes.
    pub into: RegionToken,
    pub state: JointReceive,
}

/// A place that is offered to the sender of a message.
pub(crate) struct OfferedPlace {
    pub gate: GateId,
    /// The token of the receive.
    pub token: u64,
    pub flow: u32,
    /// The region of this process into which the sender writes.
    pub into: RegionToken,
    /// The fetch to be done if the offer is withdrawn, once the message has been announced.
    pub fetch: Option<(Fetch, Copying)>,
    pub state: OfferedReceive,
}

impl AssistedCopy {
    pub(crate) fn gate(&self) -> GateId {
        match self {
            Self::Piped(piped) => piped.fetch.gate,
            Self::Jointly(joint) => joint.fetch.gate,
            Self::Offered(offered) => offered.gate,
            Self::Imported(imported) => imported.fetch.gate,
        }
    }

    /// Returns the region of this process into which the sender writes, if there is one, and the
    /// fetch, if the message was announced.
    pub(crate) fn into_parts(self) -> (Option<RegionToken>, Option<(Fetch, Copying)>) {
        match self {
            Self::Piped(piped) => (None, Some((piped.fetch, Copying::Piped))),
            Self::Jointly(joint) => (Some(joint.into), Some((joint.fetch, Copying::Jointly))),
            Self::Offered(offered) => (Some(offered.into), offered.fetch),
            Self::Imported(imported) => (None, Some((imported.fetch, Copying::Once))),
        }
    }

    /// Returns the token of the transfer.
    pub(crate) fn token(&self) -> u64 {
        match self {
            Self::Piped(piped) => piped.fetch.token,
            Self::Jointly(joint) => joint.fetch.token,
            Self::Offered(offered) => offered.token,
            Self::Imported(imported) => imported.fetch.token,
        }
    }

    /// Whether a copy goes on that no peer reports the end of.
    pub(crate) fn has_copies_underway(&self) -> bool {
        match self {
            Self::Piped(piped) => piped.state.has_copies_underway(),
            Self::Imported(_) => true,
            Self::Jointly(_) | Self::Offered(_) => false,
        }
    }

    /// Advances the transfer.
    pub(crate) fn advance(
        &mut self,
        now: Option<Instant>,
        program: ProgramState,
        own: &MappedSegment,
        peer: &mut PeerSegment,
    ) -> TransferProgress {
        match self {
            Self::Piped(piped) => piped.advance(now, peer),
            Self::Jointly(JointFetch { fetch, state, .. }) => {
                state.advance(now, program, &mut SourceRegion { peer, fetch, is_readable: true })
            }
            Self::Offered(offered) => offered.state.advance(now, program, own.offer(offered.flow)),
            Self::Imported(imported) => imported.advance(peer),
        }
    }
}

impl ImportedFetch {
    /// Begins to copy memory of `peer` into the buffer, if processors address neither, and the
    /// peer's memory can be reached.
    pub(crate) fn begin(fetch: &Fetch, peer: &PeerSegment) -> Option<Self> {
        let is_distant = !fetch.into.is_addressable();
        let found = is_distant.then(|| peer.export_of(fetch.region, fetch.length)).flatten();
        let (found, record) = found?;
        let (process, length) = (peer.pid, fetch.length);
        let from = ForeignMemory { process, record: &record, offset: 0, length };
        let begun = fetch.into.begin_foreign(ForeignCopy::Get, &from, 0);
        let copy = begun.map_err(memory::note_staged).ok()?;
        Some(Self { fetch: Fetch { into: fetch.into.clone(), ..*fetch }, found, copy })
    }

    fn advance(&mut self, peer: &PeerSegment) -> TransferProgress {
        if !self.copy.is_over() {
            return TransferProgress::Still;
        }
        let entry = peer.bell.segment.find_region(self.fetch.region.place as u32 as usize);
        let is_still = entry.is_some_and(|entry| entry.is_still(&self.found).is_ok());
        TransferProgress::Ended(is_still)
    }
}

impl PipedFetch {
    /// Requests the data from `peer`.
    pub(crate) fn begin(
        fetch: Fetch,
        copying: Copying,
        peer: &mut PeerSegment,
    ) -> Result<Self, RegionError> {
        let past_caches = copying == Copying::PipedPastCaches;
        let request = CopyRequest { gate: peer.sender, past_caches, joint: None };
        let found = ask(&fetch, request, peer, Wakes::Always)?;
        let generation = found.generation();
        let source = SourceRegion { peer, fetch: &fetch, is_readable: true };
        let is_ahead = source.exchange().is_ahead(generation);
        let state = PipedReceive::new(generation, fetch.length, found.length, is_ahead);
        Ok(Self { fetch, is_readable: found.is_readable(), state })
    }

    /// Like [`AssistedCopy::advance`].
    pub(crate) fn advance(
        &mut self,
        now: Option<Instant>,
        peer: &mut PeerSegment,
    ) -> TransferProgress {
        let Self { fetch, is_readable, state } = self;
        state.advance(now, &mut SourceRegion { peer, fetch, is_readable: *is_readable })
    }
}

impl JointFetch {
    /// Requests `peer` to write its share into the region `into`. If the program of this process
    /// computes, a sleeping peer is woken for that; otherwise this process reads a sleeping peer's
    /// share, too.
    pub(crate) fn begin(
        fetch: &Fetch,
        into: RegionToken,
        peer: &PeerSegment,
        program: ProgramState,
    ) -> Result<Self, RegionError> {
        let joint = Some((fetch.length, into));
        let wakes = match program {
            ProgramState::Computes => Wakes::Always,
            ProgramState::Waits => Wakes::Never,
        };
        ask(fetch, CopyRequest { gate: peer.sender, past_caches: false, joint }, peer, wakes)?;
        let state = JointReceive::new(fetch.length, Instant::now());
        Ok(Self { fetch: Fetch { into: fetch.into.clone(), ..*fetch }, into, state })
    }
}

impl OfferedPlace {
    pub(crate) fn turn(&self) -> OfferNumber {
        self.state.turn()
    }

    /// Records that the message was announced.
    pub(crate) fn note_announced(&mut self, fetch: Fetch, copying: Copying) {
        self.state.note_announced(Instant::now());
        self.fetch = Some((fetch, copying));
    }
}

/// Whether a peer that sleeps is woken: its helper thread would interrupt its computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wakes {
    Always,
    Never,
}

/// Requests the data of a fetch from `peer` in the way `request`, if it is not sent without a
/// request.
fn ask(
    fetch: &Fetch,
    request: CopyRequest,
    peer: &PeerSegment,
    wakes: Wakes,
) -> Result<RegionAccessGranted, RegionError> {
    let segment = &peer.bell.segment;
    let slot = fetch.region.place as u32;
    let entry = segment.find_region(slot as usize).ok_or(RegionError::Unknown)?;
    let found = entry.find(fetch.region, 0, fetch.length, RegionAccess::Read)?;
    if request.joint.is_some() && !found.is_readable() {
        return Err(RegionError::NotReadable);
    }
    if request.joint.is_none() && entry.exchange.is_ahead(found.generation()) {
        return Ok(found);
    }
    entry.exchange.ask(found.generation(), request);
    segment.calls().call(slot as usize);
    if wakes == Wakes::Always {
        peer.bell.ring();
    }
    Ok(found)
}

/// The sender's region of a fetch.
struct SourceRegion<'a> {
    peer: &'a mut PeerSegment,
    fetch: &'a Fetch,
    /// Whether the region can be read without its owner, where the kernel allows it.
    is_readable: bool,
}

impl ReceiverWorld for SourceRegion<'_> {
    fn exchange(&self) -> &Exchange {
        &self.peer.bell.segment.region(self.fetch.region.place as u32 as usize).exchange
    }

    fn is_readable(&self) -> bool {
        self.peer.reachable && self.is_readable
    }

    fn read(&mut self, offset: usize, length: usize) -> bool {
        let Fetch { region, into, .. } = self.fetch;
        let range = RegionRange { region: *region, offset, length, buffer: into, at: offset };
        self.peer.transfer(CopyDirection::Read, &range).is_ok()
    }

    fn take(&mut self, piece: usize, length: usize, at: usize) {
        let into = &self.fetch.into;
        self.peer.populated.include(piece, &self.peer.bell.segment);
        self.peer.bell.segment.with_piece(piece, length, |bytes| into.write_shared(at, bytes));
    }

    fn is_addressable(&self) -> bool {
        self.fetch.into.is_addressable()
    }

    fn begin_taking(&mut self, piece: usize, length: usize, at: usize) -> Option<PendingCopy> {
        self.peer.bell.segment.begin_taking(piece, &self.fetch.into, at, length)
    }

    fn ring(&mut self) {
        self.peer.bell.ring();
    }
}
