//! Tests of several networks that lead to one peer.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard};

use base::{FragmentLengths, MessageLabel, RailProfile};
use driver::conformance::RecordingSink;
use driver::{Announcement, Exposure, Fetch, FetchEnd, Label, PartPlace, PeerReach, SharedBytes};

use super::*;

mod machine;

/// The calls to a network, its answers, and its reports when it is polled.
#[derive(Default)]
struct Log {
    /// The calls in words, with the network's own rail numbers.
    calls: Vec<String>,
    posted: Vec<usize>,
    /// Labels of parts that begin to arrive.
    parts: VecDeque<Label>,
    /// What followed from the parts: whether their bytes are stored, and which of the network's
    /// rails they replace.
    places: Vec<(bool, Option<RailId>)>,
    polls: u32,
    refuses: bool,
    /// Whether the peer has finished, so that no rail leads to it any more.
    has_finished: bool,
    has_room: bool,
    /// Whether some posted data has not left yet.
    holds: bool,
    wakes_for_room: bool,
    /// Whether data may have arrived without the descriptor becoming readable.
    is_unsure: bool,
    has_departed: bool,
    /// The rails over which peers have answered.
    answered: Vec<usize>,
    /// Whether the first peer was reached by other drivers at each call that asked for it.
    reached_elsewhere: Vec<bool>,
    /// Whether it supports announced messages, and for which regions.
    has_rendezvous: bool,
    regions: Vec<RegionToken>,
    writes: bool,
    awaits_senders: bool,
}

impl Log {
    fn take_calls(&mut self) -> Vec<String> {
        std::mem::take(&mut self.calls)
    }
}

/// A network whose state a test can see.
struct Fake {
    profiles: Vec<RailProfile>,
    descriptor: Option<OwnedFd>,
    log: Arc<Mutex<Log>>,
}

impl Fake {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap()
    }
}

impl Driver for Fake {
    fn rails(&self) -> &[RailProfile] {
        &self.profiles
    }

    fn card(&self) -> String {
        format!("card of {}", self.profiles[0].name)
    }

    fn connect(&mut self, _gate: GateId) -> Result<PeerReach, DriverError> {
        let log = self.log();
        if log.refuses {
            return Err(DriverError { message: "it is refused".into() });
        }
        let count = if log.has_finished { 0 } else { self.profiles.len() };
        Ok(PeerReach { rails: (0..count).collect(), fetches: false })
    }

    fn has_room(&self, gate: GateId, rail: usize) -> bool {
        let mut log = self.log();
        log.calls.push(format!("has_room {} {rail}", gate.0));
        log.has_room
    }

    fn post_packet(&mut self, gate: GateId, rail: usize, length: usize, fill: Fill<'_>) -> bool {
        let mut log = self.log();
        log.calls.push(format!("post_packet {} {rail}", gate.0));
        fill((&mut vec![0; length]).into());
        log.posted.push(length);
        true
    }

    fn post_part(&mut self, gate: GateId, rail: usize, part: Part) {
        self.log().calls.push(format!("post_part {} {rail} {}", gate.0, part.token));
    }

    fn reaches(&self, gate: GateId, rail: usize) -> bool {
        gate == GateId(1) && self.log().answered.contains(&rail)
    }

    fn backlog(&self, gate: GateId, rail: usize) -> u64 {
        self.log().calls.push(format!("backlog {} {rail}", gate.0));
        7
    }

    fn describe(&self, gate: GateId, rail: usize) -> String {
        format!("{} to {}", self.profiles[rail].name, gate.0)
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> bool {
        let mut log = self.log.lock().unwrap();
        log.polls += 1;
        log.reached_elsewhere.push(sink.is_reached_elsewhere(GateId(1)));
        let Some(label) = log.parts.pop_front() else { return false };
        let place = match sink.part(GateId(1), 0, &label, 8) {
            PartPlace::At { instead_of, .. } => (true, instead_of),
            PartPlace::Nowhere => (false, None),
        };
        log.places.push(place);
        true
    }

    fn is_flushed(&self) -> bool {
        !self.log().holds
    }

    fn give_up(&mut self, gate: GateId, rail: usize) {
        self.log().calls.push(format!("give_up {} {rail}", gate.0));
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.as_ref().map(AsFd::as_fd)
    }

    fn may_sleep(&self) -> bool {
        !self.log().is_unsure
    }

    fn wakes_for_room(&self) -> bool {
        self.log().wakes_for_room
    }

    fn keep_buffers_on(&mut self, node: u32) {
        self.log().calls.push(format!("keep_buffers_on {node}"));
    }

    fn has_departed(&self, gate: GateId) -> bool {
        gate == GateId(1) && self.log().has_departed
    }

    fn leave(&mut self, sink: &mut dyn Sink, limit: Duration) {
        self.log().reached_elsewhere.push(sink.is_reached_elsewhere(GateId(1)));
        let last = self.profiles.len() - 1;
        sink.lost(GateId(1), last, DriverError { message: format!("after {limit:?}") });
    }

    fn rendezvous(&mut self) -> Option<&mut dyn Rendezvous> {
        let can = self.log().has_rendezvous;
        can.then_some(self)
    }

    fn awaits_senders(&self) -> bool {
        self.log().awaits_senders
    }
}

impl Rendezvous for Fake {
    fn announce(&mut self, _message: &Announcement<'_>) -> Exposure {
        Exposure::None
    }

    fn announced(&mut self, _message: &Announcement<'_>, _region: RegionToken) {}

    fn serve(&mut self, _sink: &mut dyn Sink) -> bool {
        self.log().calls.push("serve".into());
        false
    }

    fn withdraw(&mut self, region: RegionToken) -> bool {
        let mut log = self.log();
        let before = log.regions.len();
        log.regions.retain(|other| *other != region);
        log.regions.len() < before
    }

    fn expect(
        &mut self,
        _gate: GateId,
        _label: MessageLabel,
        _into: &Buffer,
        _token: u64,
        _sink: &dyn Sink,
    ) -> bool {
        false
    }

    fn stop_expecting(&mut self, _token: u64) -> bool {
        !self.log().writes
    }

    fn fetch(&mut self, _fetch: Fetch, _sink: &mut dyn Sink) {}

    fn set_program_state(&mut self, state: ProgramState) {
        self.log().calls.push(format!("set_program_state {state:?}"));
    }
}

/// A sink for which each part was already arriving on the rail that its label names.
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

/// Creates rails with one network for each entry, which gives its number of rails and its
/// descriptor. Returns the states of the networks, too.
fn rails_of<const COUNT: usize>(
    networks: [(usize, Option<OwnedFd>); COUNT],
) -> (Rails, [Arc<Mutex<Log>>; COUNT]) {
    let nobody = |_: &str| -> Box<dyn Directory> {
        Box::new(|_| Err(DriverError { message: "it is elsewhere".into() }))
    };
    let mut rails = Rails::create(GateId(0), &Settings::default(), nobody).unwrap();
    let logs = networks.map(|(count, descriptor)| {
        let log: Arc<Mutex<Log>> = Arc::default();
        let (number, first) = (rails.networks.len(), NETWORK_RAILS + rails.network_rails().count());
        let profile = |rail| {
            let name = format!("fake{number}:{rail}");
            RailProfile { name, ..rails.profiles()[0].clone() }
        };
        let profiles = (0..count).map(profile).collect();
        let driver = Box::new(Fake { profiles, descriptor, log: Arc::clone(&log) });
        rails.networks.push(NetworkRails { name: ["one", "two", "three"][number], first, driver });
        log
    });
    (rails, logs)
}

/// Creates rails with two networks, of one rail each.
fn rails() -> (Rails, [Arc<Mutex<Log>>; 2]) {
    rails_of([(1, None), (1, None)])
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
    assert_eq!(rails.connect(GateId(3)).unwrap_err().message, "it is refused; it is refused");
    rails.drop_networks();
    let alone = rails.connect(GateId(3)).unwrap_err().message;
    assert_eq!(alone, "it is elsewhere", "the machine's driver says why");
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
    // On a rail of its own, which the network itself handles.
    logs[1].lock().unwrap().parts.push_back([3; 24]);
    rails.poll(&mut sink);
    assert_eq!(logs[1].lock().unwrap().places, [(true, Some(RailId(0)))]);
    assert!(sink.0.lost.is_empty());
    // On a rail of another network.
    logs[0].lock().unwrap().parts.push_back([3; 24]);
    rails.poll(&mut sink);
    assert_eq!(logs[0].lock().unwrap().places, [(true, None)]);
    assert_eq!(logs[1].lock().unwrap().take_calls(), ["give_up 1 0"]);
    assert_eq!(sink.0.lost.len(), 1);
    assert_eq!((sink.0.lost[0].0, sink.0.lost[0].1), (GateId(1), 3));
    assert!(sink.0.lost[0].2.starts_with("over fake1:0 to 1: "), "{}", sink.0.lost[0].2);
}

#[test]
fn what_concerns_a_rail_goes_to_its_driver_under_its_own_number() {
    let (mut rails, logs) = rails_of([(2, None), (1, None)]);
    let names: Vec<_> = rails.profiles().into_iter().map(|profile| profile.name).collect();
    assert_eq!(names[2..], ["fake0:0", "fake0:1", "fake1:0"]);
    let reached = rails.connect(GateId(7)).unwrap().rails;
    assert_eq!(reached, [RailId(2), RailId(3), RailId(4)]);
    assert_eq!(rails.describe(GateId(0), rails.own_rail()), "self");
    assert!(![rails.own_rail(), MACHINE_RAIL].iter().any(|rail| rails.is_network(*rail)));
    for (rail, (network, own)) in reached.into_iter().zip([(0, 0), (0, 1), (1, 0)]) {
        assert!(rails.is_network(rail));
        assert_eq!(rails.describe(GateId(7), rail), format!("fake{network}:{own} to 7"));
        assert_eq!(rails.backlog(GateId(7), rail), 7);
        for has_room in [false, true] {
            logs[network].lock().unwrap().has_room = has_room;
            assert_eq!(rails.has_room(GateId(7), rail), has_room);
        }
        let label = Label::default();
        let part = Part { label, buffer: Buffer::zeroed(1), offset: 0, length: 1, token: 5 };
        rails.post_part(GateId(7), rail, part);
        let mut written = 0;
        assert!(rails.push(GateId(7), rail, 9, |out| written += out.len()));
        assert!(rails.push_long(GateId(7), rail, 10, |out, stores| {
            assert_eq!(stores, Stores::Regular);
            written += out.len();
        }));
        assert_eq!(written, 19);
        rails.give_up(GateId(7), rail);
        let calls = ["backlog", "has_room", "has_room", "post_part", "post_packet", "post_packet"];
        let calls = calls.iter().chain(&["give_up"]).map(|what| match *what {
            "post_part" => format!("{what} 7 {own} 5"),
            _ => format!("{what} 7 {own}"),
        });
        assert_eq!(logs[network].lock().unwrap().take_calls(), calls.collect::<Vec<_>>());
        assert_eq!(logs[1 - network].lock().unwrap().take_calls(), [""; 0]);
    }
}

#[test]
fn each_network_can_ask_whether_others_reach_a_peer() {
    let (mut rails, logs) = rails_of([(1, None), (2, None), (1, None)]);
    let asked = |rails: &mut Rails| {
        rails.poll(&mut RecordingSink::default());
        let polled = logs.each_ref().map(|log| log.lock().unwrap().reached_elsewhere.split_off(0));
        rails.leave(&mut RecordingSink::default(), Duration::ZERO);
        let left = logs.each_ref().map(|log| log.lock().unwrap().reached_elsewhere.split_off(0));
        assert_eq!(polled, left);
        polled.map(|answers| answers[0])
    };
    assert_eq!(asked(&mut rails), [false; 3]);
    logs[1].lock().unwrap().answered.push(1);
    assert_eq!(asked(&mut rails), [true, false, true]);
    logs[0].lock().unwrap().answered.push(0);
    assert_eq!(asked(&mut rails), [true; 3]);
}

#[test]
fn networks_are_asked_and_told_together() {
    let (mut rails, logs) = rails_of([(2, None), (1, None)]);
    let cards = rails.cards();
    assert_eq!(cards[0].0, MACHINE);
    let of_networks = [("one", "card of fake0:0"), ("two", "card of fake1:0")];
    assert_eq!(cards[1..], of_networks.map(|(name, card)| (name, card.to_owned())));

    rails.keep_buffers_on(3);
    for log in &logs {
        assert_eq!(log.lock().unwrap().take_calls(), ["keep_buffers_on 3"]);
    }
    let mut sink = RecordingSink::default();
    rails.leave(&mut sink, Duration::from_secs(2));
    let lost: Vec<_> = sink.lost.iter().map(|(_, rail, why)| (*rail, why.as_str())).collect();
    assert_eq!(lost, [(3, "after 2s"), (4, "after 2s")]);

    assert!(rails.has_networks());
    rails.drop_networks();
    assert!(!rails.has_networks());
    assert_eq!((rails.profiles().len(), rails.cards().len()), (2, 1));
}

/// Calls `check` with rails whose two networks answer in each of the four possible combinations, as
/// set by `set`.
fn with_answers(set: impl Fn(&mut Log, bool), mut check: impl FnMut(&mut Rails, bool, bool)) {
    for (first, second) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut rails, logs) = rails();
        set(&mut logs[0].lock().unwrap(), first);
        set(&mut logs[1].lock().unwrap(), second);
        check(&mut rails, first, second);
    }
}

#[test]
fn what_holds_of_any_network_and_what_of_all() {
    with_answers(
        |log, holds| log.holds = holds,
        |rails, one, two| assert_eq!(rails.is_flushed(), !one && !two),
    );
    with_answers(
        |log, departed| log.has_departed = departed,
        |rails, one, two| {
            assert_eq!(rails.has_departed(GateId(1)), one || two);
            assert!(!rails.has_departed(GateId(2)));
        },
    );
    with_answers(
        |log, awaits| log.awaits_senders = awaits,
        |rails, one, two| assert_eq!(rails.awaits_senders(), one || two),
    );
    with_answers(
        |log, wakes| log.wakes_for_room = wakes,
        |rails, one, two| {
            assert_eq!(rails.wakes_for_room(), one && two);
            rails.is_machine_used = true;
            assert!(!rails.wakes_for_room(), "rings of the machine tell nobody");
            rails.is_machine_used = false;
            rails.drop_networks();
            assert!(!rails.wakes_for_room(), "there is nothing that would wake");
        },
    );
    with_answers(
        |log, writes| (log.has_rendezvous, log.writes) = (true, writes),
        |rails, one, two| assert_eq!(rails.stop_expecting(5), !one && !two),
    );
}

#[test]
fn a_process_that_has_a_rendezvous_is_asked_for_it() {
    let (mut rails, logs) = rails_of([(2, None), (1, None)]);
    logs[1].lock().unwrap().has_rendezvous = true;
    assert!(rails.rendezvous(OWN_RAIL).is_none());
    assert!(rails.rendezvous(MACHINE_RAIL).is_some());
    assert!(rails.rendezvous(RailId(3)).is_none());
    rails.rendezvous(RailId(4)).unwrap().serve(&mut RecordingSink::default());
    rails.set_program_state(ProgramState::Computes);
    let calls = logs.each_ref().map(|log| log.lock().unwrap().take_calls());
    assert_eq!(calls, [vec![], vec!["serve".to_owned(), "set_program_state Computes".to_owned()]]);

    let region = RegionToken { place: 77, secret: 5 };
    logs[1].lock().unwrap().regions = vec![region, RegionToken::NONE];
    rails.withdraw(region);
    assert_eq!(logs[1].lock().unwrap().regions, [RegionToken::NONE]);
}

/// Returns the far end, and the descriptor that a process would sleep on.
fn descriptor() -> (UnixStream, OwnedFd) {
    let (far, near) = UnixStream::pair().unwrap();
    (far, near.into())
}

#[test]
fn a_network_that_rings_no_bell_must_be_polled() {
    let is_polled = |has_descriptor: bool, is_unsure: bool, wakes_for_room: bool, holds: bool| {
        let (_far, near) = descriptor();
        let (_other, always) = descriptor();
        let networks = [(1, has_descriptor.then_some(near)), (1, Some(always))];
        let (rails, logs) = rails_of(networks);
        let mut log = logs[0].lock().unwrap();
        (log.is_unsure, log.wakes_for_room, log.holds) = (is_unsure, wakes_for_room, holds);
        drop(log);
        rails.must_be_polled()
    };
    for (wakes, holds) in [(false, false), (false, true), (true, false), (true, true)] {
        assert!(is_polled(false, false, wakes, holds), "nothing tells that something arrives");
        assert!(is_polled(true, true, wakes, holds), "something may have");
        assert_eq!(is_polled(true, false, wakes, holds), holds && !wakes);
    }
}

#[test]
fn a_process_that_sleeps_is_woken_by_networks_and_by_the_own_bell() {
    let long = Duration::from_secs(60);
    let is_woken = |rails: &Rails, wake: &mut dyn FnMut()| {
        let bell = rails.doorbell().unwrap().expect("the machine's driver has one");
        let ticket = bell.arm();
        wake();
        let began = std::time::Instant::now();
        bell.wait(ticket, long);
        assert!(began.elapsed() < long / 2);
    };
    let (mut far, near) = descriptor();
    let (rails, _) = rails_of([(1, Some(near))]);
    is_woken(&rails, &mut || std::io::Write::write_all(&mut far, &[1]).unwrap());
    let (_far, near) = descriptor();
    for rails in [rails_of([]).0, rails_of([(1, Some(near))]).0] {
        is_woken(&rails, &mut || rails.ring_own_doorbell());
    }
}

/// Polls `rounds` times. Returns the rounds in which the network was polled.
fn polled_rounds(rails: &mut Rails, log: &Mutex<Log>, rounds: u32) -> Vec<u32> {
    let is_polled = |_: &u32| {
        let before = log.lock().unwrap().polls;
        rails.poll(&mut Superseding(RecordingSink::default()));
        log.lock().unwrap().polls > before
    };
    (0..rounds).filter(is_polled).collect()
}

/// Returns the number of rounds between each of these and the next.
fn gaps(rounds: &[u32]) -> Vec<u32> {
    rounds.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn other_machines_are_polled_less_often_while_nothing_comes() {
    let (mut rails, [log]) = rails_of([(1, None)]);
    let always: Vec<u32> = (0..20).collect();
    assert_eq!(polled_rounds(&mut rails, &log, 20), always, "there is nobody else");

    rails.is_machine_used = true;
    rails.ticks_max = u64::MAX;
    let quiet = polled_rounds(&mut rails, &log, 400);
    assert_eq!(gaps(&quiet)[..3], [65, 65, 65], "the period is the longest by now");
    log.lock().unwrap().parts.push_back([2; 24]);
    let found = polled_rounds(&mut rails, &log, 300);
    assert_eq!(gaps(&found)[..6], [5, 9, 17, 33, 65, 65]);

    rails.expect_oversubscription();
    log.lock().unwrap().parts.push_back([2; 24]);
    let oversubscribed = polled_rounds(&mut rails, &log, 100);
    assert_eq!(gaps(&oversubscribed)[..5], [2, 3, 5, 5, 5]);

    log.lock().unwrap().holds = true;
    assert_eq!(polled_rounds(&mut rails, &log, 20), always, "what is held back shall leave");
}

/// With a process on this machine, rounds after sleeps counted as much as rounds of a process that
/// spins: a failed host was reported only after 64 sleeps.
#[test]
fn rounds_that_are_far_apart_all_poll_other_machines() {
    let (mut rails, [log]) = rails_of([(1, None)]);
    rails.is_machine_used = true;
    let polls = |rails: &mut Rails| {
        let before = log.lock().unwrap().polls;
        std::thread::sleep(Duration::from_millis(20));
        rails.poll(&mut Superseding(RecordingSink::default()));
        log.lock().unwrap().polls - before
    };
    assert_eq!([(); 10].map(|()| polls(&mut rails)), [1; 10]);
}

#[test]
fn a_round_is_active_if_any_rail_is() {
    let (mut rails, logs) = rails();
    let mut sink = Superseding(RecordingSink::default());
    assert!(!rails.poll(&mut sink));
    for log in &logs {
        log.lock().unwrap().parts.push_back([2; 24]);
        assert!(rails.poll(&mut sink));
        assert!(!rails.poll(&mut sink));
    }
    assert!(rails.push(GateId(0), OWN_RAIL, 8, |out| out.fill(3)));
    assert!(rails.push_long(GateId(0), OWN_RAIL, 9, |out, _| out.fill(4)));
    assert!(rails.poll(&mut sink));
    assert!(!rails.poll(&mut sink));
    assert_eq!(sink.0.packets, [(GateId(0), vec![3; 8]), (GateId(0), vec![4; 9])]);
}

#[test]
fn networks_that_cannot_be_had_are_no_fault_where_another_one_can() {
    let add = |networks: &str| {
        let mut rails = rails_of([]).0;
        let networks = networks.to_owned();
        let settings = Settings { networks, ..Settings::default() };
        let nobody = |_: &str| -> Box<dyn Directory> {
            Box::new(|_| Err(DriverError { message: "it is elsewhere".into() }))
        };
        rails.add_networks(GateId(0), &settings, nobody).map(|()| rails)
    };
    let names = |rails: Rails| {
        let names: Vec<_> = rails.cards().into_iter().map(|(name, _)| name).collect();
        let firsts: Vec<_> = rails.networks.iter().map(|network| network.first).collect();
        (names, firsts)
    };
    let absent = "ofi:nosuch:nowhere0";
    assert!(add(absent).is_err_and(|why| why.message.contains("ofi")));
    assert!(add("no/network/at all").is_err());
    let rails = add(&format!("{absent},datagram")).unwrap();
    assert_eq!(names(rails), (vec![MACHINE, "datagram"], vec![NETWORK_RAILS]));
    let rails = add("tcp:lo,datagram").unwrap();
    assert_eq!(rails.profiles()[3].name, "datagram");
    assert_eq!(names(rails), (vec![MACHINE, "tcp", "datagram"], vec![2, 3]));
}
