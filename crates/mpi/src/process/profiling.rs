//! Where the time of this process goes, if a person wants to know: each call of the program is
//! noted with its time and what it waits for, and process 0 tells of all processes at the end.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use base::GateId;
use engine::RequestId;
use hangs::Awaited;
use profiles::{CallProfile, JobProfile, PeerTotals, RankProfile, WaitCause, WaitTotals};
use runtime::configuration::{self, ProfileTarget};
use runtime::door::{System, Threads};
use runtime::helper;
use runtime::instruments::performance::{PERFORMANCE_VARIABLES, ValueSource};
use runtime::machine::{cores, usage};
use runtime::waiting::{LongWait, WaitNote, WaitingSystem};
use runtime::{SentTotals, samples};

use super::Process;
use crate::process::answering::is_one_sided;

/// What is noted of the calls of a process.
#[derive(Debug, Default)]
pub(super) struct ProfileNotes {
    /// When it began, by the clock of [`System`], and the time of processors until then.
    begun: u64,
    processors: Duration,
    sites: Vec<SiteNotes>,
    /// The calls in which threads are.
    open: Vec<OpenCall>,
}

/// Names a place in the program from which calls of one function come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallPlace(u32);

/// Looks up the name of a place of the program, which takes milliseconds.
pub type PlaceName = Box<dyn Fn() -> Option<String>>;

/// The calls from one place.
struct SiteNotes {
    function: String,
    /// Named at the end: while one process looks up names, others would wait for it.
    caller: PlaceName,
    is_collective: bool,
    calls: u64,
    ns: u64,
    sent: SentTotals,
    waits: Vec<(AwaitedEvent, WaitSum)>,
}

/// For what a call waits, and the rank of the job that it is to come from.
type AwaitedEvent = (WaitCause, Option<u32>);

#[derive(Clone, Copy, Debug, Default)]
struct WaitSum {
    waits: u64,
    ns: u64,
}

/// A call that goes on.
#[derive(Debug)]
struct OpenCall {
    thread: u64,
    site: CallPlace,
    begun: u64,
    /// What had been sent by then.
    sent: SentTotals,
    /// Calls inside of it, by functions of the program that it calls.
    nested: u32,
    /// What it waits for, as it was seen last.
    awaited: Option<AwaitedEvent>,
    /// When a wait has lasted so long, it is looked anew for what it waits for.
    looks_next: Duration,
}

/// What waits for more than one request is looked for after so long, and then each time that the
/// wait has lasted twice as long.
const LOOKS_FIRST: Duration = Duration::from_micros(50);

impl Process {
    /// Begins to note calls, if a person wants it and it has not begun.
    pub fn begin_profile(&self) {
        let wanted = self.started.get().is_some_and(|started| started.guidance.profiles);
        if wanted && self.profile.borrow().is_none() {
            let (begun, processors) = (System.now(), usage::processor_time());
            let notes = ProfileNotes { begun, processors, ..ProfileNotes::default() };
            self.profile.replace(Some(Box::new(notes)));
        }
    }

    /// Whether calls are noted.
    pub fn is_profiled(&self) -> bool {
        self.profile.borrow().is_some()
    }

    /// A time for [`begin_call`](Self::begin_call).
    pub fn call_time(&self) -> u64 {
        System.now()
    }

    /// A place from which calls come that are noted.
    pub fn add_call_place(&self, function: &str, caller: PlaceName) -> CallPlace {
        let mut profile = self.profile.borrow_mut();
        let Some(notes) = &mut *profile else { return CallPlace(0) };
        notes.sites.push(SiteNotes {
            is_collective: is_collective(function),
            function: function.to_owned(),
            caller,
            calls: 0,
            ns: 0,
            sent: SentTotals::default(),
            waits: Vec::new(),
        });
        CallPlace(notes.sites.len() as u32 - 1)
    }

    /// This thread begins a call, at this time; `site` tells its place. Inside another call, from
    /// a function of the program, it is part of that one.
    /// `site` tells also whether it had to look that up, which is no time of the program.
    pub fn begin_call(&self, begun: u64, site: impl FnOnce() -> (CallPlace, bool)) {
        let thread = System.thread_number();
        if let Some(notes) = &mut *self.profile.borrow_mut()
            && let Some(open) = notes.open.iter_mut().find(|open| open.thread == thread)
        {
            open.nested += 1;
            return;
        }
        let (site, was_looked_up) = site();
        let sent = self.sent_so_far();
        if let Some(notes) = &mut *self.profile.borrow_mut() {
            let (nested, awaited, looks_next) = (0, None, LOOKS_FIRST);
            let mut begun = begun;
            if was_looked_up {
                let now = System.now();
                notes.begun += now - begun;
                begun = now;
            }
            notes.open.push(OpenCall { thread, site, begun, sent, nested, awaited, looks_next });
        }
    }

    /// This thread ends the call that it began last.
    pub fn end_call(&self) {
        let (now, sent, thread) = (System.now(), self.sent_so_far(), System.thread_number());
        let mut profile = self.profile.borrow_mut();
        let Some(notes) = &mut *profile else { return };
        let Some(place) = notes.open.iter().position(|open| open.thread == thread) else { return };
        let open = &mut notes.open[place];
        if open.nested > 0 {
            open.nested -= 1;
            return;
        }
        let open = notes.open.swap_remove(place);
        notes.end(&open, now, sent);
    }

    fn sent_so_far(&self) -> SentTotals {
        // It may be the call that makes the process part of its job.
        let total = |runtime: &runtime::Runtime| runtime.recording().map(|one| one.total());
        self.look(total).flatten().unwrap_or_default()
    }

    /// A wait begins in a call that is noted.
    pub(super) fn begin_noting(&self, awaited: Option<RequestId>) -> Option<WaitNote> {
        let mut profile = self.profile.borrow_mut();
        let open = profile.as_mut()?.open_call()?;
        (open.awaited, open.looks_next) = (None, LOOKS_FIRST);
        Some(WaitNote::new(awaited, System.now()))
    }

    /// A wait goes on.
    pub(super) fn go_on_noting(&self, note: &mut WaitNote) {
        let passed = note.pass(System.now());
        let seen = self.awaited_event(note);
        self.add_wait(seen, passed);
    }

    /// A wait is over.
    pub(super) fn end_noting(&self, mut note: WaitNote) {
        let passed = note.pass(System.now());
        let mut profile = self.profile.borrow_mut();
        let Some(notes) = &mut *profile else { return };
        let Some(open) = notes.open_call() else { return };
        let (site, event) = (open.site, open.awaited);
        if let Some(event) = event {
            let sum = notes.sites[site.0 as usize].wait_for(event);
            sum.waits += 1;
            sum.ns += passed.as_nanos() as u64;
        }
    }

    fn add_wait(&self, event: Option<AwaitedEvent>, passed: Duration) {
        let mut profile = self.profile.borrow_mut();
        let Some(notes) = &mut *profile else { return };
        let Some(open) = notes.open_call() else { return };
        open.awaited = event;
        let site = open.site;
        if let Some(event) = event {
            notes.sites[site.0 as usize].wait_for(event).ns += passed.as_nanos() as u64;
        }
    }

    /// What a wait is for. `None`: what it waited for has come, and is being copied.
    fn awaited_event(&self, note: &WaitNote) -> Option<AwaitedEvent> {
        let (function, is_collective, looks_next, last) = {
            let mut profile = self.profile.borrow_mut();
            let notes = profile.as_mut()?;
            let open = notes.open_call()?;
            let (site, looks_next, last) = (open.site, open.looks_next, open.awaited);
            let looks_now = note.awaited.is_none() && note.lasted >= looks_next;
            if looks_now {
                open.looks_next = note.lasted * 2;
            }
            let site = &notes.sites[site.0 as usize];
            let function = looks_now.then(|| site.function.clone());
            (function, site.is_collective, looks_next, last)
        };
        if is_collective {
            return Some((WaitCause::Members, None));
        }
        if let Some(id) = note.awaited {
            return self.event_of_request(id, last);
        }
        if note.lasted < looks_next {
            return last.or(Some((WaitCause::Other, None)));
        }
        let function = function.as_deref();
        let (since, thread) = (note.looked, System.thread_number());
        let wait = LongWait { awaited: None, since, thread };
        Some(match self.awaited_by(&wait, function) {
            Awaited::Message(message) => (WaitCause::LateSender, only(&message.peers)),
            Awaited::Taken(message) => (WaitCause::LateReceiver, only(&message.peers)),
            Awaited::Members(_) => (WaitCause::Members, None),
            Awaited::Window(owner) => (WaitCause::Window, Some(owner)),
            Awaited::Unknown if function.is_some_and(is_one_sided) => (WaitCause::Window, None),
            Awaited::Unknown => (WaitCause::Other, None),
        })
    }

    fn event_of_request(&self, id: RequestId, last: Option<AwaitedEvent>) -> Option<AwaitedEvent> {
        let Some(pending) = self.runtime().pending(id) else { return last };
        let rank = |GateId(rank)| rank;
        if pending.sends {
            return Some((WaitCause::LateReceiver, pending.gate.map(rank)));
        }
        if pending.gate.is_some() {
            return None;
        }
        if let Some((WaitCause::LateSender, _)) = last {
            return last;
        }
        let source = pending.source.and_then(|source| {
            let all = self.contexts().communicators();
            let mut ready = all.iter().filter(|one| one.is_ready());
            let of = ready.find(|one| one.point_to_point_context() == pending.context)?;
            of.gate(source)
        });
        Some((WaitCause::LateSender, source.map(rank)))
    }

    /// Brings what all processes noted to process 0, which tells it. If some processes are not
    /// there any more, nothing is told.
    pub(super) fn tell_profile(&self) {
        let Some(notes) = self.profile.take() else { return };
        let own = serde_json::to_vec(&self.rank_profile(&notes)).unwrap_or_default();
        let Some(rows) = self.gather(&own) else { return };
        let ranks = rows.iter().filter_map(|row| serde_json::from_slice(row).ok()).collect();
        let job = JobProfile::of(command(), ranks);
        eprint!("{}", job.page());
        if let Some(ProfileTarget::File(file)) = configuration::profile() {
            write(&file, &job);
        }
    }

    fn rank_profile(&self, notes: &ProfileNotes) -> RankProfile {
        let runtime = self.runtime();
        // The call that ends it.
        let thread = System.thread_number();
        let last = notes.open.iter().find(|open| open.thread == thread);
        let end = last.map_or_else(|| System.now(), |last| last.begun);
        let value = |source| match source {
            ValueSource::Counted(read) | ValueSource::Watched(read) => read(&self.instruments),
            ValueSource::Looked(read) => read(&runtime),
        };
        let lasted = end.saturating_sub(notes.begun);
        let helper_time = usage::processor_time_of_threads(helper::THREAD_NAME);
        let processors = usage::processor_time().saturating_sub(notes.processors);
        let peer = |(peer, SentTotals { bytes, messages })| PeerTotals { peer, bytes, messages };
        let recording = runtime.recording();
        RankProfile {
            rank: self.rank(),
            host: samples::host(),
            seconds: seconds(lasted),
            processor_seconds: processors.saturating_sub(helper_time).as_secs_f64(),
            helper_seconds: helper_time.as_secs_f64(),
            is_crowded: self.is_crowded(),
            cores: cores::allowed().into_iter().map(|core| core as u32).collect(),
            machine_cores: cores::configured() as u32,
            busy_threads: usage::busy_threads(
                Duration::from_nanos(lasted / BUSY),
                helper::THREAD_NAME,
            ) as u32,
            calls: notes.sites.iter().map(SiteNotes::told).collect(),
            sent: recording.into_iter().flat_map(|one| one.peers()).map(peer).collect(),
            sizes: recording.map_or_else(Vec::new, |one| one.sizes().to_vec()),
            variables: PERFORMANCE_VARIABLES
                .iter()
                .map(|variable| (variable.name.to_owned(), value(variable.source)))
                .collect(),
            shared_memory_bytes: usage::shared_memory_bytes(),
        }
    }
}

impl ProfileNotes {
    /// The call in which this thread is.
    fn open_call(&mut self) -> Option<&mut OpenCall> {
        let thread = System.thread_number();
        self.open.iter_mut().find(|open| open.thread == thread)
    }

    fn end(&mut self, open: &OpenCall, now: u64, sent: SentTotals) {
        let site = &mut self.sites[open.site.0 as usize];
        site.calls += 1;
        site.ns += now.saturating_sub(open.begun);
        site.sent.messages += sent.messages - open.sent.messages;
        site.sent.bytes += sent.bytes - open.sent.bytes;
    }
}

impl fmt::Debug for SiteNotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.function)
    }
}

impl SiteNotes {
    fn wait_for(&mut self, event: AwaitedEvent) -> &mut WaitSum {
        let place = self.waits.iter().position(|(known, _)| *known == event);
        let place = place.unwrap_or_else(|| {
            self.waits.push((event, WaitSum::default()));
            self.waits.len() - 1
        });
        &mut self.waits[place].1
    }

    fn told(&self) -> CallProfile {
        let wait = |&((cause, peer), sum): &(AwaitedEvent, WaitSum)| WaitTotals {
            cause,
            peer,
            waits: sum.waits,
            seconds: seconds(sum.ns),
        };
        CallProfile {
            function: self.function.clone(),
            caller: (self.caller)(),
            calls: self.calls,
            seconds: seconds(self.ns),
            messages: self.sent.messages,
            bytes: self.sent.bytes,
            waits: self.waits.iter().map(wait).collect(),
        }
    }
}

/// The one rank that it can be.
fn only(ranks: &[u32]) -> Option<u32> {
    if let [one] = ranks { Some(*one) } else { None }
}

/// Whether all members of a communicator call a function together.
fn is_collective(function: &str) -> bool {
    let name = function.trim_start_matches("MPI_");
    let beginnings = [
        "Barrier",
        "Bcast",
        "Gather",
        "Scatter",
        "Allgather",
        "Allreduce",
        "Alltoall",
        "Reduce",
        "Scan",
        "Exscan",
        "Neighbor_",
        "Comm_dup",
        "Comm_split",
        "Comm_create",
        "Cart_create",
        "Graph_create",
        "Dist_graph_create",
        "Win_fence",
        "Win_create",
        "Win_allocate",
        "Win_free",
        "File_open",
        "File_close",
    ];
    let is_of_all = beginnings.iter().any(|beginning| name.starts_with(beginning));
    is_of_all && name != "Reduce_local" || name.starts_with("File_") && name.ends_with("_all")
}

fn seconds(ns: u64) -> f64 {
    Duration::from_nanos(ns).as_secs_f64()
}

/// The command line of the program, not too long.
pub(super) fn command() -> String {
    let words: Vec<OsString> = std::env::args_os().collect();
    let line = words.join(" ".as_ref()).to_string_lossy().into_owned();
    match line.char_indices().nth(COMMAND_MAX) {
        Some((end, _)) => format!("{} ...", &line[..end]),
        None => line,
    }
}

/// A thread is busy that had a processor for one part in so many of the time.
const BUSY: u64 = 100;

/// So many letters of a command line are told.
const COMMAND_MAX: usize = 80;

fn write(file: &Path, job: &JobProfile) {
    let is_page = file.extension().is_some_and(|ending| ending == "html");
    let text = if is_page { job.to_html() } else { job.to_json() };
    if let Err(cause) = std::fs::write(file, text) {
        eprintln!("combray: the profile cannot be written to {}: {cause}", file.display());
    }
}

/// What the process holds for that.
pub(super) type ProfilePlace = RefCell<Option<Box<ProfileNotes>>>;
