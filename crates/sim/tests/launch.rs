//! The start of jobs on many hosts through a tree of agents, in virtual time.

use std::time::Duration;

use launcher::launch_tree::{AgentStartTimes, best_width, parents, predicted_time};
use sim::jobs::{Launch, kill_inner_agent};

const HOSTS: usize = 256;

/// The number of levels of a tree.
fn levels(width: usize) -> usize {
    let parents = parents(HOSTS, width);
    let path = |host| std::iter::successors(Some(host), |host| parents[*host]).count();
    (0..HOSTS).map(path).max().unwrap_or_default()
}

#[test]
fn launch_trees_follow_from_measured_times() {
    println!(
        "ms per agent, of level | best width | predicted | simulated | assumed width | measured"
    );
    for (per_agent, of_level) in [(1, 2000), (5, 1000), (20, 200), (2, 20), (100, 50), (300, 5)] {
        let of_level = Duration::from_millis(of_level);
        let times = AgentStartTimes { per_agent: Duration::from_millis(per_agent), of_level };
        let run = |width| Launch { hosts: HOSTS, times, width }.run(1).unwrap();
        let best = best_width(HOSTS, times);
        let predicted = predicted_time(HOSTS, best, times);
        let assumed = best_width(HOSTS, AgentStartTimes::default());
        let (at_best, at_assumed, measured) = (run(Some(best)), run(Some(assumed)), run(None));
        println!(
            "{per_agent}, {} | {best} ({}) | {predicted:?} | {at_best:?} | {at_assumed:?} | {measured:?}",
            of_level.as_millis(),
            levels(best)
        );
        // One level more than needed is started before anything is known.
        let limit = (at_best + of_level * 11 / 10).min(at_assumed) * 11 / 10;
        assert!(measured <= limit + Duration::from_millis(50), "{measured:?} instead of {limit:?}");
        let deviation = at_best.abs_diff(predicted);
        assert!(deviation <= predicted / 10, "{predicted:?} predicted, {at_best:?} simulated");
    }
}

#[test]
fn jobs_on_256_hosts_end_well_after_kills_of_inner_agents() {
    let (mut kills, mut successes) = (0, 0);
    for seed in 0..200 {
        let counts = kill_inner_agent(seed).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        kills += counts.inner_faults;
        successes += counts.successes;
        if kills >= 50 {
            break;
        }
    }
    assert!(kills >= 50, "{kills} agents with agents below them were killed");
    println!("{kills} kills, {successes} jobs were over before");
}
