//! What a person asks the job: why it stands still.

use std::time::{Duration, Instant};

use hangs::{JobReport, RankReport, Stage};
use sys::process::{End, signal};

use super::clients::ClientId;
use super::messages;
use super::{CODE_TIMEOUT, KILL_DELAY_AFTER_SIGNAL, Supervisor};
use crate::pmi_server::MpiState;
use crate::protocol::{AgentOrder, LocalAnswer, OutputStream};

/// A question that is not answered yet.
pub(super) struct Inquiry {
    askers: Vec<Asker>,
    /// When it is answered with what is known then.
    pub(super) deadline: Instant,
    /// By rank.
    answers: Vec<Option<LocalAnswer>>,
}

/// Who wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// Whoever reads the launcher's errors.
    Terminal,
    /// The job, which has run into its time limit and is ended then.
    TimeLimit,
    /// The job, which is ended if no rank goes on.
    Stall,
    /// The job, which is ended by this signal.
    Interrupt(i32),
    /// Whoever has connected.
    Client(ClientId),
}

/// How long all machines may take.
const INQUIRY_TIME_MAX: Duration = Duration::from_millis(7500);

/// And when a job is interrupted. Ranks that have not answered by then may do so a moment later, as
/// on a busy machine: of such a job nothing is told.
const INTERRUPT_TIME_MAX: Duration = Duration::from_secs(2);

impl Supervisor<'_> {
    /// Asks all ranks, or lets the answer to a question that is underway go to `asker`, too.
    pub(super) fn inquire(&mut self, asker: Asker) {
        let time_max = match asker {
            Asker::Interrupt(_) => INTERRUPT_TIME_MAX,
            _ => INQUIRY_TIME_MAX,
        };
        let deadline = Instant::now() + time_max;
        if let Some(inquiry) = &mut self.inquiry {
            inquiry.askers.push(asker);
            inquiry.deadline = inquiry.deadline.min(deadline);
            return;
        }
        let answers = vec![None; self.ranks.len()];
        self.inquiry = Some(Inquiry { askers: vec![asker], deadline, answers });
        for host in 0..self.hosts.len() {
            if self.hosts[host].has_started() {
                self.send(host, AgentOrder::Ask);
            }
        }
    }

    /// A rank has answered, or will not.
    pub(super) fn note_answer(&mut self, rank: u32, answer: LocalAnswer) {
        if let Some(inquiry) = &mut self.inquiry {
            inquiry.answers[rank as usize] = Some(answer);
        }
    }

    /// Answers the question if all ranks have answered, or the time is over.
    pub(super) fn conclude_inquiry(&mut self) {
        let Some(inquiry) = &self.inquiry else { return };
        let mut both = self.ranks.iter().zip(&inquiry.answers);
        let is_whole = both.all(|(rank, answer)| rank.end.is_some() || answer.is_some());
        if !is_whole && Instant::now() < inquiry.deadline {
            return;
        }
        let Some(Inquiry { askers, answers, .. }) = self.inquiry.take() else { return };
        let report = self.job_report(&answers);
        let is_cut_short = !is_whole && askers.iter().any(|one| matches!(one, Asker::Interrupt(_)));
        for asker in askers {
            match asker {
                Asker::Terminal if is_cut_short => {}
                Asker::Terminal => self.print_table(&report),
                Asker::Stall => self.end_if_still(&report),
                Asker::Interrupt(_) if self.termination.is_some() => {}
                Asker::Interrupt(number) => {
                    if is_whole && !report.causes.is_empty() {
                        self.print_table(&report);
                    }
                    self.end_all(number, KILL_DELAY_AFTER_SIGNAL);
                }
                Asker::TimeLimit if self.termination.is_some() || self.running().is_empty() => {}
                Asker::TimeLimit => {
                    // Where there is no MPI it has nothing to say.
                    let is_mpi =
                        |one: &RankReport| one.answer.is_some() || one.stage == Stage::Inside;
                    let tells = report.ranks.iter().any(is_mpi);
                    self.end_at_limit();
                    if tells {
                        self.print_table(&report);
                    }
                }
                Asker::Client(client) => self.clients.answer(client, &report),
            }
        }
    }

    fn end_if_still(&mut self, report: &JobReport) {
        let limit = self.plan.stall.unwrap_or_default();
        if self.termination.is_none() && hangs::stands_still(&report.ranks, limit.as_secs_f64()) {
            let message = messages::stalled(limit, &self.running());
            self.fail(CODE_TIMEOUT, Some(message));
            self.print_table(report);
        }
    }

    fn print_table(&mut self, report: &JobReport) {
        let text = hangs::table(report);
        self.outlets.queue(OutputStream::Errors).extend_from_slice(text.as_bytes());
    }

    /// All that is known of the job.
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
            program: self.program(),
            seconds: self.begun.elapsed().as_secs_f64(),
            causes: hangs::causes(&ranks),
            ranks,
        }
    }

    /// What runs, for people.
    pub(super) fn program(&self) -> String {
        let line = |application: &crate::Application| {
            let mut words = vec![application.program.to_string_lossy().into_owned()];
            words.extend(application.arguments.iter().map(|word| word.to_string_lossy().into()));
            words.join(" ")
        };
        self.plan.applications.iter().map(line).collect::<Vec<_>>().join(" : ")
    }
}
