//! The threads of this library. One that no team needs waits in a list, the last one first out.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use sys::cores::{self, Cores};

use crate::barrier;
use crate::borrowing;
use crate::crews::Crew;
use crate::deques::Deque;
use crate::environment;
use crate::homes;
use crate::observers::{self, Meeting, ThreadKind};
use crate::own::Own;
use crate::regions;
use crate::team::ThreadTeam;
use crate::thread::Thread;
use crate::waiting::{self, WaitEvent};

/// A thread of this library.
pub struct Worker {
    /// Counts the teams that it was given to.
    given: AtomicU32,
    event: WaitEvent,
    deque: Deque,
    pub thread: Own<Option<&'static Thread>>,
    work: Mutex<Option<WorkerTask>>,
    /// Its team does not need it any more.
    is_released: AtomicBool,
    /// When it last moved to another core.
    moved: Own<Option<Instant>>,
}

/// How often a thread moves at most: others may have reasons to be where it goes.
const BETWEEN_MOVES: Duration = Duration::from_millis(10);

/// What a worker is given to do.
pub enum WorkerTask {
    /// Runs the present region of a team as its thread `id`, and the following ones until released.
    Serve { team: &'static ThreadTeam, id: u32 },
    /// Carries one of the crews of a team in its present region, which was opened on this core.
    Carry { number: usize, epoch: u32, crews: &'static [&'static Crew], core: Option<usize> },
    /// Carries a crew whose kernel thread waits for something else, and is idle afterwards.
    StandIn(&'static Crew),
}

/// Workers that no team has.
static IDLE: Mutex<Vec<&'static Worker>> = Mutex::new(Vec::new());

/// How many threads this library has started.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// A worker that no team has: one that waits, or a new one.
pub fn obtain() -> &'static Worker {
    let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    idle.unwrap_or_else(|| {
        let worker: &'static Worker = Box::leak(Box::new(Worker {
            given: AtomicU32::new(0),
            event: WaitEvent::default(),
            deque: Deque::new(),
            thread: Own::new(None),
            work: Mutex::default(),
            is_released: AtomicBool::new(false),
            moved: Own::new(None),
        }));
        let bytes = environment::settings().stack_bytes.unwrap_or_else(sys::process::stack_bytes);
        let number = STARTED.fetch_add(1, Ordering::Relaxed) + 1;
        let started = Builder::new().stack_size(bytes).spawn(move || worker.run());
        if let Err(error) = started {
            crate::fail(&format!(
                "thread {number} of this library, with {bytes} bytes of stack, cannot start: \
                 {error}; set OMP_NUM_THREADS or OMP_STACKSIZE to less, or raise ulimit -u"
            ));
        }
        worker
    })
}

/// Keeps a worker that no team has any more.
pub fn keep(worker: &'static Worker) {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
}

/// Releases the workers of a team that it does not need for `size` threads, one of which has opened
/// it. They learn it from the next generation.
pub fn release_from(team: &'static ThreadTeam, size: u32) {
    let kept = size.saturating_sub(1) as usize;
    if team.workers.see(|workers| workers.len() <= kept) {
        return;
    }
    let released = team.workers.with(|workers| workers.split_off(kept));
    for worker in &released {
        worker.is_released.store(true, Ordering::Release);
    }
    IDLE.lock().unwrap_or_else(PoisonError::into_inner).extend(released.iter().rev());
}

/// Lets the threads of a team go on that wait for its next generation: they look whether they are
/// released.
pub fn wake(team: &ThreadTeam) {
    team.generation.fetch_add(1, Ordering::SeqCst);
    team.changed.notify_all();
}

impl Worker {
    /// Lets it run the present region of a team as thread `id`.
    pub fn give(&'static self, team: &'static ThreadTeam, id: u32) {
        team.deques.set(id, &self.deque);
        self.begin(WorkerTask::Serve { team, id });
    }

    fn work(&self) -> MutexGuard<'_, Option<WorkerTask>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets it do something, after it has done what it was given before.
    pub fn begin(&self, work: WorkerTask) {
        *self.work() = Some(work);
        self.given.fetch_add(1, Ordering::SeqCst);
        self.event.notify_all();
    }

    fn run(&'static self) -> ! {
        borrowing::note_thread();
        self.thread.set(Some(Thread::meet(ThreadKind::Worker)));
        let mut given = 0;
        loop {
            let is_given = || self.given.load(Ordering::SeqCst) != given;
            self.event.wait_while_needed(is_given, || true);
            given = given.wrapping_add(1);
            let work = self.work().take();
            match work {
                Some(WorkerTask::Serve { team, id }) => self.serve(team, id),
                Some(WorkerTask::Carry { number, epoch, crews, core }) => {
                    self.leave_core(core, crews.len());
                    crews[number].carry_by_worker(crews, epoch);
                }
                Some(WorkerTask::StandIn(crew)) => {
                    crew.stand_in();
                    keep(self);
                }
                None => {}
            }
        }
    }

    /// Moves to another core if this one is that on which the region was opened, and each of its
    /// kernel threads and those of all other regions could have one. The system leaves threads that
    /// wait for each other on one core.
    fn leave_core(&self, core: Option<usize>, kernel_threads: usize) {
        let has_room = kernel_threads <= borrowing::usable_cores() && !waiting::is_crowded();
        if !has_room || core.is_none() || cores::current() != core {
            return;
        }
        let moved = self.moved.get();
        if moved.is_some_and(|moved| moved.elapsed() < BETWEEN_MOVES) {
            return;
        }
        self.moved.set(Some(Instant::now()));
        borrowing::change_affinity(|allowed| {
            let others: Vec<usize> =
                allowed.iter().copied().filter(|one| Some(*one) != core).collect();
            let (Ok(all), Ok(rest)) = (Cores::of(allowed), Cores::of(&others)) else { return };
            if !others.is_empty() && rest.bind().is_ok() {
                // It was allowed there before; if the system refuses it now, it stays where it is.
                let _ = all.bind();
            }
        });
    }

    /// Runs the regions of a team until released.
    fn serve(&self, team: &'static ThreadTeam, id: u32) {
        let thread = Thread::current();
        loop {
            let before = thread.enter(team, id);
            let (is_bound, has_homes) =
                team.region.see(|region| (region.is_bound, region.has_homes));
            if is_bound {
                team.posts.see(|posts| thread.go_to(posts[id as usize]));
            } else {
                if has_homes {
                    homes::enter(thread, team, id);
                }
                let core = team.region.see(|region| region.core);
                self.leave_core(core, team.size() as usize);
            }
            regions::take_part(thread, team);
            observers::while_meeting(thread, Meeting::BarrierOfRegion, || {
                barrier::await_next_region(thread, &self.is_released);
            });
            observers::implicit_task_ends(thread);
            thread.leave(before);
            if self.is_released.swap(false, Ordering::AcqRel) {
                return;
            }
        }
    }
}
