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
mod tests {
    use std::time::Duration;

    use super::*;

    use proptest::prelude::*;

    fn request(server: &mut PmiServer, rank: u32, line: &str) -> Vec<String> {
        let line = format!("{line}\n");
        let answer = |action| match action {
            PmiAction::Answer(rank, text) => format!("{rank}: {text}"),
            other => format!("{other:?}"),
        };
        server.receive(rank, line.as_bytes()).into_iter().map(answer).collect()
    }

    #[test]
    fn a_job_of_two() {
        let mut server = PmiServer::new(&[0, 1], 2);
        assert_eq!(server.mpi_state(0), MpiState::Uninitialized);
        let hello = request(&mut server, 0, "cmd=init pmi_version=1 pmi_subversion=1");
        let all = "pmi_version=1 pmi_subversion=1 rc=0 kvsname=combray kvsname_max=64 keylen_max=64 \
                   vallen_max=65537 appnum=0 size=2 PMI_process_mapping=(vector,(0,1,2))";
        assert_eq!(hello, [format!("0: cmd=response_to_init {all}")]);
        assert_eq!(request(&mut server, 1, "cmd=get_appnum"), ["1: cmd=appnum appnum=1"]);
        let put = request(&mut server, 0, "cmd=put kvsname=combray key=a value=b=c");
        assert_eq!(put, ["0: cmd=put_result rc=0 msg=success"]);
        assert!(request(&mut server, 0, "cmd=barrier_in").is_empty());
        let out = request(&mut server, 1, "cmd=barrier_in");
        assert_eq!(out, ["0: cmd=barrier_out", "1: cmd=barrier_out"]);
        let got = request(&mut server, 1, "cmd=get kvsname=combray key=a");
        assert_eq!(got, ["1: cmd=get_result rc=0 msg=success value=b=c"]);
        let missing = request(&mut server, 1, "cmd=get kvsname=combray key=z");
        assert_eq!(missing, ["1: cmd=get_result rc=-1 msg=key_not_found"]);
        assert_eq!(request(&mut server, 0, "cmd=finalize"), ["0: cmd=finalize_ack"]);
        assert_eq!(
            (server.mpi_state(0), server.mpi_state(1)),
            (MpiState::Finalized, MpiState::Uninitialized)
        );
        assert_eq!(request(&mut server, 1, "cmd=abort exitcode=7"), ["Abort(1, 7, None)"]);
        assert_eq!(
            request(&mut server, 1, "cmd=abort exitcode=7 combray_reason=no%20more"),
            ["Abort(1, 7, Some(\"no more\"))"]
        );
        let reported = request(&mut server, 1, "cmd=get kvsname=combray key=combray-reasons");
        assert_eq!(reported, ["1: cmd=get_result rc=0 msg=success value=1"]);
        assert_eq!(request(&mut server, 1, "hello"), ["ProtocolError(1, \"hello\")"]);
        assert!(request(&mut server, 1, "cmd=get_appnum").is_empty());
    }

    #[test]
    fn the_wanted_number_of_processes_is_returned_from_when_it_is_set() {
        let mut server = PmiServer::new(&[0, 0], 2);
        let none = request(&mut server, 1, "cmd=get kvsname=combray key=combray-wanted-2");
        assert_eq!(none, ["1: cmd=get_result rc=-1 msg=key_not_found"]);
        assert_eq!(server.reported_size(), Some(2));
        server.set_wanted_size(WantedSize { processes: 4, hosts: "a:1,b".to_owned() });
        let wanted = request(&mut server, 0, "cmd=get kvsname=combray key=combray-wanted-3");
        assert_eq!(wanted, ["0: cmd=get_result rc=0 msg=success value=4@a:1,b"]);
        assert_eq!(server.reported_size(), Some(3));
    }

    #[test]
    fn values_are_waited_for_without_a_barrier() {
        let mut server = PmiServer::new(&[0; 3], 3);
        let get = |key: &str, of: &str| format!("cmd=get kvsname=combray key={key} publisher={of}");
        let publish = |value: &str| format!("cmd=publish card={value} place=7");
        let put = |rank: u32| format!("{rank}: cmd=put_result rc=0 msg=success");
        let got = |rank: u32, value: &str| {
            format!("{rank}: cmd=get_result rc=0 msg=success value={value}")
        };
        // Requests that are sent together are answered in their order.
        let both = format!("{}\n{}\ncmd=get_appnum", publish("a"), get("card-1", "1"));
        assert_eq!(request(&mut server, 0, &both), [put(0)]);
        let all = format!("{}\n{}", publish("b"), get("combray-all-card", "all"));
        let appnum = "0: cmd=appnum appnum=0".to_owned();
        assert_eq!(request(&mut server, 1, &all), [put(1), got(0, "b"), appnum]);
        assert_eq!(
            request(&mut server, 2, &publish("c")),
            [put(2), got(1, "a\u{1f}b\u{1f}c")],
            "the last process lets all go on"
        );
        assert_eq!(request(&mut server, 2, &get("card-0", "0")), [got(2, "a")]);
        let missing = request(&mut server, 2, &get("other-0", "0"));
        assert_eq!(missing, ["2: cmd=get_result rc=-1 msg=key_not_found"]);
        // The next program of rank 0 waits for the next programs of the others.
        assert_eq!(request(&mut server, 0, &publish("d")), [put(0)]);
        assert!(request(&mut server, 0, &get("card-2", "2")).is_empty());
        assert_eq!(request(&mut server, 1, &get("card-2", "2")), [got(1, "c")]);
        assert_eq!(request(&mut server, 2, &publish("e")), [put(2), got(0, "e")]);
    }

    #[test]
    fn nothing_is_waited_for_that_a_process_will_not_publish() {
        let get = |of: u32| format!("cmd=get kvsname=combray key=card-{of} publisher={of}\n");
        let all = "cmd=get kvsname=combray key=combray-all-card publisher=all\n";
        // A process that ends, before or after it is waited for.
        for on_missing in [OnMissing::EndJob, OnMissing::FailBarrier] {
            let mut server = PmiServer::new(&[0; 4], 4).with_missing(on_missing);
            let outcome = |waiting: u32| match on_missing {
                OnMissing::EndJob => PmiAction::MissingProcess { waiting, gone: 2 },
                OnMissing::FailBarrier => {
                    PmiAction::Answer(waiting, "cmd=get_result rc=-1 msg=key_not_found".to_owned())
                }
            };
            assert!(server.receive(0, get(2).as_bytes()).is_empty());
            assert!(server.receive(1, all.as_bytes()).is_empty());
            assert_eq!(server.close(2), [outcome(0), outcome(1)]);
            assert_eq!(server.receive(3, get(2).as_bytes()), [outcome(3)]);
            assert_eq!(server.receive(3, all.as_bytes()), [outcome(3)]);
        }
        // A process that was ended alone, and one of another library.
        let mut server = PmiServer::new(&[0; 3], 3).with_missing(OnMissing::FailBarrier);
        assert!(server.receive(0, get(1).as_bytes()).is_empty());
        let abort = "cmd=abort exitcode=3 combray_ranks=1";
        assert!(request(&mut server, 1, abort)[0].contains("key_not_found"));
        assert!(server.receive(0, get(2).as_bytes()).is_empty());
        assert!(request(&mut server, 2, "cmd=barrier_in")[0].contains("key_not_found"));
    }

    #[test]
    fn a_process_that_has_finalized_or_ended_has_left() {
        let mut server = PmiServer::new(&[0; 3], 3);
        server.receive(0, b"cmd=init pmi_version=1 pmi_subversion=1\ncmd=finalize\n");
        server.close(1);
        for (rank, left) in [(0, true), (1, true), (2, false), (7, false)] {
            let line = format!("cmd=get kvsname=combray key=combray-left-{rank}");
            assert_eq!(request(&mut server, 2, &line)[0].contains("rc=0"), left, "{rank}");
        }
    }

    #[test]
    fn a_barrier_without_a_process_fails_where_the_job_goes_on() {
        let mut server = PmiServer::new(&[0; 3], 3).with_missing(OnMissing::FailBarrier);
        request(&mut server, 0, "cmd=barrier_in");
        let failed = |rank: u32, gone: u32| {
            PmiAction::Answer(rank, format!("cmd=barrier_out rc=-1 msg=missing_process_{gone}"))
        };
        assert_eq!(server.close(2), [failed(0, 2)]);
        assert_eq!(server.receive(1, b"cmd=barrier_in\n"), [failed(1, 2)]);
        assert_eq!(server.receive(1, b"cmd=barrier_in\n"), [failed(1, 2)]);
        let mut is_reported = |key: &str| {
            let line = format!("cmd=get kvsname=combray key={key}");
            request(&mut server, 0, &line)[0].contains("rc=0")
        };
        assert!(is_reported(ENDED_KEY) && is_reported(&format!("{ENDED_KEY}-2")));
        assert!(!is_reported(&format!("{ENDED_KEY}-1")));
    }

    #[test]
    fn a_barrier_costs_the_same_for_each_process_of_a_large_job() {
        const SIZE: u32 = 1 << 16;
        let mut server = PmiServer::new(&vec![0; SIZE as usize], SIZE);
        let begun = sys::usage::processor_time();
        for _ in 0..3 {
            let enter = |rank| server.receive(rank, b"cmd=barrier_in\n").len();
            assert_eq!((0..SIZE).map(enter).sum::<usize>(), SIZE as usize);
        }
        let spent = sys::usage::processor_time() - begun;
        println!("3 barriers of {SIZE} processes: {spent:?}");
        assert!(spent < Duration::from_secs(5), "{spent:?}");
    }

    #[test]
    fn nobody_waits_for_one_that_sent_nonsense() {
        let mut server = PmiServer::new(&[0; 2], 2);
        request(&mut server, 0, "cmd=barrier_in");
        let actions = server.receive(1, &[b'x'; LINE_BYTES_MAX + 1]);
        let error = PmiAction::ProtocolError(1, "a line without end".to_owned());
        assert_eq!(actions, [error, PmiAction::MissingProcess { waiting: 0, gone: 1 }]);
        let mut server = PmiServer::new(&[0; 2], 2);
        request(&mut server, 1, "cmd=barrier_in");
        let long = server.receive(1, &[&[b'y'; 1000][..], b"\n"].concat());
        assert_eq!(long, [PmiAction::ProtocolError(1, "y".repeat(SHOWN_LETTERS_MAX))]);
        assert!(server.receive(0, b"cmd=barrier_in\n").len() == 1);
    }

    #[test]
    fn nobody_waits_for_one_that_has_gone() {
        let stuck = |waiting, gone| [PmiAction::MissingProcess { waiting, gone }];
        let mut server = PmiServer::new(&[0, 0, 0], 3);
        assert!(server.close(1).is_empty());
        assert_eq!(server.receive(2, b"cmd=barrier_in\n"), stuck(2, 1));
        let mut server = PmiServer::new(&[0, 0], 2);
        assert!(request(&mut server, 1, "cmd=barrier_in").is_empty());
        assert_eq!(server.close(0), stuck(1, 0));
        let mut server = PmiServer::new(&[0, 0], 2);
        request(&mut server, 0, "cmd=barrier_in");
        request(&mut server, 1, "cmd=barrier_in");
        assert!(server.close(0).is_empty() && server.close(1).is_empty());
    }

    #[test]
    fn some_are_ended_and_the_others_go_on() {
        let mut server = PmiServer::new(&[0; 5], 5);
        request(&mut server, 3, "cmd=barrier_in");
        request(&mut server, 2, "cmd=barrier_in");
        let ended = request(&mut server, 0, "cmd=abort exitcode=7 combray_ranks=0-1,3");
        assert_eq!(ended, ["End(0, [0, 1, 3], 7)"]);
        assert!(server.close(1).is_empty());
        let got = request(&mut server, 4, "cmd=get key=combray-ended");
        assert_eq!(got, ["4: cmd=get_result rc=0 msg=success value=1"]);
        let each: Vec<_> = (0..5)
            .map(|rank| request(&mut server, 4, &format!("cmd=get key=combray-ended-{rank}")))
            .map(|answer| answer[0].contains("value=1"))
            .collect();
        assert_eq!(each, [true, true, false, true, false]);
        let list = request(&mut server, 4, "cmd=get key=combray-ended-ranks");
        assert_eq!(list, ["4: cmd=get_result rc=0 msg=success value=0-1,3"]);
        assert_eq!(server.failures(), 3);
        let out = request(&mut server, 4, "cmd=barrier_in");
        assert_eq!(out, ["2: cmd=barrier_out", "4: cmd=barrier_out"]);
        request(&mut server, 4, "cmd=barrier_in");
        let last = request(&mut server, 4, "cmd=abort exitcode=1 combray_ranks=2");
        assert_eq!(last, ["End(4, [2], 1)", "4: cmd=barrier_out"]);
        assert!(server.close(4).is_empty());
        assert!(
            request(&mut server, 0, "cmd=barrier_in").is_empty(),
            "it does not wait for rank 4"
        );
        for nonsense in ["5", "1-9", "2-1", "x", "1,"] {
            let line = format!("cmd=abort exitcode=1 combray_ranks={nonsense}");
            assert_eq!(request(&mut server, 4, &line), ["Abort(4, 1, None)"]);
        }
    }

    #[test]
    fn the_values_of_all_ranks_are_one_value_if_they_fit() {
        let mut server = PmiServer::new(&[0; 3], 3);
        let put = |server: &mut PmiServer, rank: u32, value: &str| {
            request(server, rank, &format!("cmd=put key=card-{rank} value={value}"));
        };
        let all = |server: &mut PmiServer| request(server, 1, "cmd=get key=combray-all-card");
        put(&mut server, 0, "a");
        put(&mut server, 2, "c=d");
        let missing = ["1: cmd=get_result rc=-1 msg=key_not_found"];
        assert_eq!(all(&mut server), missing);
        put(&mut server, 1, "b");
        let success = ["1: cmd=get_result rc=0 msg=success value=a\u{1f}b\u{1f}c=d"];
        assert_eq!(all(&mut server), success);
        put(&mut server, 2, &"c".repeat(VALUE_BYTES_MAX - 5));
        assert_eq!(all(&mut server)[0].len(), success[0].len() - 3 + VALUE_BYTES_MAX - 5);
        put(&mut server, 2, &"c".repeat(VALUE_BYTES_MAX - 4));
        assert_eq!(all(&mut server), missing);
    }

    #[test]
    fn a_long_mapping_has_no_single_value() {
        let places: Vec<usize> = (0..20_480).map(|rank| rank * 7919 % 10_007).collect();
        let mut server = PmiServer::new(&[0; 20_480], 20_480).with_mapping(&mapping::text(&places));
        let mut get = |key: &str| {
            request(&mut server, 0, &format!("cmd=get kvsname=combray key={key}")).remove(0)
        };
        assert!(get(mapping::KEY).contains("rc=-1"));
        assert!(get("combray-mapping-parts").ends_with(" value=4"));
        let last = get("combray-mapping-parts-3");
        assert!(last.ends_with("))") && last.len() < VALUE_BYTES_MAX + 64, "{}", last.len());
    }

    #[test]
    fn the_space_of_keys_is_bounded() {
        let mut server = PmiServer::new(&[0, 0], 2);
        let put = |number: usize| format!("cmd=put kvsname=combray key=k{number} value=v");
        let refused = ["0: cmd=put_result rc=-1 msg=too_many_keys"];
        // One key belongs to the server.
        let last = 2 * KEYS_PER_PROCESS_MAX - 1;
        (0..last).for_each(|number| assert_ne!(request(&mut server, 0, &put(number)), refused));
        assert_eq!(request(&mut server, 0, &put(last)), refused);
        assert_ne!(request(&mut server, 0, &put(0)), refused);
    }

    #[test]
    fn the_space_of_values_is_bounded() {
        let mut server = PmiServer::new(&[0], 1);
        let value = "v".repeat(VALUE_BYTES_MAX - 1);
        let put = |number: usize| format!("cmd=put kvsname=combray key=k{number} value={value}");
        let fitting = BYTES_PER_PROCESS_MAX / VALUE_BYTES_MAX;
        let success = ["0: cmd=put_result rc=0 msg=success"];
        (0..fitting).for_each(|number| assert_eq!(request(&mut server, 0, &put(number)), success));
        let refused = request(&mut server, 0, &put(fitting));
        assert_eq!(refused, ["0: cmd=put_result rc=-1 msg=too_many_bytes"]);
        let got = request(&mut server, 0, "cmd=get key=k0");
        assert_eq!(got, [format!("0: cmd=get_result rc=0 msg=success value={value}")]);
        let too_long = request(&mut server, 0, &(put(0) + "v"));
        assert_eq!(too_long, ["0: cmd=put_result rc=-1 msg=too_long"]);
    }

    proptest! {
        #[test]
        fn how_bytes_are_cut_does_not_matter(cuts in proptest::collection::vec(1_usize..9, 1..60)) {
            let text = "cmd=init pmi_version=1\ncmd=put key=k value=v\ncmd=get key=k\ncmd=finalize\n";
            let mut whole = PmiServer::new(&[0], 1);
            let expected = whole.receive(0, text.as_bytes());
            let (mut server, mut got, mut rest) = (PmiServer::new(&[0], 1), Vec::new(), text.as_bytes());
            for cut in cuts.into_iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (head, tail) = rest.split_at(cut.min(rest.len()));
                got.extend(server.receive(0, head));
                rest = tail;
            }
            prop_assert_eq!(got, expected);
        }

        #[test]
        fn all_see_all_values_in_any_order_of_arrival(
            size in 1_usize..6,
            turns in proptest::collection::vec(any::<proptest::sample::Index>(), 200),
        ) {
            let mut server = PmiServer::new(&vec![0; size], size as u32);
            let script = |rank: usize| {
                let gets = (0..size).map(|other| format!("cmd=get key=card-{other}\n"));
                let put = format!("cmd=put key=card-{rank} value=of-{rank}\n");
                [put, "cmd=barrier_in\n".to_owned()].into_iter().chain(gets).collect::<Vec<_>>()
            };
            let mut scripts: Vec<_> = (0..size).map(|rank| script(rank).into_iter()).collect();
            // A process sends a line only after it has received the answer to the previous one.
            let mut received: Vec<Vec<String>> = vec![Vec::new(); size];
            let mut sent_rounds = vec![0; size];
            let in_turn = turns.iter().map(|turn| turn.index(size));
            for rank in in_turn.chain((0..size).cycle().take(size * (size + 2) * 2)) {
                if sent_rounds[rank] > received[rank].len() {
                    continue;
                }
                let Some(line) = scripts[rank].next() else { continue };
                sent_rounds[rank] += 1;
                for action in server.receive(rank as u32, line.as_bytes()) {
                    let PmiAction::Answer(to, text) = action else { panic!("{action:?}") };
                    received[to as usize].push(text);
                }
            }
            for answers in received {
                let values: Vec<_> = answers[2..].iter().filter_map(|t| t.split("value=").nth(1)).collect();
                let expected: Vec<_> = (0..size).map(|rank| format!("of-{rank}")).collect();
                prop_assert_eq!(values, expected);
            }
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..6000)) {
            PmiServer::new(&[0], 1).receive(0, &bytes);
        }
    }
}
