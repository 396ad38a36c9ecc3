//! The phases of a job, and what is left to do when all ranks have ended.

use std::time::{Duration, Instant};

use super::host::JobHost;
use super::rank_state::RankState;
use super::traces::TraceReceiver;
use super::{
    Action, BACKLOG_BYTES_MAX, CODE_TIMEOUT, Deadline, JobState, KILL_DELAY, SPAWNED_END_TIME_MAX,
    messages,
};
use crate::guard::KILL_TIME_MAX;
use crate::protocol::{AgentOrder, OutputStream};

/// The phases of a job.
#[derive(Clone, Copy, Debug)]
pub(super) enum JobPhase {
    /// Ranks are running or will be started.
    Running,
    /// All ranks have ended.
    Ended,
    /// What they have recorded for a trace is collected.
    CollectingTraces,
    /// The jobs that they have spawned still run.
    AwaitingSpawned,
    /// The agents were ordered to clean up and end.
    ClosingAgents,
    /// What the ranks left behind on this machine is being ended.
    ClosingHere,
    /// Only output is left to write, since this time.
    FlushingOutput(Instant),
    /// Nothing is left to do.
    Over,
}

/// How long to wait for further output after all processes have ended: a background process that
/// they started may hold the pipe open.
const DRAIN: Duration = Duration::from_millis(200);

/// How long the agents of one level of the launch tree may take to clean up and end: each waits for
/// those below it.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(KILL_TIME_MAX.as_secs() + 2);

impl JobState<'_> {
    /// Begins the next phase if the current one is complete.
    pub(super) fn advance_phase(&mut self) {
        let is_impatient = self.interrupts.len() > 1;
        let have_ended = self.ended.is_whole(&self.ranks, |rank_state| rank_state.end.is_some());
        if matches!(self.phase, JobPhase::Running) && have_ended {
            self.phase = JobPhase::Ended;
            for over in [Deadline::Start, Deadline::Stall, Deadline::KillAll] {
                self.deadlines.clear(over);
            }
            self.deadlines.set(Deadline::Drain, self.now + DRAIN);
        }
        if matches!(self.phase, JobPhase::Ended)
            && self.drained.is_whole(&self.ranks, RankState::has_closed_outputs)
        {
            self.end_recording();
        }
        if matches!(self.phase, JobPhase::CollectingTraces) && is_impatient {
            self.conclude_traces();
        }
        if matches!(self.phase, JobPhase::AwaitingSpawned)
            && (is_impatient || self.spawned.is_empty())
        {
            self.close_agents();
        }
        let are_closed = || self.hosts.iter().all(|host| host.is_local() || host.is_closed());
        if matches!(self.phase, JobPhase::ClosingAgents) && (is_impatient || are_closed()) {
            self.close_here();
        }
        if let JobPhase::FlushingOutput(since) = self.phase {
            let deadline = self.output_deadline(since);
            deadline.into_iter().for_each(|at| self.deadlines.set(Deadline::Output, at));
        }
    }

    /// Writes the trace of the job, if the user wants one that the job has not written; then waits
    /// for spawned jobs.
    pub(super) fn end_recording(&mut self) {
        if self.plan.trace.is_none() || !matches!(self.phase, JobPhase::Ended) {
            return self.await_spawned_jobs();
        }
        self.phase = JobPhase::CollectingTraces;
        self.deadlines.clear(Deadline::Drain);
        self.collect_traces(TraceReceiver::File);
    }

    /// Waits for the jobs that processes of this job have spawned, which would be ended with what
    /// the ranks left behind; then closes the agents.
    pub(super) fn await_spawned_jobs(&mut self) {
        self.deadlines.clear(Deadline::Drain);
        self.phase = JobPhase::AwaitingSpawned;
        if self.spawned.is_empty() {
            return self.close_agents();
        }
        // The time for the spawned jobs may have passed while processes of this job still ran.
        if self.spawned.are_ending() {
            self.deadlines.set(Deadline::Spawned, self.now + SPAWNED_END_TIME_MAX);
        }
        // The end of the job's own processes was reported.
        if self.kills.is_some() && !self.spawned.are_ending() {
            let running = self.spawned.running();
            self.print_message(&messages::waits_for_spawned(&running));
        }
    }

    /// Ends without waiting for spawned jobs that were ordered to end.
    pub(super) fn give_up_spawned(&mut self) {
        if matches!(self.phase, JobPhase::AwaitingSpawned) {
            self.close_agents();
        }
    }

    /// Orders the agents to end what the ranks left behind, and to end themselves.
    pub(super) fn close_agents(&mut self) {
        self.phase = JobPhase::ClosingAgents;
        for over in [Deadline::Drain, Deadline::TimeLimit, Deadline::Spawned] {
            self.deadlines.clear(over);
        }
        let levels = self.actions.tree.levels().max(1);
        self.deadlines.set(Deadline::Close, self.now + CLOSE_TIME_MAX * levels);
        for host in 0..self.hosts.len() {
            if !self.hosts[host].is_local() {
                self.send(host, AgentOrder::Close);
            }
        }
    }

    /// Ends what the ranks left behind on this machine, and reads the last of their output.
    pub(super) fn close_here(&mut self) {
        self.phase = JobPhase::ClosingHere;
        self.deadlines.clear(Deadline::Close);
        for host in 0..self.hosts.len() {
            if self.hosts[host].is_local() {
                self.send(host, AgentOrder::Close);
            } else {
                self.give_up_host(host);
            }
        }
        self.actions.push(Action::EndDescendants);
    }

    /// Prints what is left to print: nothing more is received.
    pub(super) fn flush_output(&mut self) {
        self.phase = JobPhase::FlushingOutput(self.now);
        self.inquiry = None;
        self.deadlines.clear(Deadline::Answers);
        self.deadlines.clear(Deadline::Prompt);
        if self.failures > 0 {
            let (failures, first) = (self.failures, &self.first_failure);
            self.print_message(&messages::first_of_failures(failures, first, self.code));
        }
        self.ranks.iter_mut().for_each(|rank_state| rank_state.finish_lines(&mut self.actions));
    }

    /// Returns when the remaining output is dropped, if nothing else was left to do since `since`.
    /// A slow reader is waited for, as by any program, but not longer than the time limit. If a
    /// signal ended the job, the reader is waited for only briefly.
    fn output_deadline(&self, since: Instant) -> Option<Instant> {
        let limit = self.plan.timeout.map(|limit| self.begun + limit);
        let least = since + KILL_DELAY;
        match self.interrupts.is_empty() {
            true => limit.map(|at| at.max(least)),
            false => Some(least),
        }
    }

    /// Handles how much output waits to be written.
    pub(super) fn note_backlog(&mut self, bytes: [usize; 2]) {
        for target in [OutputStream::Output, OutputStream::Errors] {
            if bytes[target as usize] < BACKLOG_BYTES_MAX {
                let grant = |host: &mut JobHost| host.grant_output(target, &mut self.actions);
                self.hosts.iter_mut().for_each(grant);
            }
        }
        match self.phase {
            JobPhase::FlushingOutput(_) if bytes == [0; 2] => self.phase = JobPhase::Over,
            JobPhase::FlushingOutput(_) if self.interrupts.len() > 1 => self.drop_output(),
            _ => {}
        }
    }

    /// Ends without the remaining output, and reports that.
    pub(super) fn drop_output(&mut self) {
        self.note_code(CODE_TIMEOUT);
        self.print_message("the rest of the job's output was not read and is dropped");
        self.phase = JobPhase::Over;
    }
}
