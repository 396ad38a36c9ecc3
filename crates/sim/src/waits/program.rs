//! What programs do: messages to each other, computing, and waiting in all ways.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use engine::RequestId;
use fastrand::Rng;
use memory::Buffer;
use runtime::waiting::{self, Crowd, Kernel, SLEEP_MAX, Waiter};

use super::kernel::{self, Virtual};
use super::process::{self, Inbox, Process, Setting};

/// The processes of a world.
pub(super) fn processes(rng: &mut Rng) -> Vec<Rc<Process>> {
    let count = rng.u32(2..=3);
    let places = [1, 3, 50][rng.usize(..3)];
    let inboxes: Rc<[Inbox]> = (0..count as usize).map(|owner| Inbox::new(owner, places)).collect();
    let threads = rng.u32(1..=3);
    let process = |own| {
        let crowd = [Crowd::Nobody, Crowd::Threads, Crowd::Processes][rng.usize(..3)];
        let shared = threads > 1 || rng.bool();
        let (helped, sparing) = (rng.bool(), rng.bool());
        let setting = Setting { threads, shared, helped, crowd, sparing };
        Rc::new(Process::new(own, setting, &inboxes))
    };
    (0..count).map(process).collect()
}

/// How often each thread sends to each other process, and receives from it.
const EPISODES: i32 = 4;

/// The longest time that a program computes, in nanoseconds.
const COMPUTING_MAX: u64 = 20_000_000_000;

/// The program of a thread: in each episode it sends to and receives from its namesakes.
pub(super) fn run(process: usize, thread: u32, rng: &mut Rng) {
    let process = process::find(process);
    let peers = process.peers();
    for episode in 0..EPISODES {
        let tag = episode * 8 + thread as i32;
        let mut steps: Vec<_> =
            peers.iter().flat_map(|&peer| [(peer, true), (peer, false)]).collect();
        rng.shuffle(&mut steps);
        // Who looks for a message before it receives it has sent its own by then.
        let (late, early): (Vec<_>, _) =
            steps.into_iter().partition(|(_, sends)| !sends && rng.u8(..3) == 0);
        let mut underway = Vec::new();
        for (peer, sends) in early {
            compute(rng);
            underway.extend(begin(&process, peer, tag, sends));
        }
        for (peer, _) in late {
            let mut is_here = |process: &Process| process.probe(peer as u32, tag);
            process.call(|process| waiting::wait(process, None, &mut is_here));
            underway.extend(begin(&process, peer, tag, false));
        }
        rng.shuffle(&mut underway);
        for one in underway {
            compute(rng);
            one.finish(&process, rng);
        }
    }
    process.call(|process| {
        waiting::wait(process, None, &mut |process: &Process| !process.has_work());
    });
    process.note_end();
}

fn compute(rng: &mut Rng) {
    match rng.u8(..4) {
        0 => kernel::compute(kernel::within(rng, COMPUTING_MAX)),
        // Others are about to sleep after that.
        1 => kernel::compute(rng.u64(COMPUTING_SHORT)),
        _ => {}
    }
}

/// About as long as others wait before they sleep.
const COMPUTING_SHORT: Range<u64> = 1_900_000..2_700_000;

struct Underway {
    request: RequestId,
    /// Into which a message is received, and the byte of which it is made.
    received: Option<(Buffer, u8)>,
}

/// How long the message with a tag is from a process to another, which both know.
fn length(from: usize, to: usize, tag: i32) -> usize {
    let mut rng = Rng::with_seed((from * 64 + to) as u64 * 1024 + tag as u64);
    [0, 8, 100, 300, 2000][rng.usize(..5)]
}

fn begin(process: &Process, peer: usize, tag: i32, sends: bool) -> Option<Underway> {
    let own = process.number();
    let (from, to) = if sends { (own, peer) } else { (peer, own) };
    let (length, byte) = (length(from, to, tag), (from * 16) as u8 + tag as u8);
    let buffer = Buffer::zeroed(length);
    if sends {
        buffer.write(0, &vec![byte; length]);
        let request = process.call(|process| process.send(peer as u32, tag, buffer))?;
        return Some(Underway { request, received: None });
    }
    let peer = peer as u32;
    let request = process.call(|process| process.receive(peer, tag, buffer.clone()));
    Some(Underway { request, received: Some((buffer, byte)) })
}

impl Underway {
    fn finish(self, process: &Process, rng: &mut Rng) {
        let request = self.request;
        while rng.bool() {
            // The program looks by itself now and then.
            if process.call(|process| process.progress() || process.is_complete(request)) {
                break;
            }
            compute(rng);
        }
        let awaited = rng.bool().then_some(request);
        process.call(|process| {
            let mut is_complete = |process: &Process| process.is_complete(request);
            waiting::wait(process, awaited, &mut is_complete);
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

/// The time between two visits, in nanoseconds.
const VISITS_PAUSE_MIN: u64 = 100_000;
const VISITS_PAUSE_MAX: u64 = 200_000_000;

/// Rounds of progress at most that a visit lasts.
const ROUNDS: u32 = 64;

/// Somebody who makes progress as long as the program of the process is outside.
pub(super) fn help(process: usize, rng: &mut Rng) {
    let process = process::find(process);
    while !process.has_ended() {
        let pause = VISITS_PAUSE_MIN + kernel::within(rng, VISITS_PAUSE_MAX);
        Virtual.pause(Duration::from_nanos(pause));
        if process.is_shared() {
            visit_with_lock(&process);
        } else {
            visit(&process);
        }
    }
}

/// A visit with the lock, if nobody has it, and the sleep after it.
fn visit_with_lock(process: &Process) {
    let lock = &process.room().lock;
    if lock.try_lock() {
        let ticket = rounds(process, &|| lock.is_wanted());
        lock.give_back();
        ticket.into_iter().for_each(|ticket| sleep(process, ticket));
    }
}

/// A visit, if nobody of the program is inside, which rests at the door until something arrives, as long
/// as nobody comes.
fn visit(process: &Process) {
    let mut guest = process.door.try_enter_as_guest(&Virtual);
    while let Some(here) = guest.take() {
        let Some(ticket) = rounds(process, &|| here.is_awaited()) else { return };
        let Some(resting) = here.rest() else { return };
        sleep(process, ticket);
        guest = resting.resume();
    }
}

fn sleep(process: &Process, ticket: u32) {
    if !process.has_ended()
        && let Some(bell) = process.doorbell()
    {
        bell.wait(ticket, SLEEP_MAX);
    }
}

fn rounds(process: &Process, is_awaited: &dyn Fn() -> bool) -> Option<u32> {
    process.count_visit();
    if !process.has_requests() && !process.has_work() {
        return None;
    }
    let ticket = process.doorbell()?.arm();
    for _ in 0..ROUNDS {
        if !process.progress() {
            return (!process.must_look_again()).then_some(ticket);
        }
        if is_awaited() {
            break;
        }
    }
    None
}
