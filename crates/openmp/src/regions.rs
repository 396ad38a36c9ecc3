//! Parallel regions: their begin and end for the thread that opens them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sys::cores;

use crate::affinity;
use crate::barrier;
use crate::borrowing;
use crate::crews;
use crate::environment::{self, Controls};
use crate::homes;
use crate::observers::{self, Meeting};
use crate::places::{self, BindPolicy};
use crate::tasks::TaskGroup;
use crate::team::{Region, ThreadTeam};
use crate::thread::Thread;
use crate::waiting;
use crate::workers;
use crate::{Address, Body};

/// What a construct adds to a region.
#[derive(Default)]
pub struct Extras {
    pub group: Option<Arc<TaskGroup>>,
    /// A loop or sections that all threads begin with.
    pub loop_of_all: Option<crate::loops::Iterations>,
    /// How its threads are bound, if that is another way than usual.
    pub bind: Option<BindPolicy>,
    /// The number of crews whose threads take turns; 0: each thread has a kernel thread.
    pub crews: u32,
}

/// How many threads a region has if the program asks for so many; 0: does not ask.
pub fn threads_for(thread: &Thread, asked: u32) -> u32 {
    let controls = thread.with_task(|task| task.controls.get());
    let settings = environment::settings();
    let active = thread.team.get().active_level();
    if asked == 1 || active >= controls.active_levels_max {
        return 1;
    }
    let mut threads = if asked > 0 { asked } else { controls.threads };
    if controls.is_dynamic {
        threads = threads.min(borrowing::usable_cores() as u32);
    }
    if settings.thread_limit != u32::MAX {
        let others = waiting::busy() as u32 - 1 + crews::fibers();
        threads = threads.min(settings.thread_limit.saturating_sub(others));
    }
    threads.max(1)
}

/// Opens a region and enters it as thread 0.
pub fn open(thread: &'static Thread, body: Body, data: Address, threads: u32, extras: Extras) {
    let crews = extras.crews;
    let team = team_for(thread, threads, crews > 0);
    let outer = thread.team.get();
    let (level, active_level, league) =
        outer.region.see(|region| (region.level, region.active_level, region.league));
    let active_level = active_level + u32::from(threads > 1);
    let mut own = thread.with_task(|task| task.controls.get());
    if own.bind != BindPolicy::False {
        own.bind = extras.bind.unwrap_or(own.bind);
    }
    let is_bound = assign_posts(thread, team, threads, own.bind);
    let has_homes = !is_bound && crews == 0 && homes::assign(thread, team, threads);
    let (construct, single) = team.region.see(|region| (region.construct, region.single));
    let is_in_construct = extras.loop_of_all.is_some();
    if let Some(iterations) = extras.loop_of_all {
        let slot = &team.slots[(construct % crate::slots::SLOTS) as usize];
        slot.enter(construct);
        slot.iterations.set(iterations);
        slot.next.store(0, Ordering::Relaxed);
        slot.ready(construct);
    }
    team.region.set(Region {
        body: Some(body),
        data,
        outer: Some(outer),
        outer_id: thread.id.get(),
        level: level + 1,
        active_level,
        controls: controls_inside(own, level + 1, active_level),
        group: extras.group,
        construct,
        single,
        is_in_construct,
        core: cores::current().filter(|_| !is_bound),
        is_bound,
        has_homes,
        crews,
        league,
    });
    observers::region_begins(thread, team, threads);
    let known = team.workers.with(|workers| workers.len()) as u32 + 1;
    if crews > 0 {
        waiting::more_busy(crews as usize - 1);
        team.resize(threads);
        team.crews.provide(team, threads, crews);
    } else if threads > 1 {
        waiting::more_busy(threads as usize - 1);
        workers::release_from(team, threads);
        team.resize(threads);
        workers::wake(team);
        borrowing::begin(threads as usize);
        for id in known..threads {
            let worker = workers::obtain();
            team.workers.with(|workers| workers.push(worker));
            worker.give(team, id);
        }
    }
    let before = thread.enter(team, 0);
    observers::implicit_task_begins(thread);
    if is_bound {
        team.posts.see(|posts| thread.partition.set(posts[0].1));
    } else if has_homes {
        homes::enter(thread, team, 0);
    }
    thread.opened.with(|opened| opened.push(before));
    affinity::display_if_changed();
}

/// Ends the region that a thread has opened last.
pub fn close(thread: &Thread) {
    observers::while_meeting(thread, Meeting::BarrierOfRegion, || barrier::join(thread));
    leave(thread);
}

/// Leaves the region that a thread has opened last, after its threads and tasks have ended.
fn leave(thread: &Thread) {
    let team = thread.team.get();
    observers::implicit_task_ends(thread);
    if team.region.see(|region| region.has_homes) {
        homes::region_ends(thread, team);
    }
    // The numbers of constructs go on, so that the slots need no reset.
    team.region.with(|region| {
        if team.is_cancelled.swap(false, Ordering::Relaxed) {
            // Its threads have been in different numbers of constructs.
            region.construct = 0;
            for (number, slot) in (0..).zip(&team.slots) {
                slot.reset(number);
            }
            region.single = team.singles.load(Ordering::Relaxed);
        } else {
            region.construct = thread.construct.get();
            region.single = thread.single.get();
        }
        region.group = None;
    });
    let kernel_threads = match team.region.see(|region| region.crews) {
        0 => team.size(),
        crews => crews,
    };
    waiting::fewer_busy(kernel_threads as usize - 1);
    if let Some(before) = thread.opened.with(Vec::pop) {
        thread.leave(before);
    }
    observers::region_ends(thread, team);
}

/// The team that this thread keeps for regions of so many threads at its present depth.
fn team_for(thread: &Thread, threads: u32, takes_turns: bool) -> &'static ThreadTeam {
    let depth = thread.opened.with(|opened| opened.len());
    let place = usize::from(threads > 1) + usize::from(takes_turns);
    thread.teams.with(|teams| {
        if teams.len() <= depth {
            teams.resize(depth + 1, [None; 3]);
        }
        *teams[depth][place].get_or_insert_with(ThreadTeam::obtain)
    })
}

/// The controls of the implicit tasks in a region.
fn controls_inside(own: Controls, level: u32, active_level: u32) -> Controls {
    let list = &environment::settings().threads;
    let threads = list.get(active_level as usize).copied().unwrap_or(own.threads);
    let binds = &environment::settings().binds;
    let bind = binds.get(level as usize).copied().unwrap_or(own.bind);
    Controls { threads, bind, ..own }
}

/// Gives the threads of a team their places, if threads are bound.
fn assign_posts(thread: &Thread, team: &ThreadTeam, threads: u32, bind: BindPolicy) -> bool {
    let is_bound = !places::all().is_empty() && bind != BindPolicy::False;
    if is_bound {
        let place = thread.settle().unwrap_or_default();
        let posts = places::posts(bind, threads, place, thread.partition.get());
        team.posts.set(posts);
    }
    is_bound
}

/// Runs the function of a region on a thread that has entered it, and did not open it.
pub fn take_part(thread: &Thread, team: &ThreadTeam) {
    affinity::display_if_changed();
    observers::implicit_task_begins(thread);
    run_body(thread, team);
    thread.task().known.set(None);
}

/// Runs the function of a region on one of its threads.
pub fn run_body(thread: &Thread, team: &ThreadTeam) {
    let (body, data) = team.region.see(|region| (region.body, region.data));
    if let Some(body) = body {
        // SAFETY: the program gave this function with this argument.
        observers::while_in_region(thread, body as usize, || unsafe { body(data.0) });
    }
}

/// Runs a region.
pub fn run(thread: &'static Thread, body: Body, data: Address, threads: u32, extras: Extras) {
    let crews = if threads > 1 { crews::count_for(thread, threads) } else { 0 };
    open(thread, body, data, threads, Extras { crews, ..extras });
    if crews > 0 {
        let team = thread.team.get();
        team.crews.run(thread, team);
        return leave(thread);
    }
    // SAFETY: the program gave this function with this argument.
    observers::while_in_region(thread, body as usize, || unsafe { body(data.0) });
    close(thread);
}
