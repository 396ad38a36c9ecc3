//! Tests of waits on a system in which time passes in sleeps and in rounds of progress only.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use driver::Doorbell;

use super::*;
use crate::entry_lock::Threads;
use crate::waiting::sleep::{ASLEEP, DESIGNATED, Sleeper, WOKEN};
use crate::waiting::waiter::{WaitRecord, WaitingThreads};
use crate::waiting::{CoreSharing, LongWait, News, SLEEP_MAX, wake_others};

thread_local! {
    /// The time in nanoseconds, and the number of the running thread.
    static NOW: Cell<u64> = const { Cell::new(1) };
    static THREAD: Cell<u64> = const { Cell::new(1) };
    /// How often the doorbell was armed and rung, and the timeouts of the sleeps on it.
    static ARMS: Cell<u32> = const { Cell::new(0) };
    static RINGS: Cell<u32> = const { Cell::new(0) };
    static BELL_SLEEPS: RefCell<Vec<Duration>> = const { RefCell::new(Vec::new()) };
    /// The timeouts of the sleeps on other words.
    static WORD_SLEEPS: RefCell<Vec<Duration>> = const { RefCell::new(Vec::new()) };
}

fn pass_time(time: Duration) {
    NOW.set(NOW.get() + time.as_nanos() as u64);
}

#[derive(Debug, Default)]
struct Kernel;

impl Threads for Kernel {
    fn pass_barrier(&self) {}

    fn sleep(&self, _word: &AtomicU32, _expected: u32) {}

    fn wake(&self, _word: &AtomicU32) {}

    fn wake_one(&self, _word: &AtomicU32) {}

    fn pass_core(&self) {}

    fn now(&self) -> u64 {
        NOW.get()
    }
}

impl WaitingSystem for Kernel {
    fn spin(&self) {}

    fn sleep_at_most(&self, _word: &AtomicU32, _expected: u32, limit: Duration) {
        WORD_SLEEPS.with_borrow_mut(|sleeps| sleeps.push(limit));
        pass_time(limit);
    }

    fn pause(&self, duration: Duration) {
        pass_time(duration);
    }

    fn thread_number(&self) -> u64 {
        THREAD.get()
    }
}

/// A doorbell on which each sleep lasts until its timeout, or until there are news.
struct CountingBell;

/// The word by which news are announced.
static NEWS: AtomicU32 = AtomicU32::new(0);

impl Doorbell for CountingBell {
    fn arm(&self) -> u32 {
        ARMS.set(ARMS.get() + 1);
        0
    }

    fn wait(&self, _ticket: u32, timeout: Duration) {
        BELL_SLEEPS.with_borrow_mut(|sleeps| sleeps.push(timeout));
        pass_time(timeout);
    }

    fn can_wait_beside(&self) -> bool {
        true
    }

    fn wait_beside(&self, ticket: u32, (word, expected): (&AtomicU32, u32), timeout: Duration) {
        if word.load(Ordering::Relaxed) == expected {
            self.wait(ticket, timeout);
        }
    }

    fn ring(&self) {
        RINGS.set(RINGS.get() + 1);
    }
}

/// A process whose rounds of progress take 100 µs and do what `round` says.
struct OneProcess {
    wait_state: WaitingThreads<Kernel>,
    bell: Arc<dyn Doorbell>,
    is_shared: bool,
    must_poll_again: bool,
    awaits_only_room: bool,
    /// The news that the process has heard; `None` if no news are announced to it.
    heard: Option<Cell<u32>>,
    /// Its waits that sleep, and those that have ended their sleeps.
    begun_sleeps: Cell<u32>,
    ended_sleeps: Cell<u32>,
    complete: Cell<Option<RequestId>>,
    /// Whether anything happens in the next round of progress.
    round: Box<dyn Fn() -> bool>,
    rounds: Cell<u32>,
    checks: Cell<u32>,
    reports: RefCell<Vec<LongWait>>,
    /// The rounds after which the record of the wait was updated.
    updates: RefCell<Vec<u32>>,
    records_ended: Cell<u32>,
}

const ROUND: Duration = Duration::from_micros(100);

impl OneProcess {
    fn new(round: impl Fn() -> bool + 'static) -> Self {
        NOW.set(1);
        THREAD.set(1);
        ARMS.set(0);
        RINGS.set(0);
        BELL_SLEEPS.take();
        WORD_SLEEPS.take();
        Self {
            wait_state: WaitingThreads::default(),
            bell: Arc::new(CountingBell),
            is_shared: false,
            must_poll_again: false,
            awaits_only_room: false,
            heard: None,
            begun_sleeps: Cell::new(0),
            ended_sleeps: Cell::new(0),
            complete: Cell::new(None),
            round: Box::new(round),
            rounds: Cell::new(0),
            checks: Cell::new(0),
            reports: RefCell::default(),
            updates: RefCell::default(),
            records_ended: Cell::new(0),
        }
    }

    /// Waits until the doorbell's sleeps are this many.
    fn wait_for_sleeps(&self, sleeps: usize) {
        wait(self, WakeUp::Doorbell, &mut |_| BELL_SLEEPS.with_borrow(Vec::len) >= sleeps);
    }
}

impl Waiter for OneProcess {
    type VirtualKernel = Kernel;

    fn wait_state(&self) -> &WaitingThreads<Kernel> {
        &self.wait_state
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }

    fn wait_history(&self) -> WaitHistory {
        WaitHistory::new(CoreSharing::Shared)
    }

    fn progress(&self) -> bool {
        pass_time(ROUND);
        self.rounds.set(self.rounds.get() + 1);
        (self.round)()
    }

    fn is_complete(&self, request: RequestId) -> bool {
        self.complete.get() == Some(request)
    }

    fn must_poll_again(&self) -> bool {
        self.must_poll_again
    }

    fn awaits_only_room(&self) -> bool {
        self.awaits_only_room
    }

    fn doorbell(&self) -> Option<&Arc<dyn Doorbell>> {
        Some(&self.bell)
    }

    fn news(&self) -> Option<News> {
        self.heard.as_ref().map(|heard| News { word: &NEWS, heard: heard.get() })
    }

    fn hear_news(&self) -> bool {
        let now = NEWS.load(Ordering::Relaxed);
        self.heard.as_ref().is_some_and(|heard| heard.replace(now) != now)
    }

    fn begin_sleeps(&self) {
        self.begun_sleeps.set(self.begun_sleeps.get() + 1);
    }

    fn end_sleeps(&self) {
        self.ended_sleeps.set(self.ended_sleeps.get() + 1);
    }

    fn note_sleep(&self, _slept: Duration) {}

    fn note_long_wait(&self) {
        self.checks.set(self.checks.get() + 1);
    }

    fn answer_inquiries(&self, wait: &LongWait) {
        self.reports.borrow_mut().push(*wait);
    }

    fn begin_record(&self, awaited: Option<RequestId>) -> Option<WaitRecord> {
        Some(WaitRecord::new(awaited, NOW.get()))
    }

    fn update_record(&self, record: &mut WaitRecord) {
        record.pass(NOW.get());
        self.updates.borrow_mut().push(self.rounds.get());
    }

    fn end_record(&self, _record: WaitRecord) {
        self.records_ended.set(self.records_ended.get() + 1);
    }
}

#[test]
fn a_wait_that_sleeps_long_checks_for_failed_processes_and_reports_itself() {
    let process = OneProcess::new(|| false);
    process.wait_for_sleeps(5);
    assert_eq!(BELL_SLEEPS.take(), [SLEEP_MAX; 5]);
    // Each sleep is as long as the interval between checks. The fifth one ended the wait.
    assert_eq!(process.checks.get(), 5);
    let reports = process.reports.borrow();
    assert_eq!(reports.len(), 4);
    let slept_ns = 4 * SLEEP_MAX.as_nanos() as u64;
    for wait in reports.iter() {
        assert_eq!((wait.awaited, wait.thread), (None, 1));
        assert!(wait.since > 1 && wait.since + slept_ns < NOW.get(), "{wait:?}");
    }
}

#[test]
fn a_wait_that_news_wake_sleeps_for_as_long_as_it_has_lasted() {
    let process = OneProcess { heard: Some(Cell::new(0)), ..OneProcess::new(|| false) };
    process.wait_for_sleeps(8);
    let seconds = BELL_SLEEPS.take().into_iter().map(|sleep| sleep.as_secs_f64());
    let wanted = [0.5, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0];
    for (sleep, wanted) in seconds.zip(wanted) {
        assert!((sleep - wanted).abs() < 0.01, "{sleep} s instead of {wanted} s");
    }
    assert_eq!((process.checks.get(), process.reports.borrow().len()), (8, 7));
    // News of which the wait does not know end the sleep immediately, and are read one time.
    process.heard.as_ref().unwrap().set(7);
    process.checks.set(0);
    wait(&process, WakeUp::Doorbell, &mut |process| process.checks.get() > 0);
    assert_eq!((BELL_SLEEPS.take().len(), process.heard.as_ref().unwrap().get()), (0, 0));
    assert_eq!((process.begun_sleeps.get(), process.ended_sleeps.get()), (2, 2));
}

#[test]
fn a_wait_for_memory_looks_again_within_a_part_of_its_duration() {
    let process = OneProcess::new(|| false);
    let end = Duration::from_secs(30);
    let is_over = |_: &OneProcess| Duration::from_nanos(NOW.get()) >= end;
    wait(&process, WakeUp::Nothing, &mut |process| is_over(process));
    let (sleeps, mut waited) = (BELL_SLEEPS.take(), Duration::ZERO);
    for sleep in &sleeps {
        assert!(*sleep <= Duration::from_micros(100).max(waited / 8) && *sleep <= SLEEP_MAX);
        waited += *sleep + 2 * ROUND;
    }
    assert!(sleeps.len() < 150, "{} sleeps in {end:?}", sleeps.len());
}

#[test]
fn a_wait_that_never_sleeps_because_something_always_happens_checks_too() {
    let process = OneProcess::new(|| true);
    wait(&process, WakeUp::Doorbell, &mut |process| process.rounds.get() == 40_000);
    // 40,000 rounds last 4 s.
    assert!((6..=8).contains(&process.checks.get()), "{} checks", process.checks.get());
    assert_eq!(process.reports.borrow().len() as u32, process.checks.get());
    assert_eq!(ARMS.get(), 0);
}

#[test]
fn while_something_is_pending_without_a_doorbell_sleeps_begin_short_and_double() {
    let process = OneProcess { must_poll_again: true, ..OneProcess::new(|| false) };
    let growing = [25, 50, 100, 200, 400, 800, 1600, 3200, 5000, 5000].map(Duration::from_micros);
    process.wait_for_sleeps(growing.len());
    assert_eq!(BELL_SLEEPS.take(), growing);
}

#[test]
fn a_wait_for_room_looks_more_rarely_the_longer_it_lasts() {
    let pending = OneProcess { must_poll_again: true, ..OneProcess::new(|| false) };
    let process = OneProcess { awaits_only_room: true, ..pending };
    process.wait_for_sleeps(100);
    let (sleeps, mut waited) = (BELL_SLEEPS.take(), Duration::ZERO);
    for sleep in &sleeps {
        let limit = Duration::from_millis(5).max((waited + 2 * ROUND) / 4);
        assert!(*sleep <= limit && *sleep <= SLEEP_MAX, "{sleep:?} after {waited:?}");
        waited += *sleep;
    }
    assert!(waited > Duration::from_secs(10), "100 looks in {waited:?}");
}

#[test]
fn sleeps_are_short_again_after_something_has_happened() {
    let has_happened = Cell::new(false);
    let happens = move || BELL_SLEEPS.with_borrow(Vec::len) == 3 && !has_happened.replace(true);
    let process = OneProcess { must_poll_again: true, ..OneProcess::new(happens) };
    process.wait_for_sleeps(6);
    assert_eq!(BELL_SLEEPS.take(), [25, 50, 100, 25, 50, 100].map(Duration::from_micros));
}

#[test]
fn what_arrives_before_the_bell_is_armed_ends_the_wait_without_a_sleep() {
    let process = OneProcess::new(|| false);
    wait(&process, WakeUp::Doorbell, &mut |_| ARMS.get() > 0);
    assert_eq!((ARMS.get(), BELL_SLEEPS.take().len()), (1, 0));
    assert_eq!(process.records_ended.get(), 1);
}

#[test]
fn the_record_is_updated_after_some_rounds_and_after_each_sleep() {
    let process = OneProcess::new(|| false);
    process.wait_for_sleeps(3);
    let updates = process.updates.take();
    assert_eq!(updates[..2], [1, 1 + ROUNDS_PER_RECORD]);
    // A sleep is followed by an update before the next round, and so are both rounds beside it.
    let after_sleeps = &updates[updates.len() - 2..];
    assert_eq!(after_sleeps[1] - after_sleeps[0], 2, "{updates:?}");
    assert_eq!(process.records_ended.get(), 1);
}

#[test]
fn a_record_sums_the_time_since_its_beginning() {
    let mut record = WaitRecord::new(None, 1000);
    assert_eq!(record.pass(1400), Duration::from_nanos(400));
    assert_eq!(record.pass(2000), Duration::from_nanos(600));
    assert_eq!((record.checked, record.lasted), (2000, Duration::from_nanos(1000)));
}

#[test]
fn a_designated_waiter_that_finds_something_each_round_stays_awake_beside_others() {
    let mut process = OneProcess::new(|| true);
    process.is_shared = true;
    let lock = &process.wait_state.lock;
    // Thread 2 is inside too, and sleeps.
    THREAD.set(2);
    lock.lock();
    lock.without(|| {
        THREAD.set(1);
        lock.lock();
        wait(&process, WakeUp::Doorbell, &mut |process| process.rounds.get() == 1000);
        lock.unlock();
        THREAD.set(2);
    });
    lock.unlock();
    // It sleeps once at most: then it is the designated waiter.
    assert_eq!(ARMS.get(), 1);
}

fn a_request() -> RequestId {
    RequestId::from_u64(1 << 32 | 5)
}

impl OneProcess {
    /// Creates a process whose threads may all call at the same time, and in which nothing happens.
    fn shared() -> Self {
        Self { is_shared: true, ..Self::new(|| false) }
    }

    /// Adds a thread that sleeps; returns the word on which it sleeps.
    fn add_sleeper(&self, awaited: Option<RequestId>) -> Arc<AtomicU32> {
        let word = Arc::new(AtomicU32::new(ASLEEP));
        let sleeper = Sleeper { awaited, word: Arc::clone(&word) };
        self.wait_state.sleepers.asleep.borrow_mut().push(sleeper);
        word
    }

    fn sleepers(&self) -> usize {
        self.wait_state.sleepers.asleep.borrow().len()
    }
}

#[test]
fn the_bell_rings_when_the_request_of_the_designated_waiter_is_complete() {
    let process = OneProcess::shared();
    let rings_for = |designated| {
        process.wait_state.sleepers.designated.set(designated);
        wake_others(&process);
        RINGS.replace(0)
    };
    assert_eq!((rings_for(None), rings_for(Some(Some(a_request())))), (0, 0));
    assert_eq!(rings_for(Some(None)), 1, "it must check its condition itself");
    process.complete.set(Some(a_request()));
    assert_eq!(rings_for(Some(Some(a_request()))), 1);
}

#[test]
fn a_thread_sleeps_by_the_bell_only_if_no_others_come_and_none_does_so_already() {
    let process = OneProcess::shared();
    let arrivals = process.wait_state.lock.arrivals();
    let mut sleep = Sleep::new(WakeUp::Doorbell, arrivals.wrapping_sub(1));
    let mut sleep_once = || sleeping::sleep_beside_others(&process, &mut sleep, &mut |_| false);
    assert!(!sleep_once());
    assert_eq!((WORD_SLEEPS.take(), BELL_SLEEPS.take()), (vec![Duration::from_millis(1)], vec![]));
    assert!(!sleep_once());
    assert_eq!((WORD_SLEEPS.take(), BELL_SLEEPS.take()), (vec![], vec![SLEEP_MAX]));
    process.wait_state.sleepers.designated.set(Some(None));
    assert!(!sleep_once());
    assert_eq!((WORD_SLEEPS.take(), BELL_SLEEPS.take()), (vec![SLEEP_MAX], vec![]));
}

#[test]
fn after_the_bell_sleepers_without_a_request_check_their_conditions() {
    // The sleep is shorter than the interval after which all sleepers check.
    let process = OneProcess { must_poll_again: true, ..OneProcess::shared() };
    let (checks, waits) = (process.add_sleeper(None), process.add_sleeper(Some(a_request())));
    sleeping::sleep_until_rung(&process, &mut Sleep::new(WakeUp::Doorbell, 0), &mut |_| false);
    assert_eq!(checks.load(Ordering::Relaxed), WOKEN);
    assert_eq!((waits.load(Ordering::Relaxed), process.sleepers()), (ASLEEP, 1));
}

#[test]
fn news_wake_all_sleepers() {
    let process = OneProcess { heard: Some(Cell::new(7)), ..OneProcess::shared() };
    let waits = process.add_sleeper(Some(a_request()));
    let mut sleep = Sleep::new(WakeUp::Doorbell, 0);
    sleeping::sleep_until_rung(&process, &mut sleep, &mut |_| false);
    assert_eq!((waits.load(Ordering::Relaxed), BELL_SLEEPS.take().len()), (WOKEN, 0));
    assert_eq!((process.checks.get(), process.wait_state.long_waits()), (1, 1));
}

#[test]
fn a_designated_waiter_that_ends_its_wait_designates_a_sleeper() {
    let process = OneProcess::shared();
    let designated = &process.wait_state.sleepers.has_shared_designated;
    let (mut own, mut shared) = (Sleep::new(WakeUp::Doorbell, 0), Sleep::new(WakeUp::Doorbell, 0));
    own.was_designated = true;
    shared.is_shared_designated = true;
    for sleep in [own, shared] {
        let word = process.add_sleeper(Some(a_request()));
        designated.set(sleep.is_shared_designated);
        sleeping::end_wait(&process, &sleep);
        assert_eq!((word.load(Ordering::Relaxed), process.sleepers()), (DESIGNATED, 0));
        assert_eq!(designated.get(), sleep.is_shared_designated);
        sleeping::end_wait(&process, &sleep);
        assert!(!designated.get(), "no thread is left");
    }
}
