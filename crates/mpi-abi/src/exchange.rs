//! What a call contributes to a collective operation and gets from it, for traces: computed from
//! the arguments before the call examines them.

use std::ffi::c_int;

use mpi::collective::Root;
use mpi::{CallExchange, Communicator};

use crate::arguments::{KnownCommunicator, is_in_place};
use crate::c::{Comm, Datatype, Handle};
use crate::call::Call;
use crate::calls::collectives::{incoming, outgoing};
use crate::entry_point::EntryPoint;
use crate::library::LibraryState;

/// Returns what the call with these arguments contributes and gets; `None` if it is no collective
/// operation on data, or if its arguments are wrong.
pub fn of(
    entry: &'static EntryPoint,
    library: &'static LibraryState,
    words: &[usize],
) -> Option<CallExchange> {
    let seen = Arguments { entry, library, words };
    let communicator =
        seen.call().counted_communicator(1, Comm::from_raw(seen.word("comm")?)).ok()?;
    let communicator = Some(&communicator).filter(|found| found.is_ready())?;
    let root = match seen.integer("root") {
        Some(root) => Some(seen.call().root(1, root as c_int, communicator).ok()?),
        None => None,
    };
    let part = Part::of(root, communicator.rank(), communicator.remote().is_some());
    let bytes_if = |bytes: u64, is_so: bool| if is_so { bytes } else { 0 };
    let (sent, received) = match name_of(entry.name) {
        Name::Bcast => {
            let bytes = seen.amount("count", "datatype", 1)?;
            let gets = part.is_member && !part.is_root;
            (bytes_if(bytes, part.is_root), bytes_if(bytes, gets))
        }
        Name::Reduction => {
            let bytes = seen.amount("count", "datatype", 1)?;
            (bytes_if(bytes, part.is_member), bytes_if(bytes, part.is_root))
        }
        Name::ReduceScatter => seen.scattered(communicator)?,
        Name::Movement => seen.moved(communicator, part)?,
        Name::Other => return None,
    };
    let root = match root {
        Some(Root::Rank(rank)) => communicator.gate(rank).map(|gate| gate.0),
        Some(Root::Here) => Some(library.process.rank()),
        Some(Root::Beside) | None => None,
    };
    Some(CallExchange { root, sent, received })
}

/// Returns how many bytes of data the arguments of a call that is no collective operation describe;
/// 0 if they describe none, or are wrong.
pub fn bytes(entry: &'static EntryPoint, library: &'static LibraryState, words: &[usize]) -> u64 {
    let seen = Arguments { entry, library, words };
    let pairs = [["count", "datatype"], ["origin_count", "origin_datatype"]];
    let known = pairs.into_iter().find_map(|[count, datatype]| seen.amount(count, datatype, 1));
    known.unwrap_or(0)
}

/// The part of a process in an operation. Both are true for operations without a root. The root for
/// the remote group of an intercommunicator is no member, and the others of its group are neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    is_root: bool,
    is_member: bool,
}

impl Part {
    fn of(root: Option<Root>, rank: u32, is_between_groups: bool) -> Self {
        let (is_root, is_member) = match root {
            None => (true, true),
            // On an intercommunicator, this is a rank of the other group.
            Some(Root::Rank(root)) => (!is_between_groups && root == rank, true),
            Some(Root::Here) => (true, false),
            Some(Root::Beside) => (false, false),
        };
        Self { is_root, is_member }
    }
}

/// What decides which arguments describe the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Bcast,
    Reduction,
    ReduceScatter,
    /// A send and a receive buffer.
    Movement,
    Other,
}

fn name_of(function: &str) -> Name {
    let name = function.trim_start_matches("MPI_").trim_end_matches("_c");
    let name = name.trim_end_matches("_init");
    // Names of nonblocking forms have their second letter in lower case: `Ibcast`.
    let is_begun = name.starts_with('I') && name.chars().nth(1).is_some_and(char::is_lowercase);
    let name = if is_begun { &name[1..] } else { name };
    match name {
        _ if name.eq_ignore_ascii_case("bcast") => Name::Bcast,
        _ if ["reduce", "allreduce", "scan", "exscan"]
            .iter()
            .any(|one| name.eq_ignore_ascii_case(one)) =>
        {
            Name::Reduction
        }
        _ if name.to_ascii_lowercase().starts_with("reduce_scatter") => Name::ReduceScatter,
        _ if ["gather", "scatter", "alltoall"]
            .iter()
            .any(|one| name.to_ascii_lowercase().contains(one)) =>
        {
            Name::Movement
        }
        _ => Name::Other,
    }
}

/// The arguments of a call.
struct Arguments<'a> {
    entry: &'static EntryPoint,
    library: &'static LibraryState,
    words: &'a [usize],
}

impl Arguments<'_> {
    fn call(&self) -> Call {
        Call::new(self.entry, self.library)
    }

    /// Returns the argument with a name, if the function has one.
    fn word(&self, name: &str) -> Option<usize> {
        let place = self.entry.parameters.iter().position(|parameter| *parameter == name)?;
        self.words.get(place).copied()
    }

    fn integer(&self, name: &str) -> Option<i64> {
        self.word(name).map(|word| word as i64)
    }

    /// Returns the integers of an array argument with `number` of them.
    fn integers(&self, name: &str, number: u32) -> Option<Vec<i64>> {
        let first = self.word(name).filter(|first| *first != 0 || number == 0)?;
        let is_long = self.entry.name.ends_with("_c");
        let read = |index: usize| {
            // SAFETY: the standard requires `number` integers of this size for the parameters whose
            // names are passed here.
            unsafe {
                match is_long {
                    true => *std::ptr::with_exposed_provenance::<i64>(first).add(index),
                    false => {
                        i64::from(*std::ptr::with_exposed_provenance::<c_int>(first).add(index))
                    }
                }
            }
        };
        Some((0..number as usize).map(read).collect())
    }

    fn size_of(&self, datatype: Datatype) -> Option<u64> {
        Some(self.call().datatype(1, datatype).ok()?.size() as u64)
    }

    /// Returns the bytes of `times` blocks of elements.
    fn amount(&self, count: &str, datatype: &str, times: u32) -> Option<u64> {
        let count = u64::try_from(self.integer(count)?).ok()?;
        let size = self.size_of(Datatype::from_raw(self.word(datatype)?))?;
        count.checked_mul(size)?.checked_mul(times.into())
    }

    /// Returns the bytes of one side of an operation that moves data, in `number` blocks.
    fn side(&self, [count, datatype]: [&str; 2], number: u32) -> Option<u64> {
        let lists = [format!("{count}s"), format!("{datatype}s")];
        let Some(counts) = self.word(&lists[0]).map(|_| self.integers(&lists[0], number)) else {
            return self.amount(count, datatype, number);
        };
        let counts = counts?;
        let sizes: Vec<u64> = match self.word(&lists[1]) {
            Some(first) => {
                let first = std::ptr::with_exposed_provenance(first);
                let call = self.call();
                // SAFETY: the standard requires `number` datatypes for this parameter.
                let types = unsafe { call.handles::<Datatype>(1, first, number as usize) }.ok()?;
                types.iter().map(|one| self.size_of(one)).collect::<Option<_>>()?
            }
            None => {
                vec![self.size_of(Datatype::from_raw(self.word(datatype)?))?; counts.len()]
            }
        };
        let mut sum = 0_u64;
        for (count, size) in counts.into_iter().zip(sizes) {
            sum = sum.checked_add(u64::try_from(count).ok()?.checked_mul(size)?)?;
        }
        Some(sum)
    }

    fn scattered(&self, communicator: &Communicator) -> Option<(u64, u64)> {
        if self.word("recvcounts").is_none() {
            let own = self.amount("recvcount", "datatype", 1)?;
            return Some((own.checked_mul(communicator.size().into())?, own));
        }
        let counts = self.integers("recvcounts", communicator.size())?;
        let size = self.size_of(Datatype::from_raw(self.word("datatype")?))?;
        let bytes = |count: i64| u64::try_from(count).ok()?.checked_mul(size);
        let own = bytes(*counts.get(communicator.rank() as usize)?)?;
        let sum = counts.iter().try_fold(0_u64, |sum, count| sum.checked_add(bytes(*count)?))?;
        Some((sum, own))
    }

    fn moved(&self, communicator: &KnownCommunicator<'_>, part: Part) -> Option<(u64, u64)> {
        const SEND: [&str; 2] = ["sendcount", "sendtype"];
        const RECEIVE: [&str; 2] = ["recvcount", "recvtype"];
        let in_place = |buffer: &str| {
            let word = self.word(buffer);
            word.is_some_and(|word| is_in_place(std::ptr::with_exposed_provenance(word)))
        };
        let name = self.entry.name.to_ascii_lowercase();
        let is_of_neighbors = name.contains("neighbor");
        let all = communicator.peer_count();
        let (to, from) = match is_of_neighbors {
            true => (outgoing(communicator), incoming(communicator)),
            false => (all, all),
        };
        // The numbers of blocks that the member sends and receives.
        let (sends, receives) = if name.contains("allgather") {
            (1, from)
        } else if name.contains("alltoall") {
            (to, from)
        } else if name.contains("gather") {
            (part.is_member.into(), if part.is_root { from } else { 0 })
        } else {
            (if part.is_root { to } else { 0 }, part.is_member.into())
        };
        let side = |names, number| if number == 0 { Some(0) } else { self.side(names, number) };
        let received = if in_place("recvbuf") { 0 } else { side(RECEIVE, receives)? };
        let sent = match in_place("sendbuf") {
            // The data lies in the receive buffer.
            true if name.contains("alltoall") => received,
            true => 0,
            false => side(SEND, sends)?,
        };
        Some((sent, received))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_of_the_other_group_is_not_this_process() {
        let part = |root, is_between_groups| {
            let Part { is_root, is_member } = Part::of(root, 2, is_between_groups);
            (is_root, is_member)
        };
        assert_eq!(part(None, false), (true, true));
        assert_eq!(part(Some(Root::Rank(2)), false), (true, true));
        assert_eq!(part(Some(Root::Rank(1)), false), (false, true));
        assert_eq!(part(Some(Root::Rank(2)), true), (false, true));
        assert_eq!(part(Some(Root::Here), true), (true, false));
        assert_eq!(part(Some(Root::Beside), true), (false, false));
    }

    #[test]
    fn names_are_known_in_all_forms() {
        for (function, expected) in [
            ("MPI_Bcast", Name::Bcast),
            ("MPI_Ibcast_c", Name::Bcast),
            ("MPI_Bcast_init", Name::Bcast),
            ("MPI_Allreduce", Name::Reduction),
            ("MPI_Iallreduce", Name::Reduction),
            ("MPI_Iscan", Name::Reduction),
            ("MPI_Ireduce_scatter_block", Name::ReduceScatter),
            ("MPI_Reduce_scatter_init_c", Name::ReduceScatter),
            ("MPI_Alltoallw", Name::Movement),
            ("MPI_Ineighbor_allgatherv", Name::Movement),
            ("MPI_Iscatterv", Name::Movement),
            ("MPI_Barrier", Name::Other),
            ("MPI_Comm_split", Name::Other),
            ("MPI_Reduce_local", Name::Other),
        ] {
            assert_eq!(name_of(function), expected, "{function}");
        }
    }
}
