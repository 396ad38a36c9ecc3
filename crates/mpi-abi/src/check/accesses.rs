//! Checks one-sided accesses, which must be separated if they conflict, and the memory that they
//! use at their origin.
//!
//! The origin compares its own accesses, and reports them to their targets at the end of the epoch;
//! it combines accesses from one call site. The target compares the accesses of different
//! processes, and its own uses of its memory.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use checks::{
    AccessAction, AccessPeriod, CallSite, MemoryRanges, Mistake, MistakeKind, SeenAccess,
};
use serde::{Deserialize, Serialize};
use windows::{OpenEpoch, Window};

use super::memory::{self, NO_OPERATION, operation};
use super::objects::window_of;
use super::requests::{UnderwayTransfer, check_for_change};
use super::transfers::element_kind;
use super::uses::LocalUse;
use super::{CheckMessage, Checks, SeenCall, watched};
use crate::c::{Datatype, Group, Handle, Win};
use crate::generated::constants::MPI_LOCK_EXCLUSIVE;

/// The accesses to all windows, by their numbers.
#[derive(Debug, Default)]
pub struct AccessChecks {
    windows: RefCell<HashMap<u64, OneWindow>>,
    /// The operations of this process that may still use its memory: the window, the target, and
    /// the operation.
    underway: RefCell<Vec<(u64, u32, Rc<UnderwayTransfer>)>>,
}

#[derive(Debug, Default)]
struct OneWindow {
    name: String,
    /// The rank of this process in the window.
    rank: u32,
    /// The address and length of the memory of this process that other processes access.
    own: Option<(usize, usize)>,
    /// The number of fences that this process has called.
    fences: u64,
    /// The last operation since the last fence.
    unfenced: Option<Rc<CallSite>>,
    /// The number of epochs that this process has started to each target.
    starts: HashMap<u32, u64>,
    /// The number of epochs that this process has posted; `posts` has the numbers of those for each
    /// origin.
    exposures: u64,
    posts: HashMap<u32, Vec<u64>>,
    /// Whether the last posted epoch is open.
    is_exposed: bool,
    /// The targets on which this process holds an exclusive lock.
    exclusive: BTreeSet<u32>,
    /// The processes (ranks in the job) that are freeing the window.
    left: BTreeSet<u32>,
    /// The accesses of all processes to the memory of this one.
    periods: HashMap<Period, AccessPeriod>,
    /// The accesses of this process to each target (its rank in the job) that are not reported yet.
    unreported: HashMap<(u32, AccessTime), AccessPeriod>,
    /// The accesses of this process to targets (ranks in the window) that it has locked, since its
    /// last flush.
    locked: HashMap<u32, AccessPeriod>,
}

/// The epoch in which an access was made, in a form that its target understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AccessTime {
    /// After this number of fences.
    Fenced(u64),
    /// In the epoch that the process with this rank in the window has started, which is its epoch
    /// with this number to this target.
    Started(u32, u64),
    /// Under a shared lock, in the phase with this number.
    Shared(u64),
}

/// A period in which no synchronization separates accesses to the memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Period {
    /// After this number of fences.
    Fenced(u64),
    /// In the exposure epoch with this number.
    Exposed(u64),
    /// In the phase with this number ([`super::phases`]).
    Shared(u64),
}

impl Period {
    /// Whether reports of accesses in this period may still arrive, given the current numbers of
    /// fences, exposure epochs and phases.
    fn is_recent(self, fences: u64, exposures: u64, phase: u64) -> bool {
        match self {
            Self::Fenced(fence) => fence + PERIODS_KEPT >= fences,
            Self::Exposed(exposure) => exposure + PERIODS_KEPT >= exposures,
            Self::Shared(number) => number + PERIODS_KEPT >= phase,
        }
    }
}

/// The number of earlier periods that are kept for late reports.
const PERIODS_KEPT: u64 = 2;

/// The largest number of operations in progress that are recorded.
const UNDERWAY_MAX: usize = 1000;

/// The address that displacements are added to, as elements cannot lie at address 0.
const BASE: usize = 1 << 46;

/// Where a call completes the accesses before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AccessCompletion {
    /// At the target and at the origin.
    Everywhere,
    /// At the origin only.
    Here,
}

/// Returns the access of a one-sided call, with the rank of its target in the window.
fn access_of(seen: &SeenCall, window: &Window) -> Option<(u32, SeenAccess)> {
    let target = u32::try_from(seen.integer("target_rank")? as i32).ok()?;
    let (count, datatype) = match seen.integer("target_count") {
        Some(count) => (count, "target_datatype"),
        None => (1, "datatype"),
    };
    let datatype = Datatype::from_raw(seen.word(datatype)?);
    let unit = window.share(target).ok()?.unit as i64;
    let displacement = seen.integer("target_disp")?.checked_mul(unit)?;
    let base = if window.is_dynamic() { 0 } else { BASE };
    let address = base.checked_add_signed(displacement as isize)?;
    let memory = memory::elements(seen, address, count, datatype)?;
    let function = seen.function();
    let (action, fetches) = match function {
        "MPI_Put" | "MPI_Rput" => (AccessAction::Writes, false),
        "MPI_Get" | "MPI_Rget" => (AccessAction::Reads, true),
        _ => {
            let element = seen.call().datatype(1, datatype).ok()?.operand().and_then(element_kind);
            let operation = operation(seen);
            let fetches = !function.ends_with("ccumulate") || function.contains("et_");
            match operation.as_deref() {
                Some(NO_OPERATION) => (AccessAction::ReadsAtomically { element }, fetches),
                _ => (AccessAction::Accumulates { operation, element }, fetches),
            }
        }
    };
    let site = (*seen.site()).clone();
    let phase = seen.checks.phases.known();
    Some((target, SeenAccess { action, memory, fetches, phase, rank: seen.checks.rank, site }))
}

/// Handles the beginning of a call that may end or begin epochs.
pub fn begin(seen: &SeenCall) {
    if !matches!(
        seen.function(),
        "MPI_Win_fence" | "MPI_Win_start" | "MPI_Win_post" | "MPI_Win_free"
    ) {
        return;
    }
    let Some(window) = window_of(seen) else { return };
    let Some(number) = window.window.number() else { return };
    let accesses = &seen.checks.accesses;
    match seen.function() {
        "MPI_Win_fence" => {
            accesses.report(seen, number, |time| matches!(time, AccessTime::Fenced(_)));
            let mut windows = accesses.windows.borrow_mut();
            let one = windows.entry(number).or_default();
            one.fences += 1;
            one.unfenced = None;
            one.forget_old(seen.checks.phases.current());
        }
        "MPI_Win_free" => {
            accesses.report(seen, number, |_| true);
            accesses.report_unfenced(seen, number);
            accesses.leave(seen, &window.window, number);
        }
        _ => begin_group_epoch(seen, &window.window, number),
    }
}

/// Handles the beginning of `MPI_Win_start` or `MPI_Win_post`.
fn begin_group_epoch(seen: &SeenCall, window: &Window, number: u64) {
    let group = seen.word("group").map(Group::from_raw);
    let group = group.and_then(|group| seen.call().group(1, group).ok());
    let ranks = group.and_then(|group| window.ranks_of(&group).ok()).unwrap_or_default();
    let mut windows = seen.checks.accesses.windows.borrow_mut();
    let one = windows.entry(number).or_default();
    if seen.function() == "MPI_Win_start" {
        ranks.into_iter().for_each(|rank| *one.starts.entry(rank).or_default() += 1);
    } else {
        one.exposures += 1;
        one.is_exposed = true;
        one.forget_old(seen.checks.phases.current());
        let exposure = one.exposures;
        ranks.into_iter().for_each(|rank| one.posts.entry(rank).or_default().push(exposure));
    }
}

/// Handles a call that has succeeded.
pub fn end(seen: &SeenCall) {
    let (completion, is_of_all) = match seen.function() {
        "MPI_Win_flush" | "MPI_Win_unlock" => (AccessCompletion::Everywhere, false),
        "MPI_Win_flush_local" => (AccessCompletion::Here, false),
        "MPI_Win_flush_local_all" => (AccessCompletion::Here, true),
        "MPI_Win_flush_all" | "MPI_Win_unlock_all" | "MPI_Win_fence" | "MPI_Win_complete" => {
            (AccessCompletion::Everywhere, true)
        }
        function => {
            if seen.word("target_disp").is_some() {
                begun(seen);
            } else if function.starts_with("MPI_Win_") {
                changed(seen);
            }
            return;
        }
    };
    let Some(number) = window_of(seen).and_then(|window| window.window.number()) else { return };
    let accesses = &seen.checks.accesses;
    let rank = seen.integer("rank").filter(|_| !is_of_all).map(|rank| rank as u32);
    accesses.complete(seen, number, rank, completion);
    match seen.function() {
        // Now the target has posted its epoch, which the report names.
        "MPI_Win_complete" => {
            accesses.report(seen, number, |time| matches!(time, AccessTime::Started(..)));
        }
        "MPI_Win_unlock" | "MPI_Win_unlock_all" => {
            accesses.report(seen, number, |time| matches!(time, AccessTime::Shared(_)));
            if let Some(one) = accesses.windows.borrow_mut().get_mut(&number) {
                one.exclusive.retain(|target| rank.is_some_and(|rank| rank != *target));
            }
        }
        _ => {}
    }
}

/// Records the access that a call has begun, and compares it with those that are known here.
fn begun(seen: &SeenCall) {
    let Some(known) = window_of(seen) else { return };
    let window = &known.window;
    let Some(number) = window.number() else { return };
    let (checks, accesses) = (&seen.checks, &seen.checks.accesses);
    let Some((target, access)) = access_of(seen, window) else { return };
    accesses.keep(seen, number, target);
    let Some(gate) = window.group().gates().nth(target as usize) else { return };
    let mut windows = accesses.windows.borrow_mut();
    let one = windows.entry(number).or_default();
    let time = match window.open_epoch(target) {
        None => return,
        Some(OpenEpoch::Fence) => {
            one.unfenced = Some(seen.site());
            Some(AccessTime::Fenced(one.fences))
        }
        Some(OpenEpoch::Start) => {
            let starts = one.starts.get(&target).copied().unwrap_or(0);
            Some(AccessTime::Started(window.rank(), starts))
        }
        Some(OpenEpoch::Lock) => one.shared_time(checks, target),
    };
    let mut mistake = None;
    if matches!(time, None | Some(AccessTime::Shared(_))) {
        let period = one.locked.entry(target).or_default();
        mistake = period.add(access.clone(), gate.0, &one.name);
        // An access with a request is complete when the request is.
        if seen.word("request").is_some() {
            period.end_fetches();
        }
    }
    if let Some(time) = time {
        let period = one.unreported.entry((gate.0, time)).or_default();
        // Accesses under a lock were compared with the accesses in `locked` before.
        let is_shared = matches!(time, AccessTime::Shared(_));
        mistake = match is_shared {
            true => mistake.or_else(|| period.add_reported(access, gate.0, &one.name)),
            false => period.add(access, gate.0, &one.name),
        };
    }
    drop(windows);
    mistake.iter().for_each(|mistake| checks.report_mistake(mistake));
}

/// Handles a call that has created or named a window, locked a process, or ended an exposure epoch.
fn changed(seen: &SeenCall) {
    let accesses = &seen.checks.accesses;
    match seen.function() {
        "MPI_Win_lock" if seen.integer("lock_type") == Some(i64::from(MPI_LOCK_EXCLUSIVE)) => {
            let number = window_of(seen).and_then(|window| window.window.number());
            let mut windows = accesses.windows.borrow_mut();
            let one = number.map(|number| windows.entry(number).or_default());
            one.zip(seen.integer("rank")).map(|(one, rank)| one.exclusive.insert(rank as u32));
        }
        "MPI_Win_set_name" => {
            let Some(known) = window_of(seen) else { return };
            let mut windows = accesses.windows.borrow_mut();
            let one = known.window.number().and_then(|number| windows.get_mut(&number));
            one.into_iter().for_each(|one| one.name = name_of(&known.window));
        }
        "MPI_Win_wait" | "MPI_Win_test" => {
            let is_over = seen.word("flag").is_none_or(|flag| {
                // SAFETY: the call has succeeded, and has stored an integer there.
                unsafe { *std::ptr::with_exposed_provenance::<i32>(flag) != 0 }
            });
            let number = window_of(seen).and_then(|window| window.window.number());
            let mut windows = accesses.windows.borrow_mut();
            let one = number.and_then(|number| windows.get_mut(&number));
            one.filter(|_| is_over).into_iter().for_each(|one| one.is_exposed = false);
        }
        function
            if function.starts_with("MPI_Win_allocate")
                || function.starts_with("MPI_Win_create") =>
        {
            made(seen);
        }
        _ => {}
    }
}

/// Records a new window. Other processes may have used it before the call that creates it ended.
fn made(seen: &SeenCall) {
    let Some(place) = seen.word("win").filter(|place| *place != 0) else { return };
    let Some(handle) = super::objects::left_there::<Win>(seen, place) else { return };
    let Ok(known) = seen.call().window(1, Win::from_raw(handle)) else { return };
    let Some(number) = known.window.number() else { return };
    let (address, share) = known.window.own_part();
    let own = (!known.window.is_dynamic() && share.size > 0).then_some((address, share.size));
    let mut windows = seen.checks.accesses.windows.borrow_mut();
    let one = windows.entry(number).or_default();
    own.iter().for_each(|own| watched::watch(&MemoryRanges::new(vec![*own])));
    (one.name, one.rank, one.own) = (name_of(&known.window), known.window.rank(), own);
}

fn name_of(window: &Window) -> String {
    let name = String::from_utf8_lossy(&window.name()).into_owned();
    if name.is_empty() { format!("a window of {} processes", window.size()) } else { name }
}

impl OneWindow {
    /// Returns when an access to a locked target is made, if it can conflict with accesses of other
    /// processes. An exclusive lock separates it from them.
    fn shared_time(&self, checks: &Checks, target: u32) -> Option<AccessTime> {
        if self.exclusive.contains(&target) {
            return None;
        }
        checks.phases.comparable().map(AccessTime::Shared)
    }

    /// Returns the periods in which this process currently uses its own memory.
    fn own_periods(
        &self,
        checks: &Checks,
        usage: LocalUse,
    ) -> impl Iterator<Item = Period> + use<> {
        let fenced = (self.fences > 0).then_some(Period::Fenced(self.fences));
        let exposed = self.is_exposed.then_some(Period::Exposed(self.exposures));
        let is_shared = usage == LocalUse::Now && !self.exclusive.contains(&self.rank);
        let phase = checks.phases.comparable().filter(|_| is_shared);
        [fenced, exposed, phase.map(Period::Shared)].into_iter().flatten()
    }

    fn forget_old(&mut self, phase: u64) {
        let (fences, exposures) = (self.fences, self.exposures);
        self.periods.retain(|period, _| period.is_recent(fences, exposures, phase));
    }
}

impl AccessChecks {
    /// Records the operation that a call has begun, which may use memory until it is complete.
    fn keep(&self, seen: &SeenCall, window: u64, target: u32) {
        let mut underway = self.underway.borrow_mut();
        if let Some(transfer) = seen.transfer.clone()
            && underway.len() < UNDERWAY_MAX
        {
            seen.checks.requests.occupy(&transfer);
            underway.push((window, target, transfer));
        }
    }

    /// Records that accesses to one target, or to all, are complete.
    fn complete(
        &self,
        seen: &SeenCall,
        window: u64,
        target: Option<u32>,
        completion: AccessCompletion,
    ) {
        let is_meant = |one: u32| target.is_none_or(|target| target == one);
        let mut complete = Vec::new();
        self.underway.borrow_mut().retain(|(of, to, transfer)| {
            let is_complete = *of == window && is_meant(*to);
            complete.extend(is_complete.then(|| Rc::clone(transfer)));
            !is_complete
        });
        complete.iter().for_each(|transfer| check_for_change(seen, transfer));
        if let Some(one) = self.windows.borrow_mut().get_mut(&window) {
            match completion {
                AccessCompletion::Everywhere => one.locked.retain(|rank, _| !is_meant(*rank)),
                AccessCompletion::Here => {
                    let meant = one.locked.iter_mut().filter(|(rank, _)| is_meant(**rank));
                    meant.for_each(|(_, period)| period.end_fetches());
                }
            }
        }
    }

    /// Reports the accesses of this process in epochs that have ended to their targets.
    fn report(&self, seen: &SeenCall, number: u64, is_over: impl Fn(AccessTime) -> bool) {
        let mut reports = Vec::new();
        if let Some(one) = self.windows.borrow_mut().get_mut(&number) {
            let name = one.name.clone();
            one.unreported.retain(|(target, time), period| {
                if is_over(*time) {
                    let note = CheckMessage::Accesses(number, name.clone(), *time, period.take());
                    reports.push((*target, note));
                    return false;
                }
                true
            });
        }
        let messages = &seen.checks.messages;
        reports.into_iter().for_each(|(target, note)| messages.send_to(seen, target, &note));
    }

    /// Reports the accesses of this process in a phase that ends to their targets.
    pub fn report_shared(&self, seen: &SeenCall) {
        let numbers: Vec<u64> = {
            let windows = self.windows.borrow();
            let unreported = windows.iter().filter(|(_, one)| !one.unreported.is_empty());
            unreported.map(|(number, _)| *number).collect()
        };
        for number in numbers {
            self.report(seen, number, |time| matches!(time, AccessTime::Shared(_)));
        }
    }

    /// Reports operations on a window that were not completed when the window is freed.
    fn report_unfenced(&self, seen: &SeenCall, number: u64) {
        let (name, site) = {
            let mut windows = self.windows.borrow_mut();
            let Some(one) = windows.get_mut(&number) else { return };
            let Some(site) = one.unfenced.take() else { return };
            (one.name.clone(), site)
        };
        let rank = seen.checks.rank;
        let what = format!(
            "rank {rank} calls MPI_Win_free for {name}, but no MPI_Win_fence has ended the epoch of \
             its {}",
            site.function
        );
        let sites = vec![(rank, (*seen.site()).clone()), (rank, (*site).clone())];
        seen.checks.report_mistake(&Mistake { kind: MistakeKind::Epoch, what, sites });
    }

    /// Informs the other processes that this one makes no more accesses to a window that is being
    /// freed. Forgets the window when all processes have reported that, because another window may
    /// soon get its number.
    fn leave(&self, seen: &SeenCall, window: &Window, number: u64) {
        let (checks, process) = (&seen.checks, &seen.library.process);
        let gates: Vec<u32> = window.group().gates().map(|gate| gate.0).collect();
        for gate in gates.iter().filter(|gate| **gate != checks.rank) {
            checks.send(process, *gate, &CheckMessage::Left(number));
        }
        let is_left = || {
            let windows = self.windows.borrow();
            let others = gates.len().saturating_sub(1);
            windows.get(&number).is_none_or(|one| one.left.len() >= others)
        };
        process.wait_until(&mut |process| {
            is_left() || checks.is_apart.get() || process.has_lost_processes()
        });
        let own = self.windows.borrow_mut().remove(&number).and_then(|one| one.own);
        own.iter().for_each(|own| watched::unwatch(&MemoryRanges::new(vec![*own])));
    }

    /// Records that a process makes no more accesses to a window.
    pub fn receive_left(&self, number: u64, from: u32) {
        self.windows.borrow_mut().entry(number).or_default().left.insert(from);
    }

    /// Compares accesses to the memory of this process that other processes, or this one, have
    /// made.
    pub fn add_received(
        &self,
        checks: &Checks,
        number: u64,
        name: &str,
        time: AccessTime,
        accesses: Vec<SeenAccess>,
    ) {
        let mut mistakes = Vec::new();
        {
            let mut windows = self.windows.borrow_mut();
            let one = windows.entry(number).or_default();
            let period = match time {
                AccessTime::Fenced(fences) => Period::Fenced(fences),
                AccessTime::Shared(phase) => Period::Shared(phase),
                AccessTime::Started(origin, starts) => {
                    let posts = one.posts.get(&origin);
                    let place = (starts as usize).checked_sub(1);
                    let exposure = posts.zip(place).and_then(|(posts, place)| posts.get(place));
                    let Some(exposure) = exposure.copied() else { return };
                    Period::Exposed(exposure)
                }
            };
            let period = one.periods.entry(period).or_default();
            for access in accesses {
                mistakes.extend(period.add_reported(access, checks.rank, name));
            }
        }
        mistakes.iter().for_each(|mistake| checks.report_mistake(mistake));
    }

    /// Compares a use of memory by this process itself with the accesses of other processes.
    /// `action` is [`AccessAction::Loads`] or [`AccessAction::Stores`].
    pub fn use_memory(
        &self,
        checks: &Checks,
        memory: &MemoryRanges,
        (action, usage): (AccessAction, LocalUse),
        site: &CallSite,
    ) {
        let mut mistakes = Vec::new();
        for one in self.windows.borrow_mut().values_mut() {
            let Some((address, length)) = one.own else { continue };
            let Some(memory) = memory.within(address, length, BASE) else { continue };
            for period in one.own_periods(checks, usage) {
                let access = SeenAccess {
                    action: action.clone(),
                    memory: memory.clone(),
                    fetches: false,
                    phase: Some(checks.phases.current()),
                    rank: checks.rank,
                    site: site.clone(),
                };
                let period = one.periods.entry(period).or_default();
                mistakes.extend(period.add_reported(access, checks.rank, &one.name));
            }
        }
        mistakes.iter().for_each(|mistake| checks.report_mistake(mistake));
    }

    /// Whether other processes may access some of this memory through a window.
    pub fn has_memory(&self, memory: &MemoryRanges) -> bool {
        let windows = self.windows.borrow();
        let mut own = windows.values().filter_map(|one| one.own);
        own.any(|(address, length)| memory.within(address, length, BASE).is_some())
    }
}
