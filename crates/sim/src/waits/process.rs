//! A process: an engine, an inbox with a doorbell, and the library's own way of waiting.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::{ContextId, GateId, RailId, RailProfile};
use driver::Doorbell;
use engine::{ContextSlot, Engine, Planned, Receive, RequestId, Send, ShortPacket, strategy};
use memory::Buffer;
use progress::entry_lock::{EntryLock, Threads};
use progress::helper::{Core, HelperCalls, Need, Reaction};
use progress::waiting::{
    self, CoreSharing, LongWait, WaitHistory, Waiter, WaitingSystem, WaitingThreads,
};
use queues::bell;

use super::kernel::{self, KernelThread, Virtual};

pub(super) struct WaitingProcess {
    own: u32,
    setting: ProcessSetting,
    wait_state: WaitingThreads<Virtual>,
    pub(super) entry_lock: EntryLock,
    calls: HelperCalls,
    engine: RefCell<Engine>,
    context: ContextSlot,
    inboxes: Rc<[Inbox]>,
    bell: Arc<dyn Doorbell>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    received: Cell<u64>,
    sleeps: Cell<u64>,
    visits: Cell<u64>,
    /// The number of threads whose programs have not ended.
    at_work: Cell<u32>,
}

/// The properties of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessSetting {
    pub threads: u32,
    /// Whether threads call concurrently (as with `MPI_THREAD_MULTIPLE`), even if there is only
    /// one.
    pub shared: bool,
    /// The kernel thread on which each thread runs.
    pub kernel_thread: KernelThread,
    /// The core on which the helper runs, if there is one.
    pub helper: Option<Core>,
    pub core_sharing: CoreSharing,
    pub sparing: bool,
}

/// The packets that have arrived for a process.
pub(super) struct Inbox {
    owner: usize,
    packets: RefCell<VecDeque<(GateId, Vec<u8>)>>,
    /// The maximum number of packets.
    places: usize,
    /// The number of senders that have published a packet and have not rung yet.
    publishing: Cell<u32>,
    bell: Arc<VirtualBell>,
}

/// The library's doorbell on the simulated kernel.
#[derive(Debug, Default)]
struct VirtualBell(bell::Bell);

impl Doorbell for VirtualBell {
    fn arm(&self) -> u32 {
        // A thread that is about to sleep may lose its core after its last poll.
        kernel::pass_poll();
        self.0.arm(1, || Virtual.pass_barrier())
    }

    fn wait(&self, ticket: u32, timeout: Duration) {
        Virtual.sleep_at_most(self.0.word(), ticket, timeout);
    }

    fn ring(&self) {
        if self.0.ring().is_some() {
            Virtual.wake(self.0.word());
        }
    }
}

impl Inbox {
    pub(super) fn new(owner: usize, places: usize) -> Self {
        let (packets, publishing, bell) = Default::default();
        Self { owner, packets, places, publishing, bell }
    }

    /// Publishes a packet and rings. Returns false if there is no room.
    fn post(&self, from: GateId, length: usize, fill: impl FnOnce(&mut [u8])) -> bool {
        if self.packets.borrow().len() >= self.places {
            return false;
        }
        let mut packet = vec![0; length];
        fill(&mut packet);
        self.publishing.set(self.publishing.get() + 1);
        self.packets.borrow_mut().push_back((from, packet));
        // The sender may lose its core between publishing and ringing.
        kernel::pass(1);
        self.bell.ring();
        self.publishing.set(self.publishing.get() - 1);
        kernel::suspect(self.owner);
        true
    }
}

thread_local! {
    static PROCESSES: RefCell<Vec<Rc<WaitingProcess>>> = const { RefCell::new(Vec::new()) };
}

/// Runs `body` with the processes of a world. Their threads find the processes by number meanwhile.
pub(super) fn with<T>(
    processes: Vec<Rc<WaitingProcess>>,
    body: impl FnOnce(&[Rc<WaitingProcess>]) -> T,
) -> T {
    PROCESSES.set(processes.clone());
    let result = body(&processes);
    PROCESSES.take();
    result
}

/// The process with this number.
pub(super) fn find(number: usize) -> Rc<WaitingProcess> {
    PROCESSES.with_borrow(|processes| Rc::clone(&processes[number]))
}

const RAIL: RailId = RailId(0);

/// The minimum message length for which the helper is called.
const HELPED_BYTES_MIN: usize = 300;

fn rail() -> RailProfile {
    RailProfile {
        name: "virtual".into(),
        packet_bytes_max: 512,
        eager_bytes_max: 200,
        fetch_segment_bytes_min: 0,
        latency_ns: 100,
        bandwidth_bytes_per_us: 1000,
        packet_ns: 50,
        bulk: false,
        pushed_bytes: 0..0,
    }
}

impl WaitingProcess {
    pub(super) fn new(own: u32, setting: ProcessSetting, inboxes: &Rc<[Inbox]>) -> Self {
        let strategy = strategy::by_name("auto").expect("there is one of that name");
        let mut engine = Engine::new(GateId(own), vec![rail()], Box::new(strategy));
        (0..inboxes.len() as u32).for_each(|peer| engine.connect(GateId(peer), &[RAIL]));
        let context = engine.open_context(ContextId::new(3, 0), own);
        let bell: Arc<dyn Doorbell> = inboxes[own as usize].bell.clone();
        let counts = Counts::default();
        counts.at_work.set(setting.threads);
        let (engine, inboxes) = (RefCell::new(engine), Rc::clone(inboxes));
        let (wait_state, entry_lock, calls) = Default::default();
        Self { own, setting, wait_state, entry_lock, calls, engine, context, inboxes, bell, counts }
    }

    pub(super) fn number(&self) -> usize {
        self.own as usize
    }

    /// The numbers of the other processes.
    pub(super) fn peers(&self) -> Vec<usize> {
        (0..self.inboxes.len()).filter(|other| *other != self.number()).collect()
    }

    pub(super) fn threads(&self) -> u32 {
        self.setting.threads
    }

    pub(super) fn kernel_thread(&self) -> KernelThread {
        self.setting.kernel_thread
    }

    pub(super) fn helper(&self) -> Option<Core> {
        self.setting.helper
    }

    pub(super) fn calls(&self) -> &HelperCalls {
        &self.calls
    }

    /// Called after an operation of `bytes` bytes has begun; the program may leave the library now.
    fn call_helper(&self, need: Need, bytes: usize) {
        if self.setting.helper.is_none() || bytes < HELPED_BYTES_MIN {
            return;
        }
        match self.calls.call(need, self.entry_lock.absences()) {
            Reaction::Nothing => {}
            Reaction::Wake => self.calls.wake(&Virtual, || self.bell.ring()),
            Reaction::RecordExitTime => self.entry_lock.record_exit_time(&Virtual),
        }
    }

    pub(super) fn submitted(&self) -> u64 {
        self.engine.borrow().submitted()
    }

    pub(super) fn received(&self) -> u64 {
        self.counts.received.get()
    }

    pub(super) fn sleeps(&self) -> u64 {
        self.counts.sleeps.get()
    }

    pub(super) fn visits(&self) -> u64 {
        self.counts.visits.get()
    }

    pub(super) fn count_visit(&self) {
        self.counts.visits.set(self.visits() + 1);
    }

    /// Notes that the program of a thread has ended.
    pub(super) fn note_end(&self) {
        self.counts.at_work.set(self.counts.at_work.get() - 1);
        if self.counts.at_work.get() == 0 {
            self.calls.end(&Virtual, || self.bell.ring());
        }
    }

    /// Runs a call of the program, with the library's entry and exit.
    pub(super) fn call<T>(&self, body: impl FnOnce(&Self) -> T) -> T {
        kernel::pass(1);
        if self.setting.shared {
            self.wait_state.lock.lock();
            let result = body(self);
            self.wait_state.lock.unlock();
            return result;
        }
        let _visit = self.entry_lock.enter(&Virtual);
        body(self)
    }

    pub(super) fn send(&self, to: u32, tag: i32, buffer: Buffer) -> Option<RequestId> {
        let mut engine = self.engine.borrow_mut();
        let (gate, context) = (GateId(to), self.context);
        let send = Send { gate, peer: to, context, tag, synchronous: false, buffer };
        let inbox = &self.inboxes[to as usize];
        let own = GateId(self.own);
        let post = |_, packet: &dyn ShortPacket| {
            inbox.post(own, packet.packet_len(), |out| packet.write(out.into()))
        };
        if engine.send_short(&send, post) {
            return None;
        }
        let length = send.buffer.len();
        let request = engine.send(send);
        self.flush(&mut engine);
        drop(engine);
        self.leave_to_others();
        self.call_helper(Need::OfOthers, length);
        Some(request)
    }

    pub(super) fn receive(&self, from: u32, tag: i32, buffer: Buffer) -> RequestId {
        let mut engine = self.engine.borrow_mut();
        let (source, tag) = (Some(from), Some(tag));
        let length = buffer.len();
        let request = engine.receive(Receive { context: self.context, source, tag, buffer });
        self.flush(&mut engine);
        drop(engine);
        self.leave_to_others();
        self.call_helper(Need::OfProgram, length);
        request
    }

    /// Rings the doorbell for sleeping threads if some packets found no room, as `Runtime` does.
    fn leave_to_others(&self) {
        if self.has_work() {
            self.bell.ring();
        }
    }

    /// Whether an unexpected message from this process has arrived.
    pub(super) fn probe(&self, from: u32, tag: i32) -> bool {
        self.engine.borrow().probe(self.context, Some(from), Some(tag)).is_some()
    }

    /// Takes the outcome of a complete request.
    pub(super) fn take(&self, request: RequestId) {
        let outcome = self.engine.borrow_mut().take(request).expect("it is complete");
        assert!(outcome.problem.is_none(), "{outcome:?}");
    }

    pub(super) fn count_received(&self) {
        self.counts.received.set(self.received() + 1);
    }

    pub(super) fn has_work(&self) -> bool {
        self.engine.borrow().has_work()
    }

    pub(super) fn has_requests(&self) -> bool {
        self.engine.borrow().holdings().0 > 0
    }

    /// Whether a packet has arrived.
    pub(super) fn has_mail(&self) -> bool {
        !self.inboxes[self.number()].packets.borrow().is_empty()
    }

    /// Whether a sender has published a packet for this process and has not rung yet.
    pub(super) fn is_being_notified(&self) -> bool {
        self.inboxes[self.number()].publishing.get() > 0
    }

    /// The address of the word on which the process sleeps until the doorbell rings.
    pub(super) fn word(&self) -> usize {
        self.inboxes[self.number()].bell.0.word().as_ptr().addr()
    }

    fn flush(&self, engine: &mut Engine) -> bool {
        let mut any = false;
        for _ in 0..engine.gates_with_work() {
            let Some(gate) = engine.gate_with_work() else { break };
            let inbox = &self.inboxes[gate.0 as usize];
            while inbox.packets.borrow().len() < inbox.places
                && let Planned::Packet(length) = engine.plan(gate, RAIL, &mut |_| 0)
            {
                let own = GateId(self.own);
                any |= inbox.post(own, length, |out| engine.write_packet(gate, RAIL, out));
            }
        }
        any
    }
}

impl Waiter for WaitingProcess {
    type VirtualKernel = Virtual;

    fn wait_state(&self) -> &WaitingThreads<Virtual> {
        &self.wait_state
    }

    fn is_shared(&self) -> bool {
        self.setting.shared
    }

    fn calls_helper(&self) -> bool {
        self.call_helper(Need::OfOthers, HELPED_BYTES_MIN);
        self.setting.helper.is_some()
    }

    fn wait_history(&self) -> WaitHistory {
        let wait_history = WaitHistory::new(self.setting.core_sharing);
        let wait_history = wait_history.with(&self.wait_state.spin_budget);
        if self.setting.sparing { wait_history.sparing() } else { wait_history }
    }

    fn progress(&self) -> bool {
        kernel::pass_poll();
        let mut engine = self.engine.borrow_mut();
        let mut active = false;
        loop {
            let next = self.inboxes[self.number()].packets.borrow_mut().pop_front();
            let Some((from, packet)) = next else { break };
            engine.handle_packet(from, &packet).expect("engines understand each other");
            active = true;
        }
        active |= self.flush(&mut engine);
        drop(engine);
        if active {
            waiting::wake_others(self);
        }
        active
    }

    fn is_complete(&self, request: RequestId) -> bool {
        self.engine.borrow().is_complete(request)
    }

    fn must_poll_again(&self) -> bool {
        self.has_work()
    }

    fn doorbell(&self) -> Option<&Arc<dyn Doorbell>> {
        Some(&self.bell)
    }

    fn begin_sleeps(&self) {
        self.calls().begin_sleeps();
    }

    fn end_sleeps(&self) {
        self.calls().end_sleeps(&Virtual);
    }

    fn note_sleep(&self, _slept: Duration) {
        self.counts.sleeps.set(self.sleeps() + 1);
    }

    fn note_long_wait(&self) {}

    fn answer_inquiries(&self, _: &LongWait) {}
}
