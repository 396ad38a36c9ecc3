//! The processes of other jobs that this process is connected with, and the gates that name them.
//!
//! Gates below the size of the own job are its ranks. The processes of other jobs get the next
//! numbers, which each process assigns for itself. A gate that is closed goes to the next process.
//!
//! Why: docs/internals/decisions/0092-processes-of-other-jobs-get-the-next-gates.md,
//! docs/internals/decisions/0099-gates-of-other-jobs-are-closed.md

use std::collections::HashMap;
use std::sync::Arc;

use base::GateId;
use driver::{DriverError, JobPair, PairSecret, Secret};
use parking_lot::Mutex;

/// The name of a job, which no other job has.
pub type JobId = [u8; 16];

/// A process, named in a way that is equal in all jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GlobalProcess {
    /// The job to which it belongs.
    pub job: JobId,
    /// Its rank in that job.
    pub rank: u32,
}

/// What a process must know of a process of another job to exchange messages with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessContact {
    /// The card of each of its drivers, with the name of the driver.
    pub cards: Vec<(String, String)>,
    /// The gate by which it names this process.
    pub own_gate: u32,
    /// The secret that the two jobs have in common.
    pub secret: Secret,
    /// Whether the job of this process precedes the other job, in an order that both jobs know.
    pub comes_first: bool,
}

/// The processes of other jobs; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct OtherJobs {
    table: Arc<Mutex<GateTable>>,
}

#[derive(Debug, Default)]
struct GateTable {
    /// The size of the own job, and so the first gate of another job's process.
    first: u32,
    /// By gate, from `first` on.
    places: Vec<GatePlace>,
    /// The gates that later connections may use, by process and by whether they are encrypted.
    by_name: HashMap<(GlobalProcess, bool), GateId>,
    /// The gates whose places are free.
    free: Vec<GateId>,
}

/// What a gate is used for.
#[derive(Debug)]
enum GatePlace {
    /// Nothing: the next process may get it.
    Free,
    /// A process that has failed, or that may not know that the gate is not used any more: no other
    /// process gets it, as a late packet may come from there.
    Retired,
    Used(Box<OtherProcess>),
}

#[derive(Debug)]
struct OtherProcess {
    name: GlobalProcess,
    /// Whether what leaves the machine for it is encrypted.
    is_encrypted: bool,
    /// None until both processes are about to use the gate.
    contact: Option<ProcessContact>,
    stage: GateStage,
    /// How many meetings with the process are underway.
    meetings: u32,
}

/// The stages in the life of a gate of another job's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GateStage {
    /// Messages can be exchanged.
    Open,
    /// The meeting has failed: the process may not know that this process has given it the gate.
    Abandoned,
    /// This process has sent its last record.
    Closing,
    /// The connection is gone. Groups of the program may still contain the process.
    Closed,
}

/// The gates by which this process may name a process that it meets. Both processes decide for
/// their open gates if both have one, and for new gates otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateOffer {
    /// The open gate of the process from an earlier meeting, which does not close before the
    /// meeting ends.
    pub kept: Option<GateId>,
    /// A gate that is not in use.
    pub fresh: GateId,
}

impl OtherJobs {
    /// Creates the empty table of a job with so many processes.
    pub fn beside(size: u32) -> Self {
        let table = GateTable { first: size, ..GateTable::default() };
        Self { table: Arc::new(Mutex::new(table)) }
    }

    /// Offers gates for a process of another job that this process meets, over which what leaves
    /// the machine is encrypted or is not. The offer must be [decided](Self::decide) or
    /// [withdrawn](Self::withdraw).
    pub fn offer(&self, name: GlobalProcess, is_encrypted: bool) -> GateOffer {
        let table = &mut *self.table.lock();
        let known = table.by_name.get(&(name, is_encrypted)).copied();
        let mut kept = None;
        if let Some(gate) = known
            && let Some(process) = table.process_mut(gate)
        {
            match process.stage {
                GateStage::Open if process.contact.is_some() => {
                    process.meetings += 1;
                    kept = Some(gate);
                }
                // The process keeps its name in groups of the program.
                GateStage::Closed => {
                    process.meetings += 1;
                    process.stage = GateStage::Open;
                    return GateOffer { kept: None, fresh: gate };
                }
                GateStage::Open | GateStage::Abandoned | GateStage::Closing => {}
            }
        }
        let (contact, stage) = (None, GateStage::Open);
        let process = OtherProcess { name, is_encrypted, contact, stage, meetings: 1 };
        GateOffer { kept, fresh: table.place(process) }
    }

    /// Decides which of the offered gates both processes use, and returns it. `contact` says how
    /// the process is reached by its new gate; `None`: it has offered an open gate, too.
    pub fn decide(&self, offer: GateOffer, contact: Option<ProcessContact>) -> GateId {
        let table = &mut *self.table.lock();
        match (offer.kept, contact) {
            (Some(kept), None) => {
                table.free(offer.fresh);
                kept
            }
            (kept, contact) => {
                kept.into_iter().for_each(|kept| table.end_meeting(kept));
                if let Some(process) = table.process_mut(offer.fresh) {
                    process.contact = contact;
                    let name = (process.name, process.is_encrypted);
                    table.by_name.insert(name, offer.fresh);
                }
                offer.fresh
            }
        }
    }

    /// Ends a meeting, after which the gate that was decided for may be closed.
    pub fn end_meeting(&self, gate: GateId) {
        self.table.lock().end_meeting(gate);
    }

    /// Ends a meeting that has failed, although this process had decided for a new gate.
    pub fn abandon(&self, gate: GateId) {
        let table = &mut *self.table.lock();
        table.end_meeting(gate);
        if let Some(process) = table.process_mut(gate) {
            process.stage = GateStage::Abandoned;
        }
    }

    /// Withdraws an offer of a meeting that has failed. The other process may use the new gate
    /// nevertheless, so no other process gets it.
    pub fn withdraw(&self, offer: GateOffer) {
        let table = &mut *self.table.lock();
        offer.kept.into_iter().for_each(|kept| table.end_meeting(kept));
        table.release(offer.fresh, GatePlace::Retired);
    }

    /// Returns the gates of all processes that are in no meeting, with their stages.
    pub fn unmet(&self) -> Vec<(GateId, GateStage)> {
        let table = self.table.lock();
        let used = |(gate, place): (u32, &GatePlace)| match place {
            GatePlace::Used(process) if process.meetings == 0 => {
                Some((GateId(gate), process.stage))
            }
            _ => None,
        };
        (table.first..).zip(&table.places).filter_map(used).collect()
    }

    /// Whether this process has sent its last record to a process of another job, and not
    /// received that of the process.
    pub fn is_closing(&self, gate: GateId) -> bool {
        self.table.lock().process(gate).is_some_and(|one| one.stage == GateStage::Closing)
    }

    /// Whether there ever was a process of another job.
    pub fn is_empty(&self) -> bool {
        self.table.lock().places.is_empty()
    }

    /// Notes that a gate is in another stage. What was needed to reach its process is dropped with
    /// the connection.
    pub fn set_stage(&self, gate: GateId, stage: GateStage) {
        if let Some(process) = self.table.lock().process_mut(gate) {
            process.stage = stage;
            if stage == GateStage::Closed {
                process.contact = None;
            }
        }
    }

    /// Lets the next process have a gate.
    pub fn free(&self, gate: GateId) {
        self.table.lock().free(gate);
    }

    /// Forgets the process behind a gate that no other process gets.
    pub fn retire(&self, gate: GateId) {
        self.table.lock().release(gate, GatePlace::Retired);
    }

    /// Returns the process of another job that has this gate.
    pub fn name_of(&self, gate: GateId) -> Option<GlobalProcess> {
        self.table.lock().process(gate).map(|process| process.name)
    }

    /// Whether a gate is, or was, that of a process of another job.
    pub fn has(&self, gate: GateId) -> bool {
        self.table.lock().index(gate).is_some()
    }

    /// Whether a gate is not that of this job's process, and nothing may come from it or go there:
    /// it was not introduced, or is not used any more.
    pub fn is_unused(&self, gate: GateId) -> bool {
        let table = self.table.lock();
        let has_contact = |process: &OtherProcess| process.contact.is_some();
        gate.0 >= table.first && !table.process(gate).is_some_and(has_contact)
    }

    /// Returns the card of a driver in the process behind a gate; `None` if the gate is none of
    /// another job's process.
    pub fn card(&self, gate: GateId, driver: &str) -> Option<Result<String, DriverError>> {
        let table = self.table.lock();
        let OtherProcess { name, contact, .. } = table.process(gate)?;
        let cards = contact.iter().flat_map(|contact| &contact.cards);
        let card = cards.into_iter().find(|(of, _)| of == driver).map(|(_, card)| card.clone());
        Some(card.ok_or_else(|| DriverError {
            message: format!("rank {} of a connected job has no rails of {driver}", name.rank),
        }))
    }

    /// Returns how this process and the process behind `gate` identify each other, if that is a
    /// process of another job that was introduced.
    pub fn pair(&self, gate: GateId) -> Option<JobPair> {
        let table = self.table.lock();
        let process = table.process(gate)?;
        let contact = process.contact.as_ref()?;
        Some(JobPair {
            own_gate: GateId(contact.own_gate),
            peer_rank: process.name.rank,
            secret: process.secret()?,
            comes_first: contact.comes_first,
        })
    }

    /// Returns the secrets that this process has in common with processes of other jobs, each once.
    pub fn secrets(&self) -> Vec<PairSecret> {
        let table = self.table.lock();
        let mut secrets = Vec::new();
        for place in &table.places {
            if let GatePlace::Used(process) = place
                && let Some(secret) = process.secret()
                && !secrets.contains(&secret)
            {
                secrets.push(secret);
            }
        }
        secrets
    }

    /// Returns the name of a process for users.
    pub fn describe(&self, gate: GateId) -> String {
        match self.name_of(gate) {
            Some(process) => format!("rank {} of a connected job", process.rank),
            None if self.has(gate) => "a process of a connected job".to_owned(),
            None => format!("rank {}", gate.0),
        }
    }
}

impl OtherProcess {
    /// Returns the secret that this process has in common with it.
    fn secret(&self) -> Option<PairSecret> {
        let secret = self.contact.as_ref()?.secret;
        Some(PairSecret { secret, is_encrypted: self.is_encrypted })
    }
}

impl GateTable {
    fn index(&self, gate: GateId) -> Option<usize> {
        let index = gate.0.checked_sub(self.first)? as usize;
        (index < self.places.len()).then_some(index)
    }

    fn process(&self, gate: GateId) -> Option<&OtherProcess> {
        match &self.places[self.index(gate)?] {
            GatePlace::Used(process) => Some(process),
            GatePlace::Free | GatePlace::Retired => None,
        }
    }

    fn process_mut(&mut self, gate: GateId) -> Option<&mut OtherProcess> {
        let index = self.index(gate)?;
        match &mut self.places[index] {
            GatePlace::Used(process) => Some(process),
            GatePlace::Free | GatePlace::Retired => None,
        }
    }

    /// Gives the process a gate.
    fn place(&mut self, process: OtherProcess) -> GateId {
        let gate = self.free.pop().unwrap_or(GateId(self.first + self.places.len() as u32));
        let place = GatePlace::Used(Box::new(process));
        match self.index(gate) {
            Some(index) => self.places[index] = place,
            None => self.places.push(place),
        }
        gate
    }

    fn end_meeting(&mut self, gate: GateId) {
        self.process_mut(gate).into_iter().for_each(|process| process.meetings -= 1);
    }

    fn free(&mut self, gate: GateId) {
        self.release(gate, GatePlace::Free);
        self.free.push(gate);
    }

    fn release(&mut self, gate: GateId, place: GatePlace) {
        let Some(index) = self.index(gate) else { return };
        if let GatePlace::Used(process) = std::mem::replace(&mut self.places[index], place)
            && let name = (process.name, process.is_encrypted)
            && self.by_name.get(&name) == Some(&gate)
        {
            self.by_name.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(job: u8, rank: u32) -> GlobalProcess {
        GlobalProcess { job: [job; 16], rank }
    }

    fn contact(secret: u8, own_gate: u32) -> ProcessContact {
        let cards = vec![("shm".to_owned(), "card".to_owned())];
        ProcessContact { cards, own_gate, secret: [secret; 32], comes_first: true }
    }

    /// Meets a process that has no gate for this one, and returns its gate.
    fn meet(jobs: &OtherJobs, name: GlobalProcess, secret: u8) -> GateId {
        let gate = jobs.decide(jobs.offer(name, false), Some(contact(secret, 9)));
        jobs.end_meeting(gate);
        gate
    }

    #[test]
    fn a_process_keeps_its_gate_in_later_connections() {
        let jobs = OtherJobs::beside(3);
        assert_eq!(meet(&jobs, process(7, 0), 1), GateId(3));
        assert_eq!(meet(&jobs, process(8, 0), 2), GateId(4));
        let again = jobs.offer(process(7, 0), false);
        assert_eq!(again, GateOffer { kept: Some(GateId(3)), fresh: GateId(5) });
        assert_eq!(jobs.decide(again, None), GateId(3));
        assert_eq!(
            jobs.offer(process(9, 0), false).fresh,
            GateId(5),
            "the new gate was not needed"
        );
        assert_eq!(jobs.name_of(GateId(4)), Some(process(8, 0)));
        assert!(!jobs.has(GateId(2)) && !jobs.has(GateId(6)) && jobs.has(GateId(3)));
        assert_eq!(jobs.describe(GateId(2)), "rank 2");
        assert_eq!(jobs.describe(GateId(4)), "rank 0 of a connected job");
    }

    #[test]
    fn a_contact_gives_cards_and_the_own_gate() {
        let jobs = OtherJobs::beside(1);
        let offer = jobs.offer(process(1, 0), false);
        let gate = offer.fresh;
        assert_eq!((jobs.card(GateId(0), "shm"), jobs.pair(gate)), (None, None));
        assert!(jobs.is_unused(gate) && !jobs.is_unused(GateId(0)));
        jobs.decide(offer, Some(contact(5, 9)));
        assert_eq!(jobs.card(gate, "shm"), Some(Ok("card".to_owned())));
        assert!(jobs.card(gate, "tcp").is_some_and(|card| card.is_err()));
        let (own_gate, secret) = (GateId(9), PairSecret { secret: [5; 32], is_encrypted: false });
        let pair = JobPair { own_gate, peer_rank: 0, secret, comes_first: true };
        assert_eq!(jobs.pair(gate), Some(pair));
        assert_eq!(jobs.secrets(), [secret]);
        assert!(!jobs.is_unused(gate));
    }

    #[test]
    fn a_closed_gate_is_free_again_and_its_secret_is_gone() {
        let jobs = OtherJobs::beside(2);
        let gate = meet(&jobs, process(1, 0), 5);
        jobs.set_stage(gate, GateStage::Closing);
        let offer = jobs.offer(process(1, 0), false);
        assert_eq!(offer, GateOffer { kept: None, fresh: GateId(3) }, "it cannot be used again");
        assert_eq!(jobs.decide(offer, Some(contact(6, 9))), GateId(3));
        jobs.set_stage(gate, GateStage::Closed);
        assert_eq!(jobs.secrets(), [PairSecret { secret: [6; 32], is_encrypted: false }]);
        jobs.free(gate);
        assert!(jobs.is_unused(gate));
        assert_eq!(meet(&jobs, process(2, 0), 7), gate);
        assert_eq!(jobs.offer(process(1, 0), false).kept, Some(GateId(3)), "the new gate is known");
    }

    #[test]
    fn a_process_that_groups_contain_gets_its_gate_again() {
        let jobs = OtherJobs::beside(2);
        let gate = meet(&jobs, process(1, 0), 5);
        jobs.set_stage(gate, GateStage::Closed);
        let offer = jobs.offer(process(1, 0), false);
        assert_eq!(offer, GateOffer { kept: None, fresh: gate });
        assert_eq!(jobs.unmet(), [], "it is in a meeting");
        jobs.decide(offer, Some(contact(6, 9)));
        jobs.end_meeting(gate);
        assert_eq!(jobs.unmet(), [(gate, GateStage::Open)]);
    }

    #[test]
    fn a_process_has_another_gate_for_what_is_encrypted() {
        let jobs = OtherJobs::beside(2);
        let plain = meet(&jobs, process(1, 0), 5);
        let offer = jobs.offer(process(1, 0), true);
        assert_eq!(offer.kept, None);
        let sealed = jobs.decide(offer, Some(contact(6, 9)));
        jobs.end_meeting(sealed);
        assert!(jobs.pair(sealed).unwrap().secret.is_encrypted);
        assert!(!jobs.pair(plain).unwrap().secret.is_encrypted);
        assert_eq!(jobs.offer(process(1, 0), true).kept, Some(sealed));
        assert_eq!(jobs.offer(process(1, 0), false).kept, Some(plain));
        jobs.retire(plain);
        assert_eq!(jobs.offer(process(1, 0), false).kept, None);
        assert_eq!(jobs.offer(process(1, 0), true).kept, Some(sealed));
    }

    #[test]
    fn nobody_gets_the_gate_of_a_meeting_that_has_failed() {
        let jobs = OtherJobs::beside(2);
        let gate = meet(&jobs, process(1, 0), 5);
        let offer = jobs.offer(process(1, 0), false);
        jobs.withdraw(offer);
        assert_eq!(jobs.unmet(), [(gate, GateStage::Open)], "the open gate stays");
        assert_ne!(meet(&jobs, process(2, 0), 6), offer.fresh);
        assert!(jobs.is_unused(offer.fresh) && jobs.has(offer.fresh));
    }
}
