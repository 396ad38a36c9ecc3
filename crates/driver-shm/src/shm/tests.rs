//! Tests of two drivers in this process.

use super::*;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use base::MessageLabel;
use driver::conformance::{self, RecordingSink};
use driver::{Announcement, Exposure, FetchEnd, PeerEnd, When};
use queues::bell::Wake;

use crate::middle::{MiddleChoice, MiddleStatistics};
use crate::protocol::AHEAD_BYTES_MAX;
use crate::segment::peer::PeerSegment;

/// Creates two connected drivers in this process.
fn pair(single_copy: bool) -> (Shm, Shm) {
    let cards: Arc<Mutex<Vec<String>>> = Arc::default();
    let make = |own| {
        let cards = Arc::clone(&cards);
        let directory = move |gate: GateId| Ok(cards.lock().unwrap()[gate.0 as usize].clone());
        let settings = Settings { single_copy, ..Settings::default() };
        Shm::create(GateId(own), &settings, Box::new(directory)).unwrap()
    };
    let (mut one, mut two) = (make(0), make(1));
    *cards.lock().unwrap() = vec![one.card(), two.card()];
    one.connect(GateId(1)).unwrap();
    two.connect(GateId(0)).unwrap();
    (one, two)
}

/// Runs two connected drivers, each on a thread of its own, as in two processes. Does nothing where
/// the kernel does not let a process read another one's memory.
fn apart(first: impl FnOnce(Shm) + Send, second: impl FnOnce(Shm)) {
    let (one, _two) = pair(true);
    if one.peers[1].as_ref().is_none_or(|peer| !peer.reachable) {
        return;
    }
    let cards = Arc::new(Mutex::new([String::new(), String::new()]));
    let met = Barrier::new(2);
    let start = |own: u32| {
        let known = Arc::clone(&cards);
        let directory = move |gate: GateId| Ok(known.lock().unwrap()[gate.0 as usize].clone());
        let settings = Settings { single_copy: true, ..Settings::default() };
        let mut shm = Shm::create(GateId(own), &settings, Box::new(directory)).unwrap();
        cards.lock().unwrap()[own as usize] = shm.card();
        met.wait();
        shm.connect(GateId(1 - own)).unwrap();
        shm
    };
    std::thread::scope(|scope| {
        scope.spawn(|| first(start(0)));
        second(start(1));
    });
}

#[test]
fn conforms() {
    let (mut one, mut two) = pair(true);
    conformance::packets(&mut one, Some(&mut two), GateId(0));
    conformance::packets(&mut two, Some(&mut one), GateId(1));
}

#[test]
fn a_forgotten_peer_leaves_its_lane_to_the_next_one() {
    let (mut one, mut two) = pair(false);
    // More peers in turn than there are lanes, each of which sends enough for a lane.
    for round in 0..20_u8 {
        let mut sink = RecordingSink::default();
        for packet in 0..40_u8 {
            let bytes = [round, packet];
            assert!(one.push(GateId(1), 2, |out| out.copy_from(&bytes[..])));
            two.poll_into(&mut sink);
        }
        let arrived: Vec<_> = sink.packets.iter().map(|(_, bytes)| bytes.clone()).collect();
        assert_eq!(arrived, (0..40).map(|packet| vec![round, packet]).collect::<Vec<_>>());
        assert_eq!(two.own.lanes.len(), 1, "the peer has a lane in round {round}");
        one.forget(GateId(1), PeerEnd::Closed);
        two.forget(GateId(0), PeerEnd::Closed);
        assert!(two.own.lanes.is_empty() && one.bell(GateId(1)).is_none());
        one.connect(GateId(1)).unwrap();
        two.connect(GateId(0)).unwrap();
    }
}

#[test]
fn conforms_in_regions() {
    let (mut one, mut two) = pair(true);
    if one.peers[1].as_ref().is_some_and(|peer| peer.reachable) {
        conformance::regions(&mut one, &mut two, GateId(0));
    }
}

/// Fetches `length` bytes of `there`, which `two` declares. Polls `two` only if it must help.
fn fetch(pair: &mut (Shm, Shm), there: &Buffer, into: &Buffer, how: (Copying, bool)) -> bool {
    let (one, two) = pair;
    let region = two.declare_message(there).unwrap();
    let (into, length) = (into.clone(), into.len());
    let fetch = Fetch { gate: GateId(1), region, length, into, token: 5 };
    one.fetch_by(fetch, how.0);
    let (mut sink, mut rounds) = (RecordingSink::default(), 0);
    while sink.fetched.is_empty() {
        one.poll(&mut sink);
        if how.1 {
            two.poll(&mut RecordingSink::default());
        }
        rounds += 1;
        assert!(rounds < 10_000_000, "the fetch never ends");
    }
    two.revoke(region).unwrap();
    sink.fetched == [(5, FetchEnd::Complete)]
}

#[test]
fn a_receiver_that_waits_leaves_the_copying_to_a_sender_that_waits() {
    const BYTES: usize = 300_000;
    let (mut one, mut two) = pair(true);
    if !one.reaches_memory_of(GateId(1)) {
        return;
    }
    one.set_program_state(ProgramState::Computes);
    let there = Buffer::zeroed(BYTES);
    there.write(0, &[7; BYTES]);
    // If the kernel stops a thread for a while, its waiting time is over.
    let left_to_sender = (0..100).any(|_| {
        let into = Buffer::zeroed(BYTES);
        let region = two.declare_message(&there).unwrap();
        let gate = GateId(1);
        let fetch = Fetch { gate, region, length: BYTES, into: into.clone(), token: 5 };
        one.fetch_by(fetch, Copying::Jointly);
        let (mut sink, mut first) = (RecordingSink::default(), [1; BYTES]);
        one.poll(&mut sink);
        into.read(0, &mut first);
        while sink.fetched.is_empty() {
            two.poll(&mut RecordingSink::default());
            one.poll(&mut sink);
        }
        two.revoke(region).unwrap();
        assert_eq!(sink.fetched, [(5, FetchEnd::Complete)]);
        first == [0; BYTES]
    });
    assert!(left_to_sender);
    assert!(!one.awaits_senders());
    let into = Buffer::zeroed(BYTES);
    assert!(fetch(&mut (one, two), &there, &into, (Copying::Jointly, false)));
}

#[test]
fn a_message_that_has_come_is_fetched_though_the_next_one_is_expected_first() {
    const BYTES: usize = 300_000;
    let (mut one, mut two) = pair(true);
    if !one.reaches_memory_of(GateId(1)) {
        return;
    }
    let (gate, mut sink) = (GateId(1), RecordingSink::default());
    let label = |sequence| MessageLabel { flow: 3, tag: 1, sequence };
    let (there, into, next) = (Buffer::zeroed(BYTES), Buffer::zeroed(BYTES), Buffer::zeroed(BYTES));
    there.write(0, &[7; BYTES]);
    // The program computes, so that the sender may still write. Then it posts another receive.
    one.set_program_state(ProgramState::Computes);
    assert!(one.expect(gate, label(0), &into, 5, &sink));
    let region = two.declare_message(&there).unwrap();
    one.fetch(Fetch { gate, region, length: BYTES, into: into.clone(), token: 5 }, &mut sink);
    one.poll(&mut sink);
    one.expect(gate, label(1), &next, 6, &sink);
    one.set_program_state(ProgramState::Waits);
    let begin = Instant::now();
    while sink.fetched.is_empty() {
        one.poll(&mut sink);
        two.poll(&mut RecordingSink::default());
        assert!(begin.elapsed() < Duration::from_secs(60), "it is never fetched");
    }
    assert_eq!(sink.fetched, [(5, FetchEnd::Complete)]);
    let mut came = [0; BYTES];
    into.read(0, &mut came);
    assert_eq!(came, [7; BYTES]);
}

#[test]
fn fetches_with_and_without_help() {
    use Copying::{Jointly, Once, Piped, PipedPastCaches};
    let mut pair = pair(true);
    let reachable = pair.0.reaches_memory_of(GateId(1));
    for (number, length) in [1, 4096, 70_000, 5_000_000, 100_001].into_iter().enumerate() {
        for blocks in [0, 8, 2000] {
            let there = conformance::memory(length / 2000 * 2000 + 2000, blocks);
            let into = Buffer::zeroed(length);
            let data: Vec<u8> = (0..there.len()).map(|i| (i / 7 + number) as u8).collect();
            there.write(0, &data);
            for copying in [Once, Jointly, Piped, PipedPastCaches] {
                // Short runs cannot be read.
                for help in [true, blocks == 8 || !reachable] {
                    into.write(0, &vec![0; length]);
                    assert!(fetch(&mut pair, &there, &into, (copying, help)));
                    let mut got = vec![0; length];
                    into.read(0, &mut got);
                    assert!(got == data[..length], "{length} bytes, {blocks}, {copying:?}");
                }
            }
        }
    }
}

/// Announces data to gate 0. Returns its region, if it is sent ahead.
fn send_ahead(from: &mut Shm, data: &Buffer, token: u64, when: When) -> Option<RegionToken> {
    let (gate, label, may_end_early) = (GateId(0), None, true);
    match from.announce(&Announcement { gate, data, token, label, may_end_early, when }) {
        Exposure::Ahead(region) => Some(region),
        Exposure::Region(region) => {
            assert!(from.withdraw(region));
            None
        }
        Exposure::None => None,
    }
}

#[test]
fn what_is_sent_ahead_needs_its_sender_no_more() {
    let (mut one, mut two) = pair(true);
    for length in [1, 20_000, AHEAD_BYTES_MAX / 2000 * 2000] {
        let blocks = if length % 2000 == 0 { 8 } else { 0 };
        let (there, into) = (conformance::memory(length, blocks), conformance::memory(length, 0));
        let mut regions = Vec::new();
        // Further messages are refused until arrived ones have made room.
        while let Some(region) = send_ahead(&mut two, &there, regions.len() as u64, When::Now) {
            let number = regions.len() as u8;
            there.write(0, &vec![number; length]);
            let mut sink = RecordingSink::default();
            while sink.sent.is_empty() {
                two.poll(&mut sink);
            }
            assert_eq!(sink.sent, [u64::from(number)]);
            there.write(0, &vec![0xff; length]);
            regions.push(region);
        }
        assert!(regions.len() > 8);
        for (number, region) in regions.into_iter().enumerate() {
            let length = [length, length / 2, 0][number % 3];
            into.write(0, &vec![0xff; length]);
            let (gate, token) = (GateId(1), number as u64);
            let fetch = Fetch { gate, region, length, into: into.clone(), token };
            one.fetch_by(fetch, Copying::Piped);
            let mut sink = RecordingSink::default();
            while sink.fetched.is_empty() {
                one.poll(&mut sink);
            }
            assert_eq!(sink.fetched, [(token, FetchEnd::Complete)]);
            let mut got = vec![0; length];
            into.read(0, &mut got);
            assert!(got.iter().all(|byte| usize::from(*byte) == number), "message {number}");
        }
    }
    let long = conformance::memory(AHEAD_BYTES_MAX + 1, 0);
    assert!(send_ahead(&mut two, &long, 0, When::Now).is_none());
}

/// Checks that the message of a round, whose bytes are the round's number, was sent, fetched and
/// received.
fn check_round(round: u64, sent: &RecordingSink, fetched: &RecordingSink, into: &Buffer) {
    assert_eq!(
        (&sent.sent[..], &fetched.fetched[..]),
        (&[round][..], &[(round, FetchEnd::Complete)][..])
    );
    let mut got = vec![0; into.len()];
    into.read(0, &mut got);
    assert!(got.iter().all(|byte| *byte == round as u8), "round {round}");
}

/// Returns the bytes of memory that a process's segment has.
fn segment_bytes(of: &Shm) -> u64 {
    fs::metadata(of.own.card.path()).unwrap().blocks() * 512
}

#[test]
fn what_is_left_to_the_receiver_is_read_in_the_call_that_fetches_it_without_the_pool() {
    let (mut one, mut two) = pair(true);
    if one.peers[1].as_ref().is_none_or(|peer| !peer.reachable) {
        return;
    }
    let length = 48 << 10;
    let (there, into) = (conformance::memory(length, 0), conformance::memory(length, 0));
    there.write(0, &vec![7; length]);
    two.peers[0].as_mut().unwrap().middle = MiddleStatistics::that_leaves_to_receiver(length);
    let region = send_ahead(&mut two, &there, 7, When::Now).unwrap();
    let (mut fetched, before) = (RecordingSink::default(), segment_bytes(&two));
    one.fetch(
        Fetch { gate: GateId(1), region, length, into: into.clone(), token: 7 },
        &mut fetched,
    );
    let mut sent = RecordingSink::default();
    two.poll(&mut sent);
    check_round(7, &sent, &fetched, &into);
    assert!(segment_bytes(&two) < before + (64 << 10), "no pages of the pool are made");
}

#[test]
fn a_message_through_the_pool_makes_the_pages_of_few_pieces() {
    let mut pair = pair(true);
    let before = segment_bytes(&pair.1);
    let (there, into) = (Buffer::zeroed(100_000), Buffer::zeroed(100_000));
    assert!(fetch(&mut pair, &there, &into, (Copying::Piped, true)));
    let made = segment_bytes(&pair.1) - before;
    assert!((100_000..512 << 10).contains(&made), "{made}");
}

/// Tests a message of middle length whose sender waits, as the receiver copies faster.
#[test]
fn what_is_left_to_the_receiver_is_read_by_it_or_sent_after_all() {
    let (mut one, mut two) = pair(true);
    if one.peers[1].as_ref().is_none_or(|peer| !peer.reachable) {
        return;
    }
    let length = 48 << 10;
    for round in 0..100_u64 {
        let (there, into) = (conformance::memory(length, 0), conformance::memory(length, 0));
        there.write(0, &vec![round as u8; length]);
        two.peers[0].as_mut().unwrap().middle = MiddleStatistics::that_leaves_to_receiver(length);
        let region = send_ahead(&mut two, &there, round, When::Now).unwrap();
        let (mut sent, mut fetched) = (RecordingSink::default(), RecordingSink::default());
        let receiver_comes = round % 2 == 0;
        if !receiver_comes {
            while sent.sent.is_empty() {
                two.poll(&mut sent);
            }
            there.write(0, &vec![0xff; length]);
        }
        one.fetch_by(
            Fetch { gate: GateId(1), region, length, into: into.clone(), token: round },
            Copying::Piped,
        );
        while fetched.fetched.is_empty() {
            one.poll(&mut fetched);
        }
        while sent.sent.is_empty() {
            two.poll(&mut sent);
        }
        check_round(round, &sent, &fetched, &into);
    }
}

#[test]
fn what_is_sent_ahead_later_is_read_by_who_waits() {
    let (mut one, mut two) = pair(true);
    if one.peers[1].as_ref().is_none_or(|peer| !peer.reachable) {
        return;
    }
    for round in 0..200_u64 {
        let length = [1, 30_000, AHEAD_BYTES_MAX][round as usize % 3];
        let (there, into) = (conformance::memory(length, 0), conformance::memory(length, 0));
        there.write(0, &vec![round as u8; length]);
        let region = send_ahead(&mut two, &there, round, When::Later).unwrap();
        let (gate, token) = (GateId(1), round);
        // All ways of copying in turn.
        let copying = [Copying::Piped, Copying::Jointly, Copying::Once][round as usize / 12 % 3];
        let fetch = Fetch { gate, region, length, into: into.clone(), token };
        one.fetch_by(fetch, copying);
        let (mut sent, mut fetched) = (RecordingSink::default(), RecordingSink::default());
        // The sender polls first, at about the time of the receiver, or late.
        let polls = [0, 40, 2000, usize::MAX][round as usize % 4];
        (0..polls).take_while(|_| fetched.fetched.is_empty() && !one.poll(&mut fetched)).count();
        while sent.sent.is_empty() || fetched.fetched.is_empty() {
            if polls < usize::MAX || !fetched.fetched.is_empty() {
                two.poll(&mut sent);
                if sent.sent == [round] {
                    there.write(0, &vec![0xff; length]);
                }
            }
            one.poll(&mut fetched);
        }
        check_round(round, &sent, &fetched, &into);
    }
}

#[test]
fn a_fetch_of_more_than_there_is_fails() {
    let mut pair = pair(true);
    let there = conformance::memory(500, 0);
    let into = conformance::memory(501, 0);
    for copying in [Copying::Once, Copying::Piped] {
        assert!(!fetch(&mut pair, &there, &into, (copying, true)));
    }
}

#[test]
fn without_single_copy_regions_are_not_reached() {
    let (mut one, mut two) = pair(false);
    let memory = Buffer::zeroed(8);
    let region = two.declare(&memory, RegionAccess::ReadAndWrite).unwrap();
    let refused = one.read_region(GateId(1), region, 0, 8, &memory, 0).unwrap_err();
    assert!(refused.to_string().contains("process_vm_readv"), "{refused}");
    let refused = one.read_region(GateId(5), region, 0, 8, &memory, 0).unwrap_err();
    assert!(refused.to_string().contains("not connected"), "{refused}");
}

#[test]
fn what_is_read_while_it_is_revoked_is_not_believed() {
    const LENGTH: usize = 1 << 16;
    let tokens = Mutex::new(Vec::new());
    let declare = |mut one: Shm| {
        let there = Buffer::zeroed(LENGTH);
        for round in 0..2000_u32 {
            // While the region is declared, it holds only ones.
            there.write(0, &[1; LENGTH]);
            let token = one.declare(&there, RegionAccess::Read).unwrap();
            *tokens.lock().unwrap() = vec![token];
            (0..round % 7 * 1000).for_each(|_| std::hint::spin_loop());
            one.revoke(token).unwrap();
            there.write(0, &[2; LENGTH]);
        }
        *tokens.lock().unwrap() = vec![RegionToken::NONE; 2];
    };
    let read = |mut two: Shm| {
        let into = Buffer::zeroed(LENGTH);
        loop {
            let token = match tokens.lock().unwrap()[..] {
                [] => continue,
                [token] => token,
                [..] => break,
            };
            match two.read_region(GateId(0), token, 0, LENGTH, &into, 0) {
                Ok(()) => {
                    let mut bytes = vec![0; LENGTH];
                    into.read(0, &mut bytes);
                    assert!(bytes.iter().all(|byte| *byte == 1), "what was read is torn");
                }
                Err(error) => assert_eq!(error, RegionError::Unknown),
            }
        }
    };
    apart(declare, read);
}

#[test]
fn nothing_is_written_after_a_revocation() {
    const LENGTH: usize = 1 << 16;
    let current = Mutex::new(None);
    let write = |mut one: Shm| {
        let from = Buffer::zeroed(LENGTH);
        from.write(0, &[1; LENGTH]);
        loop {
            let token: Option<RegionToken> = *current.lock().unwrap();
            match token {
                None => {}
                Some(RegionToken { secret: 0, .. }) => break,
                Some(token) => {
                    let written = one.write_region(GateId(1), token, 0, LENGTH, &from, 0);
                    assert!(matches!(written, Ok(()) | Err(RegionError::Unknown)));
                }
            }
        }
    };
    let declare = |mut two: Shm| {
        let there = Buffer::zeroed(LENGTH);
        for round in 0..2000_u32 {
            let token = two.declare(&there, RegionAccess::ReadAndWrite).unwrap();
            *current.lock().unwrap() = Some(token);
            (0..round % 7 * 1000).for_each(|_| std::hint::spin_loop());
            two.revoke(token).unwrap();
            there.write(0, &[2; LENGTH]);
            let mut bytes = vec![0; LENGTH];
            there.read(0, &mut bytes);
            assert!(bytes.iter().all(|byte| *byte == 2), "round {round}");
        }
        *current.lock().unwrap() = Some(RegionToken::NONE);
    };
    apart(write, declare);
}

#[test]
fn a_card_of_another_process_is_refused() {
    let (mut one, two) = pair(true);
    let mut card = two.own.card.clone();
    card.nonce[0] ^= 1;
    one.directory = Box::new(move |_| Ok(card.to_string()));
    let refused = one.connect(GateId(2)).unwrap_err();
    assert!(refused.message.contains("not the segment"), "{refused}");
    let mut elsewhere = two.own.card.clone();
    elsewhere.host = "moon".into();
    one.directory = Box::new(move |_| Ok(elsewhere.to_string()));
    assert!(one.connect(GateId(2)).unwrap_err().message.contains("another machine"));
}

#[test]
fn an_armed_bell_is_rung_by_a_packet() {
    let (mut one, two) = pair(true);
    let (other, _writer) = std::io::pipe().unwrap();
    let beside = two.doorbell(vec![other.into()]).unwrap().unwrap();
    for bell in [two.doorbell(Vec::new()).unwrap().unwrap(), beside] {
        for _ in 0..3 {
            let ticket = bell.arm();
            assert!(one.post_packet(GateId(1), 0, 8, &mut |out| out.fill(1)));
            // The wait would last a minute if the bell had not rung.
            let start = std::time::Instant::now();
            bell.wait(ticket, std::time::Duration::from_secs(60));
            assert!(start.elapsed().as_secs() < 30);
        }
    }
}

/// SIGPIPE, which comes with that error, would kill a program that survives a peer.
#[test]
fn the_bell_of_a_process_that_has_ended_is_rung_without_an_error() {
    let own = OwnSegment::create().unwrap();
    let peer =
        PeerSegment::open(&own.card, 1, false, &MiddleChoice::default(), &own.segment).unwrap();
    assert_eq!(peer.bell.segment.write_to_pipe().unwrap(), 1);
    drop(own);
    assert_eq!(peer.bell.segment.write_to_pipe().unwrap(), 1);
}

#[test]
fn a_peer_is_woken_by_its_bell() {
    let (one, two) = pair(true);
    assert!(one.bell(GateId(7)).is_none(), "there is no such peer");
    let (bell, doorbell) =
        (one.bell(GateId(1)).unwrap(), two.doorbell(Vec::new()).unwrap().unwrap());
    for _ in 0..3 {
        let ticket = doorbell.arm();
        bell.wake();
        // The wait would last a minute if the bell had not rung.
        let start = std::time::Instant::now();
        doorbell.wait(ticket, std::time::Duration::from_secs(60));
        assert!(start.elapsed().as_secs() < 30);
    }
}

#[test]
fn one_ring_wakes_all_threads() {
    let (one, two) = pair(true);
    let one = Mutex::new(one);
    let (other, _writer) = std::io::pipe().unwrap();
    let bell = two.doorbell(vec![other.into()]).unwrap().unwrap();
    let start = std::time::Instant::now();
    for _ in 0..200 {
        let armed = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let ticket = bell.arm();
                    armed.wait();
                    bell.wait(ticket, std::time::Duration::from_secs(20));
                });
            }
            armed.wait();
            one.lock().unwrap().push(GateId(1), 8, |out| out.fill(1));
        });
    }
    assert!(start.elapsed().as_secs() < 15, "somebody slept until the time was over");
}

#[test]
fn threads_that_listen_again_and_again_hear_each_ring() {
    let (_one, two) = pair(true);
    let (other, _writer) = std::io::pipe().unwrap();
    let bell = two.doorbell(vec![other.into()]).unwrap().unwrap();
    let (armed, heard): ([AtomicU32; 2], [AtomicU32; 2]) = Default::default();
    /// Ends the threads even if an assertion fails, as the scope waits for them.
    struct EndOfTest<'a>(&'a AtomicBool, &'a dyn Doorbell);
    impl Drop for EndOfTest<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
            self.1.ring();
        }
    }
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = EndOfTest(&ends, &*bell);
        for (armed, heard) in armed.iter().zip(&heard) {
            let (bell, ends) = (&bell, &ends);
            scope.spawn(move || {
                while !ends.load(Ordering::SeqCst) {
                    let ticket = bell.arm();
                    armed.fetch_add(1, Ordering::SeqCst);
                    bell.wait(ticket, Duration::from_secs(10));
                    heard.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        // On a machine with much other work, there are fewer rounds.
        let begin = Instant::now();
        for _ in (0..3000).take_while(|_| begin.elapsed().as_secs() < 5) {
            let listening = [0, 1].map(|one: usize| armed[one].load(Ordering::SeqCst));
            bell.ring();
            let start = Instant::now();
            while (0..2).any(|one| heard[one].load(Ordering::SeqCst) < listening[one]) {
                assert!(start.elapsed().as_secs() < 9, "somebody sleeps on");
                std::thread::yield_now();
            }
        }
        ends.store(true, Ordering::SeqCst);
        while (0..2)
            .any(|one| heard[one].load(Ordering::SeqCst) < armed[one].load(Ordering::SeqCst))
        {
            bell.ring();
            std::thread::yield_now();
        }
    });
}

#[test]
fn threads_that_go_to_sleep_while_networks_come_hear_each_ring() {
    let (_one, two) = pair(true);
    let turn = std::sync::Barrier::new(2);
    for _ in 0..500 {
        let begin = Instant::now();
        let bell = two.doorbell(Vec::new()).unwrap().unwrap();
        let (other, _writer) = std::io::pipe().unwrap();
        let is_armed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                turn.wait();
                let ticket = bell.arm();
                is_armed.store(true, Ordering::SeqCst);
                bell.wait(ticket, Duration::from_secs(20));
            });
            turn.wait();
            assert!(bell.extend(vec![other.into()]).unwrap());
            while !is_armed.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
            bell.ring();
        });
        assert!(begin.elapsed().as_secs() < 15, "it slept until the time was over");
    }
}

#[test]
fn a_full_pipe_holds_up_nobody() {
    let own = OwnSegment::create().unwrap();
    let peer =
        PeerSegment::open(&own.card, 1, false, &MiddleChoice::default(), &own.segment).unwrap();
    let is_full = |_| peer.bell.segment.write_to_pipe().is_err();
    assert!((0..1_000_000).any(is_full), "the pipe takes as much as it likes");
}

#[test]
fn a_sender_that_sleeps_is_rung_when_pieces_are_taken() {
    const BYTES: usize = 2_000_000;
    let (mut one, mut two) = pair(false);
    let (there, into) = (Buffer::zeroed(BYTES), Buffer::zeroed(BYTES));
    let region = two.declare_message(&there).unwrap();
    one.fetch_by(Fetch { gate: GateId(1), region, length: BYTES, into, token: 5 }, Copying::Piped);
    let mut sink = RecordingSink::default();
    one.poll(&mut sink);
    // Fills as many pieces as are allowed.
    while two.poll(&mut RecordingSink::default()) {}
    let bell = two.doorbell(Vec::new()).unwrap().unwrap();
    let ticket = bell.arm();
    assert!(one.poll(&mut sink), "some are taken");
    let start = Instant::now();
    bell.wait(ticket, Duration::from_secs(60));
    assert!(start.elapsed().as_secs() < 30, "the sender slept until the time was over");
}

#[test]
fn a_sender_that_sleeps_is_rung_when_it_is_asked_for_its_data() {
    const BYTES: usize = 2_000_000;
    let (mut one, mut two) = pair(false);
    let (there, into) = (Buffer::zeroed(BYTES), Buffer::zeroed(BYTES));
    let region = two.declare_message(&there).unwrap();
    let bell = two.doorbell(Vec::new()).unwrap().unwrap();
    let ticket = bell.arm();
    one.fetch_by(Fetch { gate: GateId(1), region, length: BYTES, into, token: 5 }, Copying::Piped);
    one.poll(&mut RecordingSink::default());
    let start = Instant::now();
    bell.wait(ticket, Duration::from_secs(60));
    assert!(start.elapsed().as_secs() < 30, "the sender slept until the time was over");
}

#[test]
fn what_the_sender_could_not_write_is_not_believed() {
    const BYTES: usize = 300_000;
    let (mut one, mut two) = pair(true);
    if !one.reaches_memory_of(GateId(1)) {
        return;
    }
    let (there, into) = (Buffer::zeroed(BYTES), Buffer::zeroed(BYTES));
    let region = two.declare_message(&there).unwrap();
    one.set_program_state(ProgramState::Computes);
    let fetch = Fetch { gate: GateId(1), region, length: BYTES, into, token: 5 };
    one.fetch_by(fetch, Copying::Jointly);
    let mut sink = RecordingSink::default();
    one.poll(&mut sink);
    two.peers[0].as_mut().unwrap().reachable = false;
    assert!(two.poll(&mut RecordingSink::default()), "it tries to write a piece");
    one.set_program_state(ProgramState::Waits);
    while sink.fetched.is_empty() {
        one.poll(&mut sink);
    }
    assert_eq!(sink.fetched, [(5, FetchEnd::Incomplete)]);
}

mod cells;
mod ended;
