//! Peers whose process ends in the middle of what they do in shared memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Child;
use std::ptr::NonNull;

use queues::ring::RingProducer;

use super::*;
use crate::sizes::LINES;

/// Polls often enough that missing lines are noticed. Returns how many packets have arrived.
fn poll_long(shm: &mut Shm) -> usize {
    let mut sink = RecordingSink::default();
    (0..3 * ROUNDS_PER_HOLE).for_each(|_| _ = shm.poll(&mut sink));
    sink.packets.len()
}

/// Starts a process that does nothing.
fn start() -> Child {
    Command::new("sleep").arg("1000").spawn().unwrap()
}

/// Reserves lines of a packet in the ring of the peer 0 of `shm`, as a sender in the process
/// `child`, and publishes nothing.
fn reserve_as(child: &Child, shm: &Shm, bytes: usize) {
    let segment = &shm.peers[0].as_ref().unwrap().bell.segment;
    let slot = segment.senders().slot(segment.senders().claim(child.id() as i32, || 0).unwrap());
    // SAFETY: the segment outlives the producer, which alone uses the slot.
    let mut producer =
        unsafe { RingProducer::new(segment.ring_memory(), LINES, 7, NonNull::from(slot)) };
    let interrupted = || producer.push(bytes, |_| std::panic::resume_unwind(Box::new(())));
    catch_unwind(AssertUnwindSafe(interrupted)).unwrap_err();
}

#[test]
fn lines_of_a_killed_process_hold_up_no_other_sender() {
    let (mut one, mut two) = pair(false);
    let mut children = [start(), start()];
    let push = |shm: &mut Shm, byte| {
        assert!(shm.post_packet(GateId(0), 0, 100, &mut |out| out.fill(byte)));
    };
    reserve_as(&children[0], &two, 500);
    push(&mut two, 1);
    reserve_as(&children[1], &two, 5000);
    push(&mut two, 2);
    assert_eq!(poll_long(&mut one), 0, "the processes may still publish");
    assert!(one.may_sleep());
    children[0].kill().unwrap();
    children[0].wait().unwrap();
    assert!(!one.may_sleep());
    assert!(one.poll(&mut RecordingSink::default()), "the poll after that skips the lines");
    assert_eq!(poll_long(&mut one), 1);
    assert!(one.may_sleep());
    children[1].kill().unwrap();
    children[1].wait().unwrap();
    assert_eq!(poll_long(&mut one), 1);
    assert!(one.may_sleep());
}

#[test]
fn slots_of_ended_processes_are_used_again_when_there_are_no_others() {
    let (_one, two) = pair(false);
    let mut child = start();
    let segment = &two.peers[0].as_ref().unwrap().bell.segment;
    while segment.senders().claim(child.id() as i32, || 0).is_some() {}
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(segment.senders().claim(std::process::id() as i32, || 1).is_some());
}

/// Ends a child.
fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_revocation_waits_for_writers_that_live_and_for_no_others() {
    let (mut one, two) = pair(true);
    let memory = Buffer::zeroed(8);
    let region = one.declare(&memory, RegionAccess::ReadAndWrite).unwrap();
    let slot = region.place as u32 as usize;
    // Processes that have ended, of which one was writing and others were not.
    let senders = two.peers[0].as_ref().unwrap().bell.segment.senders();
    for is_writer in [true, false, false] {
        let child = start();
        let place = senders.claim(child.id() as i32, || 0).unwrap();
        if is_writer {
            senders.begin_writing(place, slot);
        }
        end(child);
    }
    let writer = start();
    let place = senders.claim(writer.id() as i32, || 0).unwrap();
    senders.begin_writing(place, slot);
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            has_ended.store(true, Ordering::SeqCst);
            end(writer);
        });
        one.revoke(region).unwrap();
        assert!(has_ended.load(Ordering::SeqCst), "the writer lived");
    });
    let next = one.declare(&memory, RegionAccess::ReadAndWrite).unwrap();
    assert_eq!(next.place as u32, region.place as u32, "the entry is used again");
    one.revoke(next).unwrap();
}

/// Returns a region of `one`, and the slot of a process that was killed while it wrote the region.
/// The slot is free.
fn region_of_killed_writer(one: &mut Shm, two: &Shm) -> (RegionToken, usize) {
    let region = one.declare(&Buffer::zeroed(8), RegionAccess::ReadAndWrite).unwrap();
    let senders = two.peers[0].as_ref().unwrap().bell.segment.senders();
    let child = start();
    let process = child.id() as i32;
    let place = senders.claim(process, || 0).unwrap();
    senders.begin_writing(place, region.place as u32 as usize);
    end(child);
    one.own.free_senders(process);
    (region, place)
}

#[test]
fn a_slot_of_a_killed_writer_is_used_by_the_next_sender() {
    let (mut one, two) = pair(true);
    let (region, place) = region_of_killed_writer(&mut one, &two);
    let senders = two.peers[0].as_ref().unwrap().bell.segment.senders();
    assert_eq!(senders.claim(std::process::id() as i32, || 0), Some(place));
    one.revoke(region).unwrap();
}

#[test]
fn a_revocation_does_not_wait_for_a_killed_writer_whose_slot_is_free() {
    let (mut one, two) = pair(true);
    let (region, _) = region_of_killed_writer(&mut one, &two);
    one.revoke(region).unwrap();
}

#[test]
fn fetches_from_a_peer_that_was_given_up_end() {
    for copying in [Copying::Once, Copying::Piped, Copying::Jointly] {
        for polls in 0..3 {
            let (mut one, mut two) = pair(true);
            let there = Buffer::zeroed(300_000);
            for token in 0..3 {
                let region = two.declare_message(&there).unwrap();
                let (into, length) = (Buffer::zeroed(300_000), 300_000);
                let fetch = Fetch { gate: GateId(1), region, length, into, token };
                one.fetch_by(fetch, copying);
            }
            let mut sink = RecordingSink::default();
            (0..polls).for_each(|_| _ = one.poll(&mut sink));
            one.give_up(GateId(1), 0);
            (0..5).for_each(|_| _ = one.poll(&mut sink));
            let mut tokens: Vec<u64> = sink.fetched.iter().map(|(token, _)| *token).collect();
            tokens.sort_unstable();
            assert_eq!(tokens, [0, 1, 2], "{copying:?} after {polls} polls");
            assert!(one.incoming.is_empty() && one.fetches.is_empty());
        }
    }
}

#[test]
fn an_offer_to_a_peer_that_was_given_up_ends() {
    let (mut one, _two) = pair(true);
    if !one.reaches_memory_of(GateId(1)) {
        return;
    }
    let label = MessageLabel { flow: 1, tag: 2, sequence: 3 };
    let into = Buffer::zeroed(300_000);
    assert!(one.expect(GateId(1), label, &into, 7, &RecordingSink::default()));
    let [AssistedCopy::Offered(offered)] = &one.incoming[..] else { panic!("it is offered") };
    let slot = offered.into.place as u32 as usize;
    one.give_up(GateId(1), 0);
    assert!(one.incoming.is_empty());
    assert_eq!(one.own.segment.region(slot).state.load(Ordering::Relaxed), 0, "nobody writes it");
}

#[test]
fn messages_sent_ahead_to_ended_peers_take_no_room() {
    let (mut one, _two) = pair(false);
    let data = Buffer::zeroed(AHEAD_BYTES_MAX);
    for round in 0..200 {
        let message = Announcement {
            gate: GateId(1),
            data: &data,
            label: None,
            token: round,
            when: When::Now,
            may_end_early: true,
        };
        assert!(matches!(one.announce(&message), Exposure::Ahead(_)), "round {round}");
        let mut sink = RecordingSink::default();
        one.poll(&mut sink);
        assert_eq!(sink.sent.len(), 1, "there are pieces in round {round}");
        // The peer is killed before it takes any piece, and another process comes.
        one.give_up(GateId(1), 0);
        one.connect(GateId(1)).unwrap();
    }
}

#[test]
fn a_lane_of_a_peer_that_ends_after_it_was_given_up_is_free_again() {
    let (mut one, mut two) = pair(false);
    let child = start();
    two.peers[0].as_mut().unwrap().pid = child.id() as i32;
    let mut sink = RecordingSink::default();
    for _ in 0..40 {
        assert!(one.push(GateId(1), 2, |out| out.fill(1)));
        two.poll_into(&mut sink);
    }
    assert_eq!(two.own.lanes.len(), 1);
    two.give_up(GateId(0), 0);
    two.forget(GateId(0), PeerEnd::Unknown);
    assert_eq!(two.own.lanes.len(), 1, "the peer may still write");
    end(child);
    (0..=u16::MAX).for_each(|_| _ = two.poll_into(&mut sink));
    assert!(two.own.lanes.is_empty() && two.given_up.is_empty());
}
