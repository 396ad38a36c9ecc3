//! The gates by which a simulated process names the processes that it has met.
//!
//! A process that is met again keeps its gate if both processes have it open. A gate without
//! meetings is closed: both processes send a last record, and its number is free again.

use base::GateId;

/// What a gate is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GateStage {
    /// Nothing; the next process may get it.
    Free,
    /// It was offered, and no process was decided for.
    Offered,
    Open,
    /// The meeting has failed after the decision.
    Abandoned,
    Closing,
    /// Its process has failed, or may still use it.
    Retired,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PeerGate {
    /// The process behind it.
    pub node: u32,
    /// By which gate that process names this one.
    pub theirs: GateId,
    pub stage: GateStage,
    /// How many meetings and connections use it.
    pub uses: u32,
}

/// The gates of a process; number 0 is the process itself.
#[derive(Debug, Default)]
pub(super) struct PeerGates {
    places: Vec<PeerGate>,
}

/// The gates that a process offers for another one.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeOffer {
    /// An open gate, and by which one the other process names this one.
    pub kept: Option<(GateId, GateId)>,
    pub fresh: GateId,
}

impl PeerGates {
    pub fn get(&self, gate: GateId) -> Option<&PeerGate> {
        self.places.get((gate.0 as usize).checked_sub(1)?)
    }

    pub fn get_mut(&mut self, gate: GateId) -> Option<&mut PeerGate> {
        self.places.get_mut((gate.0 as usize).checked_sub(1)?)
    }

    /// All gates with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (GateId, &PeerGate)> {
        (1..).map(GateId).zip(&self.places)
    }

    /// Offers gates for a process.
    pub fn offer(&mut self, node: u32) -> NodeOffer {
        let is_open = |one: &PeerGate| one.node == node && one.stage == GateStage::Open;
        let open = self.iter().filter(|(_, one)| is_open(one)).last();
        let kept = open.map(|(gate, one)| (gate, one.theirs));
        if let Some((gate, _)) = kept
            && let Some(used) = self.get_mut(gate)
        {
            used.uses += 1;
        }
        let offered = PeerGate { node, theirs: GateId(0), stage: GateStage::Offered, uses: 1 };
        let free = self.places.iter().position(|one| one.stage == GateStage::Free);
        let fresh = match free {
            Some(place) => {
                self.places[place] = offered;
                place + 1
            }
            None => {
                self.places.push(offered);
                self.places.len()
            }
        };
        NodeOffer { kept, fresh: GateId(fresh as u32) }
    }

    /// Uses the kept gate of an offer, or the fresh one, by which the process is named `theirs`.
    pub fn decide(&mut self, offer: NodeOffer, theirs: Option<GateId>) -> GateId {
        let fresh = offer.fresh;
        match (theirs, offer.kept) {
            (None, Some((kept, _))) => {
                self.set_stage(fresh, GateStage::Free);
                kept
            }
            (theirs, kept) => {
                kept.into_iter().for_each(|(gate, _)| self.release(gate));
                if let Some(used) = self.get_mut(fresh) {
                    (used.theirs, used.stage) = (theirs.unwrap_or(GateId(0)), GateStage::Open);
                }
                fresh
            }
        }
    }

    /// Withdraws an offer of a meeting that has failed: the other process may know the fresh gate.
    pub fn withdraw(&mut self, offer: NodeOffer) {
        offer.kept.into_iter().for_each(|(gate, _)| self.release(gate));
        self.set_stage(offer.fresh, GateStage::Retired);
    }

    /// Ends a use of a gate.
    pub fn release(&mut self, gate: GateId) {
        if let Some(used) = self.get_mut(gate) {
            used.uses -= 1;
        }
    }

    pub fn set_stage(&mut self, gate: GateId, stage: GateStage) {
        if let Some(place) = self.get_mut(gate) {
            place.stage = stage;
        }
    }
}
