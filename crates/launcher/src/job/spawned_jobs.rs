//! The jobs that processes of this job have spawned, and those below them. The topmost launcher
//! gives out the slots; launchers between it and a spawned one pass messages on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use hangs::{SpawnedReport, SpawnedStage};
use launch::wanted::WantedSize;
use sys::process::signal;

use super::{
    Action, CODE_TIMEOUT, Deadline, FinishedPrefix, JobState, KILL_DELAY, KILL_DELAY_AFTER_SIGNAL,
    SPAWNED_END_TIME_MAX, messages,
};
use crate::SlotTable;
use crate::pmi_server::MpiState;
use crate::protocol::AgentOrder;
use crate::spawned::{
    AddressedOrder, ENDS_ALL, SlotExpectation, SpawnedMessage, SpawnedNotice, SpawnedOrder,
    SpawnedSummary, encoded,
};

/// The jobs, and the slots for all of them.
#[derive(Debug)]
pub(super) struct SpawnedJobs {
    /// The name of the own job among the launchers; none: it is the topmost one.
    name: Option<String>,
    slots: SlotTable,
    /// How many times the slots have changed.
    version: u64,
    /// For each rank of the own job the host whose slot it has.
    rank_slots: Vec<Option<String>>,
    /// The ranks whose slots came back.
    given_back: BTreeSet<u32>,
    /// By name.
    jobs: BTreeMap<String, SpawnedJob>,
    are_ending: bool,
    /// The ranks of the own job that have called `MPI_Init`, and whether that was reported.
    initialized: FinishedPrefix,
    are_initialized: bool,
    /// Whether it was reported that a rank of the own job has finalized MPI.
    are_finalizing: bool,
}

/// A job below this one.
#[derive(Debug)]
pub(super) struct SpawnedJob {
    /// The host, and the connection of its agent, through which its launcher is reached.
    pub link: (usize, u32),
    /// The job whose processes have spawned it; none: the own one.
    parent: Option<String>,
    pub stage: SpawnedStage,
    /// Whether its processes finalize MPI.
    is_finalizing: bool,
    begun: Instant,
    pub summary: SpawnedSummary,
    slots: Vec<(String, u32)>,
}

/// The maximal number of jobs below a launcher.
const JOBS_MAX: usize = 1 << 16;

/// The exit code of an independent job whose launcher was killed.
const CODE_LOST: i32 = 1;

impl SpawnedJobs {
    pub(super) fn new(
        name: Option<String>,
        slots: SlotTable,
        rank_slots: Vec<Option<String>>,
    ) -> Self {
        let jobs = BTreeMap::new();
        Self {
            name,
            slots,
            version: 0,
            rank_slots,
            given_back: BTreeSet::new(),
            jobs,
            are_ending: false,
            initialized: FinishedPrefix::default(),
            are_initialized: false,
            are_finalizing: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Whether the jobs were ordered to end.
    pub(super) fn are_ending(&self) -> bool {
        self.are_ending
    }

    /// Returns the jobs, for messages.
    pub(super) fn running(&self) -> Vec<&SpawnedSummary> {
        self.jobs.values().map(|job| &job.summary).collect()
    }

    /// Describes the jobs that processes of this one have spawned, with those below them.
    pub(super) fn reports(&self, now: Instant) -> Vec<SpawnedReport> {
        let mut by_parent: BTreeMap<Option<&str>, Vec<(&str, &SpawnedJob)>> = BTreeMap::new();
        for (name, job) in &self.jobs {
            // What is above this launcher is not its business.
            let parent = job.parent.as_deref().filter(|one| self.jobs.contains_key(*one));
            by_parent.entry(parent).or_default().push((name, job));
        }
        reports_below(None, &mut by_parent, now)
    }

    /// Gives back the slot of a rank of the own job that has ended. Returns the host whose slot it
    /// was, the first time.
    fn give_back_rank(&mut self, rank: u32) -> Option<String> {
        let name = self.rank_slots.get(rank as usize).cloned().flatten();
        let name = name.filter(|_| self.given_back.insert(rank))?;
        self.change(&[(name.clone(), 1)], -1);
        Some(name)
    }

    /// Gives back a slot of a job below this one that one of its processes has had.
    fn give_back_of(&mut self, job: &str, host: &str) {
        let Some(job) = self.jobs.get_mut(job) else { return };
        let Some(place) = job.slots.iter().position(|(name, _)| name == host) else { return };
        job.slots[place].1 -= 1;
        if job.slots[place].1 == 0 {
            job.slots.remove(place);
        }
        self.change(&[(host.to_owned(), 1)], -1);
    }

    /// Forgets the slots of the host of this rank, which has failed.
    pub(super) fn lose_slots_of(&mut self, rank: u32) {
        let name = self.rank_slots.get(rank as usize).cloned().flatten();
        if let Some(name) = name {
            self.given_back.insert(rank);
            self.version += 1;
            self.slots.lose(&name);
        }
    }

    fn change(&mut self, slots: &[(String, u32)], sign: i64) {
        self.version += u64::from(!slots.is_empty());
        slots.iter().for_each(|(name, count)| self.slots.change(name, sign * i64::from(*count)));
    }

    /// Records what a job, which is below this connection, has sent. Returns its exit code if it
    /// was independent and has failed.
    fn note(&mut self, link: (usize, u32), message: &SpawnedMessage, now: Instant) -> Option<i32> {
        if message.notice == SpawnedNotice::Hosts && self.jobs.len() < JOBS_MAX {
            let made = || SpawnedJob {
                link,
                parent: message.parent.clone(),
                stage: SpawnedStage::Starting,
                is_finalizing: false,
                begun: now,
                summary: SpawnedSummary::default(),
                slots: Vec::new(),
            };
            self.jobs.entry(message.job.clone()).or_insert_with(made);
        }
        let job = self.jobs.get_mut(&message.job).filter(|job| job.link == link)?;
        match &message.notice {
            SpawnedNotice::Hosts => {}
            SpawnedNotice::Take { summary, .. } => job.summary = summary.clone(),
            SpawnedNotice::Started => job.stage = job.stage.max(SpawnedStage::BeforeInit),
            SpawnedNotice::Initialized => job.stage = job.stage.max(SpawnedStage::Connected),
            SpawnedNotice::Independent => job.stage = SpawnedStage::Independent,
            SpawnedNotice::Finalizing => job.is_finalizing = true,
            SpawnedNotice::Returned(host) => self.give_back_of(&message.job, host),
            SpawnedNotice::Ended(code) => {
                let failed = job.stage == SpawnedStage::Independent && *code != 0;
                self.remove(&message.job);
                return failed.then_some(*code);
            }
        }
        None
    }

    fn remove(&mut self, name: &str) -> Option<SpawnedJob> {
        let job = self.jobs.remove(name)?;
        self.change(&job.slots, -1);
        Some(job)
    }

    /// Answers a question about slots, as the topmost launcher.
    fn answer(&mut self, message: &SpawnedMessage) -> Option<SpawnedOrder> {
        match &message.notice {
            SpawnedNotice::Take { version, slots, .. } if *version == self.version => {
                self.jobs.get_mut(&message.job)?.slots.clone_from(slots);
                self.change(slots, 1);
                Some(SpawnedOrder::Taken)
            }
            SpawnedNotice::Take { .. } | SpawnedNotice::Hosts => {
                let with_slots = self.jobs.values().filter(|job| !job.slots.is_empty());
                let expectation = with_slots.map(SpawnedJob::expectation).max();
                Some(SpawnedOrder::Hosts {
                    version: self.version,
                    table: self.slots.to_string(),
                    expectation: expectation.unwrap_or_default(),
                })
            }
            _ => None,
        }
    }
}

impl SpawnedJob {
    /// Whether its slots are about to come back.
    fn expectation(&self) -> SlotExpectation {
        match self.stage {
            _ if self.is_finalizing => SlotExpectation::Soon,
            SpawnedStage::Independent => SlotExpectation::Perhaps,
            _ => SlotExpectation::No,
        }
    }
}

/// Takes the jobs below this one out of the table of jobs by parent, and describes them.
fn reports_below<'a>(
    parent: Option<&'a str>,
    by_parent: &mut BTreeMap<Option<&'a str>, Vec<(&'a str, &'a SpawnedJob)>>,
    now: Instant,
) -> Vec<SpawnedReport> {
    let mut children = by_parent.remove(&parent).unwrap_or_default();
    children.sort_by_key(|(_, job)| job.begun);
    let report = |(name, job): (&'a str, &'a SpawnedJob)| {
        let SpawnedSummary { job: number, host, program, ranks, hosts } = job.summary.clone();
        SpawnedReport {
            job: number,
            host,
            program,
            ranks,
            hosts,
            seconds: now.saturating_duration_since(job.begun).as_secs_f64(),
            stage: job.stage,
            spawned: reports_below(Some(name), by_parent, now),
        }
    };
    children.into_iter().map(report).collect()
}

impl JobState<'_> {
    /// Handles a message that the launcher of a spawned job has sent over this connection.
    pub(super) fn hear_spawned(&mut self, link: (usize, u32), message: &[u8]) {
        let Ok(mut message) = foreign::from_json::<SpawnedMessage>(message) else { return };
        if let Some(code) = self.spawned.note(link, &message, self.now) {
            self.note_code(code);
        }
        if message.parent.is_none() && message.notice == SpawnedNotice::Started {
            self.pass_wanted_size(&message.job);
        }
        let is_question =
            matches!(message.notice, SpawnedNotice::Hosts | SpawnedNotice::Take { .. });
        if is_question && self.spawned.are_ending {
            // The job has begun after the order to end.
            let order = SpawnedOrder::Signal(signal::SIGTERM);
            return self.order_spawned(&AddressedOrder { job: message.job, order });
        }
        if let Some(name) = &self.spawned.name {
            message.parent.get_or_insert_with(|| name.clone());
            return self.actions.push(Action::SendAbove(message));
        }
        if let Some(order) = self.spawned.answer(&message) {
            self.order_spawned(&AddressedOrder { job: message.job, order });
        }
    }

    /// Records that the launchers of some spawned jobs have ended, or can no longer be reached.
    pub(super) fn lose_spawned(&mut self, is_lost: impl Fn(&SpawnedJob) -> bool) {
        let lost = self.spawned.jobs.iter().filter(|(_, job)| is_lost(job));
        let lost: Vec<String> = lost.map(|(name, _)| name.clone()).collect();
        for name in lost {
            let Some(job) = self.spawned.remove(&name) else { continue };
            let is_failure = job.stage == SpawnedStage::Independent && !self.spawned.are_ending;
            if is_failure {
                self.note_code(CODE_LOST);
                self.print_message(&messages::lost_spawned(&job.summary));
            }
            if self.spawned.name.is_some() {
                let (parent, notice) = (job.parent, SpawnedNotice::Ended(CODE_LOST));
                let message = SpawnedMessage { job: name, parent, notice };
                self.actions.push(Action::SendAbove(message));
            }
        }
    }

    /// Reports about this job to the launcher above, if there is one.
    pub(super) fn report_above(&mut self, notice: SpawnedNotice) {
        if let Some(job) = self.spawned.name.clone() {
            let message = SpawnedMessage { job, parent: None, notice };
            self.actions.push(Action::SendAbove(message));
        }
    }

    /// Gives back the slot of a rank that has ended, also while the others go on.
    pub(super) fn give_back_slot(&mut self, rank: u32) {
        if let Some(host) = self.spawned.give_back_rank(rank) {
            self.report_above(SpawnedNotice::Returned(host));
        }
    }

    /// Gives back the slot of a rank that has finalized MPI. What it still does is seldom more than
    /// to end, and the first such rank shows that the job ends.
    pub(super) fn note_finalized(&mut self, rank: u32) {
        if !std::mem::replace(&mut self.spawned.are_finalizing, true) {
            self.report_above(SpawnedNotice::Finalizing);
        }
        self.give_back_slot(rank);
    }

    /// Reports once to the launcher above that all ranks have called `MPI_Init`.
    pub(super) fn report_initialized(&mut self) {
        let server = &self.server;
        let has = |rank: usize| server.mpi_state(rank as u32) != MpiState::Uninitialized;
        if self.spawned.name.is_some()
            && !self.spawned.are_initialized
            && self.spawned.initialized.is_whole_by(self.ranks.len(), has)
        {
            self.spawned.are_initialized = true;
            self.report_above(SpawnedNotice::Initialized);
        }
    }

    /// Obeys the launcher above, or passes its order on.
    pub(super) fn obey_above(&mut self, order: AddressedOrder) {
        if self.spawned.name.as_ref() != Some(&order.job) {
            return self.order_spawned(&order);
        }
        let number = match order.order {
            SpawnedOrder::Signal(number) => number,
            SpawnedOrder::Wanted(text) => {
                return text.parse().map_or((), |wanted| self.set_wanted_size(wanted));
            }
            SpawnedOrder::Hosts { .. } | SpawnedOrder::Taken => return,
        };
        if ENDS_ALL.contains(&number) {
            self.interrupts.push(number);
            self.note_code(128 + number);
            self.end_by_signal(number, number);
        } else {
            self.signal_all(number);
            self.signal_spawned(number);
        }
    }

    /// Sends an order to the launcher of a job below this one.
    fn order_spawned(&mut self, order: &AddressedOrder) {
        let Some(job) = self.spawned.jobs.get(&order.job) else { return };
        let (host, link) = job.link;
        self.send(host, AgentOrder::ToSpawned(link, encoded(order)));
    }

    /// Sends a signal to the jobs that processes of this one have spawned.
    pub(super) fn signal_spawned(&mut self, number: i32) {
        let own = self.spawned.jobs.iter().filter(|(_, job)| job.parent.is_none());
        let own: Vec<String> = own.map(|(name, _)| name.clone()).collect();
        for job in own {
            self.order_spawned(&AddressedOrder { job, order: SpawnedOrder::Signal(number) });
        }
    }

    /// Publishes to the program how many processes it is to have: also to jobs that processes of
    /// this one have spawned, as those may go on without any process of this job.
    pub(super) fn set_wanted_size(&mut self, wanted: WantedSize) {
        self.server.set_wanted_size(wanted);
        let own = |job: &SpawnedJob| job.parent.is_none() && job.stage > SpawnedStage::Starting;
        let own = self.spawned.jobs.iter().filter(|(_, job)| own(job));
        let own: Vec<String> = own.map(|(name, _)| name.clone()).collect();
        own.iter().for_each(|job| self.pass_wanted_size(job));
    }

    /// Sends the number of processes that the user asks for to a spawned job, if there is one.
    fn pass_wanted_size(&mut self, job: &str) {
        if let Some(wanted) = self.server.wanted_size() {
            let order = SpawnedOrder::Wanted(wanted.to_string());
            self.order_spawned(&AddressedOrder { job: job.to_owned(), order });
        }
    }

    /// Orders all spawned jobs to end, also independent ones, with this signal. They are waited for
    /// this long.
    pub(super) fn end_spawned(&mut self, number: i32, time_max: Duration) {
        if !self.spawned.are_ending {
            self.spawned.are_ending = true;
            self.deadlines.set(Deadline::Spawned, self.now + time_max);
        }
        self.signal_spawned(number);
    }

    /// Ends this job by a signal to its ranks, and all spawned jobs by the signal of the user.
    pub(super) fn end_by_signal(&mut self, number: i32, of_ranks: i32) {
        self.end_spawned(number, SPAWNED_END_TIME_MAX);
        self.end_all(of_ranks, KILL_DELAY_AFTER_SIGNAL);
    }

    /// Ends the spawned jobs because the time limit has passed, when no process of this job runs,
    /// or those that do are being ended.
    pub(super) fn end_spawned_at_limit(&mut self) {
        if !self.spawned.is_empty() {
            let limit = self.plan.timeout.unwrap_or_default();
            let message = messages::spawned_timeout(limit, &self.spawned.running());
            self.print_message(&message);
            self.note_code(CODE_TIMEOUT);
            self.end_spawned(signal::SIGTERM, KILL_DELAY);
        }
    }

    /// Ends this job, because the process that spawned it has ended while the jobs were connected.
    /// With --keep-going, the remaining processes of both jobs decide what follows.
    pub(super) fn follow_parent(&mut self) {
        if self.plan.keep_going {
            return self.report_above(SpawnedNotice::Independent);
        }
        // Nobody wonders about it if the user ends all jobs.
        let message = self.interrupts.is_empty().then(|| messages::PARENT_ENDED.to_owned());
        self.fail(messages::CODE_PARENT_ENDED, message);
    }
}
