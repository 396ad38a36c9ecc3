//! Drivers of several processes in this one, over libfabric's provider of TCP on the loopback
//! interface. Without libfabric they are skipped.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base::GateId;
use driver::conformance::{self, RecordingSink, SharedCards};
use driver::{Directory, Driver, DriverError, Secret, Settings};

type Cards = Arc<Mutex<Vec<String>>>;

fn open(
    gate: u32,
    networks: &str,
    directory: impl Directory + 'static,
) -> Result<Option<Box<dyn Driver>>, DriverError> {
    let silence = Duration::from_secs(1);
    let settings = Settings { networks: networks.into(), silence, ..Settings::default() };
    driver_ofi::open(GateId(gate), &settings, Box::new(directory))
}

/// Whether there is no libfabric here, which is told.
fn is_missing() -> bool {
    let missing = open(0, "ofi:tcp:lo", SharedCards::default()).err();
    let why = missing.filter(|error| error.message.contains("cannot be loaded"));
    if let Some(why) = &why {
        eprintln!("skipped: {why}");
    }
    why.is_some()
}

/// So many drivers that are connected, with these secrets.
fn connected<const COUNT: usize>(secrets: [u8; COUNT]) -> [Box<dyn Driver>; COUNT] {
    let cards = Cards::default();
    let mut gate = 0;
    let mut drivers = secrets.map(|secret| {
        let directory = SharedCards(Arc::clone(&cards), [secret; 32]);
        gate += 1;
        open(gate - 1, "eth9, ofi:tcp:lo", directory).unwrap().unwrap()
    });
    *cards.lock().unwrap() = drivers.iter().map(|driver| driver.card()).collect();
    for (gate, driver) in drivers.iter_mut().enumerate() {
        for other in (0..COUNT).filter(|other| *other != gate) {
            assert_eq!(driver.connect(GateId(other as u32)).unwrap().rails, [0]);
        }
    }
    drivers
}

/// Polls two drivers until what is wanted has come; fails after some seconds.
fn poll_until(
    drivers: [&mut dyn Driver; 2],
    records: &mut [RecordingSink; 2],
    is_done: impl Fn(&[RecordingSink; 2]) -> bool,
) {
    let end = Instant::now() + Duration::from_secs(20);
    let [one, two] = drivers;
    while !is_done(records) {
        assert!(Instant::now() < end, "it has not come: {records:?}");
        one.poll(&mut records[0]);
        two.poll(&mut records[1]);
    }
}

#[test]
fn conforms() {
    if is_missing() {
        return;
    }
    let [mut one, mut two] = connected([1, 1]);
    conformance::packets(&mut *one, Some(&mut *two), GateId(0));
    conformance::packets(&mut *two, Some(&mut *one), GateId(1));
}

#[test]
fn a_sleeper_is_woken() {
    if is_missing() {
        return;
    }
    let [mut one, mut two] = connected([1, 1]);
    let mut record = RecordingSink::default();
    // The first connects, and lets all that belongs to that come.
    for length in [8, 8, 4000] {
        let mut records = Default::default();
        assert!(one.post_packet(GateId(1), 0, length, &mut |out| out.fill(1)));
        poll_until([&mut *one, &mut *two], &mut records, |records| !records[1].packets.is_empty());
        let is_readable = |driver: &dyn Driver, milliseconds: i64| {
            let descriptor = driver.descriptor().expect("the provider has one");
            let mut polled =
                [rustix::event::PollFd::new(&descriptor, rustix::event::PollFlags::IN)];
            let timeout = rustix::event::Timespec { tv_sec: 0, tv_nsec: milliseconds * 1_000_000 };
            rustix::event::poll(&mut polled, Some(&timeout)).unwrap() > 0
        };
        // Pings may come meanwhile.
        let becomes_quiet = (0..50).any(|_| {
            while two.poll(&mut record) || one.poll(&mut record) || !one.is_flushed() {}
            std::thread::sleep(Duration::from_millis(10));
            while two.poll(&mut record) {}
            !is_readable(&*two, 0)
        });
        assert!(becomes_quiet, "nothing has come after {length} bytes");
        assert!(one.post_packet(GateId(1), 0, length, &mut |out| out.fill(2)));
        assert!(is_readable(&*two, 900), "{length} bytes have come");
        // A provider may fetch a long one, which the sender has to help with.
        let mut records = Default::default();
        poll_until([&mut *one, &mut *two], &mut records, |records| !records[1].packets.is_empty());
    }
    assert!(record.packets.is_empty(), "no message comes twice");
}

#[test]
fn strangers_are_not_heard() {
    if is_missing() {
        return;
    }
    let [mut one, mut two] = connected([1, 2]);
    assert!(one.post_packet(GateId(1), 0, 8, &mut |out| out.fill(1)));
    let mut record = RecordingSink::default();
    let end = Instant::now() + Duration::from_millis(500);
    while Instant::now() < end {
        one.poll(&mut RecordingSink::default());
        two.poll(&mut record);
    }
    assert!(one.is_flushed() && record.packets.is_empty());
}

#[test]
fn who_leaves_has_sent_all_and_is_no_loss() {
    if is_missing() {
        return;
    }
    let cards = Cards::default();
    let directory = |cards: &Cards| SharedCards(Arc::clone(cards), [1; 32]);
    let are_known = std::sync::Barrier::new(2);
    let (other, two) = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut one = open(0, "ofi:tcp:lo", directory(&cards)).unwrap().unwrap();
            cards.lock().unwrap().push(one.card());
            are_known.wait();
            are_known.wait();
            one.connect(GateId(1)).unwrap();
            for number in 0..10 {
                assert!(one.post_packet(GateId(1), 0, 5000, &mut |out| out.fill(number)));
            }
            let mut record = RecordingSink::default();
            one.leave(&mut record, Duration::from_secs(20));
            record.lost.len()
        });
        are_known.wait();
        let mut two = open(1, "ofi:tcp:lo", directory(&cards)).unwrap().unwrap();
        cards.lock().unwrap().push(two.card());
        are_known.wait();
        two.connect(GateId(0)).unwrap();
        let mut record = RecordingSink::default();
        let end = Instant::now() + Duration::from_secs(20);
        while !two.has_departed(GateId(0)) && Instant::now() < end {
            two.poll(&mut record);
        }
        let begin = Instant::now();
        two.leave(&mut record, Duration::from_secs(20));
        assert!(begin.elapsed() < Duration::from_secs(10), "nobody is waited for");
        assert_eq!(sender.join().unwrap(), 0);
        (record, two)
    });
    let firsts: Vec<u8> = other.packets.iter().map(|(_, bytes)| bytes[0]).collect();
    assert_eq!(firsts, (0..10).collect::<Vec<u8>>());
    assert!(other.lost.is_empty() && two.has_departed(GateId(0)));
}

#[test]
fn a_peer_that_has_gone_without_a_word_is_lost() {
    if is_missing() {
        return;
    }
    let [mut one, mut two] = connected([1, 1]);
    let mut records = Default::default();
    assert!(one.post_packet(GateId(1), 0, 8, &mut |out| out.fill(1)));
    poll_until([&mut *one, &mut *two], &mut records, |records| !records[1].packets.is_empty());
    drop(two);
    // Nothing is sent: it only waits.
    let mut record = RecordingSink::default();
    let end = Instant::now() + Duration::from_secs(20);
    while record.lost.is_empty() {
        assert!(Instant::now() < end, "the loss is not noticed");
        one.poll(&mut record);
    }
    assert!(record.lost[0].2.starts_with("over ofi:tcp:lo: "), "{:?}", record.lost);
    assert!(!one.has_departed(GateId(1)));
    assert!(!one.post_packet(GateId(1), 0, 8, &mut |_| panic!("there is no room")));
    one.poll(&mut record);
    assert_eq!(record.lost.len(), 2, "who tries to post hears it again");
    one.give_up(GateId(1), 0);
    one.leave(&mut record, Duration::from_secs(1));
}

#[test]
fn what_is_not_there_is_told() {
    assert!(open(0, "", SharedCards::default()).unwrap().is_none());
    if is_missing() {
        return;
    }
    let error = open(0, "ofi:nonsense", SharedCards::default()).err().unwrap();
    assert!(error.message.contains("verbs") && error.message.contains("ofi:tcp:lo"), "{error}");
    let cards = SharedCards(Arc::new(Mutex::new(vec!["tcp2,".into(), "ofi1,1".into()])), [1; 32]);
    let mut one = open(2, "ofi:tcp:lo", cards).unwrap().unwrap();
    assert!(one.connect(GateId(0)).unwrap_err().message.contains("tcp2"));
    assert!(one.connect(GateId(1)).unwrap_err().message.contains("tcp on 127.0.0.1/32"));
    let short = format!("ofi1,1,{};{};00", hex("tcp"), hex("127.0.0.1/32"));
    let cards = SharedCards(Arc::new(Mutex::new(vec![short])), Secret::default());
    let mut one = open(2, "ofi:tcp:lo", cards).unwrap().unwrap();
    let error = one.connect(GateId(0)).unwrap_err().message;
    assert!(error.contains("has 1 bytes, ours has 16"), "{error}");
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}
