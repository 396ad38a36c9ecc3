//! A simulated rank: a program that writes, speaks PMI-1 and ends, and that can be killed.

use std::collections::VecDeque;

use launcher::protocol::{AgentReport, OutputStream};
use sys::process::{End, signal};

use super::setting::{RankScript, Step};

/// How many bytes a pipe holds before its writer blocks.
const PIPE_BYTES_MAX: usize = 64 << 10;

/// How long a writer waits before it tries again, in microseconds.
const RETRY: u64 = 1000;

/// A rank.
pub(super) struct SimulatedRank {
    pub number: u32,
    pub process: i32,
    pub script: RankScript,
    next_step: usize,
    /// What it wrote and its machine has not read yet.
    pipes: [Vec<u8>; 2],
    /// Everything that it wrote.
    pub written: [Vec<u8>; 2],
    /// Answers of the PMI server that were not read.
    answers: VecDeque<String>,
    awaits_answer: bool,
    is_stopped: bool,
    /// Whether it was requested to end while it was stopped.
    is_doomed: bool,
    pub has_initialized: bool,
    /// How it ended, and by which cause.
    pub end: Option<(End, EndCause)>,
}

/// The cause of the end of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndCause {
    /// Its program ended it.
    Program,
    /// A fault of this world.
    Fault,
    /// The launcher or its agent ended it.
    Launcher,
}

/// What a step of a rank leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepOutcome {
    /// The next step follows after this time, in microseconds.
    Continues(u64),
    /// It waits for an answer or for SIGCONT.
    Waits,
    Ended(End),
}

impl SimulatedRank {
    pub(super) fn new(number: u32, script: RankScript) -> Self {
        Self {
            number,
            process: 1000 + number as i32,
            script,
            next_step: 0,
            pipes: Default::default(),
            written: Default::default(),
            answers: VecDeque::new(),
            awaits_answer: false,
            is_stopped: false,
            is_doomed: false,
            has_initialized: false,
            end: None,
        }
    }

    /// Performs the next step.
    pub(super) fn step(&mut self, reports: &mut Vec<AgentReport>) -> StepOutcome {
        if self.is_stopped || self.awaits_answer || self.end.is_some() {
            return StepOutcome::Waits;
        }
        let Some(step) = self.script.steps.get(self.next_step) else {
            return StepOutcome::Ended(End::Code(0));
        };
        match step {
            Step::Compute(time) => {
                self.next_step += 1;
                return StepOutcome::Continues(*time);
            }
            Step::Write(target, bytes) => {
                let pipe = &mut self.pipes[*target as usize];
                if pipe.len() >= PIPE_BYTES_MAX {
                    return StepOutcome::Continues(RETRY);
                }
                pipe.extend_from_slice(bytes);
                self.written[*target as usize].extend_from_slice(bytes);
            }
            Step::Ask(line) => {
                self.has_initialized |= line.starts_with("cmd=init");
                self.has_initialized &= !line.starts_with("cmd=finalize");
                reports.push(AgentReport::PmiData(self.number, format!("{line}\n").into()));
                self.next_step += 1;
                self.awaits_answer = true;
                return self.read_answer();
            }
            Step::Send(line) => {
                reports.push(AgentReport::PmiData(self.number, format!("{line}\n").into()));
            }
            Step::Die(end) => return StepOutcome::Ended(*end),
        }
        self.next_step += 1;
        StepOutcome::Continues(1)
    }

    /// Accepts an answer of the PMI server.
    pub(super) fn answer(&mut self, line: String) -> StepOutcome {
        self.answers.push_back(line);
        self.read_answer()
    }

    fn read_answer(&mut self) -> StepOutcome {
        if !self.awaits_answer || self.answers.pop_front().is_none() {
            return StepOutcome::Waits;
        }
        self.awaits_answer = false;
        StepOutcome::Continues(1)
    }

    /// Returns the exit code that its own end gives the job; 0 if that is no failure.
    pub(super) fn failure_code(&self, end: End) -> i32 {
        match end {
            End::Signal(number) => 128 + number,
            End::Code(0) => i32::from(self.has_initialized),
            End::Code(code) => code,
        }
    }

    /// Receives a signal.
    pub(super) fn signal(&mut self, number: i32) -> StepOutcome {
        match number {
            _ if self.end.is_some() => StepOutcome::Waits,
            signal::SIGKILL => StepOutcome::Ended(End::Signal(number)),
            signal::SIGSTOP => {
                self.is_stopped = true;
                StepOutcome::Waits
            }
            signal::SIGCONT if self.is_stopped => {
                self.is_stopped = false;
                if self.is_doomed {
                    return StepOutcome::Ended(End::Signal(signal::SIGTERM));
                }
                StepOutcome::Continues(1)
            }
            signal::SIGTERM | signal::SIGINT | signal::SIGHUP | signal::SIGQUIT
                if !self.script.ignores_requests =>
            {
                self.is_doomed = self.is_stopped;
                if self.is_doomed {
                    StepOutcome::Waits
                } else {
                    StepOutcome::Ended(End::Signal(number))
                }
            }
            _ => StepOutcome::Waits,
        }
    }

    /// Reads what it wrote, at most `room` bytes.
    pub(super) fn read(&mut self, target: OutputStream, room: usize) -> Option<AgentReport> {
        let pipe = &mut self.pipes[target as usize];
        let length = pipe.len().min(room);
        (length > 0)
            .then(|| AgentReport::Output(self.number, target, pipe.drain(..length).collect()))
    }
}
