//! Profile of the time that this process spends in MPI calls, if the user requested it. Each call
//! is recorded with its time and its waits, and process 0 prints the profile of all processes at
//! the end.

mod energy;
mod history;
mod phases;
mod sizes;
mod waits;

use std::cell::{OnceCell, RefCell};
use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use base::GateId;
use engine::RequestId;
use hangs::Awaited;
use profiles::{
    CallProfile, CollectiveKind, JobProfile, PeerTotals, RankProfile, StagingProfile, WaitCause,
    WaitTotals,
};
use progress::helper;
use progress::waiting::{LongWait, WaitRecord, WaitingSystem};
use progress::{System, entry_lock::Threads};
use runtime::configuration::{self, ProfileTarget};
use runtime::instruments::performance::{PERFORMANCE_VARIABLES, ValueSource};
use runtime::machine::{TickPace, cores, pools, ticks, usage};
use runtime::{Runtime, SentTotals, samples};
use traces::{TraceNote, TracedExchange, TracedPlace};

use super::tracing::{OwnTrace, RegionOpener};
use super::{Process, ThreadLevel};
use crate::process::descriptions::is_one_sided;
use energy::EnergyRecord;
use phases::PhaseTimes;
use sizes::{SizeClass, SizeSums};

/// The recorded calls of a process.
#[derive(Debug)]
pub(super) struct ProfileRecord {
    /// When recording began, in [`ticks`], and the processor time used until then.
    begun: u64,
    processors: Duration,
    pace: TickPace,
    /// The number of messages and bytes sent by the end of the last call.
    sent: SentTotals,
    /// The maximum duration of a short call in [`ticks`]; `None` until it has been computed.
    short_max: Option<u64>,
    /// The total time that calls expected to be short took before they were found waiting, in
    /// [`ticks`], and the number of these calls.
    unseen_waits: (u64, u64),
    /// The state of [`random`](Self::random).
    seed: u32,
    sites: Vec<SiteRecord>,
    /// The calls that threads are in.
    open: Vec<OpenCall>,
    phases: PhaseTimes,
    energy: EnergyRecord,
    /// Whether there is a profile, not a trace alone.
    is_profile: bool,
    /// The trace, if the user requested one.
    trace: Option<OwnTrace>,
}

/// Identifies a place in the program from which calls of one function come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallPlace(u32);

impl CallPlace {
    /// Makes a place from its number. Used where only numbers can be stored.
    #[inline]
    pub fn numbered(number: u32) -> Self {
        Self(number)
    }

    /// Returns the number of the place.
    #[inline]
    pub fn number(self) -> u32 {
        self.0
    }
}

/// What a process contributes to a collective operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallExchange {
    /// The root by its rank in the job, if the operation has one.
    pub root: Option<u32>,
    /// How many bytes the process contributes.
    pub sent: u64,
    /// How many bytes of the result it gets.
    pub received: u64,
}

/// Looks up the name of a place of the program, which takes milliseconds.
pub type PlaceName = Box<dyn Fn() -> Option<String>>;

/// The recorded calls from one place.
struct SiteRecord {
    function: String,
    /// Looks up the caller's name. Called at the end, because a process that looks up names makes
    /// others wait.
    caller: PlaceName,
    /// The name, once it was looked up.
    name: OnceCell<Option<String>>,
    is_collective: bool,
    /// Whether its calls are collective operations or begin one.
    exchanges: bool,
    calls: u64,
    ticks: u64,
    /// How many consecutive short calls came last.
    short_calls: u32,
    /// How many of the next calls are not timed, unless they wait.
    skips: u32,
    /// How many calls were not timed since the last timed one.
    untimed: u32,
    sent: SentTotals,
    sizes: SizeSums,
    waits: Vec<(AwaitedEvent, WaitSum)>,
}

/// The cause of a wait, and the rank in the job of the process that it waits for.
type AwaitedEvent = (WaitCause, Option<u32>);

#[derive(Clone, Copy, Debug, Default)]
struct WaitSum {
    waits: u64,
    ns: u64,
}

/// A call that has not ended.
#[derive(Debug)]
struct OpenCall {
    thread: u64,
    site: CallPlace,
    /// When the call began, in [`ticks`]; `None` if it is not timed.
    begun: Option<u64>,
    /// The number of the thread in the trace, if there is one.
    traced_thread: u64,
    /// The size of its data, or of an earlier call from this place.
    size: SizeClass,
    /// The number of calls nested in this one, made by callbacks of the program.
    nested: u32,
    /// The cause of its wait, as last determined.
    awaited: Option<AwaitedEvent>,
    /// Whether the call was found waiting.
    waited: bool,
    /// The duration of a wait after which its cause is determined again.
    checks_next: Duration,
    /// How long it has waited for the awaited event, as far as that is not in the trace.
    untraced: Duration,
    /// From which such time on the trace shows that the wait goes on.
    shows_next: Duration,
}

/// How long a wait for several requests lasts before its cause is determined. The cause is
/// determined again each time that the duration has doubled.
const POLLS_FIRST: Duration = Duration::from_micros(50);

/// From which duration on the trace shows a wait that goes on; then again whenever the duration has
/// doubled.
const SHOWN_WAIT_MIN: Duration = Duration::from_millis(1);

/// After which duration of a wait the name of its caller is looked up; after twice this duration
/// those of all callers are.
const NAMES_AFTER: Duration = Duration::from_millis(500);

/// The maximum duration of a short call, which also does not wait.
const SHORT_CALL_MAX: Duration = Duration::from_micros(1);

/// After this number of consecutive short calls from a place, only a random sample of the next
/// calls is timed. The sample stands for the others.
const SHORT_CALLS_MIN: u32 = 64;

/// The average number of short calls per timed call in such a sample.
const SHORT_CALLS_PER_TIMED: u32 = 16;

/// The thread of a call that began while the thread level allowed only one thread at a time.
const ONLY_ONE: u64 = 0;

impl Process {
    /// Begins to record calls, if the user requested it and recording has not begun.
    pub fn begin_profile(&self, region_opener: RegionOpener) {
        if !self.is_joined() || self.profile.borrow().is_some() {
            return;
        }
        let settings = self.guidance();
        if settings.profiles || settings.traces {
            let trace = settings.traces.then(|| self.begin_trace(region_opener));
            let mut notes = ProfileRecord::begin(self.sent_so_far(), trace);
            notes.is_profile = settings.profiles;
            if notes.is_profile {
                notes.energy = EnergyRecord::begin();
            }
            self.profile.replace(Some(Box::new(notes)));
        }
    }

    /// Whether calls are recorded.
    pub fn is_profiled(&self) -> bool {
        self.profile.borrow().is_some()
    }

    /// Adds a place of recorded calls. `symbol` stands for the caller's name until it is looked up.
    pub fn add_call_place(&self, function: &str, caller: PlaceName, symbol: &str) -> CallPlace {
        let mut profile = self.profile.borrow_mut();
        let Some(notes) = &mut *profile else { return CallPlace(0) };
        notes.sites.push(SiteRecord::of(function, caller));
        if let Some(OwnTrace { trace, .. }) = &notes.trace {
            let (function, caller) = (function.to_owned(), symbol.to_owned());
            trace.add_note(&TraceNote::Place(TracedPlace { function, caller }));
        }
        CallPlace(notes.sites.len() as u32 - 1)
    }

    /// Begins a call of this thread. `begun` is its time in [`ticks`] if it had to wait for other
    /// threads to leave the library. `site` returns the call's place, and the time since which it
    /// was looking it up, which is subtracted from the program's time. A call that a callback of
    /// the program makes inside another call counts as part of the outer one.
    /// `communicator` returns the number of the communicator that the call is about, if any;
    /// `exchange` returns what it contributes to a collective operation, `bytes` the size of the
    /// data of another call.
    pub fn begin_call(
        &self,
        begun: Option<u64>,
        site: impl FnOnce() -> (CallPlace, Option<u64>),
        communicator: impl FnOnce() -> Option<u64>,
        exchange: impl FnOnce() -> Option<CallExchange>,
        bytes: impl FnOnce() -> u64,
    ) {
        let thread = self.calling_thread();
        if let Some(notes) = &mut *self.profile.borrow_mut()
            && let Some(open) = notes.open_call(thread)
        {
            open.nested += 1;
            return;
        }
        let (site, checks_since) = site();
        if let Some(notes) = &mut *self.profile.borrow_mut() {
            let of_site = &mut notes.sites[site.0 as usize];
            let is_timed = checks_since.is_some()
                || notes.trace.is_some()
                || begun.is_some()
                || of_site.is_timed();
            let exchange = (is_timed && of_site.exchanges).then(exchange).flatten();
            if is_timed && notes.is_profile {
                let size = |one: CallExchange| one.sent.max(one.received);
                of_site.sizes.last = SizeClass::of(exchange.map_or_else(bytes, size));
            }
            let begun = match checks_since {
                Some(since) => {
                    let now = ticks();
                    notes.begun += now.saturating_sub(since);
                    Some(now)
                }
                None => is_timed.then(|| begun.unwrap_or_else(ticks)),
            };
            let mut open = OpenCall::new(thread, site, begun);
            open.size = of_site.sizes.last;
            if let (Some(OwnTrace { trace, .. }), Some(begun)) = (&notes.trace, begun) {
                let communicator = of_site.is_collective.then(communicator).flatten();
                open.traced_thread = System.thread_number();
                trace.note_call(begun, open.traced_thread, site.number(), communicator);
                if let Some(CallExchange { root, sent, received }) = exchange {
                    let thread = open.traced_thread;
                    let exchange = TracedExchange { thread, root, sent, received };
                    trace.note_exchange(begun, exchange);
                }
            }
            notes.open.push(open);
        }
    }

    /// Ends the call that this thread began last.
    pub fn end_call(&self) {
        let thread = self.calling_thread();
        let mut profile = self.profile.borrow_mut();
        let Some(notes) = &mut *profile else { return };
        let is_it = |open: &OpenCall| open.is_of(thread);
        let Some(place) = notes.open.iter().position(is_it) else { return };
        let open = &mut notes.open[place];
        if open.nested > 0 {
            open.nested -= 1;
            return;
        }
        let OpenCall { site, begun, waited, size, traced_thread, .. } = *open;
        notes.open.swap_remove(place);
        let now = begun.map(|_| ticks());
        if let (Some(OwnTrace { trace, .. }), Some(now)) = (&notes.trace, now) {
            trace.note_return(now, traced_thread);
            if trace.has_others(now) {
                let instruments = self.instruments();
                self.inspect(|runtime| trace.note_others(now, runtime, instruments));
            }
            // The sums of the calls are for the profile.
            if !notes.is_profile {
                return;
            }
        }
        let sent = self.sent_so_far();
        let notes_of_site = &mut notes.sites[site.0 as usize];
        notes_of_site.calls += 1;
        notes_of_site.sent.messages += sent.messages - notes.sent.messages;
        notes_of_site.sent.bytes += sent.bytes - notes.sent.bytes;
        notes.sent = sent;
        let (Some(begun), Some(now)) = (begun, now) else {
            notes_of_site.untimed += 1;
            return;
        };
        notes.energy.watch(now, notes.pace);
        // The thread may have moved between cores whose counters differ by a few ticks.
        let spent = now.saturating_sub(begun);
        match waited {
            true => notes.end_waited(site, size, spent),
            false => notes.end_timed(site, size, spent),
        }
    }

    /// Records, if calls are recorded, that the program enters a phase. An empty name ends the
    /// present phase.
    pub fn begin_phase(&self, name: impl FnOnce() -> String) {
        let Some(notes) = &mut *self.profile.borrow_mut() else { return };
        let name = name();
        let joules = notes.energy.joules();
        notes.phases.begin(&name, ticks(), joules);
        notes.trace.iter().for_each(|trace| trace.note_phase(&name));
    }

    /// The number of the calling thread, if several may be in the library at the same time.
    fn calling_thread(&self) -> u64 {
        match self.highest_level() {
            ThreadLevel::Multiple => System.thread_number(),
            _ => ONLY_ONE,
        }
    }

    fn sent_so_far(&self) -> SentTotals {
        // This may be the call that initializes MPI, before there is a runtime.
        let total = |runtime: &Runtime| runtime.recording().map(|one| one.total());
        self.inspect(total).flatten().unwrap_or_default()
    }

    /// Begins to record a wait, if the thread is in a recorded call.
    pub(super) fn begin_wait_record(&self, awaited: Option<RequestId>) -> Option<WaitRecord> {
        let thread = self.calling_thread();
        let mut profile = self.profile.borrow_mut();
        profile.as_mut()?.begin_wait(thread)?;
        Some(WaitRecord::new(awaited, System.now()))
    }

    /// Adds the time that has passed to a wait that continues.
    pub(super) fn update_wait_record(&self, record: &mut WaitRecord) {
        let passed = record.pass(System.now());
        let seen = self.awaited_event(record);
        self.add_wait(seen, passed);
    }

    /// Ends the recording of a wait.
    pub(super) fn end_wait_record(&self, mut record: WaitRecord) {
        let passed = record.pass(System.now());
        let thread = self.calling_thread();
        let mut profile = self.profile.borrow_mut();
        let Some(notes) = &mut *profile else { return };
        let Some(open) = notes.open_call(thread) else { return };
        let (site, event) = (open.site, open.awaited);
        open.untraced += passed;
        if let Some(event) = event {
            let sum = notes.sites[site.0 as usize].wait_for(event);
            sum.waits += 1;
            sum.ns += passed.as_nanos() as u64;
        }
        notes.trace_wait(thread);
    }

    fn add_wait(&self, event: Option<AwaitedEvent>, passed: Duration) {
        let thread = self.calling_thread();
        let mut profile = self.profile.borrow_mut();
        let Some(notes) = &mut *profile else { return };
        let Some(open) = notes.open_call(thread) else { return };
        if open.awaited != event {
            notes.trace_wait(thread);
        }
        let Some(open) = notes.open_call(thread) else { return };
        open.awaited = event;
        open.untraced += passed;
        let site = open.site;
        if open.untraced >= open.shows_next {
            notes.trace_long_wait(thread);
        }
        if let Some(event) = event {
            notes.sites[site.0 as usize].wait_for(event).ns += passed.as_nanos() as u64;
        }
    }

    /// Determines the cause of a wait. `None` if the awaited data has arrived and is being
    /// copied.
    fn awaited_event(&self, record: &WaitRecord) -> Option<AwaitedEvent> {
        let (function, is_collective, checks_next, last) = {
            let thread = self.calling_thread();
            let mut profile = self.profile.borrow_mut();
            let notes = profile.as_mut()?;
            let open = notes.open_call(thread)?;
            let (site, checks_next, last) = (open.site, open.checks_next, open.awaited);
            let checks_now = record.awaited.is_none() && record.lasted >= checks_next;
            if checks_now {
                open.checks_next = record.lasted * 2;
            }
            let site = &notes.sites[site.0 as usize];
            let function = checks_now.then(|| site.function.clone());
            (function, site.is_collective, checks_next, last)
        };
        if is_collective {
            return Some((WaitCause::Members, None));
        }
        if let Some(id) = record.awaited {
            return self.event_of_request(id, last);
        }
        if record.lasted < checks_next {
            return last.or(Some((WaitCause::Other, None)));
        }
        let function = function.as_deref();
        let (since, thread) = (record.checked, System.thread_number());
        let wait = LongWait { awaited: None, since, thread };
        Some(match self.awaited_by(&wait, function) {
            Awaited::Message(message) => (WaitCause::LateSender, only(&message.peers)),
            Awaited::Taken(message) => (WaitCause::LateReceiver, only(&message.peers)),
            Awaited::Members(_) => (WaitCause::Members, None),
            Awaited::Window(owner) => (WaitCause::Window, Some(owner)),
            Awaited::OtherJob(_) => (WaitCause::Other, None),
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
            let all = self.teams().living();
            let mut ready = all.iter().filter(|one| one.is_ready());
            let of = ready.find(|one| one.point_to_point_context() == pending.context)?;
            of.gate(source)
        });
        Some((WaitCause::LateSender, source.map(rank)))
    }

    /// Gathers the profiles of all processes on process 0, which prints them. Prints nothing if
    /// some processes are missing.
    pub(super) fn report_profile(&self) {
        let Some(mut notes) = self.profile.take() else { return };
        let machine_joules = notes.energy.joules();
        if let Some(trace) = &notes.trace {
            self.write_trace(notes.sites.iter().map(SiteRecord::traced).collect(), trace);
        }
        if !self.guidance().profiles {
            return;
        }
        let own =
            serde_json::to_vec(&self.rank_profile(&notes, machine_joules)).unwrap_or_default();
        let Some(rows) = self.gather(&own) else { return };
        let ranks = rows.iter().filter_map(|row| serde_json::from_slice(row).ok()).collect();
        let mut job = JobProfile::of(command(), ranks);
        history::compare_and_keep(&mut job);
        eprint!("{}", job.page());
        if let Some(ProfileTarget::File(file)) = configuration::profile() {
            write(&file, &job);
        }
    }

    fn rank_profile(&self, notes: &ProfileRecord, machine_joules: Option<f64>) -> RankProfile {
        let runtime = self.runtime();
        // The call that ends the profile, `MPI_Finalize` in general.
        let thread = self.calling_thread();
        let last = notes.open.iter().find(|open| open.is_of(thread));
        let end = last.and_then(|last| last.begun).unwrap_or_else(ticks);
        let ns_per_tick = notes.pace.ns_per_tick();
        let value = |source| match source {
            ValueSource::Counted(read) | ValueSource::Watched(read) => read(self.instruments()),
            ValueSource::Sampled(read) => read(&runtime),
        };
        let lasted = seconds_of_ticks(end.saturating_sub(notes.begun), ns_per_tick);
        let helper_time = usage::processor_time_of_threads(helper::THREAD_NAME);
        let processors = usage::processor_time().saturating_sub(notes.processors);
        let peer = |(peer, SentTotals { bytes, messages })| PeerTotals { peer, bytes, messages };
        let (recording, staged) = (runtime.recording(), memory::staged());
        RankProfile {
            rank: self.rank(),
            host: samples::host(),
            seconds: lasted,
            processor_seconds: processors.saturating_sub(helper_time).as_secs_f64(),
            helper_seconds: helper_time.as_secs_f64(),
            is_oversubscribed: self.is_oversubscribed(),
            cores: cores::allowed().into_iter().map(|core| core as u32).collect(),
            machine_cores: cores::configured() as u32,
            busy_threads: usage::busy_threads(
                Duration::from_secs_f64(lasted / BUSY),
                helper::THREAD_NAME,
            ) as u32,
            pools: pools::loaded()
                .into_iter()
                .map(|(of, variable)| (of.to_owned(), variable.to_owned()))
                .collect(),
            calls: notes.sites.iter().map(|site| site.call_profile(ns_per_tick)).collect(),
            sent: recording.into_iter().flat_map(|one| one.peers()).map(peer).collect(),
            sizes: recording.map_or_else(Vec::new, |one| one.sizes().to_vec()),
            variables: PERFORMANCE_VARIABLES
                .iter()
                .map(|variable| (variable.name.to_owned(), value(variable.source)))
                .collect(),
            shared_memory_bytes: usage::shared_memory_bytes(),
            lent: self.lent_cores(),
            phases: notes.phases.totals(end, ns_per_tick, machine_joules),
            staged: StagingProfile { count: staged.count, reason: staged.reason },
            machine_joules,
        }
    }
}

impl ProfileRecord {
    fn begin(sent: SentTotals, trace: Option<OwnTrace>) -> Self {
        Self {
            begun: ticks(),
            processors: usage::processor_time(),
            pace: TickPace::begin(),
            sent,
            short_max: None,
            unseen_waits: (0, 0),
            seed: 1,
            sites: Vec::new(),
            open: Vec::new(),
            phases: PhaseTimes::default(),
            energy: EnergyRecord::default(),
            is_profile: true,
            trace,
        }
    }

    /// Records the end of a call that lasted `spent` [`ticks`] and waited. The next calls from its
    /// place are timed.
    fn end_waited(&mut self, site: CallPlace, size: SizeClass, spent: u64) {
        let site = &mut self.sites[site.0 as usize];
        site.ticks += spent;
        site.sizes.add(size, 1, spent);
        (site.short_calls, site.skips) = (0, 0);
    }

    /// Records the end of a timed call that lasted `spent` [`ticks`] and did not wait.
    fn end_timed(&mut self, site: CallPlace, size: SizeClass, spent: u64) {
        let pace = self.pace;
        let short_max = *self.short_max.get_or_insert_with(|| pace.ticks_in(SHORT_CALL_MAX));
        let skips = self.random(2 * SHORT_CALLS_PER_TIMED - 1);
        let site = &mut self.sites[site.0 as usize];
        // The extrapolation is limited to short calls: a call that lost its core does not stand for
        // others.
        let untimed = u64::from(std::mem::take(&mut site.untimed));
        let all = spent + spent.min(short_max) * untimed;
        site.ticks += all;
        site.sizes.add(size, 1 + untimed, all);
        let is_short = spent <= short_max;
        site.short_calls = if is_short { site.short_calls.saturating_add(1) } else { 0 };
        site.skips = if site.are_short() { skips } else { 0 };
    }

    /// Returns a pseudo-random number below `limit` (Marsaglia's xorshift).
    fn random(&mut self, limit: u32) -> u32 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 17;
        self.seed ^= self.seed << 5;
        self.seed % limit
    }

    /// Returns the recorded call that a thread is in.
    fn open_call(&mut self, thread: u64) -> Option<&mut OpenCall> {
        self.open.iter_mut().find(|open| open.is_of(thread))
    }
}

impl OpenCall {
    fn new(thread: u64, site: CallPlace, begun: Option<u64>) -> Self {
        let (nested, awaited, waited) = (0, None, false);
        let (checks_next, untraced) = (POLLS_FIRST, Duration::ZERO);
        let shows_next = SHOWN_WAIT_MIN;
        let size = SizeClass::default();
        Self {
            thread,
            site,
            begun,
            traced_thread: 0,
            size,
            nested,
            awaited,
            waited,
            checks_next,
            untraced,
            shows_next,
        }
    }

    fn is_of(&self, thread: u64) -> bool {
        self.thread == thread || self.thread == ONLY_ONE
    }
}

impl fmt::Debug for SiteRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.function)
    }
}

impl SiteRecord {
    fn of(function: &str, caller: PlaceName) -> Self {
        let of_all = CollectiveKind::of(function);
        Self {
            is_collective: of_all.is_some(),
            exchanges: of_all.or_else(|| CollectiveKind::begun_by(function)).is_some(),
            function: function.to_owned(),
            caller,
            name: OnceCell::new(),
            calls: 0,
            ticks: 0,
            short_calls: 0,
            skips: 0,
            untimed: 0,
            sent: SentTotals::default(),
            sizes: SizeSums::default(),
            waits: Vec::new(),
        }
    }

    fn caller(&self) -> Option<String> {
        self.name.get_or_init(&self.caller).clone()
    }

    fn is_named(&self) -> bool {
        self.name.get().is_some()
    }

    fn traced(&self) -> TracedPlace {
        let caller = self.caller().unwrap_or_default();
        TracedPlace { function: self.function.clone(), caller }
    }

    /// Whether the last calls from this place were short.
    fn are_short(&self) -> bool {
        self.short_calls >= SHORT_CALLS_MIN
    }

    /// Whether the call that begins is timed; counts it.
    fn is_timed(&mut self) -> bool {
        let is_skipped = self.skips > 0;
        self.skips -= u32::from(is_skipped);
        !is_skipped
    }

    fn wait_for(&mut self, event: AwaitedEvent) -> &mut WaitSum {
        let place = self.waits.iter().position(|(known, _)| *known == event);
        let place = place.unwrap_or_else(|| {
            self.waits.push((event, WaitSum::default()));
            self.waits.len() - 1
        });
        &mut self.waits[place].1
    }

    fn call_profile(&self, ns_per_tick: f64) -> CallProfile {
        let wait = |&((cause, peer), sum): &(AwaitedEvent, WaitSum)| WaitTotals {
            cause,
            peer,
            waits: sum.waits,
            seconds: seconds(sum.ns),
        };
        CallProfile {
            function: self.function.clone(),
            caller: self.caller(),
            calls: self.calls,
            seconds: seconds_of_ticks(self.ticks, ns_per_tick),
            messages: self.sent.messages,
            bytes: self.sent.bytes,
            waits: self.waits.iter().map(wait).collect(),
            sizes: self.sizes.totals(ns_per_tick),
        }
    }
}

/// The rank, if the list contains exactly one.
fn only(ranks: &[u32]) -> Option<u32> {
    if let [one] = ranks { Some(*one) } else { None }
}

fn seconds(ns: u64) -> f64 {
    Duration::from_nanos(ns).as_secs_f64()
}

fn seconds_of_ticks(ticks: u64, ns_per_tick: f64) -> f64 {
    ticks as f64 * ns_per_tick * 1e-9
}

/// The command line of the program, shortened to [`COMMAND_MAX`] characters.
pub(super) fn command() -> String {
    let words: Vec<OsString> = std::env::args_os().collect();
    let line = words.join(" ".as_ref()).to_string_lossy().into_owned();
    match line.char_indices().nth(COMMAND_MAX) {
        Some((end, _)) => format!("{} ...", &line[..end]),
        None => line,
    }
}

/// A thread counts as busy if its processor time is at least the elapsed time divided by this.
const BUSY: f64 = 100.0;

/// The maximum number of characters of the command line that are printed.
const COMMAND_MAX: usize = 80;

fn write(file: &Path, job: &JobProfile) {
    let is_page = file.extension().is_some_and(|ending| ending == "html");
    let text = if is_page { job.to_html() } else { job.to_json() };
    if let Err(cause) = std::fs::write(file, text) {
        super::record::report_unwritten("the profile", file, &cause);
    }
}

/// The field of [`Process`] that holds the profile.
pub(super) type ProfilePlace = RefCell<Option<Box<ProfileRecord>>>;

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: CallPlace = CallPlace(0);

    fn notes() -> ProfileRecord {
        let mut notes = ProfileRecord::begin(SentTotals::default(), None);
        notes.sites.push(SiteRecord::of("MPI_Test", Box::new(|| None)));
        notes.short_max = Some(1000);
        notes
    }

    /// Records a call that lasts `spent` ticks. Returns whether it was timed.
    fn call(notes: &mut ProfileRecord, spent: u64) -> bool {
        let is_timed = notes.sites[0].is_timed();
        match is_timed {
            true => notes.end_timed(SITE, SizeClass::default(), spent),
            false => notes.sites[0].untimed += 1,
        }
        is_timed
    }

    #[test]
    fn of_many_short_calls_some_stand_for_the_others() {
        let mut notes = notes();
        let timed = (0..100_000).filter(|number| call(&mut notes, 50 + number % 101)).count();
        assert!((5_000..8_000).contains(&timed), "{timed}");
        let ticks = notes.sites[0].ticks;
        assert!((9_800_000..10_200_000).contains(&ticks), "{ticks}");
    }

    #[test]
    fn after_a_long_call_all_are_timed() {
        let mut notes = notes();
        while call(&mut notes, 100) {}
        while !call(&mut notes, 70_000) {}
        assert!((0..SHORT_CALLS_MIN).all(|_| call(&mut notes, 100)));
        // The call lost its core. Its duration is not extrapolated to the calls that were not
        // timed.
        let ticks = notes.sites[0].ticks;
        assert!((70_000..120_000).contains(&ticks), "{ticks}");
    }

    #[test]
    fn a_call_that_waits_is_timed_in_any_case() {
        let mut notes = notes();
        while call(&mut notes, 100) {}
        notes.open.push(OpenCall::new(ONLY_ONE, SITE, None));
        assert!(notes.begin_wait(ONLY_ONE).is_some());
        assert!(notes.open[0].waited && notes.open[0].begun.is_some());
        let before = notes.sites[0].ticks;
        notes.end_waited(SITE, SizeClass::default(), 50_000);
        assert_eq!(notes.sites[0].ticks - before, 50_000);
        assert!((0..SHORT_CALLS_MIN).all(|_| call(&mut notes, 100)));
    }
}
