//! The sender's side: what a process copies for its peers, with one state machine for each way.

mod ahead;
mod filling;
mod jointly;
mod offered;
mod pool;

use std::ops::Range;
use std::time::{Duration, Instant};

use base::{GateId, MessageLabel, RegionToken};
use driver::{Announcement, ProgramState};
use memory::{Buffer, PendingCopy};
use queues::exchange::{Copier, Exchange, PIECES};
use queues::offer::Offer;

use super::{PIECE_BYTES, RECEIVER_TIME};
use ahead::AheadSend;
use filling::PoolFill;
use jointly::JointSend;
use offered::OfferedSend;
use pool::PiecePool;

/// The maximal length in bytes of a message that is sent ahead, as long as there is room.
pub const AHEAD_BYTES_MAX: usize = 64 << 10;

/// The maximal number of messages that are sent ahead at a time. Half of the pool remains for
/// messages that receivers request.
pub const AHEAD_MAX: usize = PIECES / 2 / 4;

const _: () = assert!(AHEAD_BYTES_MAX.div_ceil(PIECE_BYTES) == 4);

/// All copying of a process for its peers.
#[derive(Debug, Default)]
pub struct Sender {
    tasks: Vec<SendTask>,
    pool: PiecePool,
}

/// What the sender can do with its own memory and with that of its peers.
pub trait SenderWorld {
    /// Takes the next call of a receiver; returns the slot of the region that it names.
    fn next_call(&mut self) -> Option<usize>;

    /// Returns the generation and the data of the region that is declared in a slot.
    fn region(&self, slot: usize) -> Option<(u32, &Buffer)>;

    /// Returns the words through which sender and receiver synchronize for the region in a slot.
    fn exchange(&self, slot: usize) -> &Exchange;

    /// Whether a peer is connected.
    fn is_connected(&self, gate: GateId) -> bool;

    /// Returns the offer of a connected peer for messages of a flow.
    fn offer(&self, gate: GateId, flow: u32) -> &Offer;

    /// Copies bytes of a message, from `offset` on, to the beginning of a piece of the pool.
    fn fill(&mut self, piece: usize, data: &Buffer, offset: usize, length: usize, caches: Caches);

    /// Begins to copy bytes of a message that lies in memory that the processor does not address to
    /// the piece `at` of the pool and those behind it; none if they are copied.
    fn begin_fill(&mut self, at: usize, data: &Buffer, bytes: Range<usize>) -> Option<PendingCopy>;

    /// Writes a range of a message to a peer's region, at the offset that it has in the message.
    /// Returns whether that worked.
    fn write(&mut self, to: (GateId, RegionToken), data: &Buffer, bytes: Range<usize>) -> bool;

    /// Wakes a peer if it sleeps.
    fn ring(&mut self, gate: GateId);
}

/// With which stores pieces of the pool are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caches {
    /// The process chooses.
    Either,
    /// With stores through its caches.
    Through,
    /// With stores that bypass its caches.
    Past,
}

/// The data of one message, and how it is being sent.
#[derive(Debug)]
struct SendTask {
    message: SendData,
    kind: TaskKind,
}

/// The data of a message, which is declared as a region.
#[derive(Debug)]
struct SendData {
    slot: usize,
    generation: u32,
    gate: GateId,
    data: Buffer,
}

/// How a message is being sent.
#[derive(Debug)]
enum TaskKind {
    /// The data is sent ahead.
    Ahead(AheadSend),
    /// The receiver requested the data through the pool.
    Piped(PoolFill),
    /// Both processes copy the data.
    Jointly(JointSend),
    /// The receiver has offered a place for the data, and may not yet know that the message was
    /// announced.
    Offered(OfferedSend),
}

/// The result of one step of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskStep {
    /// No progress.
    Still,
    /// Some bytes were copied.
    Copied,
    /// The task has ended: whether bytes were copied in this step, and the token with which the
    /// completion is reported, if it must be.
    Over { copied: bool, report: Option<u64> },
}

impl Sender {
    /// Whether there is no task.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Whether a task waits for time to pass, so that [`serve`](Self::serve) must be called with
    /// the time.
    pub fn needs_time(&self) -> bool {
        self.tasks.iter().any(|task| match &task.kind {
            TaskKind::Ahead(ahead) => ahead.needs_time(),
            TaskKind::Offered(_) => true,
            TaskKind::Piped(_) | TaskKind::Jointly(_) => false,
        })
    }

    /// Whether copies go on that no peer reports the end of.
    pub fn has_copies_underway(&self) -> bool {
        self.tasks.iter().any(|task| match &task.kind {
            TaskKind::Ahead(ahead) => ahead.has_copies_underway(),
            TaskKind::Piped(filling) => filling.has_copies_underway(),
            TaskKind::Jointly(_) | TaskKind::Offered(_) => false,
        })
    }

    /// Whether there is a task for the region in a slot.
    pub fn has(&self, slot: usize) -> bool {
        self.tasks.iter().any(|task| task.message.slot == slot)
    }

    /// Removes the tasks for a slot whose region is revoked.
    pub fn forget(&mut self, slot: usize) {
        self.tasks.retain(|task| task.message.slot != slot);
    }

    /// Removes the tasks for a peer that takes nothing more.
    pub fn give_up(&mut self, gate: GateId) {
        self.tasks.retain(|task| task.message.gate != gate);
    }

    /// Sends the data of a message ahead, through a region that was declared for it and has the
    /// words `exchange`. If the data may be copied later, the receiver may claim it and read it
    /// itself; until `left_until` it is expected to do so. If the receiver has offered a place for
    /// the message with the label `offered`, the data is written there, unless the receiver is
    /// faster.
    pub fn send_ahead(
        &mut self,
        announced: &Announcement<'_>,
        region: RegionToken,
        offered: Option<MessageLabel>,
        left_until: Option<Instant>,
        exchange: &Exchange,
    ) {
        let message = SendData::new(announced, region);
        let expected = if left_until.is_some() { Copier::Receiver } else { Copier::Nobody };
        exchange.set_ahead(message.generation, expected);
        let Announcement { token, when, .. } = *announced;
        let left_until = left_until.map(|until| self.after_others(&message, until));
        let kind = TaskKind::Ahead(AheadSend::new(token, offered, when, left_until));
        self.tasks.push(SendTask { message, kind });
    }

    /// Returns until when a message is left to its receiver, given that it would be `until` if no
    /// other messages came before it.
    fn after_others(&self, message: &SendData, until: Instant) -> Instant {
        let to_same = self.tasks.iter().filter(|other| other.message.gate == message.gate);
        let copied = to_same.filter_map(|other| match &other.kind {
            TaskKind::Ahead(ahead) => ahead.left_until().map(|left| (left, &other.message.data)),
            _ => None,
        });
        let next = copied.map(|(left, data)| left + RECEIVER_TIME + copying_time(data.len()));
        next.fold(until, Instant::max)
    }

    /// Writes the data of an announced message to the place that the receiver has offered, unless
    /// the receiver requests the data first.
    pub fn watch(
        &mut self,
        announced: &Announcement<'_>,
        region: RegionToken,
        label: MessageLabel,
        now: Instant,
    ) {
        let message = SendData::new(announced, region);
        let kind = TaskKind::Offered(OfferedSend::new(announced.token, label, now));
        self.tasks.push(SendTask { message, kind });
    }

    /// Takes calls, and copies what there is room for. Returns whether anything was done. `sent` is
    /// called with each message that was sent ahead or written unrequested, and its receiver.
    pub fn serve(
        &mut self,
        now: Option<Instant>,
        program: ProgramState,
        world: &mut impl SenderWorld,
        mut sent: impl FnMut(GateId, u64),
    ) -> bool {
        let mut active = false;
        while let Some(slot) = world.next_call() {
            self.answer(slot, world);
            active = true;
        }
        let mut index = 0;
        while let Some(SendTask { message, kind }) = self.tasks.get_mut(index) {
            let gate = message.gate;
            if !world.is_connected(gate) {
                self.tasks.swap_remove(index);
                continue;
            }
            let step = kind.step(message, &mut self.pool, now, program, world);
            if matches!(step, TaskStep::Copied | TaskStep::Over { copied: true, .. }) {
                world.ring(gate);
            }
            active |= step != TaskStep::Still;
            if let TaskStep::Over { report, .. } = step {
                self.tasks.swap_remove(index);
                report.into_iter().for_each(|token| sent(gate, token));
            } else {
                index += 1;
            }
        }
        active
    }

    /// Answers a call for the region in this slot. Calls with a wrong slot or generation are
    /// ignored.
    fn answer(&mut self, slot: usize, world: &impl SenderWorld) {
        let Some((generation, data)) = world.region(slot) else { return };
        let exchange = world.exchange(slot);
        let Some(request) = exchange.request(generation).filter(|_| !exchange.is_ahead(generation))
        else {
            return;
        };
        let gate = GateId(request.gate);
        if !world.is_connected(gate) {
            return;
        }
        let kind = match request.joint {
            Some((length, into)) => TaskKind::Jointly(JointSend::new(length, into)),
            None if request.past_caches => TaskKind::Piped(PoolFill::new(Caches::Past)),
            None => TaskKind::Piped(PoolFill::new(Caches::Through)),
        };
        let message = SendData { slot, generation, gate, data: data.clone() };
        self.forget(slot);
        self.tasks.push(SendTask { message, kind });
    }
}

/// Returns how long a receiver may take to copy `bytes` bytes, before it gets to the next message
/// that is left to it.
fn copying_time(bytes: usize) -> Duration {
    Duration::from_nanos((bytes / COPIED_BYTES_PER_NS) as u64)
}

/// Half of the speed of a kernel copy between cores that are far from each other.
const COPIED_BYTES_PER_NS: usize = 16;

impl SendData {
    fn new(announced: &Announcement<'_>, region: RegionToken) -> Self {
        let Announcement { gate, data, .. } = *announced;
        let (slot, generation) = (region.place as u32 as usize, (region.place >> 32) as u32);
        Self { slot, generation, gate, data: data.clone() }
    }
}

impl TaskKind {
    fn step(
        &mut self,
        message: &SendData,
        pool: &mut PiecePool,
        now: Option<Instant>,
        program: ProgramState,
        world: &mut impl SenderWorld,
    ) -> TaskStep {
        let computes = program == ProgramState::Computes;
        match self {
            Self::Ahead(ahead) => ahead.step(message, pool, now, program, world),
            Self::Piped(filling) => filling.step(message, pool, None, world),
            // The receiver copies the data itself, or this process does later.
            Self::Jointly(_) | Self::Offered(_) if computes => TaskStep::Still,
            Self::Jointly(jointly) => jointly.step(message, world),
            Self::Offered(offered) => offered.step(message, now, world),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use driver::When;

    /// Returns for how long from `now` on messages of 64 KiB are left to their receivers. Each
    /// message has a gate and whether its place is offered.
    fn left(now: Instant, messages: &[(u32, bool)]) -> Vec<Option<Duration>> {
        let data = Buffer::zeroed(64 << 10);
        let mut sender = Sender::default();
        for (slot, &(gate, is_offered)) in messages.iter().enumerate() {
            let label = MessageLabel { flow: 0, tag: 0, sequence: slot as u32 };
            let announcement = Announcement {
                gate: GateId(gate),
                data: &data,
                token: slot as u64,
                label: Some(label),
                may_end_early: false,
                when: When::Later,
            };
            let region = RegionToken { place: 1 << 32 | slot as u64, secret: 1 };
            let (offered, until) = (is_offered.then_some(label), Some(now + RECEIVER_TIME));
            sender.send_ahead(&announcement, region, offered, until, &Exchange::default());
        }
        let until = |task: &SendTask| match &task.kind {
            TaskKind::Ahead(ahead) => ahead.left_until().map(|until| until - now),
            _ => None,
        };
        sender.tasks.iter().map(until).collect()
    }

    /// A receiver that may offer a place, and a record of what was copied for it.
    #[derive(Default)]
    struct OneReceiver {
        exchange: Exchange,
        offer: Offer,
        filled: usize,
        written: usize,
    }

    impl SenderWorld for OneReceiver {
        fn next_call(&mut self) -> Option<usize> {
            None
        }

        fn region(&self, _slot: usize) -> Option<(u32, &Buffer)> {
            None
        }

        fn exchange(&self, _slot: usize) -> &Exchange {
            &self.exchange
        }

        fn is_connected(&self, _gate: GateId) -> bool {
            true
        }

        fn offer(&self, _gate: GateId, _flow: u32) -> &Offer {
            &self.offer
        }

        fn fill(&mut self, _: usize, _: &Buffer, _: usize, length: usize, _: Caches) {
            self.filled += length;
        }

        fn begin_fill(&mut self, _: usize, _: &Buffer, bytes: Range<usize>) -> Option<PendingCopy> {
            self.filled += bytes.len();
            None
        }

        fn write(&mut self, _: (GateId, RegionToken), _: &Buffer, bytes: Range<usize>) -> bool {
            self.written += bytes.len();
            true
        }

        fn ring(&mut self, _gate: GateId) {}
    }

    #[test]
    fn a_program_that_computes_leaves_what_has_an_offered_place_to_the_receiver() {
        let data = Buffer::zeroed(64 << 10);
        let label = MessageLabel { flow: 0, tag: 0, sequence: 0 };
        for (offered, while_computing, then) in [
            (Some(label), (0, 0), (0, 64 << 10)),
            // Data sent through the pool is there when the receiver polls.
            (None, (64 << 10, 0), (64 << 10, 0)),
        ] {
            let (mut sender, mut world) = (Sender::default(), OneReceiver::default());
            world.offer.open(label, 64 << 10, [1, 2]);
            let announcement = Announcement {
                gate: GateId(1),
                data: &data,
                token: 7,
                label: Some(label),
                may_end_early: false,
                when: When::Later,
            };
            let region = RegionToken { place: 1 << 32, secret: 1 };
            sender.send_ahead(&announcement, region, offered, None, &world.exchange);
            let mut sent = Vec::new();
            for (program, copied) in
                [(ProgramState::Computes, while_computing), (ProgramState::Waits, then)]
            {
                (0..9).for_each(|_| {
                    sender.serve(None, program, &mut world, |_, token| sent.push(token));
                });
                assert_eq!((world.filled, world.written), copied, "{program:?} {offered:?}");
            }
            assert_eq!(sent, [7]);
        }
    }

    #[test]
    fn a_receiver_has_time_for_each_of_several_messages_in_a_row() {
        let [one, two, three] = [0, 1, 2].map(|before: u32| {
            Some(RECEIVER_TIME + before * (RECEIVER_TIME + copying_time(64 << 10)))
        });
        let now = Instant::now();
        assert_eq!(left(now, &[(1, false), (1, false), (1, false)]), [one, two, three]);
        assert_eq!(left(now, &[(1, false), (2, false), (1, false)]), [one, one, two]);
        // If the receiver has offered a place for a message, it may read the message itself
        // nevertheless.
        assert_eq!(left(now, &[(1, true), (1, false)]), [one, two]);
    }
}
