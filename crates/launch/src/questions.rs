//! The memory file through which a launcher or `combray ps` sends questions to the processes of a
//! machine, and in which these processes store their answers.
//!
//! The file begins with the number of the last question, the number of failed processes of the job,
//! the *news word*, which counts the changes of these two numbers, and a table of process ids. Then
//! each process has a slot, which holds the number of a question and the answer to it, and behind
//! the slots there are the [cards](crate::cards) of the processes. No messages are sent, so a job
//! that makes no progress still answers. A process that sleeps in the library
//! sleeps on the news word too, where the system can let it sleep on two words; elsewhere it reads
//! the news word when it has waited long. The helper thread reads it from time to time.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use base::variables::{LOCAL_RANK, NODE, QUESTIONS};
use memory::SharedMemory;
use serde::{Deserialize, Serialize};
use sys::{environment, futex};

use crate::cards::{self, CardTable};
use crate::inherited;

/// The asking side: the launcher's handle of the file.
#[derive(Debug)]
pub struct QuestionBoard {
    file: File,
    news: NewsWord,
    processes: u32,
    question: u64,
}

/// The news word of a file, in a mapping that is never removed, as threads may sleep on the word
/// until the process ends.
#[derive(Clone, Copy, Debug)]
struct NewsWord(&'static AtomicU32);

/// The answering side: the handle of a process.
#[derive(Debug)]
pub struct AnswerSlot {
    file: Arc<File>,
    news: NewsWord,
    local_rank: u32,
}

/// What a process that was not started by our launcher publishes about itself, so that `combray ps`
/// finds it among the processes of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// The launcher's name of the job, equal in all processes of the job.
    pub job: String,
    /// Its rank.
    pub rank: u32,
    /// How many processes the job has.
    pub size: u32,
    /// The number of machines on which these processes run.
    pub hosts: u32,
    /// The ranks on this machine.
    pub here: Vec<u32>,
    /// The name of this machine.
    pub host: String,
    /// The command line.
    pub program: String,
    /// When the process joined the job, in seconds since 1970.
    pub joined: u64,
}

/// A process of this machine that can be asked without its launcher.
#[derive(Debug)]
pub struct AskedProcess {
    file: File,
    /// Its process id.
    pub process: i32,
    /// The user id as which it runs.
    pub user: u32,
    /// What it has published about itself.
    pub identity: ProcessIdentity,
    question: u64,
}

/// Whether an answer is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// The answer is complete.
    Whole,
    /// A longer answer may replace this one.
    MoreComes,
}

/// The name of the memory file, and the beginning of its link target in /proc/PID/fd. A library or
/// a command of another version, whose file has another layout, neither reads nor writes this file:
/// each layout has a name that begins with no name of an earlier one. The earlier one was
/// "combray-questions", whose table began at byte 64.
const LABEL: &std::ffi::CStr = c"combray-asks-2";
const LINK: &str = "/memfd:combray-asks-2";

/// Stands in the place of the number of a question before the report about a crash.
const CRASH: u64 = u64::MAX;

/// The length of a slot in bytes, with its head. The first slot holds the question number and the
/// table.
const SLOT_BYTES: u64 = 64 << 10;
/// The length of the head of an answer: the number of its question (64 bits), the length of the
/// answer (32 bits), and whether a longer answer follows (32 bits).
const HEAD_BYTES: u64 = 16;
/// The offset of the number of failed processes of the job, plus 1. It is 0 in files of processes
/// that our launcher did not start, where nothing counts failures.
const FAILURES: u64 = 8;
/// The offset of the table of process ids. The news word lies before it, where shared memory has
/// its first word.
const TABLE: u64 = 128;

/// The offset of the identity of a process, and its maximal length. The identity is preceded by its
/// length, with 64 bits.
const IDENTITY: u64 = 4096;
const IDENTITY_BYTES_MAX: usize = (SLOT_BYTES - IDENTITY - 8) as usize;

/// Identities that claim a larger job are rejected, because memory is needed for each rank that is
/// shown.
const SIZE_MAX: u32 = 1 << 20;

/// The maximal length of an answer in bytes.
pub const ANSWER_BYTES_MAX: usize = (SLOT_BYTES - HEAD_BYTES) as usize;

impl QuestionBoard {
    /// Creates a file for the processes with these ranks, in ascending order.
    ///
    /// # Errors
    /// The system's, or the table has no room for so many processes.
    pub fn new(ranks: &[u32]) -> io::Result<Self> {
        let processes = ranks.len() as u32;
        if place_in_table(processes) > SLOT_BYTES {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let slots = SLOT_BYTES * (u64::from(processes) + 1);
        let length = slots + cards::table_bytes(ranks.len());
        let file = sys::mapping::create_memory_file(LABEL, length as usize)?;
        cards::create(&file, slots, ranks)?;
        let board = Self { news: NewsWord::of(&file)?, file, processes, question: 0 };
        board.publish_failures(0)?;
        Ok(board)
    }

    /// Publishes how many processes of the job have failed, or were ended, while the others go on.
    ///
    /// # Errors
    /// The system's.
    pub fn publish_failures(&self, count: u32) -> io::Result<()> {
        self.file.write_all_at(&(u64::from(count) + 1).to_le_bytes(), FAILURES)?;
        self.news.announce();
        Ok(())
    }

    /// Returns the environment variable by which a process finds the file. The process inherits the
    /// descriptor under the number that it has here.
    pub fn variable(&self) -> (&'static str, String) {
        (QUESTIONS, self.file.as_raw_fd().to_string())
    }

    /// Sends a question to all processes.
    ///
    /// # Errors
    /// The system's.
    pub fn ask(&mut self) -> io::Result<()> {
        self.question += 1;
        self.file.write_all_at(&self.question.to_le_bytes(), 0)?;
        self.news.announce();
        Ok(())
    }

    /// Returns the answer of a process to the last question, if it has answered.
    pub fn answer(&self, local_rank: u32) -> Option<(Completeness, Vec<u8>)> {
        let start = slot(local_rank).filter(|_| local_rank < self.processes)?;
        answer_in(&self.file, start, self.question)
    }

    /// Returns what a process has reported about its crash, if it has crashed.
    pub fn crash(&self, local_rank: u32) -> Option<String> {
        let start = slot(local_rank).filter(|_| local_rank < self.processes)?;
        let (_, text) = answer_in(&self.file, start, CRASH)?;
        Some(String::from_utf8_lossy(&text).into_owned())
    }

    /// Returns the id of a process that has joined the job, none if it has not joined. The process
    /// that the launcher started may be a script around it.
    pub fn process(&self, local_rank: u32) -> Option<i32> {
        let mut bytes = [0; 4];
        self.file.read_exact_at(&mut bytes, place_in_table(local_rank)).ok()?;
        Some(i32::from_le_bytes(bytes)).filter(|&process| process > 0)
    }
}

impl NewsWord {
    /// Maps the word of a file.
    fn of(file: &File) -> io::Result<Self> {
        let memory: &'static SharedMemory = Box::leak(Box::new(SharedMemory::open_words(file, 1)?));
        Ok(Self(memory.word(0)))
    }

    /// Counts a change that was stored, and wakes the threads that sleep on the word.
    fn announce(self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        // Waking fails only for an invalid word, and this word is valid.
        let _ = futex::wake(self.0, i32::MAX);
    }
}

impl AsFd for QuestionBoard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Returns the file of the launcher that has started this process, if there is one.
fn launcher_file() -> Option<Arc<File>> {
    static FILE: OnceLock<Option<Arc<File>>> = OnceLock::new();
    let adopt = || inherited::memory_file(QUESTIONS, LABEL).map(Arc::new);
    FILE.get_or_init(adopt).clone()
}

/// Returns the table of the cards of the processes that the launcher has started on this machine.
pub(crate) fn launcher_cards() -> Option<CardTable> {
    CardTable::find(launcher_file()?, LABEL)
}

impl AnswerSlot {
    /// Returns the slot of this process if its launcher asks questions, and enters the id of this
    /// process into the table.
    pub fn find() -> Option<Self> {
        let local_rank: i32 = environment::text(LOCAL_RANK)?.parse().ok()?;
        let file = launcher_file()?;
        let news = NewsWord::of(&file).ok()?;
        let slot = Self { file, news, local_rank: u32::try_from(local_rank).ok()? };
        let process = std::process::id().to_le_bytes();
        slot.file.write_all_at(&process, place_in_table(slot.local_rank)).ok()?;
        Some(slot)
    }

    /// Creates a file for this process alone, where no launcher of ours has started it.
    pub fn own(identity: &ProcessIdentity) -> Option<Self> {
        let text = serde_json::to_vec(identity).ok()?;
        if text.len() > IDENTITY_BYTES_MAX {
            return None;
        }
        let file = sys::mapping::create_memory_file(LABEL, 2 * SLOT_BYTES as usize).ok()?;
        let slot = Self { news: NewsWord::of(&file).ok()?, file: file.into(), local_rank: 0 };
        let head = (text.len() as u64).to_le_bytes();
        slot.file.write_all_at(&text, IDENTITY + 8).ok()?;
        slot.file.write_all_at(&head, IDENTITY).ok()?;
        let process = std::process::id().to_le_bytes();
        slot.file.write_all_at(&process, place_in_table(0)).ok()?;
        Some(slot)
    }

    /// Returns the word that counts the changes of the last question and of the number of failed
    /// processes. Threads that sleep on it are woken after each change.
    pub fn news(&self) -> &'static AtomicU32 {
        self.news.0
    }

    /// Returns the number of the last question; 0 if there was none.
    pub fn question(&self) -> u64 {
        number_at(&self.file, 0).unwrap_or(0)
    }

    /// Returns how many processes of the job have failed, or were ended, while the others go on;
    /// none if the launcher does not publish it.
    pub fn failures(&self) -> Option<u64> {
        if !inherited::is_sound(&self.file, LABEL) {
            return None;
        }
        number_at(&self.file, FAILURES)?.checked_sub(1)
    }

    /// Answers a question. A later answer replaces an earlier one.
    pub fn answer(&self, question: u64, completeness: Completeness, text: &[u8]) {
        let (Some(start), true) = (slot(self.local_rank), inherited::is_sound(&self.file, LABEL))
        else {
            return;
        };
        let text = &text[..text.len().min(ANSWER_BYTES_MAX)];
        let mut head = [0; HEAD_BYTES as usize];
        let more = u64::from(completeness == Completeness::MoreComes) << 32;
        head[8..].copy_from_slice(&(text.len() as u64 | more).to_le_bytes());
        head[..8].copy_from_slice(&question.to_le_bytes());
        // The text is written before the number, so that a reader that sees the number finds the
        // text. If the file has no room, the question stays unanswered.
        let _ = (self.file.write_all_at(text, start + HEAD_BYTES))
            .and_then(|()| self.file.write_all_at(&head, start));
    }

    /// Reports that this process crashes; the launcher reads it when the process has ended. False
    /// if no launcher of ours reads it.
    pub fn report_crash(&self, text: &[u8]) -> bool {
        let is_read = self.failures().is_some();
        if is_read {
            self.answer(CRASH, Completeness::Whole, text);
        }
        is_read
    }
}

/// Returns the name of this machine, by which processes recognize that they run on one machine.
pub fn own_host() -> String {
    environment::text(NODE).unwrap_or_else(sys::process::host_name)
}

impl ProcessIdentity {
    /// Reads the identity that another process has published, which may be any process; none if it
    /// makes no sense.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let reported: Self = foreign::from_json(text).ok()?;
        let makes_sense = reported.rank < reported.size
            && reported.size <= SIZE_MAX
            && reported.here.len() <= reported.size as usize
            && reported.here.iter().all(|rank| *rank < reported.size);
        makes_sense.then_some(reported)
    }
}

impl AskedProcess {
    /// Returns the processes of this machine whose memory the user of this process may read.
    pub fn all() -> Vec<Self> {
        // Processes of a container, or of an emulated host, may be visible here and belong to
        // another host.
        let host = own_host();
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.filter_map(Self::of).filter(|one| one.identity.host == host).collect()
    }

    fn of(process: i32) -> Option<Self> {
        let user = foreign::owner_of(u32::try_from(process).ok()?).ok()?;
        let folder = fs::read_dir(format!("/proc/{process}/fd")).ok()?;
        folder.flatten().find_map(|entry| {
            let link = fs::read_link(entry.path()).ok()?;
            if !link.as_os_str().as_encoded_bytes().starts_with(LINK.as_bytes()) {
                return None;
            }
            // A file of another type may have that name too; such a file is neither opened nor
            // written to.
            let is_memory = |reported: &Metadata| {
                foreign::is_memory_file(reported, user) && reported.len() >= 2 * SLOT_BYTES
            };
            let file = sys::files::open_as_expected(&entry.path(), is_memory).ok()?;
            let length = usize::try_from(number_at(&file, IDENTITY)?).ok()?;
            let mut number = [0; 4];
            file.read_exact_at(&mut number, place_in_table(0)).ok()?;
            // Children of the process may have inherited its descriptor, and do not answer.
            if length == 0 || length > IDENTITY_BYTES_MAX || i32::from_le_bytes(number) != process {
                return None;
            }
            let mut text = vec![0; length];
            file.read_exact_at(&mut text, IDENTITY + 8).ok()?;
            let identity = ProcessIdentity::parse(&text)?;
            Some(Self { file, process, user, identity, question: 0 })
        })
    }

    /// Sends a question to the process.
    ///
    /// # Errors
    /// The system's.
    pub fn ask(&mut self) -> io::Result<()> {
        let news = NewsWord::of(&self.file)?;
        self.question = number_at(&self.file, 0).unwrap_or(0).wrapping_add(1);
        self.file.write_all_at(&self.question.to_le_bytes(), 0)?;
        news.announce();
        Ok(())
    }

    /// Returns its answer to the last question, if it has answered.
    pub fn answer(&self) -> Option<(Completeness, Vec<u8>)> {
        answer_in(&self.file, slot(0)?, self.question)
    }
}

/// Returns the answer in the slot at `start` to `question`, if it is there.
fn answer_in(file: &File, start: u64, question: u64) -> Option<(Completeness, Vec<u8>)> {
    if number_at(file, start)? != question {
        return None;
    }
    let both = number_at(file, start + 8)?;
    let completeness = if both >> 32 == 0 { Completeness::Whole } else { Completeness::MoreComes };
    let mut bytes = vec![0; (both as u32 as usize).min(ANSWER_BYTES_MAX)];
    file.read_exact_at(&mut bytes, start + HEAD_BYTES).ok()?;
    Some((completeness, bytes))
}

fn slot(local_rank: u32) -> Option<u64> {
    (u64::from(local_rank) + 1).checked_mul(SLOT_BYTES)
}

fn place_in_table(local_rank: u32) -> u64 {
    TABLE + 4 * u64::from(local_rank)
}

fn number_at(file: &File, place: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, place).ok()?;
    Some(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot_in(file: &File, local_rank: u32) -> AnswerSlot {
        let news = NewsWord::of(file).unwrap();
        AnswerSlot { file: file.try_clone().unwrap().into(), news, local_rank }
    }

    /// The slot of a process whose program closed the descriptor and opened another file.
    fn slot_replaced_by(path: &str) -> AnswerSlot {
        let board = QuestionBoard::new(&[0]).unwrap();
        AnswerSlot { file: File::open(path).unwrap().into(), ..slot_in(&board.file, 0) }
    }

    #[test]
    fn the_last_question_is_answered_by_whoever_is_there() {
        let mut board = QuestionBoard::new(&[4, 5]).unwrap();
        let slot = slot_in(&board.file, 1);
        let whole = |text: &[u8]| Some((Completeness::Whole, text.to_vec()));
        assert_eq!((slot.question(), board.answer(1)), (0, whole(b"")));
        board.ask().unwrap();
        assert_eq!((slot.question(), board.answer(1)), (1, None));
        slot.answer(1, Completeness::MoreComes, b"waits");
        assert_eq!(board.answer(0), None);
        assert_eq!(board.answer(1), Some((Completeness::MoreComes, b"waits".to_vec())));
        slot.answer(1, Completeness::Whole, b"still waits");
        assert_eq!(board.answer(1), whole(b"still waits"));
        board.ask().unwrap();
        assert_eq!((board.answer(1), board.answer(2)), (None, None));
        slot.answer(2, Completeness::Whole, &vec![b'x'; ANSWER_BYTES_MAX + 1]);
        assert_eq!(board.answer(1).map(|(_, text)| text.len()), Some(ANSWER_BYTES_MAX));
        assert_eq!(board.process(1), None);
    }

    #[test]
    fn each_change_is_news() {
        let mut board = QuestionBoard::new(&[0]).unwrap();
        let slot = slot_in(&board.file, 0);
        let before = slot.news().load(Ordering::SeqCst);
        board.ask().unwrap();
        board.publish_failures(1).unwrap();
        assert_eq!(slot.news().load(Ordering::SeqCst), before + 2);
        assert_eq!((slot.question(), slot.failures()), (1, Some(1)));
    }

    #[test]
    fn a_crash_is_reported_to_a_launcher_only() {
        let board = QuestionBoard::new(&[0]).unwrap();
        let slot = slot_in(&board.file, 0);
        assert_eq!(board.crash(0), None);
        assert!(slot.report_crash(b"in main"));
        assert_eq!((board.crash(0).as_deref(), board.crash(1)), (Some("in main"), None));
        let file = sys::mapping::create_memory_file(LABEL, 2 * SLOT_BYTES as usize).unwrap();
        assert!(!slot_in(&file, 0).report_crash(b"in main"));
    }

    #[test]
    fn failures_are_published_by_launchers_only() {
        let board = QuestionBoard::new(&[0]).unwrap();
        let slot = slot_in(&board.file, 0);
        assert_eq!(slot.failures(), Some(0));
        board.publish_failures(7).unwrap();
        assert_eq!(slot.failures(), Some(7));
        let file = sys::mapping::create_memory_file(LABEL, 2 * SLOT_BYTES as usize).unwrap();
        assert_eq!(slot_in(&file, 0).failures(), None);
        assert_eq!(slot_replaced_by("/dev/zero").failures(), None);
    }

    #[test]
    fn a_process_without_our_launcher_is_found_and_asked() {
        let identity = ProcessIdentity {
            job: format!("job of {}", std::process::id()),
            rank: 3,
            size: 4,
            hosts: 2,
            here: vec![2, 3],
            host: "here".to_owned(),
            program: "./solver -n 7".to_owned(),
            joined: 1,
        };
        let slot = AnswerSlot::own(&identity).unwrap();
        let mut found = AskedProcess::of(std::process::id() as i32).unwrap();
        assert_eq!(found.identity, identity);
        assert_eq!((slot.question(), found.answer().map(|one| one.1)), (0, Some(Vec::new())));
        found.ask().unwrap();
        assert_eq!((slot.question(), found.answer()), (1, None));
        slot.answer(1, Completeness::Whole, b"waits");
        assert_eq!(found.answer(), Some((Completeness::Whole, b"waits".to_vec())));
    }

    #[test]
    fn versions_with_another_layout_find_no_file() {
        let earlier = c"combray-questions";
        let file = sys::mapping::create_memory_file(earlier, 2 * SLOT_BYTES as usize).unwrap();
        assert!(inherited::is_sound(&file, earlier) && !inherited::is_sound(&file, LABEL));
        let board = QuestionBoard::new(&[0]).unwrap();
        assert!(inherited::is_sound(&board.file, LABEL));
        assert!(!inherited::is_sound(&board.file, earlier));
    }

    #[test]
    fn what_was_opened_in_its_place_is_not_written_to() {
        let slot = slot_replaced_by("/dev/null");
        assert!(!inherited::is_sound(&slot.file, LABEL));
        slot.answer(1, Completeness::Whole, b"nobody reads this");
        assert_eq!(slot.question(), 0);
    }
}
