//! The gates by which the members of two sides name each other.
//!
//! Each member offers gates for the members of the other side. Two members that both have an open
//! gate of an earlier meeting use those gates; others use new gates, also if one of them still has
//! an open gate: the other one has closed its end.

use base::{Error, ErrorClass, GateId, Result};
use mpi::Process;
use runtime::{GateOffer, GlobalProcess, ProcessContact};

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
    /// Whether it has an open gate.
    pub is_known: bool,
    /// A gate that is not in use.
    pub fresh: u32,
}

wire::codec!(MemberContact { cards, gates });
wire::codec!(OfferedGates { is_known, fresh });

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
            let offered = process.runtime().offer_gates(name);
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
        let offered = |met: &MetProcess| match met {
            MetProcess::Offered(GateOffer { kept, fresh }) => {
                OfferedGates { is_known: kept.is_some(), fresh: fresh.0 }
            }
            MetProcess::OfThisJob(gate) | MetProcess::Decided { gate, .. } => {
                OfferedGates { is_known: true, fresh: gate.0 }
            }
        };
        let gates = self.met.iter().map(offered).collect();
        MemberContact { cards: self.process.runtime().cards(), gates }
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
                    let is_new = offer.kept.is_none() || !offered.is_known;
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
