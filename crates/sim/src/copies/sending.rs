//! The sending process.

use std::ops::Range;

use base::{GateId, RegionToken};
use driver::{Announcement, ProgramState, When};
use driver_shm::protocol::{Caches, RECEIVER_TIME, Sender, SenderWorld};
use memory::{Buffer, PendingCopy};
use queues::exchange::Exchange;
use queues::offer::Offer;

use super::world::{CopyWorld, CopyingProcess, RECEIVER, SENDER, SLOTS};

#[derive(Default)]
pub(super) struct SenderSide {
    sender: Sender,
    next: usize,
    generation: u32,
    /// By slot: whether the data of its message is sent ahead.
    is_ahead: [bool; SLOTS],
}

impl CopyingProcess for SenderSide {
    fn step(&mut self, world: &CopyWorld) {
        let active = self.serve(world.program[SENDER.0 as usize].get(), world);
        self.free_slots(world);
        if !active && !self.sender.needs_time() {
            world.is_asleep[SENDER.0 as usize].set(true);
        }
    }

    fn send_next(&mut self, world: &CopyWorld) {
        self.free_slots(world);
        let Some(message) = world.messages.get(self.next) else { return };
        let Some(slot) = world.regions.iter().position(|region| region.get().is_none()) else {
            return;
        };
        let number = self.next;
        self.next += 1;
        self.generation += 1;
        world.regions[slot].set(Some((self.generation, number)));
        world.is_asleep[SENDER.0 as usize].set(false);
        self.is_ahead[slot] = message.ahead.is_some();
        let place = u64::from(self.generation) << 32 | slot as u64;
        let region = RegionToken { place, secret: 1 };
        let offer = &world.offers[message.label.flow as usize];
        let is_offered = offer.is_for(message.label, message.data.len() as u64);
        let label = Some(message.label).filter(|_| is_offered);
        let announcement = Announcement {
            gate: RECEIVER,
            data: &message.data,
            token: number as u64,
            label: Some(message.label),
            may_end_early: message.ahead.is_some(),
            when: message.ahead.unwrap_or(When::Later),
        };
        match (message.ahead, label) {
            (Some(_), offered) => {
                let exchange = &world.exchanges[slot];
                let left_until = message.is_left.then(|| world.now() + RECEIVER_TIME);
                self.sender.send_ahead(&announcement, region, offered, left_until, exchange);
            }
            (None, Some(label)) => {
                self.sender.watch(&announcement, region, label, world.now());
            }
            (None, None) => {}
        }
        message.is_announced.set(true);
        world.ring(RECEIVER);
        if message.ahead == Some(When::Now) {
            self.serve(ProgramState::Waits, world);
        }
    }
}

impl SenderSide {
    fn serve(&mut self, program: ProgramState, world: &CopyWorld) -> bool {
        let now = self.sender.needs_time().then(|| world.now());
        self.sender.serve(now, program, &mut SendingProcess { world }, |gate, token| {
            assert_eq!(gate, RECEIVER);
            let message = &world.messages[token as usize];
            assert!(!message.is_sent.replace(true), "message {token} is over once");
            assert_ne!(message.end.get(), Some(false), "message {token} did not come whole");
            message.overwrite();
        })
    }

    /// Revokes the regions that are not needed any more.
    fn free_slots(&mut self, world: &CopyWorld) {
        for (slot, region) in world.regions.iter().enumerate() {
            let Some((generation, number)) = region.get() else { continue };
            let exchange = &world.exchanges[slot];
            let is_free = match self.is_ahead[slot] {
                true => {
                    exchange.taken(generation) >= exchange.filled(generation)
                        && !self.sender.has(slot)
                }
                // The receiver reports the end of this message.
                false => world.messages[number].end.get().is_some(),
            };
            if is_free {
                self.sender.forget(slot);
                region.set(None);
            }
        }
    }
}

struct SendingProcess<'a> {
    world: &'a CopyWorld,
}

impl SenderWorld for SendingProcess<'_> {
    fn next_call(&mut self) -> Option<usize> {
        self.world.calls.borrow_mut().pop_front()
    }

    fn region(&self, slot: usize) -> Option<(u32, &Buffer)> {
        let (generation, message) = self.world.regions[slot].get()?;
        Some((generation, &self.world.messages[message].data))
    }

    fn exchange(&self, slot: usize) -> &Exchange {
        &self.world.exchanges[slot]
    }

    fn is_connected(&self, gate: GateId) -> bool {
        gate == RECEIVER
    }

    fn offer(&self, _gate: GateId, flow: u32) -> &Offer {
        &self.world.offers[flow as usize]
    }

    fn fill(&mut self, piece: usize, data: &Buffer, offset: usize, length: usize, _: Caches) {
        self.world.meanwhile(SENDER);
        data.read(offset, &mut self.world.pool[piece].borrow_mut()[..length]);
    }

    fn begin_fill(&mut self, _: usize, _: &Buffer, _: Range<usize>) -> Option<PendingCopy> {
        unreachable!("the processor addresses all memory")
    }

    fn write(&mut self, to: (GateId, RegionToken), data: &Buffer, bytes: Range<usize>) -> bool {
        let (gate, into) = to;
        assert_eq!(gate, RECEIVER);
        let address = data.base_address();
        let is_it = |number: &usize| self.world.messages[*number].data.base_address() == address;
        let message = (0..self.world.messages.len()).find(is_it).expect("it is a message's");
        self.world.write(into, message, bytes.start, bytes.len())
    }

    fn ring(&mut self, gate: GateId) {
        self.world.ring(gate);
    }
}
