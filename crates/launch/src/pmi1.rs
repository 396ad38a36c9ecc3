//! PMI-1: lines of `key=value` words.
//!
//! MPICH's Hydra and our own launcher speak PMI-1. Keys belong to the whole job, so each process
//! appends its rank to the names of its keys.

use std::collections::HashMap;
use std::time::Duration;

use crate::wanted::WantedSize;
use crate::wire::{Limits, Version, Wire, Words, number, own_key};
use crate::{
    ABORT_REASON, ABORTED_RANKS, ALL_PREFIX, ALL_PUBLISHERS, ENDED_KEY, ENDED_RANKS_KEY, JobPlace,
    JoinError, LEFT_PREFIX, Manager, OWN_SPACE, PUBLISH, PUBLISHER, REASONS_KEY, SEPARATOR,
    UNANSWERED, WANTED_KEY, mapping, rank_list, reason,
};

/// A launcher that speaks PMI-1.
pub(super) struct Pmi1 {
    wire: Wire,
    rank: u32,
    size: u32,
    /// The name of the key space.
    space: String,
    limits: Limits,
    /// The barrier that this process has entered and not left.
    barrier: Option<Barrier>,
    /// Values that were sent before this process asked for them, by key.
    prefetched: HashMap<String, Option<String>>,
}

/// A barrier that this process has entered.
enum Barrier {
    /// The launcher's answer has not been read.
    Entered,
    /// It was read before the answer to a later request.
    Answered(Words),
}

/// The maximal length of a line in bytes, which all launchers can read.
const LINE_BYTES_MAX: usize = 1000;

impl Pmi1 {
    /// Joins the job of a launcher that has accepted version 1 with this answer.
    pub(super) fn join(
        wire: Wire,
        (rank, size): (u32, u32),
        greeting: Words,
    ) -> Result<(JobPlace, Self), JoinError> {
        let mut pmi = Self {
            wire,
            rank,
            size,
            space: String::new(),
            limits: Limits::USUAL,
            barrier: None,
            prefetched: HashMap::new(),
        };
        // Our own launcher has sent everything with its first answer.
        let is_own = greeting.get("kvsname").is_some_and(|space| space == OWN_SPACE);
        let mut ask = |command: &str, expected: &str| match is_own {
            true => Ok(greeting.clone()),
            false => pmi.ask(command, expected),
        };
        let maxima = ask("cmd=get_maxes", "maxes")?;
        let mut name = ask("cmd=get_my_kvsname", "my_kvsname")?;
        let application_number = number(&ask("cmd=get_appnum", "appnum")?, "appnum");
        let universe_size = number(&ask("cmd=get_universe_size", "universe_size")?, "size");
        let limit = |key: &str| number(&maxima, key).filter(|limit| *limit > 0);
        if let (Some(key_bytes), Some(value_bytes)) = (limit("keylen_max"), limit("vallen_max")) {
            pmi.limits = Limits { key_bytes, value_bytes };
        }
        pmi.space = name.remove("kvsname").unwrap_or_default();
        if let Some(mapping) = greeting.get(mapping::KEY).filter(|_| is_own) {
            pmi.prefetched.insert(mapping::KEY.to_owned(), Some(mapping.clone()));
        }
        Ok((JobPlace { rank, size, application_number, universe_size }, pmi))
    }

    /// Returns a value of the whole job, if a process published it.
    fn value(&mut self, key: &str) -> Result<Option<String>, JoinError> {
        let question = self.question(key, None);
        self.ask(&question, "get_result").map(value_in)
    }

    /// Returns a value that `publisher` publishes. Our own launcher waits for that.
    fn published(&mut self, key: &str, publisher: &str) -> Result<Option<String>, JoinError> {
        if let Some(value) = self.prefetched.get(key) {
            return Ok(value.clone());
        }
        let question = self.question(key, Some(publisher));
        self.ask(&question, "get_result").map(value_in)
    }

    fn question(&self, key: &str, publisher: Option<&str>) -> String {
        let question = format!("cmd=get kvsname={} key={key}", self.space);
        match publisher.filter(|_| self.space == OWN_SPACE) {
            Some(publisher) => format!("{question} {PUBLISHER}={publisher}"),
            None => question,
        }
    }

    /// Sends a line that stores `what`.
    fn check_put(&mut self, line: &str, what: &str) -> Result<(), JoinError> {
        let answer = self.ask(line, "put_result")?;
        match answer.get("rc").map(String::as_str) {
            None | Some("0") => Ok(()),
            Some(_) => Err(JoinError::new(format!("the launcher refused to store {what}"))),
        }
    }

    /// Sends a line and receives the answer, whose command must be `expected`.
    fn ask(&mut self, line: &str, expected: &str) -> Result<Words, JoinError> {
        self.wire.send_line(line)?;
        if !matches!(self.barrier, Some(Barrier::Entered)) {
            return self.wire.read_answer(expected);
        }
        let (which, words) = self.wire.read_one_of(["barrier_out", expected])?;
        if which == 1 {
            return Ok(words);
        }
        self.barrier = Some(Barrier::Answered(words));
        self.wire.read_answer(expected)
    }
}

/// Checks whether all processes have met in a barrier.
fn check_barrier(answer: &Words) -> Result<(), JoinError> {
    match answer.get("rc").map(String::as_str) {
        None | Some("0") => Ok(()),
        Some(_) => Err(JoinError::new(format!(
            "not all processes of the job can synchronize, because some have ended (message of \
             the launcher: {})",
            answer.get("msg").map_or("none", String::as_str)
        ))),
    }
}

/// Returns the value in an answer.
fn value_in(mut answer: Words) -> Option<String> {
    let is_there = answer.get("rc").is_none_or(|code| code == "0");
    answer.remove("value").filter(|_| is_there)
}

impl Manager for Pmi1 {
    fn put(&mut self, key: &str, value: &str) -> Result<(), JoinError> {
        let key = own_key(key, self.rank);
        self.limits.check(&key, value)?;
        let line = format!("cmd=put kvsname={} key={key} value={value}", self.space);
        self.check_put(&line, &key)
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<Option<String>, JoinError> {
        self.published(&own_key(key, rank), &rank.to_string())
    }

    fn publish(
        &mut self,
        values: &[(String, String)],
        wanted: &[(u32, String)],
    ) -> Result<(), JoinError> {
        if self.space != OWN_SPACE {
            values.iter().try_for_each(|(key, value)| self.put(key, value))?;
            return self.barrier();
        }
        let mut line = format!("cmd={PUBLISH}");
        for (key, value) in values {
            self.limits.check(&own_key(key, self.rank), value)?;
            line += &format!(" {key}={value}");
        }
        let keys = wanted.iter().map(|(rank, key)| (own_key(key, *rank), rank.to_string()));
        let keys: Vec<(String, String)> = keys.collect();
        for (key, rank) in &keys {
            line += &format!("\n{}", self.question(key, Some(rank)));
        }
        // The launcher sends all answers in one write, in this order.
        self.check_put(&line, "the values of this process")?;
        for (key, _) in keys {
            let value = value_in(self.wire.read_answer("get_result")?);
            self.prefetched.insert(key, value);
        }
        Ok(())
    }

    fn waits_for_values(&self) -> bool {
        self.space == OWN_SPACE
    }

    fn has_left(&mut self, rank: u32) -> bool {
        let key = format!("{LEFT_PREFIX}{rank}");
        self.space == OWN_SPACE && matches!(self.value(&key), Ok(Some(_)))
    }

    fn get_all(&mut self, key: &str) -> Result<Option<Vec<String>>, JoinError> {
        if self.space != OWN_SPACE {
            return Ok(None);
        }
        let all = self.published(&format!("{ALL_PREFIX}{key}"), ALL_PUBLISHERS)?;
        Ok(all.map(|all| all.split(SEPARATOR).map(str::to_owned).collect()))
    }

    fn answers_after_finalize(&self) -> bool {
        self.space == OWN_SPACE
    }

    fn barrier(&mut self) -> Result<(), JoinError> {
        check_barrier(&self.ask("cmd=barrier_in", "barrier_out")?)
    }

    fn enter_barrier(&mut self) -> Result<(), JoinError> {
        self.wire.send_line("cmd=barrier_in")?;
        self.barrier = Some(Barrier::Entered);
        Ok(())
    }

    fn leave_barrier(&mut self, patience: Duration) -> Result<bool, JoinError> {
        let answer = match self.barrier.take() {
            None => return Ok(true),
            Some(Barrier::Answered(words)) => words,
            Some(Barrier::Entered) if self.wire.has_answer(patience)? => {
                self.wire.read_answer("barrier_out")?
            }
            entered => {
                self.barrier = entered;
                return Ok(false);
            }
        };
        check_barrier(&answer).map(|()| true)
    }

    fn finalize(&mut self) -> Result<(), JoinError> {
        if self.space != OWN_SPACE {
            return self.ask("cmd=finalize", "finalize_ack").map(drop);
        }
        // Our own launcher reads the line even if this process ends at once.
        self.wire.send_line(&format!("cmd=finalize {UNANSWERED}=1"))
    }

    fn rejoin(&mut self) -> Result<bool, JoinError> {
        Ok(self.space == OWN_SPACE && self.wire.greet(Version::One)?.is_some())
    }

    fn job_name(&self) -> String {
        self.space.clone()
    }

    fn abort(&mut self, code: i32) {
        // If the launcher is gone, there is no job left to end.
        let _ = self.wire.send_line(&format!("cmd=abort exitcode={code}"));
    }

    fn abort_for(&mut self, code: i32, reason: &str) -> bool {
        let sent = format!("cmd=abort exitcode={code} {ABORT_REASON}={}", reason::encode(reason));
        matches!(self.value(REASONS_KEY), Ok(Some(_))) && self.wire.send_line(&sent).is_ok()
    }

    fn abort_some(&mut self, ranks: &[u32], code: i32) -> bool {
        let list = format!("{ABORTED_RANKS}={}", rank_list::format(ranks));
        if list.len() > LINE_BYTES_MAX {
            return false;
        }
        // If the launcher is gone, there is no process left to end.
        let _ = self.wire.send_line(&format!("cmd=abort exitcode={code} {list}"));
        true
    }

    fn lacks_processes(&mut self) -> bool {
        matches!(self.value(ENDED_KEY), Ok(Some(_)))
    }

    fn has_ended(&mut self, rank: u32) -> bool {
        matches!(self.value(&format!("{ENDED_KEY}-{rank}")), Ok(Some(_)))
    }

    fn ended_ranks(&mut self) -> Vec<u32> {
        let list = self.value(ENDED_RANKS_KEY).ok().flatten();
        match list.and_then(|list| rank_list::parse(&list, self.size)) {
            Some(ranks) => ranks,
            None => (0..self.size).filter(|&rank| self.has_ended(rank)).collect(),
        }
    }

    fn wanted_size(&mut self, size: u32) -> Result<Option<WantedSize>, JoinError> {
        if self.space != OWN_SPACE {
            return Ok(None);
        }
        let text = self.value(&format!("{WANTED_KEY}-{size}"))?;
        Ok(text.and_then(|text| text.parse().ok()))
    }

    fn when_gone(&self, gone: fn()) {
        // Our own launcher has the kernel kill its direct children when it ends, but not their
        // descendants. If the program is the child of a shell, nothing may be left that would end
        // it.
        if self.space != OWN_SPACE || !sys::process::ends_with_parent() {
            self.wire.when_closed(gone);
        }
    }

    fn machines(&mut self) -> Result<Option<Vec<u32>>, JoinError> {
        let known = self.prefetched.get(mapping::KEY).cloned();
        let text = match known.map_or_else(|| self.value(mapping::KEY), Ok)? {
            None if self.space == OWN_SPACE => {
                mapping::from_parts(self.size, |key| self.value(key))?
            }
            text => text,
        };
        mapping::machines(text, self.size)
    }
}
