//! Senders whose process ends in the middle of a push.

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
    let slot = segment.senders().claim(child.id() as i32, || 0).unwrap();
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
