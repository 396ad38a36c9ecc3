//! Tests drivers of several processes within this process, over the loopback interface.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base::GateId;
use driver::conformance::{self, RecordingSink, SharedCards};
use driver::{Driver, Part};
use driver_tcp::{AddressCard, NetworkSelection, Options, Tcp};
use memory::Buffer;

fn options() -> Options {
    Options {
        selection: NetworkSelection::parse("lo").unwrap(),
        records: 1,
        silence: Duration::from_secs(10),
    }
}

/// Creates drivers that have each other's cards, with these secrets.
fn drivers(secrets: &[u8]) -> Vec<Tcp> {
    let cards: Arc<Mutex<Vec<String>>> = Arc::default();
    let make = |(own, secret): (u32, &u8)| {
        let directory = SharedCards(Arc::clone(&cards), [*secret; 32]);
        Tcp::create(GateId(own), options(), Box::new(directory)).unwrap()
    };
    let all: Vec<Tcp> = (0..).zip(secrets).map(make).collect();
    *cards.lock().unwrap() = all.iter().map(|tcp| tcp.card()).collect();
    all
}

fn pair() -> (Tcp, Tcp) {
    let [one, two] = <[Tcp; 2]>::try_from(drivers(&[1, 1])).ok().unwrap();
    (one, two)
}

fn connected() -> (Tcp, Tcp) {
    let (mut one, mut two) = pair();
    assert_eq!(one.connect(GateId(1)).unwrap().rails, [0]);
    two.connect(GateId(0)).unwrap();
    (one, two)
}

fn poll_until(
    one: &mut Tcp,
    two: &mut Tcp,
    done: impl Fn(&RecordingSink, &RecordingSink) -> bool,
) -> [RecordingSink; 2] {
    let (mut first, mut second) = (RecordingSink::default(), RecordingSink::default());
    let start = Instant::now();
    while !done(&first, &second) {
        one.poll(&mut first);
        two.poll(&mut second);
        assert!(start.elapsed() < Duration::from_secs(30), "{first:?} {second:?}");
    }
    [first, second]
}

#[test]
fn conforms() {
    let (mut one, mut two) = connected();
    conformance::keeps_buffers(|node| one.keep_buffers_on(node));
    conformance::packets(&mut one, Some(&mut two), GateId(0));
    conformance::packets(&mut two, Some(&mut one), GateId(1));
    conformance::unsteady(&mut one, &mut two);
}

/// Both sides number packets if there are several rails, so both must get equal counts.
#[test]
fn a_rail_that_was_lost_early_is_still_reported() {
    let (mut one, mut two) = pair();
    one.connect(GateId(1)).unwrap();
    let start = Instant::now();
    poll_until(&mut one, &mut two, |_, _| start.elapsed() > Duration::from_millis(200));
    one.give_up(GateId(1), 0);
    let [_, heard] = poll_until(&mut one, &mut two, |_, two| !two.lost.is_empty());
    assert_eq!(heard.lost[0].0, GateId(0));
    assert_eq!(two.connect(GateId(0)).unwrap().rails, [0]);
    assert!(!two.post_packet(GateId(0), 0, 8, &mut |_| ()));
    poll_until(&mut one, &mut two, |_, two| !two.lost.is_empty());
}

/// If there are others, a lost rail is used again once it works.
#[test]
fn a_rail_that_was_lost_is_connected_again() {
    let (mut one, mut two) = connected();
    conformance::packets(&mut one, Some(&mut two), GateId(0));
    conformance::restoring([&mut one, &mut two]);
}

#[test]
fn a_rail_that_is_given_up_again_is_not_restored() {
    let (mut one, mut two) = connected();
    conformance::packets(&mut one, Some(&mut two), GateId(0));
    one.give_up(GateId(1), 0);
    one.restore(GateId(1), 0);
    one.give_up(GateId(1), 0);
    let start = Instant::now();
    let [first, second] =
        poll_until(&mut one, &mut two, |_, _| start.elapsed() > Duration::from_secs(2));
    assert!(first.restored.is_empty() && second.restored.is_empty(), "given up for good");
    assert_eq!(second.lost.len(), 1);
}

#[test]
fn parts_land_in_place() {
    let (mut one, mut two) = connected();
    let buffer = Buffer::zeroed(3_000_000);
    let data: Vec<u8> = (0..3_000_000_u32).map(|i| (i / 7) as u8).collect();
    buffer.write(0, &data);
    conformance::parts(&mut one, &mut two, GateId(0), &buffer);
    for block in [8, 4096] {
        let scattered = conformance::memory(1_000_000 / block * block, block);
        scattered.write(0, &data[..scattered.len()]);
        conformance::parts(&mut two, &mut one, GateId(1), &scattered);
    }
}

#[test]
fn short_parts_in_a_row_tell_how_fast_the_rail_is() {
    const PART: usize = 64 << 10;
    let (mut one, mut two) = connected();
    let buffer = Buffer::zeroed(PART);
    let [mut first, mut second] = [RecordingSink::default(), RecordingSink::default()];
    second.parts_into = Some(Buffer::zeroed(PART));
    let (start, mut posted) = (Instant::now(), 0);
    while second.parts.len() < 200 {
        if posted < 200 && one.has_room(GateId(1), 0) {
            let (buffer, label) = (buffer.clone(), [0; 24]);
            one.post_part(GateId(1), 0, Part { label, buffer, offset: 0, length: PART, token: 0 });
            posted += 1;
        }
        one.poll(&mut first);
        two.poll(&mut second);
        assert!(start.elapsed() < Duration::from_secs(30), "{first:?}");
    }
    assert!(first.carried > 50 * PART as u64, "{}", first.carried);
}

#[test]
fn connections_that_cross_become_one() {
    for _ in 0..50 {
        let (mut one, mut two) = connected();
        let ready = |tcp: &Tcp, gate| tcp.has_room(GateId(gate), 0);
        let start = Instant::now();
        while !ready(&one, 1) || !ready(&two, 0) {
            one.poll(&mut RecordingSink::default());
            two.poll(&mut RecordingSink::default());
            assert!(start.elapsed() < Duration::from_secs(10));
        }
        assert!(one.post_packet(GateId(1), 0, 8, &mut |out| out.fill(1)));
        assert!(two.post_packet(GateId(0), 0, 8, &mut |out| out.fill(2)));
        poll_until(&mut one, &mut two, |a, b| a.packets.len() + b.packets.len() == 2);
    }
}

#[test]
fn a_process_that_does_not_know_the_secret_gets_nowhere() {
    let mut both = drivers(&[1, 2]);
    let (mut two, mut one) = (both.pop().unwrap(), both.pop().unwrap());
    one.connect(GateId(1)).unwrap();
    let [heard, _] = poll_until(&mut one, &mut two, |one, _| !one.lost.is_empty());
    assert!(heard.lost[0].2.contains("not a process of this job"), "{:?}", heard.lost);
    assert!(!two.has_room(GateId(0), 0));
}

/// As behind an address that another process of the job has taken over.
#[test]
fn a_process_that_means_another_process_of_the_job_is_refused() {
    let cards: Arc<Mutex<Vec<String>>> = Arc::default();
    let make = |own| {
        let directory = SharedCards(Arc::clone(&cards), [1; 32]);
        Tcp::create(GateId(own), options(), Box::new(directory)).unwrap()
    };
    let (mut one, mut third) = (make(0), make(2));
    let card = |tcp: &Tcp| tcp.card();
    *cards.lock().unwrap() = vec![card(&one), card(&third), card(&third)];
    one.connect(GateId(1)).unwrap();
    poll_until(&mut one, &mut third, |one, _| !one.lost.is_empty());
    assert!(!one.post_packet(GateId(1), 0, 8, &mut |_| ()));
    assert!(!third.post_packet(GateId(0), 0, 8, &mut |_| ()));
}

#[test]
fn strangers_are_turned_away() {
    let (mut one, mut two) = connected();
    let mut stranger =
        TcpStream::connect(one.card().parse::<AddressCard>().unwrap().ends[0].address).unwrap();
    stranger.write_all(&[b'x'; 200]).unwrap();
    let start = Instant::now();
    stranger.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    loop {
        one.poll(&mut RecordingSink::default());
        match stranger.read(&mut [0; 10]) {
            Ok(0) => break,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Ok(_) => panic!("a stranger was answered"),
            Err(_) => assert!(start.elapsed() < Duration::from_secs(10)),
        }
    }
    conformance::packets(&mut one, Some(&mut two), GateId(0));
}

#[test]
fn an_end_without_leave_is_reported_and_one_with_leave_is_not() {
    let (mut one, mut two) = connected();
    conformance::packets(&mut one, Some(&mut two), GateId(0));
    drop(two);
    let mut record = RecordingSink::default();
    let start = Instant::now();
    while record.lost.is_empty() {
        one.poll(&mut record);
        assert!(start.elapsed() < Duration::from_secs(10));
    }
    assert!(record.lost[0].2.contains("ended"), "{:?}", record.lost);

    let (mut one, mut two) = connected();
    conformance::packets(&mut one, Some(&mut two), GateId(0));
    two.leave(&mut RecordingSink::default(), Duration::ZERO);
    let mut record = RecordingSink::default();
    one.leave(&mut record, Duration::from_secs(10));
    drop(two);
    assert_eq!(record.lost, []);
    one.post_packet(GateId(1), 0, 8, &mut |out| out.fill(1));
    let start = Instant::now();
    while record.lost.is_empty() {
        one.poll(&mut record);
        assert!(start.elapsed() < Duration::from_secs(10));
    }
    assert!(record.lost[0].2.contains("finished"), "who still wants something hears of it");
}

#[test]
fn a_process_that_takes_leave_waits_until_the_others_have_what_was_sent() {
    let cards = Arc::new(Mutex::new(vec![String::new(); 2]));
    let create = |own: u32, cards: &Arc<Mutex<Vec<String>>>| {
        let directory = SharedCards(Arc::clone(cards), [1; 32]);
        let tcp = Tcp::create(GateId(own), options(), Box::new(directory)).unwrap();
        cards.lock().unwrap()[own as usize] = tcp.card();
        tcp
    };
    let mut two = create(1, &cards);
    let (notify, notified) = std::sync::mpsc::channel();
    let mut record = RecordingSink::default();
    // A driver stays on its thread.
    let leaving = std::thread::spawn(move || {
        let mut one = create(0, &cards);
        one.connect(GateId(1)).unwrap();
        let record = &mut RecordingSink::default();
        while !one.post_packet(GateId(1), 0, 60_000, &mut |out| out.fill(7)) {
            one.poll(record);
        }
        notify.send("connected").unwrap();
        let mut sent = 1;
        while one.post_packet(GateId(1), 0, 60_000, &mut |out| out.fill(7)) {
            one.poll(record);
            sent += 1;
        }
        notify.send("full").unwrap();
        one.leave(record, Duration::ZERO);
        sent
    });
    while notified.try_recv().is_err() {
        two.poll(&mut record);
    }
    notified.recv().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    // Answers to a process that has ended.
    let start = Instant::now();
    while record.lost.is_empty() {
        two.poll(&mut record);
        two.post_packet(GateId(0), 0, 8, &mut |_| ());
        std::thread::sleep(Duration::from_millis(1));
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", record.lost);
    }
    assert_eq!(record.packets.len(), leaving.join().unwrap());
    assert!(two.has_departed(GateId(0)));
}

/// Only the connection on which the last data arrived is read in each round, the others once in
/// several rounds: so all distances from that round are tested.
#[test]
fn what_came_before_an_answer_failed_is_read() {
    for polls in 0..4 {
        let mut all = drivers(&[1, 1, 1]);
        let mut third = all.pop().unwrap();
        let [mut one, mut two] = <[Tcp; 2]>::try_from(all).ok().unwrap();
        for driver in [&mut one, &mut third] {
            driver.connect(GateId(1)).unwrap();
        }
        conformance::packets(&mut one, Some(&mut two), GateId(0));
        let mut record = RecordingSink::default();
        while record.packets.is_empty() {
            third.post_packet(GateId(1), 0, 8, &mut |out| out.fill(3));
            third.poll(&mut RecordingSink::default());
            two.poll(&mut record);
        }
        (0..polls).for_each(|_| _ = two.poll(&mut record));
        let before = record.packets.len();
        assert!(one.post_packet(GateId(1), 0, 8, &mut |out| out.fill(1)));
        std::thread::sleep(Duration::from_millis(20));
        drop(one);
        // The first answer shows the kernel that the process has ended, and the second fails.
        let start = Instant::now();
        while record.lost.is_empty() {
            two.post_packet(GateId(0), 0, 8, &mut |out| out.fill(2));
            std::thread::sleep(Duration::from_millis(20));
            two.poll(&mut record);
            assert!(start.elapsed() < Duration::from_secs(30), "{record:?}");
        }
        let last = record.packets.iter().skip(before).filter(|packet| packet.0 == GateId(0));
        assert_eq!(last.count(), 1, "after {polls} rounds");
    }
}

#[test]
fn a_peer_that_has_left_may_come_back() {
    let (mut one, mut two) = connected();
    for _ in 0..3 {
        conformance::packets(&mut one, Some(&mut two), GateId(0));
        two.leave(&mut RecordingSink::default(), Duration::ZERO);
        let mut record = RecordingSink::default();
        one.leave(&mut record, Duration::from_secs(10));
        assert_eq!(record.lost, []);
    }
}

/// A process that leaves waits for the others; a peer that connects meanwhile is notified, too.
#[test]
fn a_process_that_comes_while_a_process_leaves_learns_that_it_does() {
    let cards = Arc::new(Mutex::new(vec![String::new(); 3]));
    let create = |own: u32, cards: &Arc<Mutex<Vec<String>>>| {
        let directory = SharedCards(Arc::clone(cards), [1; 32]);
        let tcp = Tcp::create(GateId(own), options(), Box::new(directory)).unwrap();
        cards.lock().unwrap()[own as usize] = tcp.card();
        tcp
    };
    let [mut two, mut three] = [create(1, &cards), create(2, &cards)];
    let (notify, notified) = std::sync::mpsc::channel();
    // A driver stays on its thread.
    let leaving = std::thread::spawn(move || {
        let mut one = create(0, &cards);
        one.connect(GateId(1)).unwrap();
        let record = &mut RecordingSink::default();
        while !one.post_packet(GateId(1), 0, 8, &mut |out| out.fill(7)) {
            one.poll(record);
        }
        notify.send(()).unwrap();
        one.leave(record, Duration::from_secs(30));
    });
    let (mut record, mut late) = (RecordingSink::default(), RecordingSink::default());
    while record.packets.is_empty() {
        two.poll(&mut record);
    }
    notified.recv().unwrap();
    three.connect(GateId(0)).unwrap();
    while !three.post_packet(GateId(0), 0, 8, &mut |out| out.fill(8)) {
        three.poll(&mut late);
    }
    for driver in [&mut two, &mut three] {
        driver.leave(&mut late, Duration::from_secs(10));
    }
    leaving.join().unwrap();
    let start = Instant::now();
    while !three.has_departed(GateId(0)) {
        three.poll(&mut late);
        assert!(start.elapsed() < Duration::from_secs(10), "{late:?}");
    }
    assert_eq!(late.lost, []);
}

/// At each step of the handshake: the other side may have the connection already, while the
/// initiator does not.
#[test]
fn a_process_that_leaves_while_a_connection_is_being_made_is_not_lost() {
    for rounds in 0..16 {
        let cards = Arc::new(Mutex::new(vec![String::new(); 2]));
        let create = |own: u32, cards: &Arc<Mutex<Vec<String>>>| {
            let directory = SharedCards(Arc::clone(cards), [1; 32]);
            let tcp = Tcp::create(GateId(own), options(), Box::new(directory)).unwrap();
            cards.lock().unwrap()[own as usize] = tcp.card();
            tcp
        };
        let mut two = create(1, &cards);
        let (notify, notified) = std::sync::mpsc::channel();
        let (let_go_on, goes_on) = std::sync::mpsc::channel();
        // A driver stays on its thread.
        let leaving = std::thread::spawn(move || {
            let (mut one, mut record) = (create(0, &cards), RecordingSink::default());
            one.connect(GateId(1)).unwrap();
            for _ in 0..rounds {
                one.poll(&mut record);
                notify.send(()).unwrap();
                goes_on.recv().unwrap();
            }
            drop(notify);
            one.leave(&mut record, Duration::from_secs(10));
            drop(one);
            record.lost
        });
        let mut record = RecordingSink::default();
        for () in &notified {
            two.poll(&mut record);
            let_go_on.send(()).unwrap();
        }
        while !leaving.is_finished() {
            two.leave(&mut record, Duration::from_millis(1));
        }
        for _ in 0..100 {
            two.poll(&mut record);
        }
        assert_eq!(leaving.join().unwrap(), [], "after {rounds} rounds");
        assert_eq!(record.lost, [], "after {rounds} rounds");
    }
}
