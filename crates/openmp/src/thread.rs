//! What this library knows of each kernel thread, of its own and of the program.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::blocks::TaskBlocks;
use crate::crews::FiberTurn;
use crate::dependences::Use;
use crate::deques::Deque;
use crate::environment;
use crate::observers::{self, ThreadKind};
use crate::own::Own;
use crate::places::{self, Partition, Post};
use crate::reductions::Private;
use crate::slots::{SLOTS, Slot};
use crate::tasks::{self, Task, TaskRef};
use crate::team::{Region, ThreadTeam};
use crate::tools::{self, ToolData};
use crate::workers;

/// A kernel thread. Only itself uses it.
pub struct Thread {
    /// Its number in the system.
    pub number: u32,
    pub team: Cell<&'static ThreadTeam>,
    /// Its number in the team.
    pub id: Cell<u32>,
    /// The number of the construct that it enters next.
    pub construct: Cell<u32>,
    /// The construct that it is in: its number and its slot.
    pub slot: Cell<Option<(u32, &'static Slot)>>,
    /// The parts that it has had of a static loop.
    pub trip: Cell<u64>,
    /// Its present iterations of a loop with ordered regions.
    pub part: Cell<(u64, u64)>,
    /// Whether that loop posts what it has finished.
    pub single: Cell<u32>,
    /// What it runs, or the parent of that.
    pub task: Own<TaskRef>,
    /// Whether it runs an included task for which there is no [`Task`] yet: most need none.
    pub is_in_bare_task: Cell<bool>,
    /// Where it puts tasks of its team.
    pub deque: Cell<&'static Deque>,
    /// Memory for its next tasks.
    pub blocks: TaskBlocks,
    /// Room for the dependences of a task.
    pub uses: Own<Vec<Use>>,
    pub tool: ToolData,
    /// Its place, if it is bound.
    pub place: Cell<Option<u32>>,
    /// The places of the threads of the regions that it opens.
    pub partition: Cell<Partition>,
    /// Its home, and that to which it is bound, if there are homes; a length of 0: none yet.
    pub home: Cell<Partition>,
    pub bound_home: Cell<Partition>,
    /// What it was in before it opened regions, the innermost last.
    pub opened: Own<Vec<FormerPlace>>,
    /// The teams that it has opened regions with: for each depth one of one thread, one of more,
    /// and one whose threads take turns.
    pub teams: Own<Vec<[Option<&'static ThreadTeam>; 3]>>,
    /// What it has last written of where it runs.
    pub displayed: Own<String>,
    /// Its turn, if it takes turns with other threads of its team.
    pub turn: Cell<Option<FiberTurn>>,
    /// The copies of reductions that the program still reads, by their words.
    pub kept: Own<Vec<(usize, Private)>>,
}

/// Where a thread is.
pub struct FormerPlace {
    pub team: &'static ThreadTeam,
    pub id: u32,
    construct: u32,
    slot: Option<(u32, &'static Slot)>,
    trip: u64,
    part: (u64, u64),
    single: u32,
    task: TaskRef,
    deque: &'static Deque,
    partition: Partition,
    home: Partition,
}

impl Thread {
    /// The calling thread.
    pub fn current() -> &'static Self {
        match Self::known() {
            Some(thread) => thread,
            None => {
                // The first thread that comes here is the initial one, in all but odd programs.
                static IS_MET: AtomicBool = AtomicBool::new(false);
                let is_first = !IS_MET.swap(true, Ordering::Relaxed);
                Self::meet(if is_first { ThreadKind::Initial } else { ThreadKind::Other })
            }
        }
    }

    /// The calling thread, if it has been here before and has not ended. Not inlined: a thread that
    /// takes turns may continue on another kernel thread, with another place for `CURRENT`.
    #[inline(never)]
    pub fn known() -> Option<&'static Self> {
        CURRENT.get()
    }

    /// Notes a thread that has not been here before: the program's own, or a new worker.
    pub fn meet(kind: ThreadKind) -> &'static Self {
        let made = Self::make();
        // SAFETY: it was just made; it is freed when this thread ends, which alone uses it.
        let thread: &'static Self = unsafe { &*made };
        CURRENT.set(Some(thread));
        // A destructor or an exit handler of the program may come here after `END` has done its
        // work. Then nothing frees this: it can be used until the last of them.
        let _ = END.try_with(|end| end.0.set(made));
        observers::thread_begins(thread, kind);
        thread
    }

    /// A thread that is no kernel thread, which is never freed.
    pub fn add(kind: ThreadKind) -> &'static Self {
        // SAFETY: it was just made.
        let thread: &'static Self = unsafe { &*Self::make() };
        observers::thread_begins(thread, kind);
        thread
    }

    /// Another thread runs on the calling kernel thread from now on. Returns the former one.
    #[inline(never)]
    pub fn replace_current(thread: Option<&'static Self>) -> Option<&'static Self> {
        CURRENT.replace(thread)
    }

    fn make() -> *mut Self {
        tools::start();
        let team = ThreadTeam::obtain();
        let controls = environment::settings().controls;
        // The slots of a team that was used before go on with its numbers.
        let (construct, single) = team.region.see(|region| (region.construct, region.single));
        team.region.set(Region { construct, single, ..Region::outermost(controls) });
        let deque = team.deques.first();
        Box::into_raw(Box::new(Self {
            number: sys::process::thread_id(),
            team: Cell::new(team),
            id: Cell::new(0),
            construct: Cell::new(construct),
            slot: Cell::new(None),
            trip: Cell::new(0),
            part: Cell::new((0, 0)),
            single: Cell::new(single),
            task: Own::new(TaskRef::implicit(None, controls, None, team, deque.bottom())),
            is_in_bare_task: Cell::new(false),
            deque: Cell::new(deque),
            blocks: TaskBlocks::default(),
            uses: Own::default(),
            tool: ToolData::default(),
            place: Cell::new(None),
            partition: Cell::default(),
            home: Cell::default(),
            bound_home: Cell::default(),
            opened: Own::default(),
            teams: Own::default(),
            kept: Own::default(),
            displayed: Own::default(),
            turn: Cell::new(None),
        }))
    }

    /// The task that it runs. The caller uses it only as long as the thread is in the construct or
    /// routine for which it asks: the task goes on after that.
    pub fn task(&self) -> &Task {
        if self.is_in_bare_task.get() {
            tasks::complete_bare_task(self);
        }
        let task = self.task.see(|task| std::ptr::from_ref(&**task));
        // SAFETY: the thread, or a caller that runs another task in between, has a reference until
        // the task ends.
        unsafe { &*task }
    }

    /// Uses the task that it runs.
    pub fn with_task<R>(&self, with: impl FnOnce(&Task) -> R) -> R {
        with(self.task())
    }

    /// Begins a region as thread `id` of its team. Returns where it was.
    pub fn enter(&self, team: &'static ThreadTeam, id: u32) -> FormerPlace {
        let (group, controls, construct, single, is_in) = team.region.see(|region| {
            let group = region.group.clone();
            (group, region.controls, region.construct, region.single, region.is_in_construct)
        });
        debug_assert!(!self.is_in_bare_task.get(), "the size of a region depends on its task");
        // The thread that opened the region has provided it.
        let deque = team.deques.of(id).unwrap_or(team.deques.first());
        let task = TaskRef::implicit(Some(self), controls, group, team, deque.bottom());
        let before = FormerPlace {
            team: self.team.replace(team),
            id: self.id.replace(id),
            construct: self.construct.replace(construct),
            slot: self.slot.replace(None),
            trip: self.trip.replace(0),
            part: self.part.replace((0, 0)),
            single: self.single.replace(single),
            task: self.task.replace(task),
            deque: self.deque.replace(deque),
            partition: self.partition.get(),
            home: self.home.get(),
        };
        if is_in {
            self.next_construct();
        }
        before
    }

    /// Returns to where it was before a region.
    pub fn leave(&self, to: FormerPlace) {
        self.team.set(to.team);
        self.id.set(to.id);
        self.construct.set(to.construct);
        self.slot.set(to.slot);
        self.trip.set(to.trip);
        self.part.set(to.part);
        self.single.set(to.single);
        self.task.set(to.task);
        self.deque.set(to.deque);
        self.partition.set(to.partition);
        self.home.set(to.home);
    }

    /// Goes to the slot of the next construct that shares work.
    pub fn next_construct(&self) -> (u32, &'static Slot) {
        let number = self.construct.get();
        self.construct.set(crate::slots::number_after(number, 1));
        let found = (number, &self.team.get().slots[(number % SLOTS) as usize]);
        self.slot.set(Some(found));
        self.trip.set(0);
        self.part.set((0, 0));
        found
    }

    /// The slot of the construct that it is in.
    pub fn slot(&self, call: &str) -> &'static Slot {
        match self.slot.get() {
            Some((_, slot)) => slot,
            None => crate::fail(&format!("{call} is called outside of a construct")),
        }
    }

    /// Gives its outermost team to another thread, unless something in there has not finished.
    fn give_back_outermost(&self) {
        let team = self.team.get();
        self.with_task(|task| task.known.set(None));
        let is_cancelled = team.is_cancelled.load(Ordering::SeqCst);
        if self.slot.get().is_some() || is_cancelled || !team.tasks_are_finished() {
            return;
        }
        team.region.with(|region| {
            region.construct = self.construct.get();
            region.single = self.single.get();
        });
        team.give_back();
    }

    /// Its place. If it has none, it goes to the first one; none if threads are not bound.
    pub fn settle(&self) -> Option<u32> {
        let places = places::all().len() as u32;
        if places > 0 && self.place.get().is_none() {
            self.go_to((0, Partition { first: 0, length: places }));
        }
        self.place.get()
    }

    /// Goes to a place.
    pub fn go_to(&self, (place, partition): Post) {
        if self.place.replace(Some(place)) != Some(place) {
            // If the system refuses it, the thread stays where it is.
            let _ = places::all()[place as usize].bind();
        }
        self.partition.set(partition);
    }

    /// Leaves the construct that it is in.
    pub fn leave_construct(&self) {
        if let Some((number, slot)) = self.slot.take() {
            slot.leave(number, self.team.get().size());
        }
    }
}

thread_local! {
    static CURRENT: Cell<Option<&'static Thread>> = const { Cell::new(None) };
    static END: End = const { End(Cell::new(ptr::null_mut())) };
}

/// Frees a thread when it ends, and gives its teams to others.
struct End(Cell<*mut Thread>);

impl Drop for End {
    fn drop(&mut self) {
        let Some(thread) = CURRENT.get() else { return };
        if thread.team.get().level() > 0 {
            // The program exits inside of a region: its threads still run it.
            return;
        }
        observers::thread_ends(thread);
        CURRENT.set(None);
        for team in thread.teams.replace(Vec::new()).into_iter().flatten().flatten() {
            workers::release_from(team, 1);
            // Its threads learn it from the next generation.
            workers::wake(team);
            team.give_back();
        }
        thread.give_back_outermost();
        // SAFETY: `meet` has made it, and nothing leads to it any more.
        drop(unsafe { Box::from_raw(self.0.replace(ptr::null_mut())) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;
    use crate::regions::{self, Extras};
    use std::ffi::c_void;

    /// Uses the library in its destructor, after `END` has gone.
    struct Late;

    impl Drop for Late {
        fn drop(&mut self) {
            open_region();
        }
    }

    thread_local! {
        static LATE: Late = const { Late };
    }

    unsafe extern "C" fn nothing(_: *mut c_void) {}

    fn open_region() {
        let thread = Thread::current();
        let extras = Extras::default();
        regions::run(thread, nothing, Address(ptr::null_mut()), 2, extras);
    }

    #[test]
    fn destructors_open_regions_after_the_end_of_a_thread() {
        let ended = std::thread::spawn(|| {
            // What was made first is destroyed last.
            LATE.with(|_| ());
            open_region();
        });
        assert!(ended.join().is_ok());
    }

    #[test]
    fn the_outermost_team_of_a_thread_that_has_ended_is_used_again() {
        let team = || {
            let team = std::thread::spawn(|| ptr::from_ref(Thread::current().team.get()).addr());
            team.join().unwrap()
        };
        let teams: std::collections::HashSet<usize> = (0..200).map(|_| team()).collect();
        assert!(teams.len() < 100, "{} teams", teams.len());
    }
}
