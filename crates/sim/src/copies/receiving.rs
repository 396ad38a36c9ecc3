//! The receiving process.

use base::RegionToken;
use driver::ProgramState;
use driver_shm::protocol::{
    JointReceive, OfferedReceive, PipedReceive, ReceiverWorld, TransferProgress,
};
use memory::PendingCopy;
use queues::exchange::{CopyRequest, Exchange};

use super::world::{CopyWorld, CopyingProcess, RECEIVER, SENDER};

#[derive(Default)]
pub(super) struct ReceiverSide {
    incoming: Vec<IncomingCopy>,
    /// The number of announcements processed.
    seen: usize,
    /// The next message for which a buffer is offered before the announcement, unless it is already
    /// announced.
    expected: usize,
    polls: u32,
}

struct IncomingCopy {
    message: usize,
    /// The region of the receiver into which the sender writes.
    into: Option<RegionToken>,
    way: CopyWay,
}

enum CopyWay {
    Piped(PipedReceive, SenderRegion),
    Jointly(JointReceive, SenderRegion),
    /// The second field is the source of the data, once it is announced.
    Offered(OfferedReceive, Option<SenderRegion>),
}

/// A region of the sender.
#[derive(Clone, Copy)]
struct SenderRegion {
    slot: usize,
    generation: u32,
    is_readable: bool,
}

/// While the program waits, the clock is read once in this many polls.
const POLLS_PER_TIME: u32 = 4;

impl CopyingProcess for ReceiverSide {
    fn step(&mut self, world: &CopyWorld) {
        let mut active = self.take_announcements(world);
        if self.expected < world.messages.len() && world.chance(1) {
            self.expect(world);
        }
        let program = world.program[RECEIVER.0 as usize].get();
        self.polls += 1;
        let reads_clock =
            program == ProgramState::Computes || self.polls.is_multiple_of(POLLS_PER_TIME);
        let now = reads_clock.then(|| world.now());
        let mut index = 0;
        while let Some(incoming) = self.incoming.get_mut(index) {
            let progress = match &mut incoming.way {
                CopyWay::Piped(piped, source) => {
                    piped.advance(now, &mut ReceivingProcess { world, source })
                }
                CopyWay::Jointly(jointly, source) => {
                    jointly.advance(now, program, &mut ReceivingProcess { world, source })
                }
                CopyWay::Offered(offered, _) => {
                    let flow = world.messages[incoming.message].label.flow;
                    offered.advance(now, program, &world.offers[flow as usize])
                }
            };
            active |= progress != TransferProgress::Still;
            if matches!(progress, TransferProgress::Still | TransferProgress::Moved) {
                index += 1;
            } else {
                let incoming = self.incoming.remove(index);
                self.end(incoming, progress, world);
            }
        }
        if !active && !self.awaits_sender(world) {
            world.is_asleep[RECEIVER.0 as usize].set(true);
        }
    }
}

impl ReceiverSide {
    /// Offers a buffer for a message that has not been announced yet.
    fn expect(&mut self, world: &CopyWorld) {
        let number = self.expected.max(self.seen);
        self.expected = number + 1;
        let Some(message) = world.messages.get(number) else { return };
        let flow = message.label.flow;
        let takes_same = |other: &IncomingCopy| {
            matches!(other.way, CopyWay::Offered(..))
                && world.messages[other.message].label.flow == flow
        };
        if message.is_announced.get() || self.incoming.iter().any(takes_same) {
            return;
        }
        let into = world.declare_target(number);
        let words = [into.place, into.secret];
        let turn =
            world.offers[flow as usize].open(message.label, message.data.len() as u64, words);
        let way = CopyWay::Offered(OfferedReceive::new(turn), None);
        self.incoming.push(IncomingCopy { message: number, into: Some(into), way });
    }

    /// Processes new announcements. Returns whether there was any.
    fn take_announcements(&mut self, world: &CopyWorld) -> bool {
        let before = self.seen;
        while world.messages.get(self.seen).is_some_and(|next| next.is_announced.get()) {
            let number = self.seen;
            self.seen += 1;
            let is_it = |region: Option<(u32, usize)>| region.is_some_and(|one| one.1 == number);
            let slot = world.regions.iter().position(|region| is_it(region.get()));
            // If the region is gone already, the sender wrote the data into the offered buffer.
            let source = slot.map(|slot| {
                let generation = world.regions[slot].get().map_or(0, |region| region.0);
                let is_readable = world.messages[number].is_readable;
                SenderRegion { slot, generation, is_readable }
            });
            self.fetch(number, source, world);
        }
        self.seen != before
    }

    fn fetch(&mut self, number: usize, source: Option<SenderRegion>, world: &CopyWorld) {
        let offered = self.incoming.iter().position(|incoming| incoming.message == number);
        let source = source.unwrap_or(SenderRegion { slot: 0, generation: 0, is_readable: false });
        let Some(place) = offered else { return self.begin(number, source, world) };
        let flow = world.messages[number].label.flow as usize;
        let computes = world.program[RECEIVER.0 as usize].get() == ProgramState::Computes;
        let CopyWay::Offered(offered, fetch) = &mut self.incoming[place].way else { return };
        if computes || !world.offers[flow].take_back(offered.turn()) {
            offered.note_announced(world.now());
            *fetch = Some(source);
            return;
        }
        let incoming = self.incoming.remove(place);
        incoming.into.into_iter().for_each(|into| world.revoke_target(into));
        self.begin(number, source, world);
    }

    fn begin(&mut self, number: usize, source: SenderRegion, world: &CopyWorld) {
        let length = world.messages[number].data.len();
        let SenderRegion { slot, generation, is_readable } = source;
        let exchange = &world.exchanges[slot];
        let is_ahead = exchange.is_ahead(generation);
        if !is_ahead && is_readable && world.chance(4) {
            let into = world.declare_target(number);
            self.ask(source, Some((length, into)), world);
            if world.program[RECEIVER.0 as usize].get() == ProgramState::Computes {
                world.ring(SENDER);
            }
            let way = CopyWay::Jointly(JointReceive::new(length, world.now()), source);
            world.count(|report| report.joint += 1);
            return self.incoming.push(IncomingCopy { message: number, into: Some(into), way });
        }
        if !is_ahead {
            self.ask(source, None, world);
            world.ring(SENDER);
        }
        let way = CopyWay::Piped(PipedReceive::new(generation, length, length, is_ahead), source);
        self.incoming.push(IncomingCopy { message: number, into: None, way });
    }

    fn ask(&self, source: SenderRegion, joint: Option<(usize, RegionToken)>, world: &CopyWorld) {
        let request = CopyRequest { gate: RECEIVER.0, past_caches: false, joint };
        world.exchanges[source.slot].ask(source.generation, request);
        world.calls.borrow_mut().push_back(source.slot);
    }

    fn end(&mut self, incoming: IncomingCopy, progress: TransferProgress, world: &CopyWorld) {
        incoming.into.into_iter().for_each(|into| world.revoke_target(into));
        let number = incoming.message;
        let message = &world.messages[number];
        let is_whole = match (progress, incoming.way) {
            (TransferProgress::Written, _) => {
                world.count(|report| report.written += 1);
                true
            }
            (_, CopyWay::Offered(_, None)) => return,
            (_, CopyWay::Offered(_, Some(source))) => return self.begin(number, source, world),
            (progress, CopyWay::Piped(_, source)) => {
                let is_claimed = message.ahead.is_some() && !message.is_sent.get();
                if is_claimed && world.exchanges[source.slot].filled(source.generation) == 0 {
                    world.count(|report| report.claimed += 1);
                }
                progress == TransferProgress::Ended(true)
            }
            (progress, CopyWay::Jointly(..)) => progress == TransferProgress::Ended(true),
        };
        if is_whole {
            message.check(number);
            world.count(|report| report.whole += 1);
        } else {
            assert!(message.ahead.is_none(), "message {number} was sent ahead, and is lost");
            assert!(!message.is_sent.get(), "message {number} is lost, and its send over");
            world.count(|report| report.failed += 1);
        }
        assert!(message.end.replace(Some(is_whole)).is_none(), "message {number} ends once");
        if message.ahead.is_none() {
            // A packet informs the sender.
            world.ring(SENDER);
        }
    }

    /// Whether a copy waits for the help of the sender, which may not come.
    fn awaits_sender(&self, world: &CopyWorld) -> bool {
        self.incoming.iter().any(|incoming| match &incoming.way {
            CopyWay::Piped(..) => true,
            CopyWay::Jointly(jointly, _) => !jointly.is_being_written(),
            CopyWay::Offered(offered, _) => {
                let flow = world.messages[incoming.message].label.flow;
                !offered.needs_nothing(&world.offers[flow as usize])
            }
        })
    }
}

struct ReceivingProcess<'a> {
    world: &'a CopyWorld,
    source: &'a SenderRegion,
}

impl ReceiverWorld for ReceivingProcess<'_> {
    fn exchange(&self) -> &Exchange {
        &self.world.exchanges[self.source.slot]
    }

    fn is_readable(&self) -> bool {
        self.source.is_readable
    }

    fn read(&mut self, offset: usize, length: usize) -> bool {
        let SenderRegion { slot, generation, is_readable } = *self.source;
        is_readable && self.world.read(slot, generation, offset, length)
    }

    fn take(&mut self, piece: usize, length: usize, at: usize) {
        self.world.meanwhile(RECEIVER);
        let is_it = |region: Option<(u32, usize)>| region.map(|(_, message)| message);
        let region = self.world.regions[self.source.slot].get();
        let message = is_it(region).expect("what is not taken is declared");
        self.world.messages[message].into.write(at, &self.world.pool[piece].borrow()[..length]);
    }

    fn is_addressable(&self) -> bool {
        true
    }

    fn begin_taking(&mut self, _: usize, _: usize, _: usize) -> Option<PendingCopy> {
        unreachable!("the processor addresses all memory")
    }

    fn ring(&mut self) {
        self.world.ring(SENDER);
    }
}
