//! PMI-1: lines of `key=value` words.
//!
//! MPICH's Hydra and our own launcher speak PMI-1. Keys belong to the whole job, so each process
//! appends its rank to the names of its keys.

use crate::wanted::WantedSize;
use crate::wire::{Limits, Wire, Words, number, own_key};
use crate::{
    ABORT_REASON, ABORTED_RANKS, ALL_PREFIX, ENDED_KEY, ENDED_RANKS_KEY, JobPlace, JoinError,
    Manager, OWN_SPACE, REASONS_KEY, SEPARATOR, WANTED_KEY, mapping, rank_list, reason,
};

/// A launcher that speaks PMI-1.
pub(super) struct Pmi1 {
    wire: Wire,
    rank: u32,
    size: u32,
    /// The name of the key space.
    space: String,
    limits: Limits,
}

/// The maximal length of a line in bytes, which all launchers can read.
const LINE_BYTES_MAX: usize = 1000;

impl Pmi1 {
    /// Joins the job of a launcher that has accepted version 1.
    pub(super) fn join(wire: Wire, rank: u32, size: u32) -> Result<(JobPlace, Self), JoinError> {
        let mut pmi = Self { wire, rank, size, space: String::new(), limits: Limits::USUAL };
        let maxima = pmi.ask("cmd=get_maxes", "maxes")?;
        let limit = |key: &str| number(&maxima, key).filter(|limit| *limit > 0);
        if let (Some(key_bytes), Some(value_bytes)) = (limit("keylen_max"), limit("vallen_max")) {
            pmi.limits = Limits { key_bytes, value_bytes };
        }
        let mut name = pmi.ask("cmd=get_my_kvsname", "my_kvsname")?;
        pmi.space = name.remove("kvsname").unwrap_or_default();
        let application_number = number(&pmi.ask("cmd=get_appnum", "appnum")?, "appnum");
        let universe_size = number(&pmi.ask("cmd=get_universe_size", "universe_size")?, "size");
        Ok((JobPlace { rank, size, application_number, universe_size }, pmi))
    }

    /// Returns a value of the whole job, if a process published it.
    fn value(&mut self, key: &str) -> Result<Option<String>, JoinError> {
        let question = format!("cmd=get kvsname={} key={key}", self.space);
        let mut answer = self.ask(&question, "get_result")?;
        let is_there = answer.get("rc").is_none_or(|code| code == "0");
        Ok(answer.remove("value").filter(|_| is_there))
    }

    /// Sends a line and receives the answer, whose command must be `expected`.
    fn ask(&mut self, line: &str, expected: &str) -> Result<Words, JoinError> {
        self.wire.send_line(line)?;
        self.wire.read_answer(expected)
    }
}

impl Manager for Pmi1 {
    fn put(&mut self, key: &str, value: &str) -> Result<(), JoinError> {
        let key = own_key(key, self.rank);
        self.limits.check(&key, value)?;
        let line = format!("cmd=put kvsname={} key={key} value={value}", self.space);
        let answer = self.ask(&line, "put_result")?;
        match answer.get("rc").map(String::as_str) {
            None | Some("0") => Ok(()),
            Some(_) => Err(JoinError::new(format!("the launcher refused to store {key}"))),
        }
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<Option<String>, JoinError> {
        self.value(&own_key(key, rank))
    }

    fn get_all(&mut self, key: &str) -> Result<Option<Vec<String>>, JoinError> {
        if self.space != OWN_SPACE {
            return Ok(None);
        }
        let all = self.value(&format!("{ALL_PREFIX}{key}"))?;
        Ok(all.map(|all| all.split(SEPARATOR).map(str::to_owned).collect()))
    }

    fn answers_after_finalize(&self) -> bool {
        self.space == OWN_SPACE
    }

    fn barrier(&mut self) -> Result<(), JoinError> {
        let answer = self.ask("cmd=barrier_in", "barrier_out")?;
        match answer.get("rc").map(String::as_str) {
            None | Some("0") => Ok(()),
            Some(_) => Err(JoinError::new(format!(
                "not all processes of the job can synchronize, because some have ended (message of \
                 the launcher: {})",
                answer.get("msg").map_or("none", String::as_str)
            ))),
        }
    }

    fn finalize(&mut self) -> Result<(), JoinError> {
        self.ask("cmd=finalize", "finalize_ack").map(drop)
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
        let text = match self.value(mapping::KEY)? {
            None if self.space == OWN_SPACE => {
                mapping::from_parts(self.size, |key| self.value(key))?
            }
            text => text,
        };
        mapping::machines(text, self.size)
    }
}
