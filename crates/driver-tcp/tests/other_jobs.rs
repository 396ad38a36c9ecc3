//! Processes of different jobs, which identify each other by gates that differ from their ranks.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base::GateId;
use driver::conformance::{self, RecordingSink};
use driver::{Directory, Driver, DriverError, JobPair, Secret};
use driver_tcp::{NetworkSelection, Options, Tcp};

/// The cards of all processes, by the number of the process in the test.
type Cards = Arc<Mutex<Vec<String>>>;

/// A directory of a process that has no peers but those of other jobs.
struct Strangers {
    cards: Cards,
    /// Each peer: the gate, the number of its card, and how both identify each other.
    peers: Vec<(GateId, usize, JobPair)>,
}

impl Directory for Strangers {
    fn card(&mut self, gate: GateId) -> Result<String, DriverError> {
        let found = self.peers.iter().find(|peer| peer.0 == gate);
        let (_, card, _) = found.ok_or(DriverError { message: "no such peer".into() })?;
        Ok(self.cards.lock().unwrap()[*card].clone())
    }

    fn secret(&mut self) -> Result<Secret, DriverError> {
        Ok([9; 32])
    }

    fn between_jobs(&mut self, gate: GateId) -> Option<JobPair> {
        self.peers.iter().find(|peer| peer.0 == gate).map(|peer| peer.2)
    }

    fn other_secrets(&mut self) -> Vec<Secret> {
        self.peers.iter().map(|peer| peer.2.secret).collect()
    }
}

fn pair_of(own_gate: u32, peer_rank: u32, secret: u8, comes_first: bool) -> JobPair {
    JobPair { own_gate: GateId(own_gate), peer_rank, secret: [secret; 32], comes_first }
}

fn process(cards: &Cards, rank: u32, peers: Vec<(GateId, usize, JobPair)>) -> Tcp {
    let options = Options {
        selection: NetworkSelection::parse("lo").unwrap(),
        records: 1,
        silence: Duration::from_secs(10),
    };
    let directory = Strangers { cards: Arc::clone(cards), peers };
    let tcp = Tcp::create(GateId(rank), options, Box::new(directory)).unwrap();
    cards.lock().unwrap().push(tcp.card());
    tcp
}

#[test]
fn processes_of_two_jobs_conform() {
    let cards = Cards::default();
    // Rank 0 names the other process by gate 1; rank 3 of the other job names it by gate 0.
    let mut one = process(&cards, 0, vec![(GateId(1), 1, pair_of(0, 3, 7, true))]);
    let mut two = process(&cards, 3, vec![(GateId(0), 0, pair_of(1, 0, 7, false))]);
    one.connect(GateId(1)).unwrap();
    two.connect(GateId(0)).unwrap();
    conformance::packets(&mut one, Some(&mut two), GateId(0));
    conformance::packets(&mut two, Some(&mut one), GateId(1));
    assert_eq!((one.refused(), two.refused()), (0, 0));
}

#[test]
fn a_process_of_a_job_does_not_pass_for_one_of_another() {
    let cards = Cards::default();
    // Two jobs are connected with the victim, under secrets of their own, at gates 0 and 1.
    let peers =
        vec![(GateId(0), 1, pair_of(4, 0, 7, true)), (GateId(1), 2, pair_of(5, 0, 8, true))];
    let mut victim = process(&cards, 3, peers);
    let mut liar = process(&cards, 0, vec![(GateId(1), 0, pair_of(1, 3, 7, false))]);
    // It has the secret of gate 0, and claims to be gate 1.
    liar.connect(GateId(1)).unwrap();
    let (mut first, mut second) = (RecordingSink::default(), RecordingSink::default());
    let start = Instant::now();
    while victim.refused() == 0 {
        victim.poll(&mut first);
        liar.poll(&mut second);
        assert!(start.elapsed() < Duration::from_secs(30), "the claim was not refused");
    }
    assert!(!victim.reaches(GateId(1), 0) && !liar.reaches(GateId(1), 0));
}
