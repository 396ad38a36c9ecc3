//! Several networks that lead to the same peer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use base::RailProfile;
use driver::conformance::RecordingSink;
use driver::{FetchEnd, Label, PartPlace, PeerReach, SharedBytes};
use memory::Buffer;

use super::*;

/// What a network is told, and what it reports when it is polled.
#[derive(Default)]
struct Log {
    given_up: Vec<GateId>,
    posted: Vec<usize>,
    /// Labels of parts that begin to arrive.
    parts: VecDeque<Label>,
    /// What came of them: whether their bytes go anywhere, and instead of which of its rails.
    places: Vec<(bool, Option<RailId>)>,
    refuses: bool,
    /// The peer has finished: no rail leads to it any more.
    has_finished: bool,
}

/// A network with one rail, whose insides a test sees.
struct Fake {
    profile: [RailProfile; 1],
    log: Arc<Mutex<Log>>,
}

impl Driver for Fake {
    fn rails(&self) -> &[RailProfile] {
        &self.profile
    }

    fn card(&self) -> String {
        "fake".into()
    }

    fn connect(&mut self, _gate: GateId) -> Result<PeerReach, DriverError> {
        let log = self.log.lock().unwrap();
        if log.refuses {
            return Err(DriverError { message: "it is refused".into() });
        }
        let rails = if log.has_finished { Vec::new() } else { vec![0] };
        Ok(PeerReach { rails, fetches: false })
    }

    fn has_room(&self, _gate: GateId, _rail: usize) -> bool {
        true
    }

    fn post_packet(&mut self, _gate: GateId, rail: usize, length: usize, fill: Fill<'_>) -> bool {
        assert_eq!(rail, 0, "drivers number their own rails");
        fill((&mut vec![0; length]).into());
        self.log.lock().unwrap().posted.push(length);
        true
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> bool {
        let mut log = self.log.lock().unwrap();
        let Some(label) = log.parts.pop_front() else { return false };
        let place = match sink.part(GateId(1), 0, &label, 8) {
            PartPlace::At { instead_of, .. } => (true, instead_of),
            PartPlace::Nowhere => (false, None),
        };
        log.places.push(place);
        true
    }

    fn give_up(&mut self, gate: GateId, _rail: usize) {
        self.log.lock().unwrap().given_up.push(gate);
    }
}

/// A sink for which each part was arriving on the rail that its label names.
struct Superseding(RecordingSink);

impl Sink for Superseding {
    fn packet(&mut self, gate: GateId, rail: usize, bytes: SharedBytes<'_>) {
        self.0.packet(gate, rail, bytes);
    }

    fn part(&mut self, _gate: GateId, _rail: usize, label: &Label, length: usize) -> PartPlace {
        let buffer = Buffer::zeroed(length);
        PartPlace::At { buffer, offset: 0, instead_of: Some(RailId(label[0])) }
    }

    fn part_arrived(&mut self, _: GateId, _: usize, _: &Label, _: usize) {}

    fn sent(&mut self, _: GateId, _: usize, _: u64) {}

    fn carried(&mut self, _: usize, _: u64, _: u64) {}

    fn written(&mut self, _: u64) {}

    fn fetched(&mut self, _: u64, _: FetchEnd) {}

    fn lost(&mut self, gate: GateId, rail: usize, why: DriverError) {
        self.0.lost(gate, rail, why);
    }
}

/// Rails with two networks, and the insides of these.
fn rails() -> (Rails, [Arc<Mutex<Log>>; 2]) {
    let nobody = |_: &str| -> Box<dyn Directory> {
        Box::new(|_| Err(DriverError { message: "it is elsewhere".into() }))
    };
    let mut rails = Rails::create(GateId(0), &Settings::default(), nobody).unwrap();
    let logs: [Arc<Mutex<Log>>; 2] = Default::default();
    for (number, log) in logs.iter().enumerate() {
        let profile = RailProfile { name: format!("fake:{number}"), ..rails.profiles()[0].clone() };
        let driver = Box::new(Fake { profile: [profile], log: Arc::clone(log) });
        rails.networks.push(NetworkRails { name: "fake", first: NETWORK_RAILS + number, driver });
    }
    (rails, logs)
}

#[test]
fn several_networks_lead_to_the_same_peer() {
    let (mut rails, logs) = rails();
    let connection = rails.connect(GateId(1)).unwrap();
    assert_eq!(connection, PeerConnection { rails: vec![RailId(2), RailId(3)], fetches: false });
    for (length, rail) in [(5, RailId(3)), (6, RailId(2)), (7, RailId(3))] {
        assert!(rails.push(GateId(1), rail, length, |_| ()));
    }
    let posted = logs.each_ref().map(|log| log.lock().unwrap().posted.clone());
    assert_eq!(posted, [vec![6], vec![5, 7]]);
    logs[0].lock().unwrap().refuses = true;
    assert_eq!(rails.connect(GateId(2)).unwrap().rails, [RailId(3)]);
    logs[1].lock().unwrap().refuses = true;
    assert!(rails.connect(GateId(3)).is_err());
}

#[test]
fn a_peer_that_has_finished_is_no_failure() {
    let (mut rails, logs) = rails();
    logs[0].lock().unwrap().has_finished = true;
    logs[1].lock().unwrap().refuses = true;
    assert_eq!(rails.connect(GateId(1)).unwrap().rails, []);
}

#[test]
fn a_part_that_comes_over_another_network_ends_the_rail_on_which_it_was_arriving() {
    let (mut rails, logs) = rails();
    let mut sink = Superseding(RecordingSink::default());
    // On its own rail, as the network itself deals with.
    logs[1].lock().unwrap().parts.push_back([3; 24]);
    rails.poll(&mut sink);
    assert_eq!(logs[1].lock().unwrap().places, [(true, Some(RailId(0)))]);
    assert!(sink.0.lost.is_empty());
    // On a rail of another network.
    logs[0].lock().unwrap().parts.push_back([3; 24]);
    rails.poll(&mut sink);
    assert_eq!(logs[0].lock().unwrap().places, [(true, None)]);
    assert_eq!(logs[1].lock().unwrap().given_up, [GateId(1)]);
    assert_eq!(sink.0.lost.len(), 1);
    assert_eq!((sink.0.lost[0].0, sink.0.lost[0].1), (GateId(1), 3));
    assert!(sink.0.lost[0].2.starts_with("over fake:1: "), "{}", sink.0.lost[0].2);
}
