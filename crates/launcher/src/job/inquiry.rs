//! Questions to all ranks of a job: why it makes no progress.

use std::time::Duration;

use hangs::{JobReport, RankReport, Stage};
use sys::process::{End, signal};

use super::{
    Action, CODE_TIMEOUT, ClientId, Deadline, FinishedPrefix, JobState, RankState, messages,
};
use crate::pmi_server::MpiState;
use crate::protocol::{AgentOrder, LocalAnswer, OutputStream};

/// A question that is not completely answered yet.
pub(super) struct Inquiry {
    askers: Vec<Asker>,
    /// By rank.
    answers: Vec<Option<LocalAnswer>>,
    /// The ranks that have answered or ended.
    answered: FinishedPrefix,
}

/// The receiver of the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// The user who reads the launcher's error output.
    Terminal,
    /// The job, which has reached its time limit and ends afterwards.
    TimeLimit,
    /// The job, which ends if no rank makes progress.
    Stall,
    /// The job, which this signal ends.
    Interrupt(i32),
    /// A client that has connected.
    Client(ClientId),
}

/// How long all machines may take.
const INQUIRY_TIME_MAX: Duration = Duration::from_millis(7500);

/// How long all machines may take when a job is interrupted. Ranks that have not answered by then
/// may do so a moment later, as on a busy machine; then no report is printed.
const INTERRUPT_TIME_MAX: Duration = Duration::from_secs(2);

impl Inquiry {
    /// Whether all ranks have answered or ended.
    fn is_whole(&mut self, ranks: &[RankState]) -> bool {
        let has_finished = |at: usize| ranks[at].end.is_some() || self.answers[at].is_some();
        self.answered.is_whole_by(ranks.len(), has_finished)
    }
}

impl JobState<'_> {
    /// Asks all ranks. If a question is already open, its answers go to `asker`, too.
    pub(super) fn inquire(&mut self, asker: Asker) {
        let time_max = match asker {
            Asker::Interrupt(_) => INTERRUPT_TIME_MAX,
            _ => INQUIRY_TIME_MAX,
        };
        if let Some(inquiry) = &mut self.inquiry {
            inquiry.askers.push(asker);
            return self.deadlines.bring_forward(Deadline::Answers, self.now + time_max);
        }
        self.deadlines.set(Deadline::Answers, self.now + time_max);
        let answers = vec![None; self.ranks.len()];
        let answered = FinishedPrefix::default();
        self.inquiry = Some(Inquiry { askers: vec![asker], answers, answered });
        for host in 0..self.hosts.len() {
            if self.hosts[host].has_started() {
                self.send(host, AgentOrder::Ask);
            }
        }
    }

    /// Records that a rank has answered, or will not.
    pub(super) fn note_answer(&mut self, rank: u32, answer: LocalAnswer) {
        if let Some(inquiry) = &mut self.inquiry {
            inquiry.answers[rank as usize] = Some(answer);
        }
    }

    /// Concludes the question if all ranks have answered or ended.
    pub(super) fn conclude_if_whole(&mut self) {
        if self.inquiry.as_mut().is_some_and(|inquiry| inquiry.is_whole(&self.ranks)) {
            self.conclude_inquiry();
        }
    }

    /// Concludes the question with the answers received until now.
    pub(super) fn conclude_inquiry(&mut self) {
        self.deadlines.clear(Deadline::Answers);
        let Some(mut inquiry) = self.inquiry.take() else { return };
        let is_whole = inquiry.is_whole(&self.ranks);
        let Inquiry { askers, answers, .. } = inquiry;
        let report = self.job_report(&answers);
        let is_cut_short = !is_whole && askers.iter().any(|one| matches!(one, Asker::Interrupt(_)));
        for asker in askers {
            match asker {
                Asker::Terminal if is_cut_short => {}
                Asker::Terminal => self.print_table(&report),
                Asker::Stall => self.end_if_still(&report),
                Asker::Interrupt(_) if self.kills.is_some() => {}
                Asker::Interrupt(number) => {
                    if is_whole && !report.causes.is_empty() {
                        self.print_table(&report);
                    }
                    self.end_by_signal(number, number);
                }
                Asker::TimeLimit if self.kills.is_some() || self.running().is_empty() => {
                    self.end_spawned_at_limit();
                }
                Asker::TimeLimit => {
                    // A program without MPI has nothing to report.
                    let is_mpi =
                        |one: &RankReport| one.answer.is_some() || one.stage == Stage::Inside;
                    let tells = report.ranks.iter().any(is_mpi);
                    self.end_at_limit();
                    if tells {
                        self.print_table(&report);
                    }
                }
                Asker::Client(client) => {
                    self.actions.push(Action::SendReport(client, report.clone()));
                }
            }
        }
    }

    fn end_if_still(&mut self, report: &JobReport) {
        let limit = self.plan.stall.unwrap_or_default();
        if self.kills.is_none() && hangs::stands_still(&report.ranks, limit.as_secs_f64()) {
            let message = messages::stalled(limit, &self.running());
            self.fail(CODE_TIMEOUT, Some(message));
            self.print_table(report);
        }
    }

    fn print_table(&mut self, report: &JobReport) {
        let text = hangs::table(report);
        let text = self.outlet.columns.map_or(text.clone(), |columns| base::folded(&text, columns));
        self.actions.output(OutputStream::Errors).extend_from_slice(text.as_bytes());
    }

    /// Returns everything known about the job.
    fn job_report(&self, answers: &[Option<LocalAnswer>]) -> JobReport {
        let both = (0..).zip(self.ranks.iter().zip(answers));
        let ranks: Vec<RankReport> = both
            .map(|(rank, (state, answer))| {
                let stage = match (state.end, self.server.mpi_state(rank)) {
                    (Some(End::Code(0)), _) => Stage::Ended("has ended".to_owned()),
                    (Some(End::Code(code)), _) => {
                        Stage::Ended(format!("has ended with exit code {code}"))
                    }
                    (Some(End::Signal(number)), _) => {
                        Stage::Ended(format!("was killed by {}", signal::name(number)))
                    }
                    (None, MpiState::Uninitialized) => Stage::BeforeInit,
                    (None, MpiState::Initialized) => Stage::Inside,
                    (None, MpiState::Finalized) => Stage::Finalized,
                };
                let own = answer.as_ref().and_then(|local| local.answer.as_deref());
                RankReport {
                    rank,
                    host: self.hosts[state.host].name.clone(),
                    process: answer.as_ref().map_or(state.process, |local| local.process),
                    stage,
                    state: answer.as_ref().and_then(|local| local.state.clone()),
                    system_call: answer.as_ref().and_then(|local| local.kernel.clone()),
                    answer: own.and_then(|text| foreign::from_json(text).ok()),
                }
            })
            .collect();
        JobReport {
            job: self.launcher,
            name: String::new(),
            program: self.plan.command_line(),
            seconds: (self.now - self.begun).as_secs_f64(),
            causes: hangs::causes(&ranks),
            ranks,
            spawned: self.spawned.reports(self.now),
        }
    }
}
