//! What differs from world to world: the machines, the programs of the ranks, and the faults.

use std::path::PathBuf;
use std::time::Duration;

use fastrand::Rng;
use launcher::protocol::OutputStream;
use launcher::{Application, JobPlan, LineTag, OutputForm, TraceTarget};
use sys::process::{End, signal};

/// The parameters of a world.
#[derive(Clone, Debug)]
pub(super) struct JobSetting {
    pub plan: JobPlan,
    /// The number of ranks on each machine.
    pub machines: Vec<usize>,
    /// For each machine the one whose agent starts its agent; none: the launcher does.
    pub parents: Vec<Option<usize>>,
    /// Whether that changes by the times that the first agents take to start.
    pub measures_tree: bool,
    /// How long a process is busy with each agent that it starts, in microseconds.
    pub time_per_agent: u64,
    /// Whether the first machine is the one of the launcher.
    pub has_local: bool,
    /// Whether rank 0 writes to a terminal.
    pub has_terminal: bool,
    /// How long bytes travel at most to or from each machine, in microseconds.
    pub latencies: Vec<u64>,
    /// How long the command that reaches a machine takes; none: it ends with this exit code.
    pub connects: Vec<Result<u64, i32>>,
    /// Whether the agent of each machine stays when it is ordered to end.
    pub linger: Vec<bool>,
    pub scripts: Vec<RankScript>,
    /// The faults, with their times in microseconds.
    pub faults: Vec<(u64, JobFault)>,
    /// How many bytes the reader of the job's output reads each time.
    pub reader_speed: usize,
}

/// The program of a rank.
#[derive(Clone, Debug, Default)]
pub(super) struct RankScript {
    pub steps: Vec<Step>,
    /// Whether it ignores requests to end.
    pub ignores_requests: bool,
    /// Whether it leaves a process behind that holds its pipes open.
    pub leaves_process: bool,
}

/// A step of a program.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Compute for so many microseconds.
    Compute(u64),
    Write(OutputStream, Vec<u8>),
    /// Send this request to the PMI server and wait for the answer.
    Ask(String),
    /// Send this request, which has no answer.
    Send(String),
    Die(End),
}

/// Something that goes wrong, or that somebody does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobFault {
    /// A signal kills a rank.
    Kill(u32, i32),
    /// A rank is stopped.
    Stop(u32),
    /// The agent of a machine is killed; its guard kills the ranks.
    KillAgent(usize),
    /// The command that reaches a machine is killed.
    KillCommand(usize),
    /// A machine vanishes without a word.
    LoseMachine(usize),
    /// A machine stands still for so many microseconds.
    Freeze(usize, u64),
    /// Nothing reaches a machine any more, though its own bytes arrive.
    LoseOrders(usize),
    /// Nothing from a machine arrives any more.
    LoseReports(usize),
    /// An agent sends what is no report.
    SendGarbage(usize),
    /// The user sends a signal to the launcher.
    Signal(i32),
    /// The reader of the job's output ends.
    EndReader,
    /// The supervisor does not run for so many microseconds.
    Pause(u64),
    /// A client asks what the ranks do.
    Question,
}

pub(super) const MILLISECOND: u64 = 1000;
pub(super) const SECOND: u64 = 1_000_000;

/// How many bytes a slow reader reads each time.
pub(super) const SLOW_READER: usize = 2000;

/// After how long a silent agent counts as failed.
pub(super) const HOST_TIMEOUT: u64 = 10 * SECOND;

impl JobSetting {
    /// A random setting.
    pub(super) fn random(rng: &mut Rng) -> Self {
        let keep_going = rng.u8(..3) == 0;
        let has_tree = !keep_going && rng.bool();
        let count = if has_tree { rng.usize(3..10) } else { rng.usize(1..5) };
        let machines: Vec<usize> = (0..count).map(|_| rng.usize(1..4)).collect();
        let ranks = machines.iter().sum();
        let has_local = machines.len() == 1 && rng.bool() || rng.u8(..4) > 0;
        let is_remote = |machine: usize| machine > 0 || !has_local;
        let latency = |_| match rng.u8(..8) {
            // A tree adds the latencies of its levels.
            0 if !has_tree => 7 * SECOND,
            1 => SECOND,
            _ => *rng.choice(&[300, 5 * MILLISECOND, 50 * MILLISECOND]).expect("there are some"),
        };
        let latencies = (0..machines.len()).map(latency).collect();
        let connect = |_| match rng.u8(..40) {
            0 => Ok(u64::MAX / 2),
            1 => Err(255),
            2 => Ok(20 * SECOND),
            _ => Ok(rng.u64(MILLISECOND..SECOND)),
        };
        let connects = (0..machines.len()).map(connect).collect();
        let linger = machines.iter().map(|_| rng.u8(..20) == 0).collect();
        let time = |rng: &mut Rng, of: &[u64]| *rng.choice(of).expect("there are some");
        let limits = [SECOND / 2, 5 * SECOND, 30 * SECOND];
        let timeout = (rng.u8(..6) == 0).then(|| Duration::from_micros(time(rng, &limits)));
        let plan = JobPlan {
            applications: vec![Application { processes: ranks as u32, ..Application::default() }],
            keep_going,
            output: OutputForm { tag: LineTag::Rank, ..OutputForm::default() },
            timeout,
            stall: (rng.u8(..8) == 0).then_some(Duration::from_secs(4)),
            host_timeout: Some(Duration::from_micros(HOST_TIMEOUT)),
            trace: (ranks % 2 == 0).then(any_trace),
            ..JobPlan::default()
        };
        let remote: Vec<usize> = (0..machines.len()).filter(|one| is_remote(*one)).collect();
        let first = remote.first().copied().unwrap_or_default();
        let parent = |host| {
            let is_below = has_tree && host > first && rng.u8(..4) > 0;
            is_below.then(|| rng.usize(first..host))
        };
        let parents = (0..machines.len()).map(parent).collect();
        let mut all = scripts(rng, ranks);
        if timeout.is_some() && rng.bool() {
            // Without the time limit the job would not end.
            all[0].steps.push(Step::Compute(1000 * SECOND));
        }
        let mut setting = Self {
            plan,
            parents,
            measures_tree: false,
            time_per_agent: 0,
            has_local,
            has_terminal: rng.u8(..8) == 0,
            latencies,
            connects,
            linger,
            scripts: all,
            faults: Vec::new(),
            reader_speed: if rng.u8(..10) == 0 { SLOW_READER } else { 1 << 20 },
            machines,
        };
        let count = *rng.choice(&[0, 0, 1, 1, 1, 2, 3, 4]).expect("there are some");
        for _ in 0..count {
            setting.add_fault(rng, ranks as u32, &remote);
        }
        setting.measures_tree = has_tree && rng.bool();
        setting
    }

    pub(super) fn is_reader_slow(&self) -> bool {
        self.reader_speed == SLOW_READER
    }

    fn add_fault(&mut self, rng: &mut Rng, ranks: u32, remote: &[usize]) {
        let span = *rng.choice(&[SECOND, 3 * SECOND, 15 * SECOND]).expect("there are some");
        let at = rng.u64(..span);
        let rank = rng.u32(..ranks);
        let ends = [signal::SIGINT, signal::SIGTERM, signal::SIGHUP, signal::SIGQUIT];
        let fault = match (rng.u8(..16), rng.choice(remote)) {
            (0..3, _) => JobFault::Kill(rank, *rng.choice(&[9, 11, 6]).expect("there are some")),
            (3, _) => {
                let later = at + rng.u64(..3 * SECOND);
                self.faults.push((later, JobFault::Kill(rank, signal::SIGKILL)));
                JobFault::Stop(rank)
            }
            (4, _) => JobFault::Pause(rng.u64(..15 * SECOND)),
            (5, _) => JobFault::Question,
            (6, _) => JobFault::EndReader,
            (7 | 8, _) => JobFault::Signal(*rng.choice(&ends).expect("there are some")),
            (9, Some(&on)) => JobFault::KillAgent(on),
            (10, Some(&on)) => JobFault::KillCommand(on),
            (11, Some(&on)) => JobFault::LoseMachine(on),
            (12, Some(&on)) => {
                let is_short = rng.bool() && self.latencies[on] < SECOND;
                JobFault::Freeze(on, if is_short { 5 * SECOND } else { 60 * SECOND })
            }
            (13, Some(&on)) => JobFault::LoseOrders(on),
            (14, Some(&on)) => JobFault::LoseReports(on),
            (15, Some(&on)) => JobFault::SendGarbage(on),
            _ => JobFault::Kill(rank, signal::SIGKILL),
        };
        self.faults.push((at, fault));
    }
}

/// Returns the programs of the ranks: all do the same, except for what goes wrong in one of them.
fn scripts(rng: &mut Rng, ranks: usize) -> Vec<RankScript> {
    let is_mpi = rng.u8(..4) > 0;
    let rounds = rng.usize(..6);
    let pause = *rng.choice(&[MILLISECOND, 100 * MILLISECOND, 2 * SECOND]).expect("there are some");
    let mut all: Vec<RankScript> = Vec::new();
    for rank in 0..ranks {
        let mut steps = vec![Step::Compute(rng.u64(..pause))];
        let ask = |line: &str| Step::Ask(line.to_owned());
        if is_mpi {
            steps.extend([ask("cmd=init pmi_version=1 pmi_subversion=1"), ask("cmd=barrier_in")]);
        }
        for round in 0..rounds {
            steps.push(Step::Compute(rng.u64(..pause)));
            let target = if rng.bool() { OutputStream::Output } else { OutputStream::Errors };
            let length = if rng.u8(..16) == 0 { 100_000 } else { rng.usize(..200) };
            let end = if rng.u8(..4) > 0 { "\n" } else { "" };
            let text = format!("rank {rank} round {round}: {}{end}", "x".repeat(length));
            steps.push(Step::Write(target, text.into()));
        }
        if is_mpi {
            steps.extend([ask("cmd=barrier_in"), ask("cmd=finalize")]);
        }
        let ignores_requests = rng.u8(..6) == 0;
        all.push(RankScript { steps, ignores_requests, leaves_process: rng.u8(..12) == 0 });
    }
    if rng.u8(..4) == 0 {
        let script = &mut all[rng.usize(..ranks)];
        let at = rng.usize(..=script.steps.len());
        let wrong = match rng.u8(..8) {
            0 | 1 => Step::Die(End::Code(*rng.choice(&[1, 77, 124]).expect("there are some"))),
            2 => Step::Die(End::Signal(signal::SIGSEGV)),
            3 | 4 => Step::Die(End::Code(0)),
            5 => Step::Send(format!("cmd=abort exitcode={}", rng.i32(0..40))),
            6 => Step::Send(format!("cmd=abort exitcode=7 combray_ranks=0-{}", ranks / 2)),
            _ => Step::Send("what is no request".to_owned()),
        };
        // Otherwise the process that it left behind would act for it.
        script.leaves_process &= wrong != Step::Die(End::Code(0));
        script.steps.insert(at, wrong);
        if let Step::Send(_) = script.steps[at] {
            script.steps.insert(at + 1, Step::Compute(SECOND));
        }
    }
    all
}

/// A trace that the user wants, which this simulation does not write.
fn any_trace() -> TraceTarget {
    TraceTarget { file: PathBuf::new(), bytes: 1, last: None }
}
