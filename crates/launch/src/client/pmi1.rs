//! PMI-1: lines of `key=value` words.
//!
//! It is the protocol of MPICH's Hydra and of our own launcher. Keys belong to the whole job, so
//! that each process adds its rank to the names of its own.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};

use super::{ABORTED_RANKS, ENDED_KEY, JoinError, Manager, Place, mapping};

/// A launcher that speaks PMI-1.
pub(super) struct Pmi1 {
    reader: BufReader<File>,
    writer: File,
    rank: u32,
    size: u32,
    /// The name of the space of keys.
    space: String,
    key_bytes_max: usize,
    value_bytes_max: usize,
}

/// No answer of a launcher is longer.
const ANSWER_BYTES_MAX: u64 = 128 << 10;

/// A line is no longer than a launcher can be expected to read.
const LINE_BYTES_MAX: usize = 1000;

type Words = HashMap<String, String>;

impl Pmi1 {
    /// Joins the job whose launcher is at the other end of `stream`.
    pub(super) fn join(stream: File, rank: u32, size: u32) -> Result<(Place, Self), JoinError> {
        let writer = stream.try_clone().map_err(|cause| JoinError::gone(&cause.to_string()))?;
        let (reader, space) = (BufReader::new(stream), String::new());
        let (key_bytes_max, value_bytes_max) = (64, 1024);
        let mut pmi = Self { reader, writer, rank, size, space, key_bytes_max, value_bytes_max };
        let hello = "cmd=init pmi_version=1 pmi_subversion=1";
        let answer = pmi.ask(hello, "response_to_init")?;
        if answer.get("rc").is_some_and(|code| code != "0") {
            return Err(JoinError::new("the launcher does not speak version 1 of PMI"));
        }
        let maxima = pmi.ask("cmd=get_maxes", "maxes")?;
        let limit = |key: &str, usual| {
            number(&maxima, key).filter(|limit| *limit > 0).map_or(usual, |limit| limit as usize)
        };
        pmi.key_bytes_max = limit("keylen_max", pmi.key_bytes_max);
        pmi.value_bytes_max = limit("vallen_max", pmi.value_bytes_max);
        let mut name = pmi.ask("cmd=get_my_kvsname", "my_kvsname")?;
        pmi.space = name.remove("kvsname").unwrap_or_default();
        let application_number = number(&pmi.ask("cmd=get_appnum", "appnum")?, "appnum");
        let universe_size = number(&pmi.ask("cmd=get_universe_size", "universe_size")?, "size");
        Ok((Place { rank, size, application_number, universe_size }, pmi))
    }

    /// A value of the whole job, if somebody published it.
    fn value(&mut self, key: &str) -> Result<Option<String>, JoinError> {
        let question = format!("cmd=get kvsname={} key={key}", self.space);
        let mut answer = self.ask(&question, "get_result")?;
        let is_there = answer.get("rc").is_none_or(|code| code == "0");
        Ok(answer.remove("value").filter(|_| is_there))
    }

    fn say(&mut self, line: &str) -> Result<(), JoinError> {
        let whole = format!("{line}\n");
        let written = self.writer.write_all(whole.as_bytes());
        written.map_err(|cause| JoinError::gone(&cause.to_string()))
    }

    /// Says a line and hears the answer, which must be `expected`.
    fn ask(&mut self, line: &str, expected: &str) -> Result<Words, JoinError> {
        self.say(line)?;
        let mut answer = String::new();
        // Bounded, because what answers may be no launcher.
        let length = (&mut self.reader).take(ANSWER_BYTES_MAX).read_line(&mut answer);
        match length {
            Ok(_) if answer.ends_with('\n') => {}
            Ok(0) => return Err(JoinError::gone("it closed the connection")),
            Ok(_) => return Err(JoinError::gone("its last answer has no end")),
            Err(cause) => return Err(JoinError::gone(&cause.to_string())),
        }
        let words: Words = answer
            .split_whitespace()
            .filter_map(|word| word.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        if words.get("cmd").is_some_and(|command| command == expected) {
            return Ok(words);
        }
        Err(JoinError::new(format!(
            "the launcher answered \"{}\" where PMI-1 wants {expected}",
            answer.trim_end()
        )))
    }
}

impl Manager for Pmi1 {
    fn put(&mut self, key: &str, value: &str) -> Result<(), JoinError> {
        let key = own_key(key, self.rank);
        check_length("key", &key, &key, self.key_bytes_max)?;
        check_length("value", &key, value, self.value_bytes_max)?;
        let line = format!("cmd=put kvsname={} key={key} value={value}", self.space);
        let answer = self.ask(&line, "put_result")?;
        match answer.get("rc").map(String::as_str) {
            None | Some("0") => Ok(()),
            Some(_) => Err(JoinError::new(format!("the launcher refused to keep {key}"))),
        }
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<Option<String>, JoinError> {
        self.value(&own_key(key, rank))
    }

    fn barrier(&mut self) -> Result<(), JoinError> {
        self.ask("cmd=barrier_in", "barrier_out").map(drop)
    }

    fn finalize(&mut self) -> Result<(), JoinError> {
        self.ask("cmd=finalize", "finalize_ack").map(drop)
    }

    fn abort(&mut self, code: i32) {
        // If the launcher is gone there is no job left to end.
        let _ = self.say(&format!("cmd=abort exitcode={code}"));
    }

    fn abort_some(&mut self, ranks: &[u32], code: i32) -> bool {
        let list = format!("{ABORTED_RANKS}={}", ranges(ranks));
        if list.len() > LINE_BYTES_MAX {
            return false;
        }
        // If the launcher is gone there is nobody left to end.
        let _ = self.say(&format!("cmd=abort exitcode={code} {list}"));
        true
    }

    fn lacks_processes(&mut self) -> bool {
        matches!(self.value(ENDED_KEY), Ok(Some(_)))
    }

    fn machines(&mut self) -> Result<Option<Vec<u32>>, JoinError> {
        let text = self.value(mapping::KEY)?;
        mapping::machines(text, self.size)
    }
}

/// The name of a value of one process in a space of keys that belongs to the whole job.
pub(super) fn own_key(key: &str, rank: u32) -> String {
    format!("{key}-{rank}")
}

/// Refuses a text of `limit` bytes or more (launchers count the byte after its end), or with blanks.
pub(super) fn check_length(
    what: &str,
    key: &str,
    text: &str,
    limit: usize,
) -> Result<(), JoinError> {
    if text.len() < limit && !text.contains(char::is_whitespace) {
        return Ok(());
    }
    Err(JoinError::new(format!(
        "the launcher cannot keep {key}: the {what} is too long ({} bytes, at most {}) or has \
         blanks in it",
        text.len(),
        limit - 1
    )))
}

/// A number that the launcher tells; none where it says -1 or nothing.
pub(super) fn number(words: &Words, key: &str) -> Option<u32> {
    words.get(key).and_then(|text| text.trim().parse().ok())
}

/// Ranks as a list such as `0-3,7`.
fn ranges(ranks: &[u32]) -> String {
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let runs = sorted.chunk_by(|before, next| before + 1 == *next);
    let one = |run: &[u32]| match run {
        [single] => single.to_string(),
        _ => format!("{}-{}", run[0], run[run.len() - 1]),
    };
    runs.map(one).collect::<Vec<_>>().join(",")
}
