//! The meeting of two processes, each for itself and without waiting.
//!
//! It exchanges what [`Meeting`](crate::meeting::Meeting) does between communicators, over a
//! connection whose both ends have proved that they have the key of a port.

use base::{GateId, Result};
use mpi::Process;
use runtime::{GateOffer, GlobalProcess, JobId, ProcessContact};
use wire::Codec;

use crate::gates::{MemberContact, OfferedGates};
use crate::handshake::PortSide;
use crate::link::RootLink;
use crate::meeting::{nonsense, other};

/// What each process sends first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PairGreeting {
    job: JobId,
    rank: u32,
    /// The machine, by a name that is equal in all processes that can share memory.
    machine: String,
    /// Data of the layer above.
    words: Vec<u8>,
}

wire::codec!(PairGreeting { job, rank, machine, words });

/// The meeting of this process with another one. It must be carried on until it has ended, or be
/// [abandoned](Self::abandon).
#[derive(Debug)]
pub struct PairMeeting {
    link: RootLink,
    side: PortSide,
    stage: PairStage,
    /// The data of the other process.
    words: Vec<u8>,
}

/// What the other process sends next.
#[derive(Clone, Copy, Debug)]
enum PairStage {
    Greeting,
    Contact(PairGates),
    Ready(PairGates),
}

/// The gate by which this process names the other one.
#[derive(Clone, Copy, Debug)]
enum PairGates {
    /// Its rank in the job of this process.
    OfThisJob(GateId),
    Offered(GateOffer),
    Decided {
        gate: GateId,
        is_new: bool,
    },
}

/// The result of a meeting.
#[derive(Debug)]
pub struct MetPeer {
    /// The gate of the other process. If it belongs to another job, the gate is not closed before
    /// [`release_peer`] was called.
    pub gate: GateId,
    /// The data that the other process has sent with its greeting.
    pub words: Vec<u8>,
}

/// Whether a process is ready for messages.
const IS_READY: bool = true;

impl PairMeeting {
    /// Begins a meeting over a connection that is proved. `words` is data for the other process.
    ///
    /// # Errors
    /// `Other` if this process has no name, for want of random numbers.
    pub fn new(process: &Process, link: RootLink, side: PortSide, words: &[u8]) -> Result<Self> {
        let own = process.runtime().global_name(GateId(process.rank())).map_err(other)?;
        let machine = runtime::machine_name();
        let greeting = PairGreeting { job: own.job, rank: own.rank, machine, words: words.into() };
        let mut meeting = Self { link, side, stage: PairStage::Greeting, words: Vec::default() };
        meeting.link.send_frame(&greeting.to_bytes());
        Ok(meeting)
    }

    /// Advances the meeting. Returns the other process once both are ready for messages.
    ///
    /// # Errors
    /// `Port` if the connection is lost or the other process sends nonsense; `Other` if the system
    /// refuses sockets. The meeting must then be [abandoned](Self::abandon).
    pub fn poll(&mut self, process: &Process) -> Result<Option<MetPeer>> {
        while let Some(frame) = self.link.poll_frame()? {
            match self.stage {
                PairStage::Greeting => self.take_greeting(process, &frame)?,
                PairStage::Contact(gates) => self.take_contact(process, gates, &frame)?,
                PairStage::Ready(gates) => {
                    bool::from_bytes(&frame).ok_or_else(nonsense)?;
                    let gate = match gates {
                        PairGates::OfThisJob(gate) | PairGates::Decided { gate, .. } => gate,
                        PairGates::Offered(_) => return Err(nonsense()),
                    };
                    let words = std::mem::take(&mut self.words);
                    return Ok(Some(MetPeer { gate, words }));
                }
            }
        }
        Ok(None)
    }

    fn take_greeting(&mut self, process: &Process, frame: &[u8]) -> Result<()> {
        let theirs = PairGreeting::from_bytes(frame).ok_or_else(nonsense)?;
        let (own, is_encrypted) = (runtime::machine_name(), self.link.is_encrypted());
        let name = GlobalProcess { job: theirs.job, rank: theirs.rank };
        let is_near = runtime::is_one_machine([own.as_str(), &theirs.machine].into_iter());
        let has_gate = process.runtime().has_gate(name, is_encrypted).map_err(other)?;
        // The rails inside of the job may be those of other networks.
        if !has_gate && !is_near {
            process.runtime().reach_other_jobs_elsewhere().map_err(other)?;
        }
        let offered = process.runtime().offer_gates(name, is_encrypted).map_err(other)?;
        let gates = match offered {
            Some(offer) => PairGates::Offered(offer),
            None if theirs.rank < process.size() => PairGates::OfThisJob(GateId(theirs.rank)),
            None => return Err(nonsense()),
        };
        let gate = match gates {
            PairGates::Offered(offer) => OfferedGates::of(offer, &process.runtime()),
            PairGates::OfThisJob(gate) | PairGates::Decided { gate, .. } => {
                OfferedGates::of_this_job(gate)
            }
        };
        let cards = process.runtime().cards();
        self.link.send_frame(&MemberContact { cards, gates: vec![gate] }.to_bytes());
        self.words = theirs.words;
        self.stage = PairStage::Contact(gates);
        Ok(())
    }

    fn take_contact(&mut self, process: &Process, gates: PairGates, frame: &[u8]) -> Result<()> {
        let theirs = MemberContact::from_bytes(frame).ok_or_else(nonsense)?;
        let [offered] = theirs.gates[..] else { return Err(nonsense()) };
        let gates = match gates {
            PairGates::Offered(offer) => {
                let own = OfferedGates::of(offer, &process.runtime());
                let is_new = !own.keeps_gates_with(offered);
                let contact = is_new.then(|| ProcessContact {
                    cards: theirs.cards,
                    own_gate: offered.fresh,
                    secret: self.link.secret(),
                    comes_first: self.side == PortSide::Accepts,
                });
                let gate = process.runtime().decide_gate(offer, contact);
                PairGates::Decided { gate, is_new }
            }
            known => known,
        };
        self.stage = PairStage::Ready(gates);
        self.link.send_frame(&IS_READY.to_bytes());
        Ok(())
    }

    /// Ends a meeting that has failed, or that is not needed any more.
    pub fn abandon(self, process: &Process) {
        let gates = match self.stage {
            PairStage::Greeting => return,
            PairStage::Contact(gates) | PairStage::Ready(gates) => gates,
        };
        let mut runtime = process.runtime();
        match gates {
            PairGates::OfThisJob(_) => {}
            PairGates::Offered(offer) => runtime.withdraw_gates(offer),
            PairGates::Decided { gate, is_new: true } => runtime.abandon_gate(gate),
            PairGates::Decided { gate, is_new: false } => runtime.end_meeting(gate),
        }
    }
}

/// Lets the gate of a process that this process has met be closed, unless something else uses it.
pub fn release_peer(process: &Process, gate: GateId) {
    if process.runtime().is_of_other_job(gate) {
        process.runtime().end_meeting(gate);
        process.close_unused_gates_soon();
    }
}
