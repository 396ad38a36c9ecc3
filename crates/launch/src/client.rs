//! The client side of PMI-1, as the library in each process speaks it.
//!
//! PMI-1 is the protocol of MPICH's Hydra: lines of `key=value` words over a descriptor that the
//! launcher leaves open. Our own launcher speaks it too, so there is one way to join a job.

mod environment;
mod mapping;

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::fs::FileTypeExt;

use environment::Found;

/// This process's connection to its job.
pub struct Job {
    rank: u32,
    size: u32,
    link: Link,
    application_number: Option<u32>,
    universe_size: Option<u32>,
}

/// The word by which a process that aborts names those to be ended. Launchers that do not know it
/// end the whole job.
pub(crate) const ABORTED_RANKS: &str = "combray_ranks";

/// The key that exists when some processes of the job were ended and the others go on.
pub(crate) const ENDED_KEY: &str = "combray-ended";

/// A line is no longer than a launcher can be expected to read.
const LINE_BYTES_MAX: usize = 1000;

enum Link {
    /// One process without a launcher; it keeps what it put.
    Alone(HashMap<String, String>),
    /// A launcher that speaks PMI-1.
    Server(Box<Server>),
}

/// Why a process cannot join its job, or why the launcher does not answer as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinError {
    message: String,
}

impl JoinError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for JoinError {}

/// Joins the job that the environment tells of; without any launcher, makes one of this process.
///
/// # Errors
/// There is a launcher that started several processes, but none that can be talked to: they would
/// run as so many jobs of one process each. Or its answers make no sense.
pub fn join() -> Result<Job, JoinError> {
    match environment::find(|name| std::env::var(name).ok())? {
        Found::Alone => Ok(Job {
            rank: 0,
            size: 1,
            link: Link::Alone(HashMap::new()),
            application_number: None,
            universe_size: None,
        }),
        Found::Server { descriptor, rank, size } => {
            Job::join_server(Server::new(connection(descriptor)?)?, rank, size)
        }
    }
}

/// The connection that the launcher left open at this descriptor.
fn connection(descriptor: i32) -> Result<File, JoinError> {
    let error = |cause: &str| {
        JoinError::new(format!(
            "PMI_FD is {descriptor}, which is no open connection to a launcher: {cause}. Was the \
             program started by another program or script that closes descriptors? To run it \
             alone, unset PMI_FD and PMI_SIZE"
        ))
    };
    let stream = sys::descriptor::adopt(descriptor).map_err(|cause| error(&cause.to_string()))?;
    let kind = stream.metadata().map_err(|cause| error(&cause.to_string()))?.file_type();
    if kind.is_socket() || kind.is_fifo() {
        return Ok(stream);
    }
    // It belongs to somebody else in this process, who would miss it.
    let _ = stream.into_raw_fd();
    Err(error("something else is open there"))
}

impl Job {
    fn join_server(mut server: Server, rank: u32, size: u32) -> Result<Self, JoinError> {
        let hello = "cmd=init pmi_version=1 pmi_subversion=1";
        let answer = server.ask(hello, "response_to_init")?;
        if answer.get("rc").is_some_and(|code| code != "0") {
            return Err(JoinError::new("the launcher does not speak version 1 of PMI"));
        }
        let maxima = server.ask("cmd=get_maxes", "maxes")?;
        let limit = |key: &str, usual| {
            let told = maxima.get(key).and_then(|text| text.parse().ok());
            told.filter(|limit| *limit > 0).unwrap_or(usual)
        };
        server.key_bytes_max = limit("keylen_max", server.key_bytes_max);
        server.value_bytes_max = limit("vallen_max", server.value_bytes_max);
        let name = server.ask("cmd=get_my_kvsname", "my_kvsname")?;
        server.space = name.get("kvsname").cloned().unwrap_or_default();
        let number = |answer: HashMap<String, String>, key: &str| {
            answer.get(key).and_then(|text| text.parse().ok())
        };
        let application_number = number(server.ask("cmd=get_appnum", "appnum")?, "appnum");
        let universe = server.ask("cmd=get_universe_size", "universe_size")?;
        let universe_size = number(universe, "size");
        let link = Link::Server(Box::new(server));
        Ok(Self { rank, size, link, application_number, universe_size })
    }

    /// The rank of this process in the job.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many processes the job has.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Which of several programs of the job this one is.
    pub fn application_number(&self) -> Option<u32> {
        self.application_number
    }

    /// How many processes could run.
    pub fn universe_size(&self) -> Option<u32> {
        self.universe_size
    }

    /// The number of the machine on which each rank runs, if the launcher tells.
    ///
    /// # Errors
    /// What the launcher tells makes no sense, or it is gone.
    pub fn process_mapping(&mut self) -> Result<Option<Vec<u32>>, JoinError> {
        let text = match &mut self.link {
            Link::Alone(_) => return Ok(Some(vec![0])),
            Link::Server(server) => server.get("PMI_process_mapping")?,
        };
        // Launchers answer with nothing where they know nothing.
        let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
        match mapping::parse(&text, self.size) {
            Some(nodes) => Ok(Some(nodes)),
            None => Err(JoinError::new(format!(
                "the launcher tells where {} processes run, but it makes no sense: {text}",
                self.size
            ))),
        }
    }

    /// Publishes a value, which the others see after the next [`barrier`](Self::barrier).
    ///
    /// # Errors
    /// Key or value are too long for the launcher or have blanks in them; or the launcher is gone.
    pub fn put(&mut self, key: &str, value: &str) -> Result<(), JoinError> {
        match &mut self.link {
            Link::Alone(values) => {
                values.insert(key.to_owned(), value.to_owned());
                Ok(())
            }
            Link::Server(server) => server.put(key, value),
        }
    }

    /// A value that some process published.
    ///
    /// # Errors
    /// Nobody published it, or the launcher is gone.
    pub fn get(&mut self, key: &str) -> Result<String, JoinError> {
        let missing = || JoinError::new(format!("no process of the job published {key}"));
        match &mut self.link {
            Link::Alone(values) => values.get(key).cloned().ok_or_else(missing),
            Link::Server(server) => server.get(key)?.ok_or_else(missing),
        }
    }

    /// Waits for all processes of the job.
    ///
    /// # Errors
    /// The launcher is gone.
    pub fn barrier(&mut self) -> Result<(), JoinError> {
        match &mut self.link {
            Link::Alone(_) => Ok(()),
            Link::Server(server) => server.ask("cmd=barrier_in", "barrier_out").map(drop),
        }
    }

    /// Takes leave of the launcher.
    ///
    /// # Errors
    /// The launcher is gone.
    pub fn finalize(&mut self) -> Result<(), JoinError> {
        match &mut self.link {
            Link::Alone(_) => Ok(()),
            Link::Server(server) => server.ask("cmd=finalize", "finalize_ack").map(drop),
        }
    }

    /// Asks the launcher to end the whole job. The caller has told the person why, and ends its
    /// own process.
    pub fn abort(&mut self, code: i32) {
        if let Link::Server(server) = &mut self.link {
            // If the launcher is gone there is no job left to end.
            let _ = server.say(&format!("cmd=abort exitcode={code}"));
        }
    }
}

impl Job {
    /// Asks the launcher to end some processes of the job, this one among them, and no others. As
    /// [`abort`](Self::abort) where the launcher cannot do that.
    pub fn abort_some(&mut self, ranks: &[u32], code: i32) {
        let list = format!("{ABORTED_RANKS}={}", ranges(ranks));
        if list.len() > LINE_BYTES_MAX {
            return self.abort(code);
        }
        if let Link::Server(server) = &mut self.link {
            // If the launcher is gone there is nobody left to end.
            let _ = server.say(&format!("cmd=abort exitcode={code} {list}"));
        }
    }

    /// Whether some processes of the job were ended while the others go on.
    pub fn lacks_processes(&mut self) -> bool {
        self.get(ENDED_KEY).is_ok()
    }
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

/// A launcher at the other end of a descriptor.
struct Server {
    reader: BufReader<File>,
    writer: File,
    /// The name of the space of keys.
    space: String,
    key_bytes_max: usize,
    value_bytes_max: usize,
}

/// No answer of a launcher is longer.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

impl Server {
    fn new(stream: File) -> Result<Self, JoinError> {
        let writer = stream.try_clone().map_err(|cause| gone(&cause.to_string()))?;
        let reader = BufReader::new(stream);
        let space = String::new();
        Ok(Self { reader, writer, space, key_bytes_max: 64, value_bytes_max: 1024 })
    }

    /// A value, if somebody published it.
    fn get(&mut self, key: &str) -> Result<Option<String>, JoinError> {
        let question = format!("cmd=get kvsname={} key={key}", self.space);
        let mut answer = self.ask(&question, "get_result")?;
        let is_there = answer.get("rc").is_none_or(|code| code == "0");
        Ok(answer.remove("value").filter(|_| is_there))
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), JoinError> {
        for (what, text, limit) in
            [("key", key, self.key_bytes_max), ("value", value, self.value_bytes_max)]
        {
            if text.len() >= limit || text.contains(char::is_whitespace) {
                return Err(JoinError::new(format!(
                    "the launcher cannot keep {key}: the {what} is too long ({} bytes, at most \
                     {}) or has blanks in it",
                    text.len(),
                    limit - 1
                )));
            }
        }
        let line = format!("cmd=put kvsname={} key={key} value={value}", self.space);
        let answer = self.ask(&line, "put_result")?;
        match answer.get("rc").map(String::as_str) {
            None | Some("0") => Ok(()),
            Some(_) => Err(JoinError::new(format!("the launcher refused to keep {key}"))),
        }
    }

    fn say(&mut self, line: &str) -> Result<(), JoinError> {
        let whole = format!("{line}\n");
        self.writer.write_all(whole.as_bytes()).map_err(|cause| gone(&cause.to_string()))
    }

    /// Says a line and hears the answer, which must be `expected`.
    fn ask(&mut self, line: &str, expected: &str) -> Result<HashMap<String, String>, JoinError> {
        self.say(line)?;
        let mut answer = String::new();
        // Bounded, because what answers may be no launcher.
        let length = (&mut self.reader).take(ANSWER_BYTES_MAX).read_line(&mut answer);
        match length {
            Ok(_) if answer.ends_with('\n') => {}
            Ok(0) => return Err(gone("it closed the connection")),
            Ok(_) => return Err(gone("its last answer has no end")),
            Err(cause) => return Err(gone(&cause.to_string())),
        }
        let words: HashMap<String, String> = answer
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

fn gone(cause: &str) -> JoinError {
    JoinError::new(format!("the launcher does not answer any more: {cause}"))
}

#[cfg(test)]
mod tests;
