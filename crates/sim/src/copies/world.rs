//! The world in which the two processes run.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use base::{GateId, MessageLabel, RegionToken};
use driver::{ProgramState, When};
use driver_shm::protocol::{AHEAD_BYTES_MAX, PIECE_BYTES};
use fastrand::Rng;
use memory::Buffer;
use queues::exchange::{Exchange, PIECES};
use queues::offer::Offer;

use super::{CopyReport, CopySetting, ProcessFate};

/// The two processes.
pub(super) const SENDER: GateId = GateId(0);
pub(super) const RECEIVER: GateId = GateId(1);

/// The number of regions that can be declared at a time.
pub(super) const SLOTS: usize = 6;
/// The number of flows of the messages. Each flow has room for one offer.
pub(super) const FLOWS: usize = 3;

pub(super) struct CopyWorld {
    pub setting: CopySetting,
    rng: RefCell<Rng>,
    begin: Instant,
    elapsed: Cell<Duration>,
    pub messages: Vec<CopiedMessage>,
    /// The state in shared memory.
    pub exchanges: [Exchange; SLOTS],
    pub offers: [Offer; FLOWS],
    pub pool: Vec<RefCell<Vec<u8>>>,
    pub calls: RefCell<VecDeque<usize>>,
    /// The declared regions of the sender: generation and message.
    pub regions: [Cell<Option<(u32, usize)>>; SLOTS],
    /// The declared regions of the receiver, by their addresses, and their messages.
    targets: RefCell<BTreeMap<u64, usize>>,
    /// A write that has begun and not ended.
    in_flight: Cell<Option<InFlight>>,
    sender: RefCell<Box<dyn CopyingProcess>>,
    receiver: RefCell<Box<dyn CopyingProcess>>,
    fate: Cell<ProcessFate>,
    pub report: Cell<CopyReport>,
    pub is_asleep: [Cell<bool>; 2],
    pub program: [Cell<ProgramState>; 2],
}

/// One of the two processes. While one of them copies, the world lets the other act.
pub(super) trait CopyingProcess {
    /// Polls once.
    fn step(&mut self, world: &CopyWorld);

    /// Announces the next message, if there is one and a slot is free.
    fn send_next(&mut self, _world: &CopyWorld) {}
}

/// A message; all messages are created at the beginning.
pub(super) struct CopiedMessage {
    pub data: Buffer,
    pub into: Buffer,
    /// When it is sent ahead; `None`: it is only announced.
    pub ahead: Option<When>,
    /// Whether its sender leaves the copy to the receiver for a moment.
    pub is_left: bool,
    /// Whether the receiver can read the data in the sender's memory.
    pub is_readable: bool,
    pub label: MessageLabel,
    /// Whether the sender has reported the send complete.
    pub is_sent: Cell<bool>,
    /// Whether the announcement was sent.
    pub is_announced: Cell<bool>,
    /// Whether all data has arrived; `None` until that is known.
    pub end: Cell<Option<bool>>,
}

#[derive(Clone, Copy)]
struct InFlight {
    target: u64,
    message: usize,
    offset: usize,
    length: usize,
}

impl CopyWorld {
    pub(super) fn new(
        mut rng: Rng,
        setting: CopySetting,
        [sender, receiver]: [Box<dyn CopyingProcess>; 2],
    ) -> Self {
        let messages =
            (0..setting.messages).map(|number| CopiedMessage::new(number, &mut rng)).collect();
        let piece = |_| RefCell::new(vec![0; PIECE_BYTES]);
        Self {
            setting,
            rng: RefCell::new(rng),
            begin: Instant::now(),
            elapsed: Cell::default(),
            messages,
            exchanges: Default::default(),
            offers: Default::default(),
            pool: (0..PIECES).map(piece).collect(),
            calls: RefCell::default(),
            regions: Default::default(),
            targets: RefCell::default(),
            in_flight: Cell::default(),
            sender: RefCell::new(sender),
            receiver: RefCell::new(receiver),
            fate: Cell::new(ProcessFate::GoesOn),
            report: Cell::default(),
            is_asleep: Default::default(),
            program: Default::default(),
        }
    }

    pub(super) fn now(&self) -> Instant {
        self.begin + self.elapsed.get()
    }

    /// Returns true in this many of eight cases.
    pub(super) fn chance(&self, of_eight: u8) -> bool {
        self.rng.borrow_mut().u8(..8) < of_eight
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut CopyReport)) {
        let mut report = self.report.get();
        change(&mut report);
        self.report.set(report);
    }

    pub(super) fn pass_time(&self) {
        let mut rng = self.rng.borrow_mut();
        let nanoseconds = if rng.u8(..32) == 0 { rng.u64(..200_000) } else { rng.u64(..1_000) };
        self.elapsed.set(self.elapsed.get() + Duration::from_nanos(nanoseconds));
    }

    pub(super) fn change_programs(&self) {
        for (gate, program) in self.program.iter().enumerate() {
            let is_fixed = gate == SENDER.0 as usize && self.fate.get() != ProcessFate::GoesOn;
            if !is_fixed {
                let computes = self.chance(2);
                program.set(if computes { ProgramState::Computes } else { ProgramState::Waits });
            }
            // A program that returns to the library polls.
            self.is_asleep[gate].set(self.is_asleep[gate].get() && is_fixed);
        }
    }

    pub(super) fn decide_fate(&self) {
        self.fate.set(self.setting.sender);
        if self.setting.sender != ProcessFate::GoesOn {
            self.program[SENDER.0 as usize].set(ProgramState::Computes);
        }
    }

    pub(super) fn send_next(&self) {
        if self.fate.get() == ProcessFate::GoesOn
            && let Ok(mut sender) = self.sender.try_borrow_mut()
        {
            sender.send_next(self);
        }
    }

    /// Lets the sender poll, unless it is already inside a step.
    pub(super) fn step_sender(&self) {
        let acts =
            self.fate.get() != ProcessFate::Stops && !self.is_asleep[SENDER.0 as usize].get();
        if acts && let Ok(mut sender) = self.sender.try_borrow_mut() {
            sender.step(self);
        }
    }

    /// Lets the receiver poll, unless it is already inside a step.
    pub(super) fn step_receiver(&self) {
        if !self.is_asleep[RECEIVER.0 as usize].get()
            && let Ok(mut receiver) = self.receiver.try_borrow_mut()
        {
            receiver.step(self);
        }
    }

    /// Lets the other process act while this process copies.
    pub(super) fn meanwhile(&self, copies: GateId) {
        if self.chance(2) {
            match copies {
                SENDER => self.step_receiver(),
                _ => self.step_sender(),
            }
        }
    }

    pub(super) fn ring(&self, gate: GateId) {
        if self.is_asleep[gate.0 as usize].replace(false) {
            self.count(|report| report.rings += 1);
        }
    }

    /// Declares the buffer of a message, into which the sender may write.
    pub(super) fn declare_target(&self, message: usize) -> RegionToken {
        let place = self.rng.borrow_mut().u64(1..);
        self.targets.borrow_mut().insert(place, message);
        RegionToken { place, secret: 1 }
    }

    /// Revokes such a region. A write in progress is completed first.
    pub(super) fn revoke_target(&self, region: RegionToken) {
        self.end_write(Some(region.place));
        self.targets.borrow_mut().remove(&region.place);
    }

    /// The sender writes into the receiver's memory. Returns whether that succeeded.
    pub(super) fn write(
        &self,
        into: RegionToken,
        message: usize,
        offset: usize,
        length: usize,
    ) -> bool {
        let target = self.targets.borrow().get(&into.place).copied();
        let Some(target) = target else { return false };
        assert_eq!(target, message, "it is written where it belongs");
        if self.chance(self.setting.failing_writes) {
            return false;
        }
        self.in_flight.set(Some(InFlight { target: into.place, message, offset, length }));
        self.meanwhile(SENDER);
        self.end_write(None);
        true
    }

    /// Completes the write in progress if it goes into this target, or if no target is given.
    fn end_write(&self, only: Option<u64>) {
        let Some(write) = self.in_flight.get() else { return };
        if only.is_some_and(|target| target != write.target) {
            return;
        }
        self.in_flight.set(None);
        let CopiedMessage { data, into, .. } = &self.messages[write.message];
        let mut bytes = vec![0; write.length];
        data.read(write.offset, &mut bytes);
        into.write(write.offset, &bytes);
    }

    /// The receiver reads the sender's memory. Returns whether that succeeded.
    pub(super) fn read(&self, slot: usize, generation: u32, offset: usize, length: usize) -> bool {
        let region = self.regions[slot].get();
        let Some((_, message)) = region.filter(|(now, _)| *now == generation) else { return false };
        if self.chance(self.setting.failing_reads) {
            return false;
        }
        self.meanwhile(RECEIVER);
        let CopiedMessage { data, into, .. } = &self.messages[message];
        let mut bytes = vec![0; length];
        data.read(offset, &mut bytes);
        into.write(offset, &bytes);
        // Data of a region that was revoked in the meantime is not valid.
        self.regions[slot].get() == region
    }

    /// Whether all messages have arrived that can arrive, and all completed sends are reported.
    pub(super) fn is_over(&self) -> bool {
        let is_done = |message: &CopiedMessage| match self.setting.sender {
            ProcessFate::GoesOn => message.end.get().is_some_and(|whole| {
                let is_reported = message.ahead.is_some();
                !(whole && is_reported) || message.is_sent.get()
            }),
            // Data that only the sender could copy may be missing.
            ProcessFate::Computes | ProcessFate::Stops => {
                let needs_sender = !message.is_readable && !message.is_sent.get();
                message.end.get().is_some() || !message.is_announced.get() || needs_sender
            }
        };
        (self.setting.sender == ProcessFate::GoesOn || self.fate.get() != ProcessFate::GoesOn)
            && self.messages.iter().all(is_done)
    }

    /// Checks that received data still equals what was sent.
    pub(super) fn check(&self) -> CopyReport {
        for (number, message) in self.messages.iter().enumerate() {
            if message.end.get() == Some(true) {
                message.check(number);
            }
        }
        self.report.get()
    }

    pub(super) fn describe(&self) -> String {
        let of = |(number, message): (usize, &CopiedMessage)| {
            let CopiedMessage { ahead, is_readable, .. } = message;
            let (announced, sent) = (message.is_announced.get(), message.is_sent.get());
            let end = message.end.get();
            format!(
                "\n{number}: {} bytes, ahead {ahead:?}, readable {is_readable}, announced {announced}, \
                 sent {sent}, end {end:?}",
                message.data.len()
            )
        };
        let all: String = self.messages.iter().enumerate().map(of).collect();
        format!("asleep {:?}, programs {:?}{all}", self.is_asleep, self.program)
    }
}

impl CopiedMessage {
    fn new(number: usize, rng: &mut Rng) -> Self {
        let ahead =
            *rng.choice(&[None, None, Some(When::Now), Some(When::Later)]).expect("there are some");
        let length = match ahead {
            Some(_) => *rng.choice(&[1, 9_000, 40_000, AHEAD_BYTES_MAX]).expect("there are some"),
            None => *rng.choice(&[70_000, 200_000, 700_000]).expect("there are some"),
        };
        let (data, into) = (Buffer::zeroed(length), Buffer::zeroed(length));
        data.write(0, &pattern(number, length));
        let is_left = ahead.is_some() && rng.u8(..3) == 0;
        Self {
            data,
            into,
            ahead,
            is_left,
            is_readable: (is_left || ahead != Some(When::Now)) && rng.u8(..4) > 0,
            label: MessageLabel { flow: (number % FLOWS) as u32, tag: 7, sequence: number as u32 },
            is_sent: Cell::default(),
            is_announced: Cell::default(),
            end: Cell::default(),
        }
    }

    /// Overwrites the memory, as a program does that reuses it.
    pub(super) fn overwrite(&self) {
        self.data.write(0, &vec![0xff; self.data.len()]);
    }

    pub(super) fn check(&self, number: usize) {
        let mut bytes = vec![0; self.into.len()];
        self.into.read(0, &mut bytes);
        assert!(bytes == pattern(number, bytes.len()), "message {number} is whole and right");
    }
}

fn pattern(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|index| (index / 3 + 31 * number) as u8 & 0x7f).collect()
}
