//! The programs: messages to each other, computing, and all kinds of waiting.

use std::ops::Range;
use std::rc::Rc;

use engine::RequestId;
use fastrand::Rng;
use memory::Buffer;
use progress::entry_lock::RestingAdmission;
use progress::helper::{self, Core, Inside, VisitCause, VisitOutcome, Visitor};
use progress::waiting::{self, CoreSharing, SLEEP_MAX, Waiter, WakeUp};

use super::kernel::{self, KernelThread, Virtual};
use super::process::{self, Inbox, ProcessSetting, WaitingProcess};

/// The processes of a world.
pub(super) fn processes(rng: &mut Rng) -> Vec<Rc<WaitingProcess>> {
    let count = rng.u32(2..=3);
    let places = [1, 3, 50][rng.usize(..3)];
    let inboxes: Rc<[Inbox]> = (0..count as usize).map(|owner| Inbox::new(owner, places)).collect();
    let threads = rng.u32(1..=3);
    let process = |own| {
        let core_sharing = [CoreSharing::Exclusive, CoreSharing::Shared][rng.usize(..2)];
        let shared = threads > 1 || rng.bool();
        let (helper, sparing) =
            ([None, Some(Core::Own), Some(Core::Shared)][rng.usize(..3)], rng.bool());
        let kernel_thread = if rng.u8(..3) == 0 { KernelThread::Shared } else { KernelThread::Own };
        let setting =
            ProcessSetting { threads, shared, kernel_thread, helper, core_sharing, sparing };
        Rc::new(WaitingProcess::new(own, setting, &inboxes))
    };
    (0..count).map(process).collect()
}

/// How often each thread sends to and receives from each other process.
const EPISODES: i32 = 4;

/// The longest time that a program computes, in nanoseconds.
const COMPUTING_MAX: u64 = 20_000_000_000;

/// The program of a thread: in each episode it exchanges messages with the threads of its number in
/// the other processes.
pub(super) fn run(process: usize, thread: u32, rng: &mut Rng) {
    let process = process::find(process);
    let peers = process.peers();
    for episode in 0..EPISODES {
        let tag = episode * 8 + thread as i32;
        let mut steps: Vec<_> =
            peers.iter().flat_map(|&peer| [(peer, true), (peer, false)]).collect();
        rng.shuffle(&mut steps);
        // A thread that probes for a message before it receives it must have sent its own message
        // by then.
        let (late, early): (Vec<_>, _) =
            steps.into_iter().partition(|(_, sends)| !sends && rng.u8(..3) == 0);
        let mut underway = Vec::new();
        for (peer, sends) in early {
            compute(rng);
            underway.extend(begin(&process, peer, tag, sends));
        }
        for (peer, sends) in late {
            let mut is_here = |process: &WaitingProcess| process.probe(peer as u32, tag);
            let wake_up = wake_up(rng, None);
            process.call(|process| waiting::wait(process, wake_up, &mut is_here));
            underway.extend(begin(&process, peer, tag, sends));
        }
        rng.shuffle(&mut underway);
        for one in underway {
            compute(rng);
            one.finish(&process, rng);
        }
    }
    process.call(|process| {
        let mut has_sent = |process: &WaitingProcess| !process.has_work();
        waiting::wait(process, WakeUp::Doorbell, &mut has_sent);
    });
    process.note_end();
}

/// How a sleeping wait is woken. A thread without a wake-up polls ten thousand times per second,
/// which takes long to simulate, so that case is rare.
fn wake_up(rng: &mut Rng, request: Option<RequestId>) -> WakeUp {
    match rng.u8(..32) {
        0 => WakeUp::Nothing,
        1..16 => WakeUp::Doorbell,
        _ => request.map_or(WakeUp::Doorbell, WakeUp::Request),
    }
}

fn compute(rng: &mut Rng) {
    match rng.u8(..4) {
        0 => kernel::compute(kernel::within(rng, COMPUTING_MAX)),
        // After such a time, other threads are about to sleep.
        1 => kernel::compute(rng.u64(COMPUTING_SHORT)),
        _ => {}
    }
}

/// About as long as other threads wait before they sleep.
const COMPUTING_SHORT: Range<u64> = 1_900_000..2_700_000;

struct PendingMessage {
    request: RequestId,
    /// The buffer into which a message is received, and the byte of which the message consists.
    received: Option<(Buffer, u8)>,
}

/// The length of the message with this tag. Sender and receiver compute it alike.
fn length(from: usize, to: usize, tag: i32) -> usize {
    let mut rng = Rng::with_seed((from * 64 + to) as u64 * 1024 + tag as u64);
    [0, 8, 100, 300, 2000][rng.usize(..5)]
}

fn begin(process: &WaitingProcess, peer: usize, tag: i32, sends: bool) -> Option<PendingMessage> {
    let own = process.number();
    let (from, to) = if sends { (own, peer) } else { (peer, own) };
    let (length, byte) = (length(from, to, tag), (from * 16) as u8 + tag as u8);
    let buffer = Buffer::zeroed(length);
    if sends {
        buffer.write(0, &vec![byte; length]);
        let request = process.call(|process| process.send(peer as u32, tag, buffer))?;
        return Some(PendingMessage { request, received: None });
    }
    let peer = peer as u32;
    let request = process.call(|process| process.receive(peer, tag, buffer.clone()));
    Some(PendingMessage { request, received: Some((buffer, byte)) })
}

impl PendingMessage {
    fn finish(self, process: &WaitingProcess, rng: &mut Rng) {
        let request = self.request;
        while rng.bool() {
            // The program itself polls from time to time.
            if process.call(|process| process.progress() || process.is_complete(request)) {
                break;
            }
            compute(rng);
        }
        let wake_up = wake_up(rng, Some(request));
        process.call(|process| {
            let mut is_complete = |process: &WaitingProcess| process.is_complete(request);
            waiting::wait(process, wake_up, &mut is_complete);
            process.take(request);
        });
        if let Some((buffer, byte)) = self.received {
            let mut data = vec![0; buffer.len()];
            buffer.read(0, &mut data);
            assert!(data.iter().all(|other| *other == byte), "wrong data");
            process.count_received();
        }
    }
}

/// The helper of a process.
pub(super) fn help(process: usize, core: Core) {
    let process = process::find(process);
    let mut visits = SimulatedHelper { process: &process, core, resting: None };
    helper::run(&mut visits, process.calls(), core, &Virtual);
}

/// A helper and its process.
struct SimulatedHelper<'a> {
    process: &'a WaitingProcess,
    core: Core,
    resting: Option<RestingAdmission<'a, Virtual>>,
}

impl Visitor for SimulatedHelper<'_> {
    fn steps(&self) -> u32 {
        let process = self.process;
        if process.is_shared() {
            process.wait_state().lock.steps()
        } else {
            process.entry_lock.steps()
        }
    }

    fn visit(&mut self, cause: VisitCause) -> VisitOutcome {
        let Self { process, core, .. } = *self;
        let rounds = |is_awaited: &dyn Fn() -> bool| {
            process.count_visit();
            let bell = process.doorbell().expect("each process has one");
            helper::visit(&HelperVisit { process, is_awaited }, &**bell, core, cause)
        };
        if process.is_shared() {
            let lock = &process.wait_state().lock;
            if !lock.try_lock() {
                return VisitOutcome::Shut;
            }
            let found = rounds(&|| lock.is_wanted());
            lock.give_back();
            return found;
        }
        let goes_on = self.resting.take().and_then(RestingAdmission::resume);
        let Some(helper) = goes_on.or_else(|| process.entry_lock.try_enter_as_helper(&Virtual))
        else {
            return VisitOutcome::Shut;
        };
        let found = rounds(&|| helper.is_awaited());
        if matches!(found, VisitOutcome::WaitsForOthers(_) | VisitOutcome::NothingToAnswer) {
            self.resting = helper.rest();
        }
        found
    }

    fn leave(&mut self) {
        self.resting = None;
    }

    fn listen(&self, ticket: u32) {
        self.process.doorbell().into_iter().for_each(|bell| bell.wait(ticket, SLEEP_MAX));
    }
}

/// A visit of the helper.
struct HelperVisit<'a> {
    process: &'a WaitingProcess,
    is_awaited: &'a dyn Fn() -> bool,
}

impl Inside for HelperVisit<'_> {
    fn has_nothing_underway(&self, _core: Core) -> bool {
        !self.process.has_requests() && !self.process.has_work()
    }

    fn progress(&self) -> bool {
        self.process.progress()
    }

    fn submitted(&self) -> u64 {
        self.process.submitted()
    }

    fn must_poll_again(&self) -> bool {
        self.process.must_poll_again()
    }

    fn is_awaited(&self) -> bool {
        (self.is_awaited)()
    }
}
