//! Asks the processes of this machine, and the kernel, what the processes do.

use std::time::{Duration, Instant};

use launch::questions::{Completeness, QuestionBoard};
use sys::process;

use super::LocalProcesses;
use crate::protocol::{AgentReport, LocalAnswer};

/// A question that not all processes have answered.
pub(super) struct PendingQuestion {
    /// When the processes that have not answered are reported.
    deadline: Instant,
    /// When to check for answers next.
    next: Instant,
    /// Whether each process was reported, by its index.
    is_reported: Vec<bool>,
    /// The descendants of the launcher. A process in a container has another process id inside it.
    below: Vec<i32>,
}

/// How long processes may take to answer: they check twice a second, and reading a stack takes
/// time.
pub(crate) const ANSWER_TIME_MAX: Duration = Duration::from_secs(3);

/// How much longer processes may take that have answered and are still reading their stacks.
pub(crate) const STACK_TIME_MAX: Duration = Duration::from_secs(3);

/// The time between two checks for answers.
const CHECK_PERIOD: Duration = Duration::from_millis(20);

impl PendingQuestion {
    /// Returns when to check for answers.
    pub(super) fn next(&self) -> Instant {
        self.next
    }
}

impl LocalProcesses {
    /// Asks all processes what they do; the answers are reported one by one.
    pub(super) fn ask(&mut self) {
        let now = Instant::now();
        let is_asked = self.questions.as_mut().is_some_and(|board| board.ask().is_ok());
        let time = if is_asked { ANSWER_TIME_MAX } else { Duration::ZERO };
        let is_reported = vec![false; self.ranks.len()];
        let below = process::descendants(std::process::id() as i32);
        self.asking = Some(PendingQuestion { deadline: now + time, next: now, is_reported, below });
    }

    /// Reports the answers, and what the kernel reports where no answer will come.
    pub(super) fn check_for_answers(&mut self, reports: &mut Vec<AgentReport>) {
        let now = Instant::now();
        let Some(asking) = self.asking.as_mut().filter(|asking| now >= asking.next) else { return };
        asking.next = now + CHECK_PERIOD;
        let board = self.questions.as_ref();
        for (place, rank) in self.ranks.iter().enumerate() {
            if asking.is_reported[place] || rank.has_ended {
                continue;
            }
            let joined = board.and_then(|board| board.process(place as u32));
            let known = joined.filter(|number| asking.below.contains(number));
            let number = known.unwrap_or(rank.process);
            let state = process::state(number);
            let is_stopped = state.is_some_and(|state| state.starts_with("stopped"));
            let answer = joined.and_then(|_| board?.answer(place as u32));
            // A process that has not joined the job, or is stopped, cannot answer.
            let time = if answer.is_some() { STACK_TIME_MAX } else { Duration::ZERO };
            let is_over = joined.is_none() || is_stopped || now >= asking.deadline + time;
            let is_whole = matches!(answer, Some((Completeness::Whole, _)));
            if !is_whole && !is_over {
                continue;
            }
            let answer = answer.map(|(_, text)| text);
            asking.is_reported[place] = true;
            let kernel = if answer.is_none() { process::waits_in(number) } else { None };
            let state = state.map(str::to_owned);
            let local = LocalAnswer { process: number, state, kernel, answer };
            reports.push(AgentReport::Answer(rank.number, local));
        }
        let is_over = |(place, rank): (usize, &super::RankProcess)| {
            rank.has_ended || asking.is_reported[place]
        };
        if self.ranks.iter().enumerate().all(is_over) {
            self.asking = None;
        }
    }

    /// Creates the file for the processes with these ranks; without memory for it, processes cannot
    /// be asked.
    pub(super) fn board(ranks: &[(u32, u32)]) -> Option<QuestionBoard> {
        let ranks: Vec<u32> = ranks.iter().map(|(rank, _)| *rank).collect();
        QuestionBoard::new(&ranks).ok()
    }
}
