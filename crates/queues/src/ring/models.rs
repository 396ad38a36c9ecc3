//! All interleavings of rings and lanes: `RUSTFLAGS='--cfg loom' cargo test -p queues --lib
//! --release models`.

use std::ptr::NonNull;

use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;

use super::modelled::ModelMemory;
use super::*;
use crate::lane;

/// The smallest ring: its head is published every second line.
const LINES: usize = 16;

/// The memory, which both ends keep alive.
struct SharedModel(ModelMemory);

// SAFETY: the model checker reports concurrent access.
unsafe impl Send for SharedModel {}
// SAFETY: the model checker reports concurrent access.
unsafe impl Sync for SharedModel {}

impl SharedModel {
    fn new() -> Arc<Self> {
        Arc::new(Self(ModelMemory::new(LINES)))
    }

    fn memory(&self) -> NonNull<u8> {
        NonNull::from(&self.0).cast()
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
    // SAFETY: the memory outlives the ends.
    unsafe { RingProducer::new(shared.memory(), LINES, sender) }
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
