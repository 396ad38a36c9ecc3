//! The sender's side: what a process copies for others, one state machine for each way.

mod ahead;
mod filling;
mod jointly;
mod offered;
mod pool;

use std::ops::Range;
use std::time::{Duration, Instant};

use base::{GateId, MessageLabel, RegionToken};
use driver::{Announcement, ProgramState, When};
use memory::Buffer;
use queues::exchange::{Copier, Exchange, PIECES};
use queues::offer::Offer;

use super::{PIECE_BYTES, RECEIVER_TIME};
use ahead::AheadSend;
use filling::PoolFill;
use jointly::JointSend;
use offered::OfferedSend;
use pool::PiecePool;

/// A message of at most so many bytes is sent ahead, as long as there is room.
pub const AHEAD_BYTES_MAX: usize = 64 << 10;

/// So many messages at a time: half of the pool stays for those that are asked for.
pub const AHEAD_MAX: usize = PIECES / 2 / 4;

const _: () = assert!(AHEAD_BYTES_MAX.div_ceil(PIECE_BYTES) == 4);

/// All that a process copies for others.
#[derive(Debug, Default)]
pub struct Sender {
    tasks: Vec<SendTask>,
    pool: PiecePool,
}

/// What the sender can do with its own memory and with that of its peers.
pub trait SenderWorld {
    /// The slot of a region whose receiver calls, if one does.
    fn next_call(&mut self) -> Option<usize>;

    /// The region that is declared in a slot: its generation and its data.
    fn region(&self, slot: usize) -> Option<(u32, &Buffer)>;

    /// What sender and receiver tell each other about the region in a slot.
    fn exchange(&self, slot: usize) -> &Exchange;

    /// Whether a peer can be reached.
    fn is_connected(&self, gate: GateId) -> bool;

    /// What a peer, which is connected, offers for messages of a flow.
    fn offer(&self, gate: GateId, flow: u32) -> &Offer;

    /// Copies bytes of a message, from `offset` on, to the beginning of a piece of the pool.
    fn fill(&mut self, piece: usize, data: &Buffer, offset: usize, length: usize, caches: Caches);

    /// Writes a range of a message to the same range of a peer's region; whether that worked.
    fn write(&mut self, to: (GateId, RegionToken), data: &Buffer, bytes: Range<usize>) -> bool;

    /// Wakes a peer if it sleeps.
    fn ring(&mut self, gate: GateId);
}

/// How pieces of the pool are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caches {
    /// As this process finds best.
    Either,
    /// Through its caches.
    Through,
    /// Past them.
    Past,
}

/// The data of one message, and what is done for it.
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

/// What is done for a message.
#[derive(Debug)]
enum TaskKind {
    /// Its data is sent ahead.
    Ahead(AheadSend),
    /// Its receiver takes it through the pool.
    Piped(PoolFill),
    /// Both copy it.
    Jointly(JointSend),
    /// Its receiver has offered the place for it, and may not yet know that it was announced.
    Offered(OfferedSend),
}

/// What came of one look at a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskStep {
    /// Nothing.
    Still,
    /// Some was copied.
    Copied,
    /// It is over: whether something was copied just now, and what reports that all is, if
    /// something does.
    Over { copied: bool, report: Option<u64> },
}

impl Sender {
    /// Whether nothing is to be done for anybody.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Whether something waits for time to pass, so that [`serve`](Self::serve) must be told the
    /// time.
    pub fn needs_time(&self) -> bool {
        self.tasks.iter().any(|task| match &task.kind {
            TaskKind::Ahead(ahead) => ahead.needs_time(),
            TaskKind::Offered(_) => true,
            TaskKind::Piped(_) | TaskKind::Jointly(_) => false,
        })
    }

    /// Whether something is to be done for the region in a slot.
    pub fn has(&self, slot: usize) -> bool {
        self.tasks.iter().any(|task| task.message.slot == slot)
    }

    /// Forgets what is done for a slot whose region is revoked.
    pub fn forget(&mut self, slot: usize) {
        self.tasks.retain(|task| task.message.slot != slot);
    }

    /// Sends the data of a message ahead, through a region that was declared for that and has the
    /// words `exchange`. If it may be copied later, the receiver may claim it, and read it itself;
    /// `left_until` then it is expected to do so at once. If it has offered the place for the
    /// message with the label `offered`, the data goes there, unless the receiver is faster.
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
        let is_free = when == When::Later || left_until.is_some();
        let left_until = left_until.map(|until| self.after_others(&message, until));
        let kind = TaskKind::Ahead(AheadSend::new(token, offered, is_free, left_until));
        self.tasks.push(SendTask { message, kind });
    }

    /// Until when a message is left to its receiver that would be so `until` then, if none were
    /// before it.
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
    /// that asks for the data first.
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

    /// Takes calls, and copies what there is room for; returns whether anything was done. `sent` is
    /// told what was sent ahead or written unasked, and to whom.
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

    /// Somebody wants the region in this slot; who errs, or lies, is not heard.
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

/// How long a receiver may take to copy so many bytes, before it comes to the next message that is
/// left to it.
fn copying_time(bytes: usize) -> Duration {
    Duration::from_nanos((bytes / COPIED_BYTES_PER_NS) as u64)
}

/// Half of what the system copies where cores are far from each other.
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
            // The receiver copies itself, or another time this process does.
            Self::Jointly(_) | Self::Offered(_) if computes => TaskStep::Still,
            Self::Jointly(jointly) => jointly.step(message, world),
            Self::Offered(offered) => offered.step(message, now, world),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which messages of 64 KiB, each to a gate and into an offered place or not, are left to their
    /// receivers for how long from `now` on.
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

    /// A receiver that may offer a place, and what was copied for it.
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
            // Through the pool it is there when the receiver comes.
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
        // What it has offered the place for it may copy all the same.
        assert_eq!(left(now, &[(1, true), (1, false)]), [one, two]);
    }
}
