//! Senders that end at every point of a push.

use std::collections::{BTreeMap, BTreeSet};
use std::ptr::NonNull;

use proptest::prelude::*;

use super::super::tests::Arena;
use super::super::{FILLER, Header, LINE_BYTES, RingProducer, lines_for};
use super::*;

const LINES: usize = 32;
const SLOTS: usize = 64;
const SENDERS: usize = 3;

/// A step of a sender, of the consumer, or the end of a sender's process.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Reserves lines for so many bytes.
    Reserve(usize, usize),
    /// Loads the tail and stores the slot, and goes no further.
    Begin(usize),
    /// Reserves what is left before the end of the ring, for a filler, and ends.
    EndAtFiller(usize),
    /// Writes the bytes of what it has reserved, but not the header.
    Fill(usize),
    Publish(usize),
    End(usize),
    Pop,
    Skip,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let sender = || 0..SENDERS;
    let step = prop_oneof![
        6 => (sender(), 0_usize..700).prop_map(|(sender, bytes)| Step::Reserve(sender, bytes)),
        2 => sender().prop_map(Step::Begin),
        1 => sender().prop_map(Step::EndAtFiller),
        2 => sender().prop_map(Step::Fill),
        4 => sender().prop_map(Step::Publish),
        2 => sender().prop_map(Step::End),
        6 => Just(Step::Pop),
        4 => Just(Step::Skip),
    ];
    proptest::collection::vec(step, 1..if cfg!(miri) { 40 } else { 400 })
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Pending,
    /// With the length of its packet; none of a filler.
    Published(u32, Option<usize>),
    Ended,
}

/// A reservation as the oracle has it.
#[derive(Clone, Debug)]
struct Reservation {
    state: State,
    lines: u64,
}

struct Sender {
    process: u32,
    producer: RingProducer,
    /// The tail that its reservation has replaced, and the bytes.
    pending: Option<(Tail, usize)>,
    /// Where it has begun without going further.
    begun: Option<u64>,
}

struct World {
    memory: NonNull<u8>,
    slots: Box<[SenderSlot]>,
    senders: Vec<Sender>,
    consumer: Consumer,
    ended: BTreeSet<u32>,
    reservations: BTreeMap<u64, Reservation>,
    processes: u32,
}

impl World {
    /// # Safety
    /// The memory outlives the value, and nothing else uses it.
    unsafe fn new(memory: NonNull<u8>) -> Self {
        let slots = (0..SLOTS).map(|_| SenderSlot::default()).collect();
        // SAFETY: passed on to the caller.
        let consumer = unsafe { Consumer::new(memory, LINES) };
        let (senders, ended, reservations) = Default::default();
        let mut world =
            Self { memory, slots, senders, consumer, ended, reservations, processes: 0 };
        (0..SENDERS).for_each(|_| {
            let sender = world.start();
            world.senders.push(sender);
        });
        world
    }

    /// Starts a process with a sender.
    fn start(&mut self) -> Sender {
        self.processes += 1;
        let process = self.processes;
        for slot in &self.slots {
            let owner = slot.process();
            if self.ended.contains(&owner) {
                slot.free(owner, self.consumer.head);
            }
        }
        let slot = self.slots.iter().find(|slot| slot.claim(process)).expect("one is free");
        // SAFETY: the slots are in a box that lives as long; the rest is passed on to `new`.
        let producer =
            unsafe { RingProducer::new(self.memory, LINES, process, NonNull::from(slot)) };
        Sender { process, producer, pending: None, begun: None }
    }

    fn tail(&self) -> Tail {
        self.consumer.tail()
    }

    fn reserve(&mut self, sender: usize, bytes: usize) {
        if self.senders[sender].pending.is_some() {
            return;
        }
        let (begin, wanted) = (self.tail().position(), lines_for(bytes));
        let reserved = self.senders[sender].producer.reserve(wanted);
        self.senders[sender].begun = None;
        let Some(replaced) = reserved else { return };
        let (process, first) = (self.senders[sender].process, replaced.position());
        if first > begin {
            let state = State::Published(process, None);
            self.reservations.insert(begin, Reservation { state, lines: first - begin });
        }
        self.reservations.insert(first, Reservation { state: State::Pending, lines: wanted });
        self.senders[sender].pending = Some((replaced, bytes));
    }

    /// Fills the reservation with what looks like headers of this lap.
    fn fill(&mut self, sender: usize) {
        let Sender { producer, pending: Some((replaced, bytes)), .. } = &self.senders[sender]
        else {
            return;
        };
        let header = Header::new(producer.place.lap(replaced.position()), 1, 1, 8).0;
        let words = header.to_le_bytes().into_iter().cycle();
        let body: Vec<u8> = words.take(*bytes).collect();
        // SAFETY: it is reserved and not published.
        unsafe { producer.place.fill(replaced.position(), *bytes, |out| out.copy_from(&body)) };
    }

    fn publish(&mut self, sender: usize) {
        self.fill(sender);
        let sender = &mut self.senders[sender];
        let Some((replaced, bytes)) = sender.pending.take() else { return };
        sender.producer.publish(replaced, bytes as u64);
        let state = State::Published(sender.process, Some(bytes));
        self.reservations.get_mut(&replaced.position()).unwrap().state = state;
    }

    fn end(&mut self, sender: usize) {
        let started = self.start();
        let ended = std::mem::replace(&mut self.senders[sender], started);
        self.ended.insert(ended.process);
        if let Some((replaced, _)) = ended.pending {
            self.reservations.get_mut(&replaced.position()).unwrap().state = State::Ended;
        }
    }

    fn end_at_filler(&mut self, sender: usize) {
        let tail = self.tail();
        let lines = LINES as u64 - (tail.position() & (LINES as u64 - 1));
        let room = tail.position() + lines <= self.consumer.published + LINES as u64;
        // No filler is longer than a packet.
        if self.senders[sender].pending.is_none() && room && lines < 14 {
            assert_eq!(self.senders[sender].producer.replace(tail, lines), Ok(()));
            let reservation = Reservation { state: State::Pending, lines };
            self.reservations.insert(tail.position(), reservation);
            self.senders[sender].pending = Some((tail, FILLER as usize));
            self.end(sender);
        }
    }

    /// What the consumer must find out about the hole at its head.
    fn hole(&self) -> Option<u64> {
        let head = self.reservations.get(&self.consumer.head)?;
        let is_tried = |sender: &Sender| sender.begun == Some(self.consumer.head);
        let may_be_another = self.senders.iter().any(is_tried);
        (head.state == State::Ended && !may_be_another).then_some(head.lines)
    }

    fn skip(&mut self) -> Result<bool, TestCaseError> {
        let hole =
            self.consumer.find_hole(self.slots.iter(), |process| self.ended.contains(&process));
        prop_assert_eq!(hole, self.hole());
        let Some(lines) = hole else { return Ok(false) };
        self.reservations.remove(&self.consumer.head);
        self.consumer.skip_hole(lines);
        Ok(true)
    }

    fn pop(&mut self) -> Result<bool, TestCaseError> {
        let mut seen = None;
        let is_popped = self.consumer.pop(|sender, bytes| seen = Some((sender, bytes.len())));
        let mut expected = None;
        while let Some(first) = self.reservations.first_entry() {
            let State::Published(sender, length) = first.get().state else { break };
            first.remove();
            if let Some(length) = length {
                expected = Some((sender, length));
                break;
            }
        }
        prop_assert_eq!((seen, is_popped), (expected, expected.is_some()));
        Ok(is_popped)
    }

    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Reserve(sender, bytes) => self.reserve(sender, bytes),
            Step::Begin(sender) if self.senders[sender].pending.is_none() => {
                let tail = self.tail();
                self.senders[sender].producer.slot().begin(tail);
                self.senders[sender].begun = Some(tail.position());
            }
            Step::Begin(_) => {}
            Step::EndAtFiller(sender) => self.end_at_filler(sender),
            Step::Fill(sender) => self.fill(sender),
            Step::Publish(sender) => self.publish(sender),
            Step::End(sender) => self.end(sender),
            Step::Pop => _ = self.pop()?,
            Step::Skip => _ = self.skip()?,
        }
        Ok(())
    }
}

proptest! {
    /// Exactly the lines of ended senders are skipped, and all else arrives in order.
    #[test]
    fn lines_of_ended_senders_are_skipped_and_no_others(steps in steps()) {
        let mut arena = Arena::new(LINES);
        // SAFETY: the arena outlives the world and is used by nothing else.
        let mut world = unsafe { World::new(arena.base()) };
        for step in steps {
            world.take(step)?;
        }
        (0..SENDERS).for_each(|sender| world.end(sender));
        while world.pop()? || world.skip()? {}
        prop_assert!(world.reservations.is_empty(), "{:?}", world.reservations);
        world.reserve(0, 100);
        world.publish(0);
        prop_assert!(world.pop()?);
    }
}

/// A sender that is killed between reserving and publishing holds up nothing for long.
#[test]
fn packets_behind_those_of_an_ended_sender_arrive() {
    let mut arena = Arena::new(LINES);
    // SAFETY: the arena outlives the world and is used by nothing else.
    let mut world = unsafe { World::new(arena.base()) };
    world.reserve(0, 3 * LINE_BYTES);
    world.reserve(1, 1);
    world.publish(1);
    assert!(!world.consumer.pop(|_, _| ()) && world.consumer.awaits_sender());
    assert!(!world.skip().unwrap(), "it may still publish");
    world.end(0);
    assert!(world.skip().unwrap());
    assert!(world.pop().unwrap());
    assert!(!world.consumer.awaits_sender());
}
