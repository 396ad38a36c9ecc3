//! Tests drivers of several processes within this process, over libfabric's TCP provider on the
//! loopback interface. Without libfabric, the tests are skipped.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base::GateId;
use driver::conformance::{self, RecordingSink, SharedCards, SpacedBlocks};
use driver::{Directory, Driver, DriverError, Label, Part, Secret, Settings};
use memory::Buffer;

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

/// Whether libfabric is missing, which is printed.
fn is_missing() -> bool {
    let missing = open(0, "ofi:tcp:lo", SharedCards::default()).err();
    let why = missing.filter(|error| error.message.contains("cannot be loaded"));
    if let Some(why) = &why {
        eprintln!("skipped: {why}");
    }
    why.is_some()
}

/// Creates `COUNT` connected drivers, with these secrets.
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

/// Creates two drivers, of which the second has received a packet of the first.
fn met(records: &mut [RecordingSink; 2]) -> [Box<dyn Driver>; 2] {
    let [mut one, mut two] = connected([1, 1]);
    assert!(one.post_packet(GateId(1), 0, 8, &mut |out| out.fill(1)));
    poll_until([&mut *one, &mut *two], records, |records| !records[1].packets.is_empty());
    [one, two]
}

/// Polls two drivers until a condition holds; fails after some seconds.
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
    conformance::unsteady(&mut *one, &mut *two);
    // Contiguous memory, which is read in place, and memory in many runs, which is copied.
    let bytes: Vec<u8> = (0..3_000_000u32).map(|at| (at * 7 + at / 251) as u8).collect();
    let whole = Buffer::zeroed(bytes.len());
    whole.write(0, &bytes);
    conformance::parts(&mut *one, &mut *two, GateId(0), &whole);
    let in_runs =
        whole.laid_out_part(0, Arc::new(SpacedBlocks { bytes: 100, blocks: 1 }), bytes.len() / 200);
    conformance::parts(&mut *two, &mut *one, GateId(1), &in_runs);
}

#[test]
fn a_sleeper_is_woken() {
    if is_missing() {
        return;
    }
    let [mut one, mut two] = connected([1, 1]);
    let mut record = RecordingSink::default();
    // The first message connects; all related messages are received.
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
        // Pings may arrive meanwhile.
        let becomes_quiet = (0..50).any(|_| {
            while two.poll(&mut record) || one.poll(&mut record) || !one.is_flushed() {}
            std::thread::sleep(Duration::from_millis(10));
            while two.poll(&mut record) || !two.may_sleep() {}
            !is_readable(&*two, 0)
        });
        assert!(becomes_quiet, "nothing has come after {length} bytes");
        assert!(one.post_packet(GateId(1), 0, length, &mut |out| out.fill(2)));
        assert!(is_readable(&*two, 900), "{length} bytes have come");
        // A provider may fetch a long message, with the help of the sender.
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
    let mut check = || {
        one.poll(&mut RecordingSink::default());
        two.poll(&mut record);
        one.is_flushed() && two.refused() > 0
    };
    let latest = Instant::now() + Duration::from_secs(30);
    while !check() {
        assert!(Instant::now() < latest, "what a stranger has sent is refused");
    }
    // Nothing arrives after it either.
    let end = Instant::now() + Duration::from_millis(200);
    while Instant::now() < end {
        check();
    }
    assert!(record.packets.is_empty());
}

#[test]
fn a_process_that_leaves_has_sent_all_and_is_no_loss() {
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
    let mut records = Default::default();
    let [mut one, two] = met(&mut records);
    drop(two);
    // Nothing is sent: the process only waits.
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

/// A process that has given a rail up reports so when something arrives over it. The provider
/// reconnects broken connections, so the other process would otherwise wait forever.
#[test]
fn a_rail_that_one_has_given_up_is_lost_for_the_other() {
    if is_missing() {
        return;
    }
    let mut records = Default::default();
    let [mut one, mut two] = met(&mut records);
    two.give_up(GateId(0), 0);
    // The process waits for a part to be read.
    let (buffer, label) = (Buffer::zeroed(100_000), Label::default());
    one.post_part(GateId(1), 0, Part { label, buffer, offset: 0, length: 100_000, token: 1 });
    poll_until([&mut *one, &mut *two], &mut records, |records| !records[0].lost.is_empty());
    assert!(records[0].lost[0].2.contains("no longer uses it"), "{:?}", records[0].lost);
    assert!(records[0].sent.is_empty() && records[1].parts.is_empty());
}

#[test]
fn rails_over_libfabric_are_restored() {
    if is_missing() {
        return;
    }
    let [mut one, mut two] = met(&mut Default::default());
    conformance::restoring([&mut *one, &mut *two]);
}

/// The provider may keep a connection over which nothing arrives any more: after an unanswered
/// hello the next one goes over a new connection, even if the peer was reading.
#[test]
fn a_rail_is_restored_over_a_new_connection() {
    if is_missing() {
        return;
    }
    for polls in 0..3 {
        let parts_into = Some(Buffer::zeroed(8 << 20));
        let mut records =
            [RecordingSink { parts_into, ..RecordingSink::default() }, RecordingSink::default()];
        let [mut one, mut two] = met(&mut records);
        let (buffer, length) = (Buffer::zeroed(8 << 20), 8 << 20);
        let part = Part { label: Label::default(), buffer, offset: 0, length, token: 1 };
        two.post_part(GateId(0), 0, part);
        for _ in 0..polls {
            one.poll(&mut records[0]);
            two.poll(&mut records[1]);
        }
        two.give_up(GateId(0), 0);
        two.restore(GateId(0), 0);
        // It sends a hello after half a second, and again half a second later.
        let end = Instant::now() + Duration::from_millis(1700);
        while Instant::now() < end {
            two.poll(&mut records[1]);
        }
        poll_until([&mut *one, &mut *two], &mut records, |records| !records[0].lost.is_empty());
        one.give_up(GateId(1), 0);
        one.restore(GateId(1), 0);
        poll_until([&mut *one, &mut *two], &mut records, |records| {
            records.iter().all(|record| !record.restored.is_empty())
        });
        conformance::packets(&mut *one, Some(&mut *two), GateId(0));
        conformance::packets(&mut *two, Some(&mut *one), GateId(1));
    }
}

/// A peer that has not started yet is tried repeatedly, and receives what has waited for it.
#[test]
fn a_process_that_comes_late_is_reached() {
    if is_missing() {
        return;
    }
    let [mut one, mut two] = connected([1, 1]);
    assert!(one.post_packet(GateId(1), 0, 8, &mut |out| out.fill(1)));
    let mut records: [RecordingSink; 2] = Default::default();
    // Longer than the timeout of silent machines.
    let end = Instant::now() + Duration::from_millis(1500);
    while Instant::now() < end {
        one.poll(&mut records[0]);
    }
    poll_until([&mut *one, &mut *two], &mut records, |records| !records[1].packets.is_empty());
    assert!(records[0].lost.is_empty(), "{:?}", records[0].lost);
    assert_eq!(records[1].packets.len(), 1);
}

/// If the peer is reached by another driver, processes do not wait for a connection that is not
/// established. It is not lost before that is clear, either.
#[test]
fn a_connection_that_never_comes_about_is_lost_beside_others() {
    if is_missing() {
        return;
    }
    let [mut one, _two] = connected([1, 1]);
    assert!(one.post_packet(GateId(1), 0, 8, &mut |out| out.fill(1)));
    let mut record = RecordingSink { reached_elsewhere: true, ..RecordingSink::default() };
    let start = Instant::now();
    while record.lost.is_empty() {
        assert!(!one.reaches(GateId(1), 0) && start.elapsed() < Duration::from_secs(20));
        one.poll(&mut record);
    }
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
    assert!(record.lost[0].2.contains("over ofi:tcp:lo: it receives no messages"), "{record:?}");
}

/// Memory must not be written after its bytes arrived in another way, or the program got it back.
#[test]
fn nothing_is_written_over_a_rail_that_was_given_up() {
    if is_missing() {
        return;
    }
    for polls in 0..12 {
        let into = Buffer::zeroed(4 << 20);
        let parts_into = Some(into.clone());
        let mut records =
            [RecordingSink::default(), RecordingSink { parts_into, ..RecordingSink::default() }];
        let [mut one, mut two] = met(&mut records);
        let buffer = Buffer::zeroed(into.len());
        buffer.write(0, &vec![7; into.len()]);
        let (length, label) = (buffer.len(), Label::default());
        one.post_part(GateId(1), 0, Part { label, buffer, offset: 0, length, token: 1 });
        for _ in 0..polls {
            one.poll(&mut records[0]);
            two.poll(&mut records[1]);
        }
        two.give_up(GateId(0), 0);
        into.write(0, &vec![9; into.len()]);
        for _ in 0..2000 {
            one.poll(&mut records[0]);
            two.poll(&mut records[1]);
        }
        let mut found = vec![0; into.len()];
        into.read(0, &mut found);
        assert!(found.iter().all(|byte| *byte == 9), "written after {polls} looks");
    }
}

#[test]
fn what_is_not_there_is_reported() {
    assert!(open(0, "", SharedCards::default()).unwrap().is_none());
    if is_missing() {
        return;
    }
    let error = open(0, "ofi:nonsense", SharedCards::default()).err().unwrap();
    assert!(error.message.contains("verbs") && error.message.contains("ofi:tcp:lo"), "{error}");
    let cards = SharedCards(Arc::new(Mutex::new(vec!["tcp2,".into(), "ofi2,1".into()])), [1; 32]);
    let mut one = open(2, "ofi:tcp:lo", cards).unwrap().unwrap();
    assert!(one.connect(GateId(0)).unwrap_err().message.contains("tcp2"));
    assert!(one.connect(GateId(1)).unwrap_err().message.contains("tcp on 127.0.0.1/32"));
    let short = format!("ofi2,1,{};{};00", hex("tcp"), hex("127.0.0.1/32"));
    let cards = SharedCards(Arc::new(Mutex::new(vec![short])), Secret::default());
    let mut one = open(2, "ofi:tcp:lo", cards).unwrap().unwrap();
    let error = one.connect(GateId(0)).unwrap_err().message;
    assert!(error.contains("has 1 bytes, ours has 16"), "{error}");
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}
