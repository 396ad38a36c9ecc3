//! Teams of threads.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::crews::TeamCrews;
use crate::deques::Deques;
use crate::environment::{self, Controls};
use crate::homes::{NamedMemory, TeamHomes};
use crate::own::{Own, OwnLine};
use crate::places::Post;
use crate::slots::{SLOTS, Slot};
use crate::tasks::{TaskGroup, TaskRef};
use crate::thread::Thread;
use crate::tools::ToolData;
use crate::waiting::WaitEvent;
use crate::workers::Worker;
use crate::{Address, Body};

/// A team. The thread that opened it keeps it, with its threads, for its next region; it is never
/// freed, as a thread that leaves it may still look at it.
pub struct ThreadTeam {
    size: AtomicU32,
    /// What the region is, for the threads that it starts.
    pub region: OwnLine<Own<Region>>,
    /// Counts barriers and regions: what the threads wait for that have finished theirs.
    pub generation: OwnLine<AtomicU32>,
    /// Threads that have arrived at the barrier, or the end of the region.
    pub arrived: OwnLine<AtomicU32>,
    /// Whether the region is cancelled.
    pub is_cancelled: AtomicBool,
    pub gathering: Mutex<Gathering>,
    /// For all that its threads wait for, except for:
    pub changed: WaitEvent,
    /// what the thread that opened the region waits for at its end.
    pub joined: WaitEvent,
    /// Threads that wait inside a task: they run only some tasks.
    pub waits: AtomicUsize,
    /// The explicit tasks.
    pub deques: Deques,
    /// The number of `single` constructs that a thread has begun to execute.
    pub singles: OwnLine<AtomicU32>,
    pub slots: [Slot; SLOTS as usize],
    /// The data of the thread that executes a `single` with copyprivate.
    pub copied: AtomicPtr<c_void>,
    /// The places of its threads, if they are bound.
    pub posts: Own<Vec<Post>>,
    /// The homes of its threads, if teams are divided among NUMA nodes.
    pub homes: Own<TeamHomes>,
    /// The memory that its threads have named, by their numbers.
    pub named: Mutex<Vec<Vec<NamedMemory>>>,
    /// Whether `named` may have entries.
    pub has_named: AtomicBool,
    pub tool: ToolData,
    /// The threads besides the one that opened it.
    pub workers: Own<Vec<&'static Worker>>,
    /// Its threads, if they take turns.
    pub crews: TeamCrews,
}

/// The threads at a barrier that can be cancelled: they can leave it before the last one arrives.
#[derive(Default)]
pub struct Gathering {
    pub threads: u32,
    /// The generation that the last complete barrier begins.
    pub complete: u32,
}

/// A region, as its threads begin it.
#[derive(Clone)]
pub struct Region {
    pub body: Option<Body>,
    pub data: Address,
    pub outer: Option<&'static ThreadTeam>,
    /// The number in the outer team of the thread that opened it.
    pub outer_id: u32,
    pub level: u32,
    pub active_level: u32,
    pub controls: Controls,
    pub group: Option<Arc<TaskGroup>>,
    /// The numbers of the next constructs that share work.
    pub construct: u32,
    pub single: u32,
    /// Whether the threads are in a construct that was begun for them.
    pub is_in_construct: bool,
    /// The core on which the thread ran that opened it.
    pub core: Option<usize>,
    /// Whether its threads go to their places.
    pub is_bound: bool,
    /// Whether its threads have homes.
    pub has_homes: bool,
    /// The number of crews whose threads take turns; 0: each thread has a kernel thread.
    pub crews: u32,
    /// The number of the team in a league, and how many there are.
    pub league: (u32, u32),
}

impl Region {
    /// What surrounds the program.
    pub fn outermost(controls: Controls) -> Self {
        Self {
            body: None,
            data: Address(std::ptr::null_mut()),
            outer: None,
            outer_id: 0,
            level: 0,
            active_level: 0,
            controls,
            group: None,
            construct: 0,
            single: 0,
            is_in_construct: false,
            core: None,
            is_bound: false,
            has_homes: false,
            crews: 0,
            league: (0, 1),
        }
    }
}

impl ThreadTeam {
    fn new() -> &'static Self {
        Box::leak(Box::new(Self {
            size: AtomicU32::new(1),
            region: OwnLine(Own::new(Region::outermost(environment::settings().controls))),
            generation: OwnLine::default(),
            arrived: OwnLine::default(),
            is_cancelled: AtomicBool::new(false),
            gathering: Mutex::default(),
            changed: WaitEvent::default(),
            joined: WaitEvent::default(),
            waits: AtomicUsize::new(0),
            deques: Deques::default(),
            singles: OwnLine::default(),
            slots: std::array::from_fn(|place| Slot::at(place as u32)),
            copied: AtomicPtr::default(),
            posts: Own::default(),
            homes: Own::default(),
            named: Mutex::default(),
            has_named: AtomicBool::new(false),
            tool: ToolData::default(),
            workers: Own::default(),
            crews: TeamCrews::default(),
        }))
    }

    /// A team of one thread, used before or new.
    pub fn obtain() -> &'static Self {
        let kept = SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let team = kept.unwrap_or_else(Self::new);
        team.resize(1);
        team
    }

    /// Gives back a team that has no threads any more.
    pub fn give_back(&'static self) {
        SPARE.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }

    pub fn size(&self) -> u32 {
        self.size.load(Ordering::Relaxed)
    }

    /// Changes its size while no region is open.
    pub fn resize(&self, size: u32) {
        if self.size() != size {
            self.size.store(size, Ordering::Relaxed);
            self.deques.provide(size as usize);
        }
    }

    pub fn level(&self) -> u32 {
        self.region.see(|region| region.level)
    }

    pub fn active_level(&self) -> u32 {
        self.region.see(|region| region.active_level)
    }

    /// Reports to all threads that what they wait for may have happened.
    pub fn notify_all(&self) {
        self.changed.notify_all();
        self.joined.notify_all();
    }

    /// Whether all tasks are finished, when only tasks create tasks: all threads are at a barrier.
    pub fn tasks_are_finished(&self) -> bool {
        self.deques.are_finished(self.size())
    }

    /// Lets any thread of the team run a task. `thread` is one of them, which calls this and runs
    /// an ancestor of the task; or none.
    pub fn enqueue(&self, thread: Option<&Thread>, task: TaskRef) {
        self.deques.add(thread.map(|thread| thread.deque.get()), task);
        let every = self.waits.load(Ordering::SeqCst) > 0;
        if self.changed.has_sleepers() {
            self.changed.notify(if every { i32::MAX } else { 1 });
        } else {
            self.joined.notify(1);
        }
    }
}

/// Teams that no thread keeps.
static SPARE: Mutex<Vec<&'static ThreadTeam>> = Mutex::new(Vec::new());
