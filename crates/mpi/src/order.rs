//! The order of what the result of a program depends on: the messages that receives from any
//! source get, the results of calls that test, and the order in which windows serve requests. It
//! is recorded in one run and enforced in another.

mod log;
mod probing;
mod recorder;

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use engine::ContextSlot;
use runtime::configuration;

use crate::Process;
use crate::message_domain::MessageDomain;
use log::Recorded;
use recorder::Recorder;

pub use log::ChoiceKind;

/// The order of this process's results, recorded or enforced.
#[derive(Debug)]
pub struct Order {
    folder: PathBuf,
    mode: Mode,
    /// The number of receives from any source that were posted.
    posted: Cell<u64>,
    /// The number of choices that were not negative.
    choices: Cell<u64>,
    /// The number of windows that were created.
    windows: Cell<u32>,
    /// The thread that initialized MPI; `None` after the report that another one
    /// made some, too.
    thread: Cell<Option<ThreadId>>,
}

#[derive(Debug)]
enum Mode {
    Record(Rc<Recorder>),
    Replay(RefCell<Recorded>),
}

/// What the recording says about the choice that a call makes now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedResult {
    /// Nothing: this run is recorded, or the recording has ended because its process had.
    Free,
    /// Nothing was complete, and nothing had arrived.
    Negative,
    /// These requests, or the message with this source and tag.
    Chosen(Vec<u32>),
}

/// A wait for something that was recorded.
#[derive(Debug, Default)]
pub struct RecordedWait {
    began: Option<Instant>,
    is_reported: bool,
}

impl RecordedWait {
    /// Ends the wait: what was awaited is there.
    pub fn end(&mut self) {
        self.began = None;
    }
}

/// A tag that no message has.
const NO_TAG: i32 = i32::MIN + 1;

/// After how long a wait for what was recorded is reported.
const REPORTED_AFTER: Duration = Duration::from_secs(10);

/// The exit code of a job that diverges from its recording.
const EXIT_DIVERGED: i32 = 1;

impl Order {
    /// Returns the number of the next window.
    pub fn number_window(&self) -> u32 {
        self.windows.replace(self.windows.get() + 1)
    }

    /// Returns the origin whose request a window serves next, if that was recorded.
    pub fn next_origin(&self, window: u32) -> Option<u32> {
        let Mode::Replay(recorded) = &self.mode else { return None };
        recorded.borrow().served.get(&window)?.front().map(|(origin, _)| *origin)
    }

    /// Records that a window has served a request.
    pub fn note_served(&self, window: u32, origin: u32) {
        match &self.mode {
            Mode::Record(recorder) => recorder.note_served(window, origin),
            Mode::Replay(recorded) => {
                let mut recorded = recorded.borrow_mut();
                let Some(origins) = recorded.served.get_mut(&window) else { return };
                if let Some((_, times)) = origins.front_mut() {
                    *times = times.saturating_sub(1);
                    if *times == 0 {
                        origins.pop_front();
                    }
                }
            }
        }
    }

    /// Records what a call has chosen; `None` if nothing was complete, and nothing had arrived.
    pub fn note(&self, kind: ChoiceKind, chosen: Option<&[u32]>) {
        if let Mode::Record(recorder) = &self.mode {
            recorder.note_choice(kind, chosen);
        }
    }

    /// Reports once that several threads receive from any source or make choices: their order is
    /// not recorded.
    fn note_thread(&self, rank: u32) {
        let this = thread::current().id();
        if self.thread.get().is_some_and(|first| first != this) {
            self.thread.set(None);
            eprintln!(
                "combray: rank {rank}: several threads receive from any source, test or wait for \
                 some of several requests; the order in which threads call MPI is not recorded, \
                 so a replay may differ or diverge"
            );
        }
    }

    /// Returns what was recorded about the next choice.
    ///
    /// # Errors
    /// In words how the recording differs.
    fn next(&self, kind: ChoiceKind) -> Result<RecordedResult, String> {
        let Mode::Replay(recorded) = &self.mode else { return Ok(RecordedResult::Free) };
        let recorded = &mut *recorded.borrow_mut();
        let negatives = match recorded.choices.front_mut() {
            Some(next) => &mut next.negatives,
            None => &mut recorded.negatives,
        };
        if *negatives > 0 {
            if kind.always_chooses() {
                return Err("the recorded run made a call that found nothing".to_owned());
            }
            *negatives -= 1;
            return Ok(RecordedResult::Negative);
        }
        let Some(next) = recorded.choices.front() else {
            return match recorded.is_complete {
                false => Ok(RecordedResult::Free),
                true => Err("the recorded run made no further choice".to_owned()),
            };
        };
        if next.kind != kind {
            return Err(format!("the recorded run called {}", next.kind.calls()));
        }
        self.choices.set(self.choices.get() + 1);
        let chosen = recorded.choices.pop_front().map(|choice| choice.chosen);
        Ok(RecordedResult::Chosen(chosen.unwrap_or_default()))
    }
}

impl Process {
    /// Begins to record or enforce the order of results, if the user has requested it. Ends the job
    /// if the files cannot be used.
    pub(crate) fn begin_order(&self) {
        let (recording, replaying) = (configuration::record_order(), configuration::replay_order());
        let (rank, size) = (self.rank(), self.size());
        let (folder, mode) = match (recording, replaying) {
            (None, None) => return,
            (Some(folder), None) => {
                let recorder = Recorder::create(&file_in(&folder, rank), rank, size);
                (folder, recorder.map(|recorder| Mode::Record(Rc::new(recorder))))
            }
            (None, Some(folder)) => {
                let recorded = recorded(&file_in(&folder, rank), rank, size);
                (folder, recorded.map(|recorded| Mode::Replay(RefCell::new(recorded))))
            }
            (Some(_), Some(_)) => {
                let what = "COMBRAY_RECORD_ORDER and COMBRAY_REPLAY_ORDER are both set: a run is \
                            either recorded or replayed";
                self.abort(EXIT_DIVERGED, what)
            }
        };
        let mode = mode.unwrap_or_else(|problem| self.abort(EXIT_DIVERGED, &problem));
        if let Mode::Record(recorder) = &mode {
            self.runtime().observe_matches(Rc::clone(recorder) as _);
        }
        let (posted, choices, windows) = Default::default();
        let thread = Cell::new(Some(thread::current().id()));
        let order = Order { folder, mode, posted, choices, windows, thread };
        let fresh = self.order.set(order).is_ok();
        debug_assert!(fresh, "a process joins its job once");
    }

    /// The order of results, if it is recorded or enforced.
    #[inline]
    pub fn order(&self) -> Option<&Order> {
        self.order.get()
    }

    /// Records that this process finalizes MPI.
    pub(crate) fn end_order(&self) {
        if let Some(Order { mode: Mode::Record(recorder), .. }) = self.order() {
            recorder.end();
        }
    }

    /// Returns the source and tag with which a receive from any source is posted now. `awaits` is
    /// whether the call returns only when it has a message.
    pub(crate) fn ordered_selection(
        &self,
        domain: &MessageDomain,
        context: ContextSlot,
        tag: Option<i32>,
        awaits: bool,
    ) -> (Option<u32>, Option<i32>) {
        let Some(order) = self.order() else { return (None, tag) };
        order.note_thread(self.rank());
        let number = order.posted.replace(order.posted.get() + 1);
        match &order.mode {
            Mode::Record(recorder) => {
                let runtime = self.runtime();
                recorder.expect(runtime.context_id(context), runtime.next_posting(context), number);
                (None, tag)
            }
            Mode::Replay(recorded) => {
                let recorded = recorded.borrow();
                let found = recorded.matches.get(&number).copied();
                let is_complete = recorded.is_complete;
                drop(recorded);
                match (found, tag) {
                    (Some((_, got)), Some(tag)) if got != tag => self.diverge(&format!(
                        "the recorded run received a message with tag {got} in its receive from \
                         any source number {}, and this run accepts only tag {tag}",
                        number + 1
                    )),
                    (Some((source, _)), _) if domain.checked_gate(source).is_err() => {
                        self.diverge(&format!(
                            "the recorded run received a message of rank {source} in its receive \
                             from any source number {}, and this communicator has no such rank",
                            number + 1
                        ))
                    }
                    (Some((source, tag)), _) => (Some(source), Some(tag)),
                    (None, tag) if !is_complete => (None, tag),
                    (None, _) if awaits => self.diverge(&format!(
                        "the recorded run received no message in its receive from any source \
                         number {}, if it posted one",
                        number + 1
                    )),
                    // It got no message until the end.
                    (None, _) => (Some(0), Some(NO_TAG)),
                }
            }
        }
    }

    /// Returns what the recorded run has chosen where this run makes its next choice. Ends the job
    /// if it made another kind of choice.
    pub fn recorded_choice(&self, kind: ChoiceKind) -> RecordedResult {
        let Some(order) = self.order() else { return RecordedResult::Free };
        order.note_thread(self.rank());
        order.next(kind).unwrap_or_else(|problem| self.diverge(&problem))
    }

    /// Waits until `done`, which the recorded run has seen come true; reports a long wait.
    pub fn await_recorded(&self, awaited: &str, done: &mut dyn FnMut(&Process) -> bool) {
        let mut wait = RecordedWait::default();
        self.wait_until(&mut |process| {
            let is_over = done(process);
            if !is_over {
                process.report_recorded_wait(&mut wait, || awaited.to_owned());
            }
            is_over
        });
    }

    /// Reports a wait for what was recorded once it is long. Is called again and again while it
    /// lasts.
    pub fn report_recorded_wait(&self, wait: &mut RecordedWait, awaited: impl FnOnce() -> String) {
        let waited = wait.began.get_or_insert_with(Instant::now).elapsed();
        if waited >= REPORTED_AFTER && !std::mem::replace(&mut wait.is_reported, true) {
            let place = self.described_place("waits, as it follows the recording");
            eprintln!("combray: {place}: for {}", awaited());
        }
    }

    /// Ends the job because this run has diverged from its recording.
    pub fn diverge(&self, difference: &str) -> ! {
        let reason = format!(
            "{}: {difference}; the program or its input is another one, or its result depends on \
             something that is not recorded",
            self.described_place("has diverged from the recording")
        );
        self.abort(EXIT_DIVERGED, &reason)
    }

    /// Describes for users what this process does with the recording, and where.
    fn described_place(&self, what: &str) -> String {
        let found = self.found_call();
        let function = found.function.unwrap_or_else(|| "a call".to_owned());
        let caller = found.caller.map(|caller| format!(" of {caller}")).unwrap_or_default();
        let (choices, folder) = match self.order() {
            Some(order) => (order.choices.get(), order.folder.display().to_string()),
            None => (0, String::new()),
        };
        format!(
            "rank {} {what} {folder} in {function}{caller}, after {choices} recorded choices",
            self.rank()
        )
    }
}

/// Returns the file of a rank.
fn file_in(folder: &Path, rank: u32) -> PathBuf {
    folder.join(format!("rank{rank}.order"))
}

/// Reads the recording of a rank.
///
/// # Errors
/// In words why it cannot be used.
fn recorded(file: &Path, rank: u32, size: u32) -> Result<Recorded, String> {
    let name = file.display();
    let bytes = std::fs::read(file)
        .map_err(|cause| format!("the recording {name} cannot be read: {cause}"))?;
    let recorded = Recorded::read(&bytes).ok_or_else(|| {
        format!("{name} is no recording of combray run --record-order, or damaged")
    })?;
    if (recorded.rank, recorded.size) != (rank, size) {
        return Err(format!(
            "the recording {name} is that of rank {} of {}, and this process has rank {rank} of \
             {size}: a recording is replayed with as many processes",
            recorded.rank, recorded.size
        ));
    }
    Ok(recorded)
}
