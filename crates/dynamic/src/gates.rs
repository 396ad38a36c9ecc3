//! The gates by which the members of two sides name each other.
//!
//! Each member offers gates for the members of the other side. Two members that both have the open
//! gates of one earlier meeting use those gates; others use new gates, also if one of them still
//! has an open gate: the other one has closed its end. Two members may have met twice at the same
//! time, and so have two pairs of open gates.

use base::{Error, ErrorClass, GateId, Result};
use mpi::Process;
use runtime::{GateOffer, GlobalProcess, ProcessContact, Runtime};

/// How a member is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemberContact {
    /// The card of each of its drivers, with the name of the driver.
    pub cards: Vec<(String, String)>,
    /// The gates that it offers for the members of the other side, by rank.
    pub gates: Vec<OfferedGates>,
}

/// The gates by which a member may name a member of the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OfferedGates {
    /// Its open gate, and the one by which the other member names it.
    pub kept: Option<(u32, u32)>,
    /// A gate that is not in use.
    pub fresh: u32,
}

wire::codec!(MemberContact { cards, gates });
wire::codec!(OfferedGates { kept, fresh });

impl OfferedGates {
    /// Describes an offer to the process that it is for.
    pub fn of(offer: GateOffer, runtime: &Runtime) -> Self {
        let both = |gate: GateId| Some((gate.0, runtime.gate_of_this_at(gate)?.0));
        Self { kept: offer.kept.and_then(both), fresh: offer.fresh.0 }
    }

    /// What a process of this job offers: its rank.
    pub fn of_this_job(gate: GateId) -> Self {
        Self { kept: None, fresh: gate.0 }
    }

    /// Whether both processes have offered the open gates of one meeting.
    pub fn keeps_gates_with(self, theirs: Self) -> bool {
        self.kept.is_some() && theirs.kept.map(|(own, other)| (other, own)) == self.kept
    }
}

/// The gates of the members of the other side, which are not closed while this value exists.
pub(crate) struct MeetingGates<'a> {
    process: &'a Process,
    met: Vec<MetProcess>,
    /// Whether the meeting has succeeded. Otherwise the members of the other side may not know the
    /// new gates.
    pub is_used: bool,
}

/// A member of the other side.
enum MetProcess {
    /// Its gate is its rank in the job of this process.
    OfThisJob(GateId),
    Offered(GateOffer),
    Decided {
        gate: GateId,
        is_new: bool,
    },
}

/// What all members of the other side have in common.
pub(crate) struct MeetingTerms {
    /// The rank of this process in its side.
    pub own_rank: u32,
    /// The secret of the two jobs.
    pub secret: [u8; 32],
    /// Whether this side precedes the other one.
    pub comes_first: bool,
}

impl<'a> MeetingGates<'a> {
    /// Offers gates for these processes.
    ///
    /// # Errors
    /// The name of the own job cannot be had.
    pub fn offer(process: &'a Process, names: &[GlobalProcess]) -> Result<Self> {
        let mut gates = Self { process, met: Vec::with_capacity(names.len()), is_used: false };
        for &name in names {
            let offered = process.runtime().offer_gates(name, false);
            let offered =
                offered.map_err(|error| Error::new(ErrorClass::Other, error.to_string()))?;
            gates.met.push(match offered {
                Some(offer) => MetProcess::Offered(offer),
                None => MetProcess::OfThisJob(GateId(name.rank)),
            });
        }
        Ok(gates)
    }

    /// Returns how the processes reach this one.
    pub fn contact(&self) -> MemberContact {
        let runtime = self.process.runtime();
        let offered = |met: &MetProcess| match met {
            MetProcess::Offered(offer) => OfferedGates::of(*offer, &runtime),
            MetProcess::OfThisJob(gate) | MetProcess::Decided { gate, .. } => {
                OfferedGates::of_this_job(*gate)
            }
        };
        let gates = self.met.iter().map(offered).collect();
        MemberContact { cards: runtime.cards(), gates }
    }

    /// Decides for gates, given the contacts of the processes; returns them by rank.
    pub fn decide(&mut self, contacts: Vec<MemberContact>, terms: &MeetingTerms) -> Vec<GateId> {
        let mut runtime = self.process.runtime();
        let mut decided = Vec::with_capacity(contacts.len());
        for (met, MemberContact { cards, gates }) in self.met.iter_mut().zip(contacts) {
            let gate = match *met {
                MetProcess::OfThisJob(gate) | MetProcess::Decided { gate, .. } => gate,
                MetProcess::Offered(offer) => {
                    let offered = gates[terms.own_rank as usize];
                    let is_new = !OfferedGates::of(offer, &runtime).keeps_gates_with(offered);
                    let contact = is_new.then_some(ProcessContact {
                        cards,
                        own_gate: offered.fresh,
                        secret: terms.secret,
                        comes_first: terms.comes_first,
                    });
                    let gate = runtime.decide_gate(offer, contact);
                    *met = MetProcess::Decided { gate, is_new };
                    gate
                }
            };
            decided.push(gate);
        }
        decided
    }
}

impl Drop for MeetingGates<'_> {
    fn drop(&mut self) {
        let mut runtime = self.process.runtime();
        for met in self.met.drain(..) {
            match met {
                MetProcess::OfThisJob(_) => {}
                MetProcess::Offered(offer) => runtime.withdraw_gates(offer),
                MetProcess::Decided { gate, is_new: true } if !self.is_used => {
                    runtime.abandon_gate(gate);
                }
                MetProcess::Decided { gate, .. } => runtime.end_meeting(gate),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_of_different_meetings_are_not_taken_for_a_pair() {
        let of = |kept| OfferedGates { kept, fresh: 9 };
        assert!(of(Some((1, 2))).keeps_gates_with(of(Some((2, 1)))));
        assert!(!of(Some((1, 2))).keeps_gates_with(of(Some((4, 3)))), "of another meeting");
        assert!(!of(Some((1, 2))).keeps_gates_with(of(None)));
        assert!(!of(None).keeps_gates_with(of(None)));
    }
}
