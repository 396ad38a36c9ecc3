//! PMI-2: messages of `key=value;` words, each after its length in six digits.
//!
//! Slurm's `srun --mpi=pmi2` uses PMI-2; Hydra speaks it too. A fence both publishes values and
//! waits: values that were put before it can be read after it.

use crate::wire::{ANSWER_BYTES_MAX, Limits, Wire, Words, number, own_key};
use crate::{JobPlace, JoinError, Manager, mapping};

/// A launcher that speaks PMI-2.
pub(super) struct Pmi2 {
    wire: Wire,
    rank: u32,
    size: u32,
    /// The launcher's name of the job.
    job: String,
}

/// The number of digits of the length in front of each message.
const LENGTH_BYTES: usize = 6;

impl Pmi2 {
    /// Joins the job of a launcher that has accepted version 2. `rank` and `job` come from the
    /// environment.
    pub(super) fn join(wire: Wire, rank: u32, job: &str) -> Result<(JobPlace, Self), JoinError> {
        let mut pmi = Self { wire, rank, size: 0, job: String::new() };
        let own = rank.to_string();
        let mut words = vec![("pmirank", own.as_str()), ("threaded", "FALSE")];
        // Slurm expects the job id. Hydra, which sets none, does not accept an empty one.
        if !job.is_empty() {
            words.insert(0, ("pmijobid", job));
        }
        let answer = pmi.ask("fullinit", &words)?;
        let (answered_rank, size) = (number(&answer, "rank"), number(&answer, "size"));
        let Some(size) = size.filter(|size| answered_rank == Some(rank) && rank < *size) else {
            let shown = |value: Option<u32>| value.map_or("none".to_owned(), |it| it.to_string());
            return Err(JoinError::new(format!(
                "the launcher's data is inconsistent: PMI_RANK is {rank}, but over PMI-2 the rank \
                 is {} and the size {}",
                shown(answered_rank),
                shown(size)
            )));
        };
        pmi.size = size;
        pmi.job = pmi.ask("job-getid", &[])?.remove("jobid").unwrap_or_default();
        let universe = pmi.attribute("universeSize")?;
        let universe_size = universe.and_then(|text| text.trim().parse().ok());
        let application_number = number(&answer, "appnum");
        Ok((JobPlace { rank, size, application_number, universe_size }, pmi))
    }

    /// Returns an attribute of the job, if the launcher has it.
    fn attribute(&mut self, key: &str) -> Result<Option<String>, JoinError> {
        let mut answer = self.question("info-getjobattr", &[("key", key)])?;
        Ok(answer.remove("value").filter(|_| says_found(&answer)))
    }

    /// Sends a command and receives the answer, which must report success.
    fn ask(&mut self, command: &str, words: &[(&str, &str)]) -> Result<Words, JoinError> {
        let answer = self.question(command, words)?;
        if is_success(&answer) {
            return Ok(answer);
        }
        let why = answer.get("errmsg").map_or("without a reason", String::as_str);
        Err(JoinError::new(format!("the launcher refused PMI-2's {command}: {why}")))
    }

    /// Sends a command and receives the answer.
    fn question(&mut self, command: &str, words: &[(&str, &str)]) -> Result<Words, JoinError> {
        self.wire.transmit(&message(command, words))?;
        let length = String::from_utf8_lossy(&self.wire.receive_bytes(LENGTH_BYTES)?).into_owned();
        let nonsense = |text: &str| {
            JoinError::new(format!(
                "the launcher answered \"{text}\" where PMI-2 requires {command}-response"
            ))
        };
        let Some(length) =
            length.trim().parse().ok().filter(|length| *length as u64 <= ANSWER_BYTES_MAX)
        else {
            return Err(nonsense(&length));
        };
        let text = String::from_utf8_lossy(&self.wire.receive_bytes(length)?).into_owned();
        let answer = split(&text);
        let name = answer.get("cmd").and_then(|name| name.strip_suffix("-response"));
        if name == Some(command) { Ok(answer) } else { Err(nonsense(&text)) }
    }
}

impl Manager for Pmi2 {
    fn put(&mut self, key: &str, value: &str) -> Result<(), JoinError> {
        let key = own_key(key, self.rank);
        Limits::USUAL.check(&key, value)?;
        self.ask("kvs-put", &[("key", &key), ("value", value)]).map(drop)
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<Option<String>, JoinError> {
        let (job, key) = (self.job.clone(), own_key(key, rank));
        // `srcid=-1`: any process may have published the value.
        let words = [("jobid", job.as_str()), ("srcid", "-1"), ("key", &key)];
        let mut answer = self.question("kvs-get", &words)?;
        Ok(answer.remove("value").filter(|_| says_found(&answer)))
    }

    fn barrier(&mut self) -> Result<(), JoinError> {
        self.ask("kvs-fence", &[]).map(drop)
    }

    fn finalize(&mut self) -> Result<(), JoinError> {
        self.ask("finalize", &[]).map(drop)
    }

    fn job_name(&self) -> String {
        self.job.clone()
    }

    fn abort(&mut self, code: i32) {
        let text = format!("exit code {code}");
        // If the launcher is gone, there is no job left to end.
        let _ = self.wire.transmit(&message("abort", &[("isworld", "TRUE"), ("msg", &text)]));
    }

    fn when_gone(&self, gone: fn()) {
        self.wire.when_closed(gone);
    }

    fn machines(&mut self) -> Result<Option<Vec<u32>>, JoinError> {
        let text = self.attribute(mapping::KEY)?;
        mapping::machines(text, self.size)
    }
}

/// Encodes a command, preceded by its length. In words a semicolon is doubled.
fn message(command: &str, words: &[(&str, &str)]) -> Vec<u8> {
    let mut text = format!("cmd={command};");
    for (key, value) in words {
        text += &format!("{key}={};", value.replace(';', ";;"));
    }
    format!("{:>LENGTH_BYTES$}{text}", text.len()).into_bytes()
}

/// Splits an answer into its words.
pub(super) fn split(text: &str) -> Words {
    // A single semicolon ends a word, a doubled one stands for a semicolon.
    let (mut words, mut word, mut letters) = (Words::new(), String::new(), text.chars().peekable());
    while let Some(letter) = letters.next() {
        if letter != ';' {
            word.push(letter);
        } else if letters.next_if_eq(&';').is_some() {
            word.push(';');
        } else if let Some((key, value)) = std::mem::take(&mut word).split_once('=') {
            words.insert(key.to_owned(), value.to_owned());
        }
    }
    words
}

fn is_success(answer: &Words) -> bool {
    answer.get("rc").is_none_or(|code| code.trim() == "0")
}

/// Whether the launcher has found the value. Launchers report this under different names.
fn says_found(answer: &Words) -> bool {
    let denies =
        |key: &str| answer.get(key).is_some_and(|answer| answer.eq_ignore_ascii_case("false"));
    is_success(answer) && !denies("found") && !denies("flag")
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_survive_the_way(values in proptest::collection::vec("[ -~]{0,9}", 0..6)) {
            let keys: Vec<String> = (0..values.len()).map(|i| format!("k{i}")).collect();
            let words: Vec<_> = keys.iter().map(String::as_str).zip(values.iter().map(String::as_str)).collect();
            let message = message("kvs-put", &words);
            let text = std::str::from_utf8(&message[LENGTH_BYTES..]).unwrap();
            let length = std::str::from_utf8(&message[..LENGTH_BYTES]).unwrap();
            prop_assert_eq!(length.trim().parse(), Ok(text.len()));
            let parsed = split(text);
            prop_assert_eq!(parsed.len(), words.len() + 1);
            for (key, value) in words {
                prop_assert_eq!(parsed.get(key).map(String::as_str), Some(value));
            }
        }
    }
}
