//! The processes of other jobs that this process is connected with, and the gates that name them.
//!
//! Gates below the size of the own job are its ranks. The processes of other jobs get the next
//! numbers, which each process assigns for itself.
//!
//! Why: docs/internals/decisions/0092-processes-of-other-jobs-get-the-next-gates.md

use std::collections::HashMap;
use std::sync::Arc;

use base::GateId;
use driver::{DriverError, JobPair, Secret};
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
    processes: Vec<(GlobalProcess, Option<ProcessContact>)>,
    by_name: HashMap<GlobalProcess, GateId>,
    /// The secrets of all contacts, each once.
    secrets: Vec<Secret>,
}

impl OtherJobs {
    /// Creates the empty table of a job with so many processes.
    pub fn beside(size: u32) -> Self {
        let table = GateTable { first: size, ..GateTable::default() };
        Self { table: Arc::new(Mutex::new(table)) }
    }

    /// Returns the gate of a process of another job. A process without a gate gets the next one.
    pub fn gate_of(&self, process: GlobalProcess) -> GateId {
        let table = &mut *self.table.lock();
        let next = GateId(table.first + table.processes.len() as u32);
        let gate = *table.by_name.entry(process).or_insert(next);
        if gate == next {
            table.processes.push((process, None));
        }
        gate
    }

    /// Sets how the process behind a gate is reached, unless that is known already.
    pub fn introduce(&self, gate: GateId, contact: ProcessContact) {
        let table = &mut *self.table.lock();
        let secret = contact.secret;
        let Some((_, known @ None)) = table.entry_mut(gate) else { return };
        *known = Some(contact);
        if !table.secrets.contains(&secret) {
            table.secrets.push(secret);
        }
    }

    /// Returns the process of another job that has this gate.
    pub fn name_of(&self, gate: GateId) -> Option<GlobalProcess> {
        self.table.lock().entry(gate).map(|(name, _)| *name)
    }

    /// Whether a gate was given to a process of another job.
    pub fn has(&self, gate: GateId) -> bool {
        self.table.lock().entry(gate).is_some()
    }

    /// Returns the card of a driver in the process behind a gate; `None` if the gate is none of
    /// another job's process.
    pub fn card(&self, gate: GateId, driver: &str) -> Option<Result<String, DriverError>> {
        let table = self.table.lock();
        let (name, contact) = table.entry(gate)?;
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
        let (name, contact) = table.entry(gate)?;
        let contact = contact.as_ref()?;
        Some(JobPair {
            own_gate: GateId(contact.own_gate),
            peer_rank: name.rank,
            secret: contact.secret,
            comes_first: contact.comes_first,
        })
    }

    /// Returns the secrets that this process has in common with processes of other jobs, each once.
    pub fn secrets(&self) -> Vec<Secret> {
        self.table.lock().secrets.clone()
    }

    /// Returns the name of a process for users.
    pub fn describe(&self, gate: GateId) -> String {
        match self.name_of(gate) {
            None => format!("rank {}", gate.0),
            Some(process) => format!("rank {} of a connected job", process.rank),
        }
    }
}

impl GateTable {
    fn entry(&self, gate: GateId) -> Option<&(GlobalProcess, Option<ProcessContact>)> {
        self.processes.get(gate.0.checked_sub(self.first)? as usize)
    }

    fn entry_mut(&mut self, gate: GateId) -> Option<&mut (GlobalProcess, Option<ProcessContact>)> {
        self.processes.get_mut(gate.0.checked_sub(self.first)? as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_keeps_its_gate_in_later_connections() {
        let jobs = OtherJobs::beside(3);
        let process = |job: u8, rank| GlobalProcess { job: [job; 16], rank };
        assert_eq!(jobs.gate_of(process(7, 0)), GateId(3));
        assert_eq!(jobs.gate_of(process(8, 0)), GateId(4));
        assert_eq!(jobs.gate_of(process(7, 0)), GateId(3));
        assert_eq!(jobs.name_of(GateId(4)), Some(process(8, 0)));
        assert!(!jobs.has(GateId(2)) && !jobs.has(GateId(5)) && jobs.has(GateId(3)));
        assert_eq!(jobs.describe(GateId(2)), "rank 2");
        assert_eq!(jobs.describe(GateId(4)), "rank 0 of a connected job");
    }

    #[test]
    fn a_contact_gives_cards_and_the_own_gate() {
        let jobs = OtherJobs::beside(1);
        let gate = jobs.gate_of(GlobalProcess { job: [1; 16], rank: 0 });
        assert_eq!((jobs.card(GateId(0), "shm"), jobs.pair(gate)), (None, None));
        let cards = vec![("shm".to_owned(), "card".to_owned())];
        let (secret, comes_first) = ([5; 32], true);
        jobs.introduce(gate, ProcessContact { cards, own_gate: 9, secret, comes_first });
        assert_eq!(jobs.card(gate, "shm"), Some(Ok("card".to_owned())));
        assert!(jobs.card(gate, "tcp").is_some_and(|card| card.is_err()));
        let own_gate = GateId(9);
        assert_eq!(jobs.pair(gate), Some(JobPair { own_gate, peer_rank: 0, secret, comes_first }));
        assert_eq!(jobs.secrets(), [secret]);
    }
}
