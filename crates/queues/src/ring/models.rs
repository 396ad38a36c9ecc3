//! All interleavings of rings and lanes: `RUSTFLAGS='--cfg loom' cargo test -p queues --lib
//! --release models`.

use std::ptr::NonNull;

use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;

use super::modelled::ModelMemory;
use super::*;
use crate::lane;
use crate::primitive::AtomicU32;

/// The smallest ring: its head is published every second line.
const LINES: usize = 16;

/// The senders of a model at most.
const SENDERS: usize = 3;

/// The memory, which both ends keep alive, and which senders have ended.
struct SharedModel {
    memory: ModelMemory,
    slots: [SenderSlot; SENDERS],
    ended: [AtomicU32; SENDERS],
}

// SAFETY: the model checker reports concurrent access.
unsafe impl Send for SharedModel {}
// SAFETY: the model checker reports concurrent access.
unsafe impl Sync for SharedModel {}

impl SharedModel {
    fn new() -> Arc<Self> {
        let slots = [(); SENDERS].map(|()| SenderSlot::default());
        let ended = [(); SENDERS].map(|()| AtomicU32::new(0));
        Arc::new(Self { memory: ModelMemory::new(LINES), slots, ended })
    }

    fn memory(&self) -> NonNull<u8> {
        NonNull::from(&self.memory).cast()
    }

    /// Skips a hole at the consumer's head if there is one.
    fn skip(&self, consumer: &mut Consumer) -> bool {
        let has_ended =
            |process: u32| self.ended[process as usize - 1].load(Ordering::Acquire) != 0;
        let hole = consumer.find_hole(self.slots.iter(), has_ended);
        hole.inspect(|lines| consumer.skip_hole(*lines)).is_some()
    }
}

/// The common interface of ring and lane.
trait Push {
    fn push(&mut self, length: usize, fill: impl FnOnce(SharedBytesMut<'_>)) -> bool;

    /// Called when there is nothing else to do.
    fn idle(&mut self) {}
}

impl Push for RingProducer {
    fn push(&mut self, length: usize, fill: impl FnOnce(SharedBytesMut<'_>)) -> bool {
        RingProducer::push(self, length, fill)
    }
}

impl Push for lane::LaneProducer {
    fn push(&mut self, length: usize, fill: impl FnOnce(SharedBytesMut<'_>)) -> bool {
        lane::LaneProducer::push(self, length, || false, fill)
    }

    fn idle(&mut self) {
        self.take_ahead();
    }
}

fn ring(shared: &SharedModel, sender: u32) -> RingProducer {
    let slot = &shared.slots[sender as usize];
    assert!(slot.claim(sender + 1));
    // SAFETY: the memory outlives the ends.
    unsafe { RingProducer::new(shared.memory(), LINES, sender, NonNull::from(slot)) }
}

fn lane(shared: &SharedModel) -> lane::LaneProducer {
    // SAFETY: the memory outlives the ends.
    unsafe { lane::LaneProducer::new(shared.memory(), LINES, 0) }
}

fn consumer(shared: &SharedModel) -> Consumer {
    // SAFETY: the memory outlives the ends, and each model makes one consumer.
    unsafe { Consumer::new(shared.memory(), LINES) }
}

fn send(producer: &mut impl Push, length: usize, byte: u8) {
    while !producer.push(length, |body| body.fill(byte)) {
        producer.idle();
        thread::yield_now();
    }
}

fn receive(consumer: &mut Consumer) -> (u32, usize, u8) {
    let mut seen = None;
    let mut take = |sender, body: SharedBytes<'_>| {
        let body = body.to_vec();
        assert!(body.iter().all(|byte| *byte == body[0]), "a packet is torn");
        seen = Some((sender, body.len(), body[0]));
    };
    while !consumer.pop(&mut take) {
        consumer.clear_passed();
        thread::yield_now();
    }
    seen.unwrap()
}

/// Checks all interleavings with at most so many preemptions. More preemptions take minutes and
/// have found no other errors.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    builder.check(model);
}

/// Sends packets from one thread to another after so many lines were used: some over several lines,
/// and one behind a filler at the ring's end.
fn check_packets<P: Push + Send + 'static>(
    used: usize,
    lengths: &'static [usize],
    end: fn(&SharedModel) -> P,
) {
    check(2, move || {
        let shared = SharedModel::new();
        let (mut producer, mut consumer) = (end(&shared), consumer(&shared));
        for _ in 0..used {
            send(&mut producer, 1, 1);
            receive(&mut consumer);
        }
        let other = Arc::clone(&shared);
        let sender = thread::spawn(move || {
            for (&length, byte) in lengths.iter().zip(2..) {
                send(&mut producer, length, byte);
            }
            producer.idle();
            drop(other);
        });
        for (&length, byte) in lengths.iter().zip(2..) {
            assert_eq!(receive(&mut consumer), (0, length, byte));
        }
        assert!(consumer.is_empty());
        sender.join().unwrap();
    });
}

#[test]
fn packets_of_two_producers_arrive_whole() {
    check(3, || {
        let shared = SharedModel::new();
        let other = Arc::clone(&shared);
        let sender = thread::spawn(move || send(&mut ring(&other, 1), 1, 1));
        let another = Arc::clone(&shared);
        let second = thread::spawn(move || send(&mut ring(&another, 2), 70, 2));
        let mut consumer = consumer(&shared);
        let mut seen = [receive(&mut consumer), receive(&mut consumer)];
        seen.sort();
        assert_eq!(seen, [(1, 1, 1), (2, 70, 2)]);
        assert!(consumer.is_empty());
        sender.join().unwrap();
        second.join().unwrap();
    });
}

#[test]
fn a_ring_turns_over_its_end() {
    check_packets(LINES - 1, &[70, 1], |shared| ring(shared, 0));
}

#[test]
fn a_lane_turns_over_its_end() {
    check_packets(LINES - 1, &[70, 1], lane);
}

#[test]
fn lines_of_a_ring_are_used_again_when_they_were_read() {
    check_packets(2, &[400, 400, 400], |shared| ring(shared, 0));
}

#[test]
fn lines_of_a_lane_are_used_again_when_they_were_read() {
    check_packets(2, &[400, 400, 400], lane);
}

/// How far a sender gets before its process ends.
#[derive(Clone, Copy, Debug)]
enum Last {
    Slot,
    Reservation,
    Bytes,
    Header,
}

/// Pushes a packet up to a point, at which the process of the sender ends.
fn send_until(shared: &SharedModel, last: Last, sender: u32, length: usize) {
    let mut producer = ring(shared, sender);
    match last {
        Last::Slot => {
            let tail = Tail(producer.place.control().tail.load(Ordering::Relaxed));
            producer.slot().begin(tail);
        }
        Last::Header => send(&mut producer, length, 1),
        Last::Reservation | Last::Bytes => {
            let replaced = producer.reserve(lines_for(length)).unwrap();
            if matches!(last, Last::Bytes) {
                // SAFETY: they are reserved and not published.
                unsafe {
                    producer.place.fill(replaced.position(), length, |body| body.fill(1));
                }
            }
        }
    }
    shared.ended[sender as usize].store(1, Ordering::Release);
}

/// One sender ends at a point, and perhaps a second one at the same time; another goes on.
fn check_ends(ends: &'static [(Last, usize)]) {
    check(2, move || {
        let shared = SharedModel::new();
        let ending = ends.iter().zip(1..).map(|((last, length), sender)| {
            let other = Arc::clone(&shared);
            thread::spawn(move || send_until(&other, *last, sender, *length))
        });
        let ending: Vec<_> = ending.collect();
        let mut consumer = consumer(&shared);
        send(&mut ring(&shared, 0), 130, 9);
        let (mut seen, mut others) = (false, 0);
        while !seen {
            let is_popped = consumer.pop(|sender, body| {
                let is_whole = body.to_vec().iter().all(|byte| *byte == [9, 1, 1][sender as usize]);
                assert!(is_whole, "a packet is torn");
                seen |= sender == 0;
                others += usize::from(sender != 0);
            });
            if !is_popped && !shared.skip(&mut consumer) {
                thread::yield_now();
            }
        }
        ending.into_iter().for_each(|thread| thread.join().unwrap());
        while consumer.pop(|_, _| others += 1) || shared.skip(&mut consumer) {}
        let published = ends.iter().filter(|(last, _)| matches!(last, Last::Header)).count();
        assert_eq!(others, published, "packets of ended senders arrive if they are published");
        assert!(consumer.is_empty() && !consumer.awaits_sender());
    });
}

#[test]
fn a_sender_that_ends_while_it_reserves_holds_up_no_other() {
    check_ends(&[(Last::Slot, 70)]);
}

#[test]
fn a_sender_that_ends_after_it_has_reserved_holds_up_no_other() {
    check_ends(&[(Last::Reservation, 70)]);
}

#[test]
fn a_sender_that_ends_after_it_has_written_holds_up_no_other() {
    check_ends(&[(Last::Bytes, 70)]);
}

#[test]
fn a_sender_that_ends_after_it_has_published_is_heard() {
    check_ends(&[(Last::Header, 70)]);
}

#[test]
fn two_senders_that_end_at_a_time_hold_up_no_other() {
    check_ends(&[(Last::Slot, 70), (Last::Reservation, 200)]);
}

#[test]
fn two_holes_are_skipped() {
    check_ends(&[(Last::Reservation, 1), (Last::Bytes, 70)]);
}
