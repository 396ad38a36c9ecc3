//! Jobs on many hosts, whose agents take given times to start.

use std::time::Duration;

use fastrand::Rng;
use launcher::launch_tree::{self, AgentStartTimes};
use launcher::{Application, JobPlan, LineTag, OutputForm};

use super::setting::{HOST_TIMEOUT, JobFault, JobSetting, RankScript, SECOND, Step};
use super::{JobCounts, run_world};

/// The start of a job with one rank on each of some hosts and on the launcher's own.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// The number of other hosts.
    pub hosts: usize,
    /// How long the start of each agent takes.
    pub times: AgentStartTimes,
    /// How many agents each process starts; none: the launcher decides that by the times.
    pub width: Option<usize>,
}

impl Launch {
    /// Runs such a job without faults. Returns the time after which all ranks were started.
    ///
    /// # Errors
    /// A description of the invariant that is violated.
    pub fn run(&self, seed: u64) -> Result<Duration, String> {
        let mut rng = Rng::with_seed(seed);
        let setting = self.setting(&mut rng);
        let (_, started) = run_world(&setting, rng)?;
        started.map(Duration::from_micros).ok_or_else(|| "no rank was started".to_owned())
    }

    fn setting(&self, rng: &mut Rng) -> JobSetting {
        let width = self
            .width
            .unwrap_or_else(|| launch_tree::best_width(self.hosts, AgentStartTimes::default()));
        // The first machine is the launcher's.
        let below = launch_tree::parents(self.hosts, width).into_iter();
        let parents = [None].into_iter().chain(below.map(|parent| parent.map(|host| host + 1)));
        let count = self.hosts + 1;
        let of_level = self.times.of_level.as_micros() as u64;
        let script = || RankScript {
            steps: vec![
                Step::Ask("cmd=init pmi_version=1 pmi_subversion=1".to_owned()),
                Step::Ask("cmd=barrier_in".to_owned()),
                Step::Compute(SECOND),
                Step::Ask("cmd=finalize".to_owned()),
            ],
            ..RankScript::default()
        };
        JobSetting {
            plan: JobPlan {
                applications: vec![Application {
                    processes: count as u32,
                    ..Application::default()
                }],
                output: OutputForm { tag: LineTag::Rank, ..OutputForm::default() },
                host_timeout: Some(Duration::from_micros(HOST_TIMEOUT)),
                ..JobPlan::default()
            },
            machines: vec![1; count],
            parents: parents.collect(),
            measures_tree: self.width.is_none(),
            time_per_agent: self.times.per_agent.as_micros() as u64,
            has_local: true,
            has_terminal: false,
            latencies: vec![300; count],
            // Logins differ by a tenth.
            connects: (0..count).map(|_| Ok(of_level + rng.u64(..=of_level / 10))).collect(),
            linger: vec![false; count],
            scripts: (0..count).map(|_| script()).collect(),
            faults: Vec::new(),
            reader_speed: 1 << 20,
        }
    }
}

/// Runs a job on 256 hosts, in which the agent of a host is killed through which others are
/// reached, while agents start or later.
///
/// # Errors
/// A description of the invariant that is violated.
pub fn kill_inner_agent(seed: u64) -> Result<JobCounts, String> {
    let mut rng = Rng::with_seed(seed);
    let launch = Launch { hosts: 256, times: AgentStartTimes::default(), width: None };
    let mut setting = launch.setting(&mut rng);
    let is_first = |host: &usize| *host > 0 && setting.parents[*host].is_none();
    let first = (0..setting.parents.len()).filter(is_first);
    let below = setting.parents.iter().copied().flatten();
    let inner: Vec<usize> = if rng.bool() { first.collect() } else { below.collect() };
    let host = *rng.choice(&inner).expect("there are some");
    let at = rng.u64(SECOND / 4..2 * SECOND);
    setting.faults.push((at, JobFault::KillAgent(host)));
    run_world(&setting, rng).map(|(counts, _)| counts)
}
