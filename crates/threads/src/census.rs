//! The census: which thread runs or waits where, reported to other processes.
//!
//! The watchdog listens on an abstract Unix socket whose name contains the process number. It
//! answers only the user that owns the process, and root.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bubbles::{Place, Relation};
use foreign::Asked;
use serde::{Deserialize, Serialize};

use crate::shared::{Shared, Slot};
use crate::thread::Ready;
use crate::thread::bubble::Bubble;

/// Where the threads of one set of workers are. The census is no consistent snapshot: a thread that
/// moves during the query may be missing or appear twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Census {
    /// The name of the scheduler.
    pub scheduler: String,
    /// The processors, in the order of the machine tree.
    pub processors: Vec<ProcessorCensus>,
    /// The queues that hold threads.
    pub queues: Vec<QueueCensus>,
    /// The bubbles of all these threads, and the bubbles around them.
    pub bubbles: Vec<BubbleCensus>,
    /// The number of threads that have begun, or may begin, and have not ended.
    pub alive: u64,
    /// The number of live threads whose processor was lent to another kernel thread, because they
    /// reached no scheduling point for a long time, as in a system call.
    pub lent: u64,
    /// The number of live threads that wait for something.
    pub waiting: u64,
}

/// A processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessorCensus {
    /// The kernel's number of the processor.
    pub number: u32,
    /// The thread that the processor runs.
    pub running: Option<ThreadCensus>,
}

/// A queue: of a processor, or of a larger part of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueCensus {
    /// The kernel's numbers of the processors of this part.
    pub processors: Vec<u32>,
    /// Whether the scheduler has set these threads aside, so that no worker runs them.
    pub is_aside: bool,
    /// The number of threads in the queue.
    pub length: u64,
    /// The first threads in the queue.
    pub first: Vec<ThreadCensus>,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadCensus {
    /// The name of the thread, truncated to 24 bytes; empty if it has none.
    pub name: String,
    /// The number of the thread's bubble.
    pub bubble: Option<u64>,
}

/// A bubble.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BubbleCensus {
    /// The number of the bubble; bubbles are numbered from 1 in the order of creation.
    pub number: u64,
    /// The number of the bubble around it.
    pub bubble: Option<u64>,
    /// How the threads of the bubble relate to each other: "unrelated", "shares memory" or "waits
    /// together".
    pub relation: String,
}

impl Census {
    /// Returns the census of each set of workers of a process. The result is empty if the process
    /// has no workers or belongs to another user.
    pub fn of_process(process: u32) -> Vec<Self> {
        let begin = format!("{NAME}/{process}/");
        let reported = |rest: &String| ask(process, &format!("{begin}{rest}")).ok();
        sys::socket::abstract_names(&begin).iter().take(SETS_MAX).filter_map(reported).collect()
    }

    fn of(shared: &Shared, kernel_threads: u32) -> Self {
        let mut bubbles = Vec::new();
        let mut queues = Vec::new();
        for (vertex, _) in shared.machine.vertices() {
            for place in [Place::Queue(vertex), Place::Aside(vertex)] {
                let queue = shared.queue_at(place).expect("each vertex has both");
                let mut first = Vec::new();
                queue.inspect(SHOWN_MAX, |ready| first.push(of_ready(ready, &mut bubbles)));
                if !first.is_empty() {
                    let processors = shared.machine[vertex].processors.clone();
                    queues.push(QueueCensus {
                        processors: processors
                            .map(|one| shared.machine.system_number(one))
                            .collect(),
                        is_aside: matches!(place, Place::Aside(_)),
                        length: queue.len().max(first.len()) as u64,
                        first,
                    });
                }
            }
        }
        let processors = (0..).zip(&shared.slots).map(|(number, slot)| ProcessorCensus {
            number: shared.machine.system_number(number),
            running: running(slot),
        });
        let processors: Vec<ProcessorCensus> = processors.collect();
        let begun = shared.begun.load(Ordering::Relaxed);
        let sum =
            |count: fn(&Slot) -> u64| shared.slots.iter().map(|slot| count(slot)).sum::<u64>();
        let alive = (begun + sum(|slot| slot.begun.load(Ordering::Relaxed)))
            .saturating_sub(sum(|slot| slot.ended.load(Ordering::Relaxed)));
        let run = processors.iter().filter(|one| one.running.is_some()).count() as u64;
        let lent = u64::from(kernel_threads).saturating_sub(shared.slots.len() as u64);
        let ready: u64 = queues.iter().map(|queue| queue.length).sum();
        Self {
            scheduler: shared.scheduler.lock().name().to_owned(),
            processors,
            queues,
            bubbles,
            alive,
            lent,
            waiting: alive.saturating_sub(run + ready + lent),
        }
    }
}

fn of_ready(ready: &Ready, bubbles: &mut Vec<BubbleCensus>) -> ThreadCensus {
    if let Some(bubble) = ready.bubble() {
        note(bubble, bubbles);
    }
    let name = match ready {
        Ready::Thread(thread) => thread.label.text(),
        Ready::Seed(_) => String::new(),
    };
    ThreadCensus { name, bubble: ready.bubble().map(Bubble::number) }
}

/// Adds a bubble, and the bubbles around it, to the list.
fn note(bubble: &Bubble, bubbles: &mut Vec<BubbleCensus>) {
    if bubbles.iter().any(|noted| noted.number == bubble.number()) {
        return;
    }
    let relation = match bubble.relation() {
        Relation::Unrelated => "unrelated",
        Relation::SharesMemory => "shares memory",
        Relation::WaitsTogether => "waits together",
    };
    let above = bubble.bubble();
    bubbles.push(BubbleCensus {
        number: bubble.number(),
        bubble: above.map(Bubble::number),
        relation: relation.to_owned(),
    });
    if let Some(above) = above {
        note(above, bubbles);
    }
}

fn running(slot: &Slot) -> Option<ThreadCensus> {
    if !slot.is_busy.load(Ordering::Relaxed) {
        return None;
    }
    let looks = (0..POLLS).map(|_| slot.label.get());
    // Two equal reads in succession saw one complete name.
    let label = looks.clone().zip(looks.skip(1)).find(|(one, other)| one == other)?.0;
    let bubble = slot.running.load(Ordering::Relaxed);
    Some(ThreadCensus { name: label.text(), bubble: (bubble != 0).then_some(bubble) })
}

/// The socket on which the watchdog accepts census queries for the workers of this process.
pub(crate) struct CensusListener(UnixListener);

impl CensusListener {
    /// # Errors
    /// The error of the system call.
    pub fn new() -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{NAME}/{}/{count}", std::process::id());
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// Answers one pending query. `kernel_threads` is the number of kernel threads that are
    /// workers, or that were workers and still run a thread.
    pub fn answer(&self, shared: &Shared, kernel_threads: u32) {
        let Ok((stream, _)) = self.0.accept() else { return };
        let is_known = |user| user == 0 || user == sys::process::user();
        let limited = stream.set_write_timeout(Some(SEND_TIME_MAX));
        if limited.is_err() || !sys::socket::peer_user(stream.as_fd()).is_ok_and(is_known) {
            return;
        }
        let text = serde_json::to_vec(&Census::of(shared, kernel_threads)).unwrap_or_default();
        let (mut rest, begun) = (text.as_slice(), Instant::now());
        // A peer that does not read the answer quickly gets only a part of it: the timers wait
        // meanwhile.
        while begun.elapsed() < SEND_TIME_MAX
            && let Ok(sent @ 1..) = sys::socket::send(stream.as_fd(), &[IoSlice::new(rest)])
        {
            rest = &rest[sent..];
        }
    }
}

fn ask(process: u32, name: &str) -> io::Result<Census> {
    // Any process may listen under any abstract name, so the owner of the process is checked.
    let user = foreign::owner_of(process)?;
    let deadline = Instant::now() + RECEIVE_TIME_MAX;
    let text =
        foreign::ask(&Asked { name, user, request: b"", bytes_max: ANSWER_BYTES_MAX, deadline })?;
    Ok(foreign::from_json(&text)?)
}

/// The prefix of all socket names; the process number and a counter follow.
const NAME: &str = "combray-threads";

/// The maximum number of worker sets that are queried in one process.
const SETS_MAX: usize = 64;

/// The maximum number of threads that are listed for each queue.
const SHOWN_MAX: usize = 64;

/// The maximum length of an answer in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// How often a name is read that changes during the read.
const POLLS: usize = 100;

/// How long the querying process may take to read the answer, and how long it waits for the answer.
const SEND_TIME_MAX: Duration = Duration::from_millis(100);
const RECEIVE_TIME_MAX: Duration = Duration::from_secs(2);
