//! Whether one-sided accesses to the memory of a process conflict (section 12.7 of the standard):
//! what nothing keeps apart may not use the same bytes, unless all only read, or all accumulate
//! with one operation.

use serde::{Deserialize, Serialize};

use crate::{CallSite, MemoryRanges, Mistake, MistakeKind};

/// What an access does to the memory of its target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessAction {
    /// `MPI_Get` and its kin.
    Reads,
    /// `MPI_Put` and its kin.
    Writes,
    /// An accumulate, or another operation that is atomic.
    Accumulates {
        /// Its operation; none for those that go together with all others, as `MPI_NO_OP`.
        operation: Option<String>,
        /// What the elements are, if that is known.
        element: Option<String>,
    },
}

/// An access, as its origin tells of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenAccess {
    /// What it does.
    pub action: AccessAction,
    /// Where: bytes of the target's part of the window.
    pub memory: MemoryRanges,
    /// Whether it brings something to its origin, which has it when it is complete there.
    pub fetches: bool,
    /// The rank in the job of the origin.
    pub rank: u32,
    /// The call.
    pub site: CallSite,
}

/// The accesses to the memory of one process that nothing keeps apart.
#[derive(Debug, Default)]
pub struct AccessPeriod(Vec<SeenAccess>);

/// So many different accesses are remembered.
const REMEMBERED_MAX: usize = 1024;

impl SeenAccess {
    /// Whether both may use the same bytes.
    fn goes_with(&self, other: &Self) -> bool {
        let agree = |one: &Option<String>, other: &Option<String>| match (one, other) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        match (&self.action, &other.action) {
            (AccessAction::Reads, AccessAction::Reads) => true,
            (
                AccessAction::Accumulates { operation: one, element: of },
                AccessAction::Accumulates { operation: another, element: of_other },
            ) => {
                // Those of one origin come in order.
                self.rank == other.rank || (agree(one, another) && agree(of, of_other))
            }
            _ => false,
        }
    }

    /// What it does, for people: `writes 8 bytes of it`.
    fn described(&self, what: &str) -> String {
        match &self.action {
            AccessAction::Reads => format!("reads {what}"),
            AccessAction::Writes => format!("writes {what}"),
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
        (&self.action, self.rank, self.fetches, &self.site)
            == (&other.action, other.rank, other.fetches, &other.site)
    }
}

impl AccessPeriod {
    /// An access to the memory of the process with a rank in the job, in a window with this name:
    /// what is wrong with it.
    pub fn add(&mut self, access: SeenAccess, target: u32, window: &str) -> Option<Mistake> {
        let mistake = self.0.iter().filter(|other| !access.goes_with(other)).find_map(|other| {
            let (_, bytes) = access.memory.common(&other.memory)?;
            let what = format!(
                "rank {} {}, and rank {} {}, with nothing between the two",
                access.rank,
                access.described(&format!("memory of rank {target} in {window}")),
                other.rank,
                other.described(&format!("{bytes} bytes of it")),
            );
            let sites = vec![(access.rank, access.site.clone()), (other.rank, other.site.clone())];
            Some(Mistake { kind: MistakeKind::Conflict, what, sites })
        });
        match self.0.iter().position(|other| other.is_like(&access)) {
            Some(place) => self.0[place].memory.add(&access.memory),
            None if self.0.len() < REMEMBERED_MAX => self.0.push(access),
            None => {}
        }
        mistake
    }

    /// Those that bring something to their origin are complete.
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
        SeenAccess { action, memory, fetches, rank, site }
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
                let told = conflict(writes(), access(action.clone(), rank, 104, 2));
                assert!(told.is_some_and(|what| what.contains("writes 4 bytes")), "{action:?}");
                assert_eq!(conflict(writes(), access(action.clone(), rank, 108, 2)), None);
            }
        }
        let again = conflict(writes(), writes());
        assert_eq!(
            again.as_deref(),
            Some(
                "rank 1 writes memory of rank 0 in w, and rank 1 writes 8 bytes of it, with nothing \
                 between the two"
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
