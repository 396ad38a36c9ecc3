//! Tests of two processes of one machine, one of which may end.

use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use driver::conformance::SharedCards;
use driver::{RegionAccess, When};

use super::*;

/// Creates the connected rails of two processes, both within this process.
fn pair() -> [Rails; 2] {
    let cards = SharedCards::default();
    let settings = Settings { single_copy: true, ..Settings::default() };
    let mut both = [0, 1].map(|own| {
        let directory = |_: &str| Box::new(cards.clone()) as Box<dyn Directory>;
        let rails = Rails::create(GateId(own), &settings, directory).unwrap();
        cards.0.lock().unwrap().push(rails.cards().remove(0).1);
        rails
    });
    for (rails, peer) in both.iter_mut().zip([1, 0]) {
        let connection = rails.connect(GateId(peer)).unwrap();
        assert_eq!(connection, PeerConnection { rails: vec![MACHINE_RAIL], fetches: true });
    }
    both
}

#[test]
fn packets_go_inside_the_machine() {
    let [mut one, mut two] = pair();
    let (peer, rail) = (GateId(1), MACHINE_RAIL);
    assert!(one.has_room(peer, rail));
    assert!(one.push(peer, rail, 8, |out| out.fill(1)));
    assert!(one.push_long(peer, rail, 3000, |out, _| out.fill(2)));
    let mut sink = RecordingSink::default();
    while sink.packets.len() < 2 {
        two.poll(&mut sink);
    }
    assert_eq!(sink.packets, [(GateId(0), vec![1; 8]), (GateId(0), vec![2; 3000])]);
    assert!(!two.poll(&mut sink));
    assert_eq!(one.describe(peer, rail), one.machine.describe(peer, 0));
    assert!(one.describe(peer, rail).starts_with("shm"));
}

#[test]
fn only_what_goes_inside_the_machine_is_cut_in_fragments() {
    let [mut one, mut two] = pair();
    assert!(one.fragmentation(&[MACHINE_RAIL]).is_some());
    for others in [&[][..], &[OWN_RAIL], &[RailId(2)], &[MACHINE_RAIL, RailId(2)]] {
        assert_eq!(one.fragmentation(others), None, "{others:?}");
    }
    let mut begins = |one: &mut Rails, rail: RailId| {
        let usual = FragmentLengths { first_packet_bytes: 4096, packet_bytes: 4096 };
        let data = Buffer::zeroed(8000);
        let begins = one.begin_fragments(GateId(1), rail, &data, When::Now, usual) == Some(usual);
        if begins {
            assert!((0..2).all(|_| one.push(GateId(1), rail, 4096, |out| out.fill(1))));
            one.end_fragments(GateId(1), When::Now);
        }
        // A sender of more than a few packets gets a lane.
        let mut sink = RecordingSink::default();
        for _ in 0..20 {
            assert!(one.push(GateId(1), MACHINE_RAIL, 8, |out| out.fill(1)));
            two.poll(&mut sink);
        }
        assert!(sink.packets.len() >= 20);
        begins
    };
    assert!(!begins(&mut one, MACHINE_RAIL), "there is no room for fragments but in a lane");
    assert!(begins(&mut one, MACHINE_RAIL));
    assert!(!begins(&mut one, OWN_RAIL) && !begins(&mut one, RailId(2)));
}

#[test]
fn peers_use_each_others_memory_and_bells() {
    let [mut one, mut two] = pair();
    let bell = format!("Some(Bell(of process {}))", std::process::id());
    assert_eq!(format!("{:?}", one.bell(GateId(1))), bell);
    assert!(one.bell(GateId(2)).is_none());
    assert!(!one.reaches_memory_of(GateId(2)));
    let is_reported = one.describe(GateId(1), MACHINE_RAIL).ends_with("+single-copy");
    assert_eq!(one.reaches_memory_of(GateId(1)), is_reported);
    if !one.reaches_memory_of(GateId(1)) {
        return;
    }
    let (there, here) = (Buffer::zeroed(64), Buffer::zeroed(64));
    there.write(0, &[9; 64]);
    let region = two.regions().declare(&there, RegionAccess::Read).unwrap();
    one.regions().read_region(GateId(1), region, 0, 64, &here, 0).unwrap();
    let mut bytes = [0; 64];
    here.read(0, &mut bytes);
    assert_eq!(bytes, [9; 64]);

    // The machine's driver must withdraw the region of a message.
    let data = Buffer::zeroed(1 << 20);
    let (gate, token, when) = (GateId(1), 3, When::Now);
    let message =
        Announcement { gate, data: &data, token, label: None, may_end_early: false, when };
    let exposure = one.rendezvous(MACHINE_RAIL).unwrap().announce(&message);
    let Exposure::Region(region) = exposure else { panic!("{exposure:?}") };
    one.withdraw(region);
    assert!(!one.machine.withdraw(region), "it was withdrawn");
}

/// A thread stands in for a process: the kernel reports by its id whether it has ended.
#[test]
fn a_peer_that_has_ended_is_found() {
    let [one, two] = pair();
    assert_eq!(one.ended_peer(), None);
    let (notify, notified) = mpsc::channel();
    let (end, ends) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        let link = std::fs::read_link("/proc/thread-self").unwrap();
        notify.send(link.file_name().unwrap().to_str().unwrap().to_owned()).unwrap();
        let _ = ends.recv();
    });
    let thread_id: String = notified.recv().unwrap();
    let card = two.cards().remove(0).1;
    let mut fields: Vec<&str> = card.split(':').collect();
    fields[2] = &thread_id;
    let cards = vec![String::new(), String::new(), fields.join(":")];
    let directory = SharedCards(Arc::new(Mutex::new(cards)), [0; 32]);
    let settings = Settings::default();
    let mut rails = Rails::create(GateId(0), &settings, |_| Box::new(directory.clone())).unwrap();
    rails.connect(GateId(2)).unwrap();
    assert_eq!(rails.ended_peer(), None);
    drop(end);
    thread.join().unwrap();
    // The kernel may take a moment to remove the thread.
    let began = Instant::now();
    while rails.ended_peer().is_none() && began.elapsed() < Duration::from_secs(10) {
        thread::yield_now();
    }
    assert_eq!(rails.ended_peer(), Some(GateId(2)));
}
