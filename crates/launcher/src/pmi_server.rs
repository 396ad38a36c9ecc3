//! The server side of PMI-1, without I/O: bytes in, answers out.

mod wanting;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use launch::wanted::WantedSize;
use launch::{
    ABORT_REASON, ABORTED_RANKS, ALL_PREFIX, ENDED_KEY, ENDED_RANKS_KEY, LEFT_PREFIX, OWN_SPACE,
    PUBLISH, PUBLISHER, REASONS_KEY, SEPARATOR, UNANSWERED, WANTED_KEY, mapping, rank_list, reason,
};

use self::wanting::{Publisher, Wanted, Wanting};

/// The key-value space and barriers of one job.
#[derive(Debug)]
pub struct PmiServer {
    values: HashMap<String, String>,
    /// The total length of all values.
    value_bytes: usize,
    clients: Vec<PmiClient>,
    /// The processes that wait in the barrier.
    waiting: BTreeSet<u32>,
    /// The processes that wait for values of others.
    wanting: Wanting,
    /// The processes that will enter no barrier, while others may wait for them.
    gone: BTreeSet<u32>,
    /// How many processes were ended alone, while the others go on.
    excluded: usize,
    /// The processes that have failed, or were ended alone, while the others go on.
    ended: BTreeSet<u32>,
    /// How many processes the user has asked for.
    wanted_size: Option<WantedSize>,
    /// How many processes the program had when it last requested that.
    reported_size: Option<u32>,
    universe_size: u32,
    on_missing: OnMissing,
}

/// What follows when a process waits in a barrier for another one that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMissing {
    /// The job is ended.
    EndJob,
    /// The barrier fails.
    FailBarrier,
}

/// The server's state of one process.
#[derive(Debug, Default)]
struct PmiClient {
    /// The beginning of an incomplete line.
    partial: Vec<u8>,
    application: u32,
    mpi_state: MpiState,
    /// Whether it sent something that is not PMI-1: no more input is accepted from it.
    is_rejected: bool,
    /// Whether it was ended alone, while the others go on.
    is_excluded: bool,
    /// Whether its next requests wait, because the answer to an earlier one does.
    is_held: bool,
}

/// The state of MPI in a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MpiState {
    /// The process has sent nothing, and may be no MPI program.
    #[default]
    Uninitialized,
    /// The process has initialized MPI and not finalized it.
    Initialized,
    /// The process has finalized MPI.
    Finalized,
}

/// What the launcher must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PmiAction {
    /// Write this line to a process.
    Answer(u32, String),
    /// End the job: a process requested it with this exit code, and gives the reason if the
    /// launcher shows reasons to the user.
    Abort(u32, i32, Option<String>),
    /// End these processes and no others: a process requested it with this exit code.
    End(u32, Vec<u32>, i32),
    /// Close the connection of a process that sent this line, which is not PMI-1.
    ProtocolError(u32, String),
    /// End the job: a process waits for another one that has ended.
    MissingProcess {
        /// One of the processes that wait.
        waiting: u32,
        /// One of the processes that have ended.
        gone: u32,
    },
}

/// The longest mapping in the first answer, in bytes: other libraries read lines of 1 KiB.
const GREETED_MAPPING_MAX: usize = 512;
const MAXIMA: &str = "kvsname_max=64 keylen_max=64 vallen_max=65537";
const KEY_BYTES_MAX: usize = 64;
/// The limit of a value: 64 KiB and a terminating byte.
const VALUE_BYTES_MAX: usize = (64 << 10) + 1;
/// Limits far above the needs of a library, so that a faulty program does not fill the memory.
const KEYS_PER_PROCESS_MAX: usize = 1024;
const BYTES_PER_PROCESS_MAX: usize = 1 << 20;
const LINE_BYTES_MAX: usize = VALUE_BYTES_MAX + 4096;
/// How many letters of an invalid line are shown.
const SHOWN_LETTERS_MAX: usize = 80;

impl PmiClient {
    /// Takes the next complete line, unless requests wait or nothing more is accepted.
    fn next_line(&mut self) -> Option<Vec<u8>> {
        let is_open = !self.is_held && !self.is_rejected;
        let end = self.partial.iter().position(|byte| *byte == b'\n').filter(|_| is_open)?;
        Some(self.partial.drain(..=end).collect())
    }
}

impl PmiServer {
    /// Creates the server of a job whose process `i` runs program number `applications[i]`, on
    /// machines for `universe_size` processes.
    pub fn new(applications: &[u32], universe_size: u32) -> Self {
        let client = |&application| PmiClient { application, ..PmiClient::default() };
        let size = applications.len();
        let server = Self {
            values: HashMap::new(),
            value_bytes: 0,
            clients: applications.iter().map(client).collect(),
            waiting: BTreeSet::new(),
            wanting: Wanting::new(size),
            gone: BTreeSet::new(),
            excluded: 0,
            ended: BTreeSet::new(),
            wanted_size: None,
            reported_size: None,
            universe_size,
            on_missing: OnMissing::EndJob,
        };
        server.with_mapping(&format!("(vector,(0,1,{size}))"))
    }

    /// Sets the mapping of processes to machines, as a value of `PMI_process_mapping`.
    pub fn with_mapping(mut self, mapping: &str) -> Self {
        if let Some(before) = self.values.remove(mapping::KEY) {
            self.value_bytes -= before.len();
        }
        for (key, value) in mapping::published(mapping, VALUE_BYTES_MAX - 1) {
            self.insert(&key, &value);
        }
        self
    }

    /// Sets what follows when a process waits for another one that has ended.
    pub fn with_missing(self, on_missing: OnMissing) -> Self {
        Self { on_missing, ..self }
    }

    /// Returns the state of MPI in the process `rank`.
    pub fn mpi_state(&self, rank: u32) -> MpiState {
        self.clients[rank as usize].mpi_state
    }

    /// Sets how many processes the user asks the program to have.
    pub fn set_wanted_size(&mut self, wanted: WantedSize) {
        self.wanted_size = Some(wanted);
    }

    /// Returns how many processes the user has asked for, if so.
    pub fn wanted_size(&self) -> Option<&WantedSize> {
        self.wanted_size.as_ref()
    }

    /// Returns how many processes the program had when it last requested the wanted number.
    pub fn reported_size(&self) -> Option<u32> {
        self.reported_size
    }

    /// Returns how many processes have failed, or were ended alone, while the others go on. The
    /// keys of these processes exist.
    pub fn failures(&self) -> u32 {
        self.ended.len() as u32
    }

    /// Handles bytes that the process `rank` wrote. Nothing is accepted after an error of that
    /// process.
    pub fn receive(&mut self, rank: u32, bytes: &[u8]) -> Vec<PmiAction> {
        if self.clients[rank as usize].is_rejected {
            return Vec::new();
        }
        self.clients[rank as usize].partial.extend_from_slice(bytes);
        let mut actions = Vec::new();
        self.receive_lines(rank, &mut actions);
        actions
    }

    /// Handles the complete lines of the process `rank`, up to one whose answer must wait.
    fn receive_lines(&mut self, rank: u32, actions: &mut Vec<PmiAction>) {
        while let Some(line) = self.clients[rank as usize].next_line() {
            self.receive_line(rank, String::from_utf8_lossy(&line).trim(), actions);
        }
        let client = &mut self.clients[rank as usize];
        if client.partial.len() > LINE_BYTES_MAX && !client.is_rejected {
            client.partial.clear();
            self.reject(rank, "a line without end", actions);
        }
    }

    /// Examines requests that have waited for values once more, and handles what their senders have
    /// sent after them.
    fn release(&mut self, released: Vec<Wanted>, actions: &mut Vec<PmiAction>) {
        for wanted in released {
            self.clients[wanted.rank as usize].is_held = false;
            self.get(wanted.rank, &wanted.key, Some(wanted.publisher), actions);
            self.receive_lines(wanted.rank, actions);
        }
    }

    /// Answers a request for a value, or lets it wait for the processes that publish the value.
    fn get(
        &mut self,
        rank: u32,
        key: &str,
        publisher: Option<Publisher>,
        actions: &mut Vec<PmiAction>,
    ) {
        if let Some(publisher) = publisher {
            if self.wanting.must_wait(rank, publisher) {
                self.clients[rank as usize].is_held = true;
                return self.wanting.wait(Wanted { rank, publisher, key: key.to_owned() });
            }
            let gone = self.wanting.missing(rank, publisher);
            if let Some(gone) = gone.filter(|_| self.on_missing == OnMissing::EndJob) {
                return actions.push(PmiAction::MissingProcess { waiting: rank, gone });
            }
        }
        let answer = match self.requested_value(key) {
            Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
            None => "cmd=get_result rc=-1 msg=key_not_found".to_owned(),
        };
        actions.push(PmiAction::Answer(rank, answer));
    }

    /// Records that the process `rank` will send no more. If the job goes on without it, and it has
    /// not finalized, other processes can query that it has ended.
    pub fn close(&mut self, rank: u32) -> Vec<PmiAction> {
        let mut actions = Vec::new();
        let has_failed = self.clients[rank as usize].mpi_state != MpiState::Finalized;
        if has_failed && self.on_missing == OnMissing::FailBarrier {
            self.note_ended(rank);
        }
        self.mark_gone(rank, &mut actions);
        actions.extend(self.missing_process());
        actions
    }

    /// Accepts no more from a process that sent what is not PMI-1: it will enter no barrier.
    fn reject(&mut self, rank: u32, line: &str, actions: &mut Vec<PmiAction>) {
        self.waiting.remove(&rank);
        let client = &mut self.clients[rank as usize];
        client.is_rejected = true;
        client.partial = Vec::new();
        self.mark_gone(rank, actions);
        actions
            .push(PmiAction::ProtocolError(rank, line.chars().take(SHOWN_LETTERS_MAX).collect()));
        actions.extend(self.missing_process());
    }

    /// Returns what follows if a process waits for another one that has ended.
    fn missing_process(&mut self) -> Vec<PmiAction> {
        let Some((waiting, gone)) = self.find_missing() else { return Vec::new() };
        if self.on_missing == OnMissing::EndJob {
            return vec![PmiAction::MissingProcess { waiting, gone }];
        }
        let fail = |rank| {
            PmiAction::Answer(rank, format!("cmd=barrier_out rc=-1 msg=missing_process_{gone}"))
        };
        std::mem::take(&mut self.waiting).into_iter().map(fail).collect()
    }

    /// Returns a process that waits, and one that has ended.
    fn find_missing(&self) -> Option<(u32, u32)> {
        let waiting = self.waiting.first()?;
        // A process may have ended after it has entered the barrier.
        let gone = self.gone.difference(&self.waiting).next()?;
        Some((*waiting, *gone))
    }

    /// Records that a process will enter no barrier any more.
    fn mark_gone(&mut self, rank: u32, actions: &mut Vec<PmiAction>) {
        if !self.clients[rank as usize].is_excluded {
            self.gone.insert(rank);
        }
        let released = self.wanting.note_gone(rank);
        self.release(released, actions);
    }

    fn receive_line(&mut self, rank: u32, line: &str, actions: &mut Vec<PmiAction>) {
        let words: HashMap<&str, &str> =
            line.split_whitespace().filter_map(|word| word.split_once('=')).collect();
        let word = |key: &str| words.get(key).copied().unwrap_or_default();
        let client = &mut self.clients[rank as usize];
        let answer = match word("cmd") {
            "init" => {
                client.mpi_state = MpiState::Initialized;
                let code = if word("pmi_version") == "1" { 0 } else { -1 };
                // The rest saves our own library requests.
                let mapping = self.values.get(mapping::KEY);
                let mapping = mapping.filter(|text| text.len() <= GREETED_MAPPING_MAX);
                let mapping = mapping.map(|text| format!(" {}={text}", mapping::KEY));
                format!(
                    "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc={code} \
                     kvsname={OWN_SPACE} {MAXIMA} appnum={} size={}{}",
                    client.application,
                    self.universe_size,
                    mapping.unwrap_or_default()
                )
            }
            "get_maxes" => format!("cmd=maxes {MAXIMA}"),
            "get_appnum" => format!("cmd=appnum appnum={}", client.application),
            "get_universe_size" => format!("cmd=universe_size size={}", self.universe_size),
            "get_my_kvsname" => format!("cmd=my_kvsname kvsname={OWN_SPACE}"),
            "put" => self.put(word("key"), word("value")),
            PUBLISH => return self.publish(rank, &words, actions),
            "get" => {
                let publisher = Publisher::parse(word(PUBLISHER), self.clients.len());
                return self.get(rank, word("key"), publisher, actions);
            }
            "barrier_in" => return self.enter_barrier(rank, actions),
            "finalize" => {
                client.mpi_state = MpiState::Finalized;
                if words.contains_key(UNANSWERED) {
                    return;
                }
                "cmd=finalize_ack".to_owned()
            }
            "abort" => {
                let code = word("exitcode").parse().unwrap_or(1);
                return match rank_list::parse(word(ABORTED_RANKS), self.clients.len() as u32) {
                    Some(ranks) => self.exclude(rank, ranks, code, actions),
                    None => {
                        let sent_rounds =
                            Some(word(ABORT_REASON)).filter(|sent_rounds| !sent_rounds.is_empty());
                        actions.push(PmiAction::Abort(rank, code, sent_rounds.map(reason::decode)));
                    }
                };
            }
            _ => return self.reject(rank, line, actions),
        };
        actions.push(PmiAction::Answer(rank, answer));
    }

    /// Returns a value, or what the user has asked for if the key requests that.
    fn requested_value(&mut self, key: &str) -> Option<Cow<'_, str>> {
        match key.strip_prefix(WANTED_KEY).and_then(|rest| rest.strip_prefix('-')) {
            Some(size) => {
                self.reported_size = size.parse().ok().or(self.reported_size);
                self.wanted_size.as_ref().map(|wanted| wanted.to_string().into())
            }
            None => self.value(key),
        }
    }

    /// Returns a value, or those of all ranks if the key requests that and they fit into one.
    fn value(&self, key: &str) -> Option<Cow<'_, str>> {
        // No process has put this value: its existence shows that the launcher handles reasons.
        if key == REASONS_KEY {
            return Some("1".into());
        }
        if let Some(rank) = key.strip_prefix(LEFT_PREFIX) {
            let rank: u32 = rank.parse().ok()?;
            let client = self.clients.get(rank as usize)?;
            let has_left = client.mpi_state == MpiState::Finalized
                || client.is_excluded
                || self.gone.contains(&rank);
            return has_left.then_some("1".into());
        }
        if key == ENDED_RANKS_KEY && !self.ended.is_empty() {
            let list = rank_list::format(&self.ended.iter().copied().collect::<Vec<_>>());
            return Some(list.into()).filter(|list: &Cow<'_, str>| list.len() < VALUE_BYTES_MAX);
        }
        let Some(of_ranks) = key.strip_prefix(ALL_PREFIX) else {
            return self.values.get(key).map(|value| Cow::from(value.as_str()));
        };
        let mut all = String::new();
        for rank in 0..self.clients.len() {
            if rank > 0 {
                all.push(SEPARATOR);
            }
            all += self.values.get(&format!("{of_ranks}-{rank}"))?;
            if all.len() >= VALUE_BYTES_MAX {
                return None;
            }
        }
        Some(all.into())
    }

    fn put(&mut self, key: &str, value: &str) -> String {
        if key.is_empty() || key.len() >= KEY_BYTES_MAX || value.len() >= VALUE_BYTES_MAX {
            return "cmd=put_result rc=-1 msg=too_long".to_owned();
        }
        let is_full = self.values.len() >= KEYS_PER_PROCESS_MAX * self.clients.len();
        if is_full && !self.values.contains_key(key) {
            return "cmd=put_result rc=-1 msg=too_many_keys".to_owned();
        }
        if self.value_bytes + value.len() > BYTES_PER_PROCESS_MAX * self.clients.len() {
            return "cmd=put_result rc=-1 msg=too_many_bytes".to_owned();
        }
        self.insert(key, value);
        "cmd=put_result rc=0 msg=success".to_owned()
    }

    /// Stores all values of a process.
    fn publish(&mut self, rank: u32, words: &HashMap<&str, &str>, actions: &mut Vec<PmiAction>) {
        let values = words.iter().filter(|(key, _)| **key != "cmd");
        let mut answers = values.map(|(key, value)| self.put(&format!("{key}-{rank}"), value));
        let failed = answers.find(|answer| !answer.contains(" rc=0 "));
        let answer = failed.unwrap_or_else(|| "cmd=put_result rc=0 msg=success".to_owned());
        actions.push(PmiAction::Answer(rank, answer));
        let released = self.wanting.note_published(rank);
        self.release(released, actions);
    }

    fn insert(&mut self, key: &str, value: &str) {
        let before = self.values.insert(key.to_owned(), value.to_owned());
        self.value_bytes += value.len();
        self.value_bytes -= before.map_or(0, |before| before.len());
    }

    fn enter_barrier(&mut self, rank: u32, actions: &mut Vec<PmiAction>) {
        if self.clients[rank as usize].is_excluded {
            // It is being ended, and must not end the others.
            return;
        }
        let released = self.wanting.note_other_library(rank);
        self.release(released, actions);
        self.waiting.insert(rank);
        self.leave_barrier(actions);
        actions.extend(self.missing_process());
    }

    /// Releases the barrier if all processes that have not been ended wait in it.
    fn leave_barrier(&mut self, actions: &mut Vec<PmiAction>) {
        if self.waiting.len() < self.clients.len() - self.excluded {
            return;
        }
        let leave = |rank| PmiAction::Answer(rank, "cmd=barrier_out".to_owned());
        actions.extend(std::mem::take(&mut self.waiting).into_iter().map(leave));
    }

    /// Excludes some processes, and publishes to the others that there are such processes.
    fn exclude(&mut self, by: u32, ranks: Vec<u32>, code: i32, actions: &mut Vec<PmiAction>) {
        for &rank in &ranks {
            self.waiting.remove(&rank);
            self.gone.remove(&rank);
            let was_excluded =
                std::mem::replace(&mut self.clients[rank as usize].is_excluded, true);
            self.excluded += usize::from(!was_excluded);
            self.note_ended(rank);
        }
        for &rank in &ranks {
            let released = self.wanting.note_gone(rank);
            self.release(released, actions);
        }
        actions.push(PmiAction::End(by, ranks, code));
        self.leave_barrier(actions);
    }

    /// Publishes that a process was ended or has failed while the others go on.
    fn note_ended(&mut self, rank: u32) {
        self.ended.insert(rank);
        self.insert(&format!("{ENDED_KEY}-{rank}"), "1");
        self.insert(ENDED_KEY, "1");
    }
}

#[cfg(test)]
mod tests;
