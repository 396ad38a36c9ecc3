//! One-sided accesses, which must be kept apart where they conflict, and the memory that they use
//! at their origin.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use checks::{AccessAction, AccessPeriod, SeenAccess};
use serde::{Deserialize, Serialize};
use windows::{OpenEpoch, Window};

use super::collectives::element_kind;
use super::memory::{self, NO_OPERATION, operation};
use super::requests::{UnderwayTransfer, look_for_change};
use super::{CheckNote, Checks, SeenCall};
use crate::arguments::KnownWindow;
use crate::c::{Datatype, Group, Handle, Win};

/// The accesses of all windows, by their numbers.
#[derive(Debug, Default)]
pub struct AccessChecks {
    windows: RefCell<HashMap<u64, OneWindow>>,
    /// The operations that this process has begun and that may still use its memory: in which
    /// window, and to which target.
    underway: RefCell<Vec<(u64, u32, Rc<UnderwayTransfer>)>>,
}

#[derive(Debug, Default)]
struct OneWindow {
    /// How many fences this process has come to.
    fences: u64,
    /// How often it has started an epoch to each target.
    starts: HashMap<u32, u64>,
    /// How many epochs it has posted, and those to each origin.
    exposures: u64,
    posts: HashMap<u32, Vec<u64>>,
    /// What came from others, or itself, between two fences and in exposure epochs.
    fenced: HashMap<u64, AccessPeriod>,
    exposed: HashMap<u64, AccessPeriod>,
    /// What this process has done to targets that it has locked, since it flushed that.
    locked: HashMap<u32, AccessPeriod>,
}

/// In which epoch an access was made, so that its target knows.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum AccessTime {
    /// After so many fences.
    Fenced(u64),
    /// In the epoch that the process with a rank in the window has started, with so many before to
    /// this target.
    Started(u32, u64),
}

/// So many operations that may still use memory are remembered.
const UNDERWAY_MAX: usize = 1000;

/// Displacements are taken from here, as there are no elements at address 0.
const BASE: usize = 1 << 46;

/// What a call completes of the accesses before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AccessCompletion {
    /// At the target, too.
    Everywhere,
    /// At the origin.
    Here,
}

fn window(seen: &SeenCall) -> Option<KnownWindow> {
    seen.call().window(1, Win::from_raw(seen.word("win")?)).ok()
}

/// What a call of a one-sided operation does to its target: its rank in the window.
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
            // A comparison goes with all operations.
            let operation = operation(seen).filter(|name| name != NO_OPERATION);
            let element = seen.call().datatype(1, datatype).ok()?.operand().and_then(element_kind);
            let fetches = !function.ends_with("ccumulate") || function.contains("et_");
            (AccessAction::Accumulates { operation, element }, fetches)
        }
    };
    let site = (*seen.site()).clone();
    Some((target, SeenAccess { action, memory, fetches, rank: seen.checks.rank, site }))
}

/// A call is made that may end or begin epochs.
pub fn begin(seen: &SeenCall) {
    let completion = match seen.function() {
        "MPI_Win_fence" | "MPI_Win_start" | "MPI_Win_post" => None,
        "MPI_Win_free" => Some(AccessCompletion::Everywhere),
        _ => return,
    };
    let Some(window) = window(seen) else { return };
    let Some(number) = window.window.number() else { return };
    let accesses = &seen.checks.accesses;
    if completion.is_some() {
        accesses.windows.borrow_mut().remove(&number);
        return;
    }
    let mut windows = accesses.windows.borrow_mut();
    let one = windows.entry(number).or_default();
    if seen.function() == "MPI_Win_fence" {
        one.fences += 1;
        // What comes late may still be of the one before.
        let oldest = one.fences.saturating_sub(2);
        one.fenced.retain(|fences, _| *fences >= oldest);
        return;
    }
    let group = seen.word("group").map(Group::from_raw);
    let group = group.and_then(|group| seen.call().group(1, group).ok());
    let ranks = group.and_then(|group| window.window.ranks_of(&group).ok());
    let ranks = ranks.unwrap_or_default();
    if seen.function() == "MPI_Win_start" {
        ranks.into_iter().for_each(|rank| *one.starts.entry(rank).or_default() += 1);
    } else {
        one.exposures += 1;
        let oldest = one.exposures.saturating_sub(2);
        one.exposed.retain(|exposure, _| *exposure >= oldest);
        ranks.into_iter().for_each(|rank| one.posts.entry(rank).or_default().push(one.exposures));
    }
}

/// A call has succeeded.
pub fn end(seen: &SeenCall) {
    let (completion, is_of_all) = match seen.function() {
        "MPI_Win_flush" | "MPI_Win_unlock" => (AccessCompletion::Everywhere, false),
        "MPI_Win_flush_local" => (AccessCompletion::Here, false),
        "MPI_Win_flush_local_all" => (AccessCompletion::Here, true),
        "MPI_Win_flush_all" | "MPI_Win_unlock_all" | "MPI_Win_fence" | "MPI_Win_complete" => {
            (AccessCompletion::Everywhere, true)
        }
        _ => return begun(seen),
    };
    let Some(number) = window(seen).and_then(|window| window.window.number()) else { return };
    let rank = seen.integer("rank").filter(|_| !is_of_all).map(|rank| rank as u32);
    seen.checks.accesses.complete(seen, number, rank, completion);
}

/// If it has begun an access, that is looked at, where all are known.
fn begun(seen: &SeenCall) {
    if seen.word("target_disp").is_none() {
        if seen.function().starts_with("MPI_Win_") {
            made(seen);
        }
        return;
    }
    let Some(known) = window(seen) else { return };
    let window = &known.window;
    let Some(number) = window.number() else { return };
    let (checks, accesses) = (&seen.checks, &seen.checks.accesses);
    let Some((target, access)) = access_of(seen, window) else { return };
    accesses.keep(seen, number, target);
    let Some(gate) = window.group().gates().nth(target as usize) else { return };
    let name = name_of(window);
    let time = {
        let mut windows = accesses.windows.borrow_mut();
        let one = windows.entry(number).or_default();
        match window.open_epoch(target) {
            None => return,
            Some(OpenEpoch::Fence) => AccessTime::Fenced(one.fences),
            Some(OpenEpoch::Start) => {
                let starts = one.starts.get(&target).copied().unwrap_or(0);
                AccessTime::Started(window.rank(), starts)
            }
            Some(OpenEpoch::Lock) => {
                let mistake = one.locked.entry(target).or_default().add(access, gate.0, &name);
                // What has a request is complete with that.
                if seen.word("request").is_some() {
                    one.locked.entry(target).or_default().end_fetches();
                }
                drop(windows);
                mistake.iter().for_each(|mistake| checks.tell(mistake));
                return;
            }
        }
    };
    checks.messages.tell(seen, gate.0, &CheckNote::Access(number, name, time, access));
}

/// A window was made: of one that had its number before nothing is left.
fn made(seen: &SeenCall) {
    if !seen.function().starts_with("MPI_Win_allocate")
        && !seen.function().starts_with("MPI_Win_create")
    {
        return;
    }
    let Some(place) = seen.word("win").filter(|place| *place != 0) else { return };
    let Some(handle) = super::objects::left_there::<Win>(seen, place) else { return };
    let window = seen.call().window(1, Win::from_raw(handle)).ok();
    let number = window.and_then(|window| window.window.number());
    number.inspect(|number| drop(seen.checks.accesses.windows.borrow_mut().remove(number)));
}

fn name_of(window: &Window) -> String {
    let name = String::from_utf8_lossy(&window.name()).into_owned();
    if name.is_empty() { format!("a window of {} processes", window.size()) } else { name }
}

impl AccessChecks {
    /// The operation that a call has begun may use memory until it is complete.
    fn keep(&self, seen: &SeenCall, window: u64, target: u32) {
        let mut underway = self.underway.borrow_mut();
        if underway.len() < UNDERWAY_MAX {
            underway.extend(seen.transfer.clone().map(|transfer| (window, target, transfer)));
        }
    }

    /// Accesses to one target, or to all, are complete.
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
        complete.iter().for_each(|transfer| look_for_change(seen, transfer));
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

    /// Another process, or this one, has accessed the own memory.
    pub fn hear(
        &self,
        checks: &Checks,
        number: u64,
        name: &str,
        time: AccessTime,
        access: SeenAccess,
    ) {
        let mistake = {
            let mut windows = self.windows.borrow_mut();
            let one = windows.entry(number).or_default();
            let period = match time {
                AccessTime::Fenced(fences) => one.fenced.entry(fences).or_default(),
                AccessTime::Started(origin, starts) => {
                    let posts = one.posts.get(&origin);
                    let place = (starts as usize).checked_sub(1);
                    let exposure = posts.zip(place).and_then(|(posts, place)| posts.get(place));
                    let Some(exposure) = exposure.copied() else { return };
                    one.exposed.entry(exposure).or_default()
                }
            };
            period.add(access, checks.rank, name)
        };
        mistake.iter().for_each(|mistake| checks.tell(mistake));
    }

    /// Whether memory is used by an operation that is underway: shows where it was begun, and what
    /// it reads and writes.
    pub fn each_underway(&self, show: &mut dyn FnMut(&UnderwayTransfer)) {
        self.underway.borrow().iter().for_each(|(_, _, transfer)| show(transfer));
    }
}
