//! Decides whether one-sided accesses to the memory of a process conflict (section 12.7 of the
//! standard). Accesses that no synchronization separates must not use common bytes, unless all of
//! them only read, or all of them accumulate with one operation.

use serde::{Deserialize, Serialize};

use crate::{CallSite, MemoryRanges, Mistake, MistakeKind};

/// What an access does to the memory of its target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessAction {
    /// `MPI_Get`, `MPI_Rget`.
    Reads,
    /// `MPI_Put`, `MPI_Rput`.
    Writes,
    /// An atomic operation that only reads: `MPI_Get_accumulate` and `MPI_Fetch_and_op` with
    /// `MPI_NO_OP`.
    ReadsAtomically {
        /// The type of the elements, if it is known.
        element: Option<String>,
    },
    /// An accumulate, or another atomic operation that changes the memory.
    Accumulates {
        /// The operation. `None` for a compare-and-swap, which does not conflict with any
        /// operation.
        operation: Option<String>,
        /// The type of the elements, if it is known.
        element: Option<String>,
    },
    /// The target itself reads its memory with ordinary loads.
    Loads,
    /// The target itself writes its memory with ordinary stores.
    Stores,
}

impl AccessAction {
    /// Whether the target itself uses its memory.
    fn is_local(&self) -> bool {
        matches!(self, Self::Loads | Self::Stores)
    }

    fn only_reads(&self) -> bool {
        matches!(self, Self::Reads | Self::ReadsAtomically { .. } | Self::Loads)
    }

    /// Returns the elements and the operation of an atomic access.
    fn atomic(&self) -> Option<(&Option<String>, Option<&String>)> {
        match self {
            Self::ReadsAtomically { element } => Some((element, None)),
            Self::Accumulates { operation, element } => Some((element, operation.as_ref())),
            _ => None,
        }
    }
}

/// An access, as its origin reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenAccess {
    /// What the access does to the memory.
    pub action: AccessAction,
    /// The bytes that it uses, relative to the target's part of the window.
    pub memory: MemoryRanges,
    /// Whether the access returns data to its origin. The origin has the data when the access is
    /// complete there.
    pub fetches: bool,
    /// The phase of the program in which the access is made. `None` if the process may have
    /// learned, since that phase began, what other processes did.
    pub phase: Option<u64>,
    /// The rank of the origin in the job.
    pub rank: u32,
    /// The call.
    pub site: CallSite,
}

/// The recorded accesses to the memory of one process that no synchronization separates.
#[derive(Debug, Default)]
pub struct AccessPeriod(Vec<SeenAccess>);

/// The largest number of different accesses that are recorded.
const REMEMBERED_MAX: usize = 1024;

/// The largest number of memory ranges that are recorded for accesses from one call site.
const RANGES_MAX: usize = 1 << 16;

impl SeenAccess {
    /// Whether both accesses may use common bytes.
    fn goes_with(&self, other: &Self) -> bool {
        let (one, another) = (&self.action, &other.action);
        if (one.only_reads() && another.only_reads()) || (one.is_local() && another.is_local()) {
            return true;
        }
        if self.may_follow(other) || other.may_follow(self) {
            return true;
        }
        let (Some((element, operation)), Some((of_other, other_operation))) =
            (one.atomic(), another.atomic())
        else {
            return false;
        };
        // Atomic accesses of one origin are ordered.
        let differ = |one: Option<&String>, other: Option<&String>| {
            one.zip(other).is_some_and(|(one, other)| one != other)
        };
        self.rank == other.rank
            || !differ(operation, other_operation) && !differ(element.as_ref(), of_other.as_ref())
    }

    /// Whether this access may have begun after `local`, a use of the target's own memory by the
    /// target, had ended. The target may have informed the origin of that, or the target is the
    /// origin.
    fn may_follow(&self, local: &Self) -> bool {
        let is_later = self.phase.is_none_or(|phase| local.phase.is_some_and(|one| one < phase));
        local.action.is_local() && (is_later || self.rank == local.rank)
    }

    /// Whether both accesses are one-sided operations of one origin, which compares them itself.
    fn is_of_same_origin(&self, other: &Self) -> bool {
        self.rank == other.rank && !self.action.is_local() && !other.action.is_local()
    }

    /// Describes the access in words: `writes 8 bytes of it`.
    fn described(&self, what: &str) -> String {
        match &self.action {
            AccessAction::Reads | AccessAction::ReadsAtomically { .. } | AccessAction::Loads => {
                format!("reads {what}")
            }
            AccessAction::Writes | AccessAction::Stores => format!("writes {what}"),
            AccessAction::Accumulates { operation, element } => {
                let operation = operation.as_deref().unwrap_or(&self.site.function);
                match element {
                    Some(element) => format!("changes {what} ({operation}, {element})"),
                    None => format!("changes {what} ({operation})"),
                }
            }
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        (&self.action, self.rank, self.fetches, self.phase, &self.site)
            == (&other.action, other.rank, other.fetches, other.phase, &other.site)
    }
}

impl AccessPeriod {
    /// Records an access of this process to the memory of process `target` (a rank in the job), in
    /// the window named `window`. Returns the conflict with an earlier access, if there is one.
    pub fn add(&mut self, access: SeenAccess, target: u32, window: &str) -> Option<Mistake> {
        let mistake = self.conflict(&access, target, window, |_| true);
        self.remember(access);
        mistake
    }

    /// Like [`AccessPeriod::add`], for an access that its origin has reported after comparing it
    /// with the other accesses of that origin.
    pub fn add_reported(
        &mut self,
        access: SeenAccess,
        target: u32,
        window: &str,
    ) -> Option<Mistake> {
        let is_meant = |other: &SeenAccess| !access.is_of_same_origin(other);
        let mistake = self.conflict(&access, target, window, is_meant);
        self.remember(access);
        mistake
    }

    fn conflict(
        &self,
        access: &SeenAccess,
        target: u32,
        window: &str,
        is_meant: impl Fn(&SeenAccess) -> bool,
    ) -> Option<Mistake> {
        let others = self.0.iter().filter(|other| is_meant(other) && !access.goes_with(other));
        others.into_iter().find_map(|other| {
            let (_, bytes) = access.memory.common(&other.memory)?;
            let what = format!(
                "rank {} {}, and rank {} {}, with no synchronization between the two accesses",
                access.rank,
                access.described(&format!("memory of rank {target} in {window}")),
                other.rank,
                other.described(&format!("{bytes} bytes of it")),
            );
            let sites = vec![(access.rank, access.site.clone()), (other.rank, other.site.clone())];
            Some(Mistake { kind: MistakeKind::Conflict, what, sites })
        })
    }

    fn remember(&mut self, access: SeenAccess) {
        match self.0.iter().position(|other| other.is_like(&access)) {
            Some(place) if self.0[place].memory.len() < RANGES_MAX => {
                self.0[place].memory.add(&access.memory);
            }
            None if self.0.len() < REMEMBERED_MAX => self.0.push(access),
            _ => {}
        }
    }

    /// Removes and returns all recorded accesses.
    pub fn take(&mut self) -> Vec<SeenAccess> {
        std::mem::take(&mut self.0)
    }

    /// Removes the accesses that return data to their origin, because they are complete.
    pub fn end_fetches(&mut self) {
        self.0.retain(|access| !access.fetches);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(action: AccessAction, rank: u32, address: usize, line: u32) -> SeenAccess {
        let memory = MemoryRanges::new(vec![(address, 8)]);
        let site =
            CallSite { function: "MPI_Put".into(), stack: vec![format!("main (a.c:{line})")] };
        let fetches = action == AccessAction::Reads;
        SeenAccess { action, memory, fetches, phase: Some(1), rank, site }
    }

    fn accumulate(operation: &str, element: &str) -> AccessAction {
        let operation = Some(operation.to_owned()).filter(|name| !name.is_empty());
        AccessAction::Accumulates { operation, element: Some(element.into()) }
    }

    fn conflict(first: SeenAccess, second: SeenAccess) -> Option<String> {
        let mut period = AccessPeriod::default();
        assert_eq!(period.add(first, 0, "w"), None);
        period.add(second, 0, "w").map(|mistake| mistake.what)
    }

    #[test]
    fn writes_conflict_with_all_that_uses_the_same_bytes() {
        let writes = || access(AccessAction::Writes, 1, 100, 1);
        let others = [AccessAction::Reads, AccessAction::Writes, accumulate("MPI_SUM", "i")];
        for action in others {
            for rank in [1, 2] {
                let reported = conflict(writes(), access(action.clone(), rank, 104, 2));
                assert!(reported.is_some_and(|what| what.contains("writes 4 bytes")), "{action:?}");
                assert_eq!(conflict(writes(), access(action.clone(), rank, 108, 2)), None);
            }
        }
        let again = conflict(writes(), writes());
        assert_eq!(
            again.as_deref(),
            Some(
                "rank 1 writes memory of rank 0 in w, and rank 1 writes 8 bytes of it, with no \
                 synchronization between the two accesses"
            )
        );
    }

    #[test]
    fn reads_and_equal_accumulates_go_together() {
        let reads = |rank| access(AccessAction::Reads, rank, 0, 1);
        assert_eq!(conflict(reads(1), reads(2)), None);
        let one = |rank, operation, element| access(accumulate(operation, element), rank, 0, rank);
        assert_eq!(conflict(one(1, "MPI_SUM", "i"), one(2, "MPI_SUM", "i")), None);
        assert_eq!(conflict(one(1, "MPI_SUM", "i"), one(2, "", "i")), None);
        assert_eq!(conflict(one(1, "MPI_SUM", "i"), one(1, "MPI_PROD", "i")), None, "in order");
        for other in [one(2, "MPI_PROD", "i"), one(2, "MPI_SUM", "f")] {
            assert!(conflict(one(1, "MPI_SUM", "i"), other).is_some());
        }
        assert!(conflict(one(1, "MPI_SUM", "i"), reads(1)).is_some());
    }

    #[test]
    fn an_atomic_read_goes_with_reads_and_with_accumulates_of_its_elements() {
        let atomic = |rank, element: &str| {
            let element = Some(element.to_owned());
            access(AccessAction::ReadsAtomically { element }, rank, 0, 9)
        };
        assert_eq!(conflict(atomic(1, "i"), access(AccessAction::Reads, 2, 0, 1)), None);
        assert_eq!(conflict(access(AccessAction::Reads, 1, 0, 1), atomic(1, "i")), None);
        assert_eq!(conflict(atomic(1, "i"), atomic(2, "f")), None);
        let sum = |rank| access(accumulate("MPI_SUM", "i"), rank, 0, 2);
        assert_eq!(conflict(atomic(1, "i"), sum(2)), None);
        assert!(conflict(atomic(1, "f"), sum(2)).is_some());
        assert!(conflict(atomic(1, "i"), access(AccessAction::Writes, 2, 0, 1)).is_some());
        assert!(conflict(access(AccessAction::Stores, 2, 0, 1), atomic(1, "i")).is_some());
    }

    #[test]
    fn the_target_may_read_what_others_read_and_use_its_own_memory_as_it_likes() {
        let of = |action, rank| access(action, rank, 0, rank);
        assert_eq!(conflict(of(AccessAction::Loads, 0), of(AccessAction::Reads, 1)), None);
        assert_eq!(conflict(of(AccessAction::Loads, 0), of(AccessAction::Stores, 0)), None);
        for (local, remote) in [
            (AccessAction::Loads, AccessAction::Writes),
            (AccessAction::Stores, AccessAction::Reads),
            (AccessAction::Loads, accumulate("MPI_SUM", "i")),
        ] {
            let reported = conflict(of(remote.clone(), 1), of(local.clone(), 0));
            assert!(reported.is_some(), "{local:?} {remote:?}");
            assert_eq!(conflict(of(local, 0), of(remote, 0)), None, "in order");
        }
    }

    #[test]
    fn an_access_of_a_process_that_may_have_heard_of_a_local_use_goes_with_that() {
        let store = || access(AccessAction::Stores, 0, 0, 1);
        let with = |phase, rank| SeenAccess { phase, ..access(AccessAction::Writes, rank, 0, 2) };
        for (phase, is_reported) in
            [(None, false), (Some(0), true), (Some(1), true), (Some(2), false)]
        {
            assert_eq!(conflict(store(), with(phase, 1)).is_some(), is_reported, "{phase:?}");
            assert_eq!(conflict(with(phase, 1), store()).is_some(), is_reported, "{phase:?}");
        }
    }

    #[test]
    fn what_an_origin_reports_is_compared_with_what_others_have_done() {
        let mut period = AccessPeriod::default();
        let of = |rank| access(AccessAction::Writes, rank, 0, rank);
        assert_eq!(period.add_reported(of(1), 0, "w"), None);
        assert_eq!(period.add_reported(of(1), 0, "w"), None, "the origin has seen that");
        assert!(period.add_reported(of(2), 0, "w").is_some());
        assert_eq!(period.take().len(), 2);
        assert_eq!(period.add_reported(of(3), 0, "w"), None);
    }

    #[test]
    fn accesses_of_one_place_are_one_and_fetches_end_first() {
        let mut period = AccessPeriod::default();
        for place in 0..2 * REMEMBERED_MAX {
            assert_eq!(period.add(access(AccessAction::Writes, 1, 8 * place, 1), 0, "w"), None);
        }
        assert_eq!(period.0.len(), 1);
        assert_eq!(period.add(access(AccessAction::Reads, 1, 1 << 30, 2), 0, "w"), None);
        period.end_fetches();
        assert_eq!(period.add(access(AccessAction::Writes, 1, 1 << 30, 3), 0, "w"), None);
        assert!(period.add(access(AccessAction::Writes, 1, 0, 3), 0, "w").is_some());
    }
}
