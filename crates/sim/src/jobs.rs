//! Worlds in which a job runs on several machines: the launcher's state machine
//! (`launcher::job`), with its protocol to agents and its server of PMI-1, in virtual time.
//!
//! Ranks are killed, stopped, or end badly; so do agents and the commands that reach them. In some
//! worlds agents are reached through other agents, in a tree of any form.
//! Machines vanish or stand still, connections lose all bytes in one direction, agents are slow or
//! send garbage. Users send signals, the reader of the output is slow or ends, and the supervisor
//! itself does not run for a while.
//!
//! The invariants: each job ends, in time. Its exit code is that of the first failure that it can
//! have noticed, and 0 if there was none. Where the job goes on after failures, all other ranks
//! reach the end of their programs. All that ranks of healthy machines wrote is printed. No rank
//! is left. Only a machine that was silent counts as silent. No deadline is missed.

mod faults;
mod launch;
mod machine;
mod rank;
mod setting;
mod tree;
mod world;

use fastrand::Rng;
use sys::process::End;

pub use launch::{Launch, kill_inner_agent};
use rank::EndCause;
use setting::{HOST_TIMEOUT, JobFault, JobSetting, SECOND};
use world::{EffectScope, JobWorld};

/// The counters of worlds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobCounts {
    /// Jobs that ended.
    pub jobs: u64,
    /// Jobs that ended well.
    pub successes: u64,
    /// Jobs that went on after a failure, and in which all other ranks finished.
    pub survived: u64,
    /// Faults that were injected.
    pub faults: u64,
    /// Agents with running agents below them that failed.
    pub inner_faults: u64,
    /// Hosts that the launcher reached after another agent had not.
    pub reached_directly: u64,
    /// Rounds of supervisors.
    pub rounds: u64,
    /// Reports of what all ranks do.
    pub reports: u64,
    /// Ranks of which all output was compared.
    pub compared: u64,
    /// Virtual time in seconds.
    pub seconds: u64,
}

impl JobCounts {
    /// Adds the counters of another world.
    pub fn add(&mut self, other: &Self) {
        self.jobs += other.jobs;
        self.successes += other.successes;
        self.survived += other.survived;
        self.faults += other.faults;
        self.inner_faults += other.inner_faults;
        self.reached_directly += other.reached_directly;
        self.rounds += other.rounds;
        self.reports += other.reports;
        self.compared += other.compared;
        self.seconds += other.seconds;
    }
}

/// Runs the world of a seed to its end.
///
/// # Errors
/// A description of the invariant that is violated.
pub fn run(seed: u64) -> Result<JobCounts, String> {
    let mut rng = Rng::with_seed(seed);
    let setting = JobSetting::random(&mut rng);
    run_world(&setting, rng).map(|(counts, _)| counts)
}

/// Runs a world to its end. Returns its counters, and when all ranks were started, if they were.
fn run_world(setting: &JobSetting, rng: Rng) -> Result<(JobCounts, Option<u64>), String> {
    let mut world = JobWorld::new(setting, rng);
    let outcome = world.run().and_then(|code| check(&mut world, code));
    match outcome {
        Ok(()) => Ok((JobCounts { seconds: world.now / SECOND, ..world.counts }, world.started)),
        Err(what) => Err(format!("{what}\n{}", world.describe())),
    }
}

fn check(world: &mut JobWorld<'_>, code: i32) -> Result<(), String> {
    world.counts.successes += u64::from(code == 0);
    check_code(world, code)?;
    check_time(world)?;
    check_left_behind(world)?;
    check_survivors(world)?;
    check_silence(world)?;
    check_output(world)
}

/// Returns when the first failure that cannot remain unnoticed was noticed at the latest.
fn first_noticed(world: &JobWorld<'_>) -> Option<u64> {
    world.effects.iter().filter_map(|effect| effect.noticed).min()
}

/// The time in which a machine must report the end of killed ranks, at least.
const KILLS_TIME_MIN: u64 = 6 * SECOND;

fn check_code(world: &JobWorld<'_>, code: i32) -> Result<(), String> {
    let first = first_noticed(world);
    let in_time = world.effects.iter().filter(|effect| first.is_none_or(|at| effect.at <= at));
    let mut codes: Vec<i32> = in_time.flat_map(|effect| effect.codes.iter().copied()).collect();
    if first.is_none() {
        codes.push(0);
    }
    let limit = world.setting.plan.timeout.map(|limit| limit.as_micros() as u64);
    if limit.is_some_and(|limit| world.now >= limit) {
        codes.push(124);
    }
    // After MPI_Abort with the code 0, a machine that is too slow to report the end of its killed
    // ranks in time counts as unreachable, which is no success.
    let mut hosts = 0..world.machines.len();
    if hosts.any(|host| 2 * world.latency(host) >= KILLS_TIME_MIN) {
        codes.push(1);
    }
    match codes.contains(&code) {
        true => Ok(()),
        false => Err(format!("the exit code is {code}, not one of {codes:?}")),
    }
}

/// Checks that a job that must end has ended in time.
fn check_time(world: &JobWorld<'_>) -> Result<(), String> {
    let ending = world.effects.iter().filter(|effect| effect.ends_job);
    let Some(first) = ending.filter_map(|effect| effect.noticed).min() else { return Ok(()) };
    let latency = (0..world.machines.len()).map(|host| world.latency(host)).max();
    let latency = latency.unwrap_or_default();
    let limit = first + 45 * SECOND + 6 * latency + world.pauses();
    let is_slow = world.setting.is_reader_slow();
    if is_slow || world.now <= limit {
        return Ok(());
    }
    Err(format!("the job ended at {} s instead of {} s", world.now / SECOND, limit / SECOND))
}

/// Whether nothing has happened to a machine and its connection, which is fast.
fn is_healthy(world: &JobWorld<'_>, host: usize) -> bool {
    let is_hit = |scope| scope == EffectScope::Machine(host);
    world.latency(host) < SECOND && !world.effects.iter().any(|one| is_hit(one.scope))
}

/// Whether the user was so impatient that the job did not finish properly.
fn is_impatient(world: &JobWorld<'_>) -> bool {
    world.setting.faults.iter().filter(|(_, one)| matches!(one, JobFault::Signal(_))).count() > 1
}

/// Checks that no rank is left.
fn check_left_behind(world: &mut JobWorld<'_>) -> Result<(), String> {
    let left = |world: &JobWorld<'_>, host: usize| {
        let machine = &world.machines[host];
        let mut ranks = machine.ranks.iter();
        machine.has_started && ranks.any(|rank| rank.end.is_none())
    };
    for host in 0..world.machines.len() {
        if is_healthy(world, host) && !is_impatient(world) && left(world, host) {
            return Err(format!("ranks of host{host} were left at the end of the job"));
        }
    }
    world.end_launcher(6 * HOST_TIMEOUT);
    for host in 0..world.machines.len() {
        if world.is_up(host) && left(world, host) {
            return Err(format!("ranks of host{host} were left long after the end of the job"));
        }
    }
    Ok(())
}

/// Checks that ranks to which nothing happened have finished, where the job goes on.
fn check_survivors(world: &mut JobWorld<'_>) -> Result<(), String> {
    let ends_job = world.effects.iter().any(|effect| {
        effect.scope == EffectScope::Job || world.started.is_none_or(|started| effect.at < started)
    });
    if !world.setting.plan.keep_going || ends_job || world.setting.plan.timeout.is_some() {
        return Ok(());
    }
    world.counts.survived += u64::from(!world.effects.is_empty());
    for host in 0..world.machines.len() {
        let is_ours = |rank: &&rank::SimulatedRank| {
            !matches!(rank.end, Some((_, EndCause::Program | EndCause::Fault)))
        };
        let ended = world.machines[host].ranks.iter().find(is_ours);
        if let Some(rank) = ended.filter(|_| is_healthy(world, host)) {
            return Err(format!("rank {} did not go on: {:?}", rank.number, rank.end));
        }
    }
    Ok(())
}

/// Checks that only a machine that was silent counts as silent.
fn check_silence(world: &JobWorld<'_>) -> Result<(), String> {
    let text = String::from_utf8_lossy(&world.shown[1]);
    for host in 0..world.machines.len() {
        let is_reported = text.contains(&format!("host{host} was lost: nothing was received"));
        if is_reported && is_healthy(world, host) {
            return Err(format!("host{host} counted as silent"));
        }
    }
    Ok(())
}

/// Whether the job may have ended before the reader of its output had read all of it: a signal
/// ended it, or its time limit has passed.
fn may_drop_output(world: &JobWorld<'_>) -> bool {
    let limit = world.setting.plan.timeout.map(|limit| limit.as_micros() as u64);
    let mut faults = world.setting.faults.iter();
    faults.any(|(_, fault)| matches!(fault, JobFault::Signal(_)))
        || limit.is_some_and(|limit| world.ended.is_none_or(|at| at >= limit))
}

/// Checks that all that ranks wrote was printed in whole lines. Where the job may drop output that
/// is not read, it must have printed all of it and reported that it was dropped.
fn check_output(world: &mut JobWorld<'_>) -> Result<(), String> {
    if !world.has_reader {
        return Ok(());
    }
    let unread = world.backlog();
    let printed = [0, 1].map(|target| {
        let bytes = [&world.shown[target][..], &world.waiting[target][..]].concat();
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let is_dropped = printed[1].contains("was not read and is dropped");
    if unread != [0; 2] && !is_dropped {
        return Err(format!("{unread:?} bytes of output were lost without a message"));
    }
    if is_dropped && !may_drop_output(world) {
        return Err(format!(
            "{unread:?} bytes of output were dropped, though nothing ends the job"
        ));
    }
    if is_impatient(world) {
        return Ok(());
    }
    for host in 0..world.machines.len() {
        if is_healthy(world, host) {
            check_output_of(world, host, &printed)?;
        }
    }
    Ok(())
}

/// Checks that all that the ranks of a machine wrote is in `printed`.
fn check_output_of(
    world: &mut JobWorld<'_>,
    host: usize,
    printed: &[String; 2],
) -> Result<(), String> {
    let has_terminal = world.setting.has_terminal;
    for rank in &world.machines[host].ranks {
        if has_terminal && rank.number == 0 {
            // Its incomplete lines are printed early, as they may be prompts.
            continue;
        }
        let tag = format!("[{}] ", rank.number);
        for (printed, written) in printed.iter().zip(&rank.written) {
            let written = String::from_utf8_lossy(written);
            let mut rest = &printed[..];
            let mut is_next = |line: &str| match rest.split_once(&format!("{tag}{line}")) {
                Some((_, after)) => {
                    rest = after;
                    true
                }
                None => false,
            };
            let is_complete = match has_terminal {
                // Lines of other ranks may follow a prompt of rank 0.
                true => written.lines().all(&mut is_next),
                false => {
                    let lines = printed.lines().filter_map(|line| line.strip_prefix(&tag));
                    lines.eq(written.lines())
                }
            };
            if !is_complete {
                let (length, rank) = (written.len(), rank.number);
                return Err(format!("not all of the {length} bytes of rank {rank} were printed"));
            }
        }
        world.counts.compared += 1;
    }
    Ok(())
}

impl JobWorld<'_> {
    /// Describes the world and its end.
    fn describe(&self) -> String {
        let ends: Vec<(u32, Option<(End, EndCause)>)> = (self.machines.iter())
            .flat_map(|machine| machine.ranks.iter().map(|rank| (rank.number, rank.end)))
            .collect();
        let setting = self.setting;
        format!(
            "at {} µs; machines {:?}, parents {:?}, local {}, keep going {}, timeout {:?}, latencies {:?}, \
             connects {:?}\nfaults: {:?}\neffects: {:?}\nends: {ends:?}\nmessages:\n{}",
            self.now,
            setting.machines,
            setting.parents,
            setting.has_local,
            setting.plan.keep_going,
            setting.plan.timeout,
            setting.latencies,
            setting.connects,
            setting.faults,
            self.effects,
            String::from_utf8_lossy(&self.shown[1])
                .lines()
                .filter(|line| !line.starts_with('['))
                .collect::<Vec<_>>()
                .join("\n")
        )
    }
}

#[cfg(test)]
mod tests {
    use launcher::protocol::OutputStream;

    use super::*;
    use setting::{RankScript, SLOW_READER, Step};

    /// Runs worlds whose output is complete, changes it, and expects that the check fails.
    fn is_noticed(change: impl Fn(&mut JobWorld<'_>)) {
        let mut changed = 0;
        for seed in 0..400 {
            let mut rng = Rng::with_seed(seed);
            let setting = JobSetting::random(&mut rng);
            let mut world = JobWorld::new(&setting, rng);
            let Ok(code) = world.run() else { continue };
            let is_checked = check(&mut world, code).is_ok()
                && world.counts.compared > 0
                && world.has_reader
                && !may_drop_output(&world)
                && !setting.has_terminal;
            let mut hosts = 0..setting.machines.len();
            if is_checked && hosts.all(|host| is_healthy(&world, host)) {
                let before = world.shown.clone();
                change(&mut world);
                if world.shown != before {
                    changed += 1;
                    assert!(check_output(&mut world).is_err(), "seed {seed}");
                }
            }
        }
        assert!(changed > 10, "{changed} worlds have output");
    }

    #[test]
    fn a_line_that_is_not_printed_is_noticed() {
        is_noticed(|world| {
            let shown = &mut world.shown[0];
            let is_line = |start: usize| shown[start..].starts_with(b"[");
            let start = (0..shown.len()).rev().find(|&start| is_line(start));
            start.into_iter().for_each(|start| shown.truncate(start));
        });
    }

    #[test]
    fn output_that_was_not_read_at_the_end_is_noticed() {
        is_noticed(|world| {
            let last = world.shown[0].pop();
            world.waiting[0].extend(last);
        });
    }

    #[test]
    fn output_that_is_dropped_without_need_is_noticed() {
        is_noticed(|world| {
            let message = b"combray: the rest of the job's output was not read and is dropped\n";
            world.shown[1].extend_from_slice(message);
        });
    }

    #[test]
    fn a_slow_reader_gets_all_output_of_a_rank_that_ends_with_code_124() {
        let mut setting = JobSetting::random(&mut Rng::with_seed(0));
        setting.reader_speed = SLOW_READER;
        (setting.machines, setting.has_local, setting.has_terminal) = (vec![1], true, false);
        setting.parents = vec![None];
        (setting.plan.timeout, setting.plan.stall) = (None, None);
        let line = format!("{}\n", "x".repeat(100_000));
        let steps =
            vec![Step::Write(OutputStream::Output, line.into_bytes()), Step::Die(End::Code(124))];
        setting.scripts = vec![RankScript { steps, ..RankScript::default() }];
        setting.faults.clear();
        let mut world = JobWorld::new(&setting, Rng::with_seed(0));
        assert_eq!(world.run(), Ok(124));
        assert_eq!(check(&mut world, 124), Ok(()));
        assert_eq!(world.counts.compared, 1);
    }
}
