//! Random programs on all described machines under all schedulers. No thread may be lost or run
//! twice, and none may wait while a processor that may run it is idle. `BUBBLES_SEED=n` runs one
//! program, `BUBBLES_SEEDS=n` that many.

mod common;

use std::env;
use std::sync::Arc;

use bubbles::schedulers::{
    self, Cache, Gang, InSpace, InTime, Memory, NearInterface, Null, Spread,
};
use bubbles::{MachineTree, Pool, Relation, Scheduler};
use common::programs::Program;
use common::world::{Idling, run};
use fastrand::Rng;

/// The number of programs in a normal run, as a sample.
const SEEDS: u64 = 150;

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

/// A random scheduler, alone or combined with others.
fn any_scheduler(machine: &MachineTree, rng: &mut Rng) -> (Box<dyn Scheduler>, Idling) {
    let mut one = || {
        let mut all = schedulers::all();
        all.swap_remove(rng.usize(0..all.len()))
    };
    let (first, second, third) = (one(), one(), one());
    match rng.u32(0..6) {
        // A bubble that is aside inside a part waits there, while other parts may be idle.
        0 => {
            let below = second.name().to_owned();
            let below = || schedulers::named(&below).expect("it has a name");
            (Box::new(schedulers::by_level(machine, first, below)), Idling::OfOthers)
        }
        1 => {
            let parts = machine[machine.root()].children.iter().take(2).copied();
            let parts = parts.zip([second, third]).collect();
            (Box::new(InSpace::new(first, parts)), Idling::OfOthers)
        }
        2 => {
            let phases = vec![(0, first), (3_000_000, second), (8_000_000, third)];
            (Box::new(InTime::new(phases)), Idling::OfOthers)
        }
        _ => (first, Idling::Never),
    }
}

fn run_seed(seed: u64, machines: &[(String, Arc<MachineTree>)]) {
    let mut rng = Rng::with_seed(seed);
    let (name, machine) = &machines[rng.usize(0..machines.len())];
    let program = Program::random(machine.nodes().len().max(1) as u32, &mut rng);
    let (mut scheduler, idling) = any_scheduler(machine, &mut rng);
    println!("BUBBLES_SEED={seed}: {} on {name}", scheduler.name());
    run(machine, &program, &mut *scheduler, idling);
}

#[test]
fn nothing_is_lost_or_runs_twice_and_nobody_is_idle_in_vain() {
    let machines = common::machines();
    if let Some(seed) = number("BUBBLES_SEED") {
        return run_seed(seed, &machines);
    }
    (0..number("BUBBLES_SEEDS").unwrap_or(SEEDS)).for_each(|seed| run_seed(seed, &machines));
}

#[test]
fn teams_of_threads_that_share_memory_stay_on_one_node() {
    let machine = Arc::new(MachineTree::regular(&[4, 4], 1));
    let program = Program::zones(4, 4, 4);
    let memory = run(&machine, &program, &mut Memory, Idling::Never);
    assert!(memory.local * 10 > memory.with_memory * 5, "{memory:?}");
    let null = run(&machine, &program, &mut Null, Idling::Never);
    assert!(null.local * 10 < null.with_memory * 5, "{null:?}");
    assert!(memory.time < null.time, "{memory:?} {null:?}");
}

#[test]
fn gangs_have_the_machine_one_after_the_other() {
    let machine = Arc::new(MachineTree::regular(&[4], 0));
    let mut pool = Pool::new(machine);
    let all = pool.add_bubble(None, Relation::Unrelated);
    for _ in 0..3 {
        let job = pool.add_bubble(Some(all), Relation::WaitsTogether);
        for _ in 0..4 {
            pool.add_thread(Some(job), 1);
        }
    }
    pool.submit(all, 0, &mut Gang);
    let mut turns = Vec::new();
    for slice in 1..=6 {
        let running: Vec<_> = (0..4).map(|place| pool.next(place, &mut Gang).unwrap()).collect();
        let job = pool.entity(running[0]).bubble().unwrap();
        assert!(running.iter().all(|&thread| pool.entity(thread).bubble() == Some(job)));
        turns.push(job);
        running.into_iter().for_each(|thread| pool.put_back(thread));
        pool.end_slice(slice, &mut Gang);
    }
    assert_eq!(turns[..3], turns[3..]);
    assert!(turns[0] != turns[1] && turns[1] != turns[2] && turns[0] != turns[2]);
}

#[test]
fn threads_that_communicate_are_near_the_interface() {
    let (_, machine) =
        common::machines().into_iter().find(|(name, _)| name == "two-sockets").unwrap();
    let mut pool = Pool::new(machine.clone());
    let all = pool.add_bubble(None, Relation::Unrelated);
    let threads: Vec<_> = (0..32).map(|_| pool.add_thread(Some(all), 10)).collect();
    let talking = &threads[20..24];
    talking.iter().for_each(|&thread| pool.mark_communicating(thread));
    pool.submit(all, 0, &mut NearInterface);
    let place = |thread| match pool.location_of(thread) {
        bubbles::Place::Queue(vertex) => machine[vertex].processors.start,
        other => panic!("{other:?}"),
    };
    // The interface is attached to the first package, whose hardware threads are 0 to 15.
    assert!(talking.iter().all(|&thread| place(thread) < 16));
    assert!(threads.iter().filter(|&&thread| place(thread) >= 16).count() >= 14);
}

#[test]
fn spread_divides_evenly_and_cache_keeps_teams() {
    let machine = Arc::new(MachineTree::regular(&[4, 4], 1));
    let program = Program::zones(16, 4, 4);
    let spread = run(&machine, &program, &mut Spread, Idling::Never);
    let cache = run(&machine, &program, &mut Cache, Idling::Never);
    assert!(cache.elsewhere <= spread.elsewhere * 2, "{cache:?} {spread:?}");
    let ideal = program.work() / 16;
    assert!(spread.time < 3 * ideal, "{spread:?} {ideal}");
}
