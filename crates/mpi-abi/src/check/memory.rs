//! Determines from the arguments which memory of the program an operation reads and writes.

use std::ffi::c_int;

use checks::MemoryRanges;
use mpi::communicator::Communicator;
use sys::cross_memory::{self, Run};

use super::SeenCall;
use super::operations::{operation_name, operation_of};
use crate::arguments::is_in_place;
use crate::c::{Datatype, Handle};
use crate::calls::collectives::{incoming, outgoing};

/// The memory that an operation uses until it is complete.
#[derive(Clone, Debug, Default)]
pub struct MemoryOfCall {
    /// The memory that it reads. `None` if there is none, or if it has too many pieces.
    pub reads: Option<MemoryRanges>,
    /// The memory that it writes. `None` if there is none, or if it has too many pieces.
    pub writes: Option<MemoryRanges>,
}

/// Returns the memory that a one-sided operation uses at its origin.
pub fn of_one_sided(seen: &SeenCall) -> Option<MemoryOfCall> {
    let origin = || elements_of(seen, "origin_addr", "origin_count", "origin_datatype");
    let one = |name: &str| elements_of(seen, name, "", "datatype");
    let gives = || operation(seen).is_none_or(|name| name != NO_OPERATION);
    let (reads, writes) = match seen.function() {
        "MPI_Put" | "MPI_Rput" | "MPI_Accumulate" | "MPI_Raccumulate" => (origin(), None),
        "MPI_Get" | "MPI_Rget" => (None, origin()),
        "MPI_Get_accumulate" | "MPI_Rget_accumulate" => {
            let given = if gives() { origin() } else { None };
            (given, elements_of(seen, "result_addr", "result_count", "result_datatype"))
        }
        "MPI_Fetch_and_op" => (if gives() { one("origin_addr") } else { None }, one("result_addr")),
        "MPI_Compare_and_swap" => {
            let mut reads = one("origin_addr")?;
            reads.add(&one("compare_addr")?);
            (Some(reads), one("result_addr"))
        }
        _ => return None,
    };
    Some(MemoryOfCall { reads, writes })
}

pub const NO_OPERATION: &str = "MPI_NO_OP";

/// Returns the name of the operation of an accumulate.
pub fn operation(seen: &SeenCall) -> Option<String> {
    seen.word("op").map(operation_name)
}

/// The arrangement of the blocks of a buffer.
#[derive(Clone, Copy, Debug)]
enum BlockArrangement {
    /// This number of blocks, one after the other.
    Equal(u32),
    /// This number of blocks, each with a count and a displacement.
    Listed(u32),
    /// This number of blocks, each with a count, a displacement and a datatype.
    Typed(u32),
}

/// The names of the parameters that describe a buffer of a collective operation.
pub struct BlockNames {
    pub buffer: &'static str,
    pub count: &'static str,
    pub counts: &'static str,
    displacements: [&'static str; 2],
    pub datatype: &'static str,
    pub datatypes: &'static str,
}

pub const SENT: BlockNames = BlockNames {
    buffer: "sendbuf",
    count: "sendcount",
    counts: "sendcounts",
    displacements: ["sdispls", "displs"],
    datatype: "sendtype",
    datatypes: "sendtypes",
};
pub const RECEIVED: BlockNames = BlockNames {
    buffer: "recvbuf",
    count: "recvcount",
    counts: "recvcounts",
    displacements: ["rdispls", "displs"],
    datatype: "recvtype",
    datatypes: "recvtypes",
};

/// The largest number of pieces of a buffer that are recorded.
const PIECES_MAX: usize = 4096;

/// The number of bytes that are examined at once.
const CHUNK: usize = 64 << 10;

/// The pieces of memory in which elements lie, in any order.
#[derive(Default)]
struct MemoryPieces(Vec<(usize, usize)>);

impl MemoryPieces {
    /// Adds the pieces of `count` elements; `None` if there are too many pieces, or if an argument
    /// is wrong.
    fn add(
        &mut self,
        seen: &SeenCall,
        address: usize,
        count: i64,
        datatype: Datatype,
    ) -> Option<()> {
        let (call, place) = (seen.call(), std::ptr::with_exposed_provenance(address));
        // SAFETY: the memory is neither read nor written; only the addresses are used.
        let buffer = unsafe { call.buffer(1, place, count, datatype) }.ok()?;
        buffer.runs(0, buffer.len(), &mut |address, length| {
            self.0.push((address, length));
            self.0.len() <= PIECES_MAX
        });
        (self.0.len() <= PIECES_MAX).then_some(())
    }

    fn ranges(self) -> Option<MemoryRanges> {
        (!self.0.is_empty()).then(|| MemoryRanges::new(self.0))
    }
}

/// Returns the memory of `count` elements at an address.
pub fn elements(
    seen: &SeenCall,
    address: usize,
    count: i64,
    datatype: Datatype,
) -> Option<MemoryRanges> {
    let mut pieces = MemoryPieces::default();
    pieces.add(seen, address, count, datatype)?;
    pieces.ranges()
}

/// Returns the memory of the elements that three parameters describe; if `count` is empty, it is
/// one element.
pub fn elements_of(
    seen: &SeenCall,
    buffer: &str,
    count: &str,
    datatype: &str,
) -> Option<MemoryRanges> {
    let count = if count.is_empty() { 1 } else { seen.integer(count)? };
    elements(seen, seen.word(buffer)?, count, Datatype::from_raw(seen.word(datatype)?))
}

/// Returns the memory that a collective operation within one group uses.
pub fn of_collective(seen: &SeenCall) -> Option<MemoryOfCall> {
    let name = operation_of(seen.entry.name)?;
    let comm = seen.communicator("comm").filter(|comm| comm.remote().is_none())?;
    let is_root = seen.integer("root").is_none_or(|root| root == i64::from(comm.rank()));
    let (one, all) = (BlockArrangement::Equal(1), BlockArrangement::Equal(comm.size()));
    let (sent, received) = match name.as_str() {
        "bcast" => {
            let memory = elements_of(seen, "buffer", "count", "datatype");
            let (reads, writes) = if is_root { (memory, None) } else { (None, memory) };
            return Some(MemoryOfCall { reads, writes });
        }
        "reduce" | "allreduce" | "scan" | "exscan" | "reduce_scatter" | "reduce_scatter_block" => {
            return of_reduction(seen, &name, &comm, is_root);
        }
        "gather" => (Some(one), is_root.then_some(all)),
        "gatherv" => (Some(one), is_root.then_some(BlockArrangement::Listed(comm.size()))),
        "scatter" => (is_root.then_some(all), Some(one)),
        "scatterv" => (is_root.then_some(BlockArrangement::Listed(comm.size())), Some(one)),
        "allgather" => (Some(one), Some(all)),
        "allgatherv" => (Some(one), Some(BlockArrangement::Listed(comm.size()))),
        "alltoall" => (Some(all), Some(all)),
        "alltoallv" => (
            Some(BlockArrangement::Listed(comm.size())),
            Some(BlockArrangement::Listed(comm.size())),
        ),
        "alltoallw" => {
            (Some(BlockArrangement::Typed(comm.size())), Some(BlockArrangement::Typed(comm.size())))
        }
        "neighbor_allgather" => (Some(one), Some(BlockArrangement::Equal(incoming(&comm)))),
        "neighbor_allgatherv" => (Some(one), Some(BlockArrangement::Listed(incoming(&comm)))),
        "neighbor_alltoall" => (
            Some(BlockArrangement::Equal(outgoing(&comm))),
            Some(BlockArrangement::Equal(incoming(&comm))),
        ),
        "neighbor_alltoallv" => (
            Some(BlockArrangement::Listed(outgoing(&comm))),
            Some(BlockArrangement::Listed(incoming(&comm))),
        ),
        "neighbor_alltoallw" => (
            Some(BlockArrangement::Typed(outgoing(&comm))),
            Some(BlockArrangement::Typed(incoming(&comm))),
        ),
        _ => return None,
    };
    Some(MemoryOfCall {
        reads: sent.and_then(|list| blocks(seen, &SENT, list)),
        writes: received.and_then(|list| blocks(seen, &RECEIVED, list)),
    })
}

fn of_reduction(
    seen: &SeenCall,
    name: &str,
    comm: &Communicator,
    is_root: bool,
) -> Option<MemoryOfCall> {
    let datatype = Datatype::from_raw(seen.word("datatype")?);
    let (sent, received) = (seen.word("sendbuf")?, seen.word("recvbuf")?);
    let in_place = is_in_place(std::ptr::with_exposed_provenance(sent));
    let (all, own) = match name {
        "reduce_scatter" => {
            let counts = integers(seen, "recvcounts", comm.size(), width_of_counts(seen))?;
            (counts.iter().sum(), *counts.get(comm.rank() as usize)?)
        }
        "reduce_scatter_block" => {
            let count = seen.integer("recvcount")?;
            (count.checked_mul(comm.size().into())?, count)
        }
        _ => (seen.integer("count")?, seen.integer("count")?),
    };
    // The first process gets no result from an exclusive scan.
    let gets = is_root && !(name == "exscan" && comm.rank() == 0);
    let result = || elements(seen, received, if in_place { all } else { own }, datatype);
    Some(MemoryOfCall {
        reads: if in_place { None } else { elements(seen, sent, all, datatype) },
        writes: if gets { result() } else { None },
    })
}

fn blocks(seen: &SeenCall, names: &BlockNames, list: BlockArrangement) -> Option<MemoryRanges> {
    let buffer = seen.word(names.buffer)?;
    if is_in_place(std::ptr::with_exposed_provenance(buffer)) {
        return None;
    }
    let mut pieces = MemoryPieces::default();
    let (number, is_typed) = match list {
        BlockArrangement::Equal(number) => {
            let count = seen.integer(names.count)?.checked_mul(number.into())?;
            let datatype = Datatype::from_raw(seen.word(names.datatype)?);
            pieces.add(seen, buffer, count, datatype)?;
            return pieces.ranges();
        }
        BlockArrangement::Listed(number) => (number, false),
        BlockArrangement::Typed(number) => (number, true),
    };
    let counts = integers(seen, names.counts, number, width_of_counts(seen))?;
    let displacements = names.displacements.iter().find(|name| seen.word(name).is_some())?;
    // Neighbourhood collectives with datatypes have displacements of type MPI_Aint in all forms.
    let width = match is_typed && seen.function().contains("eighbor") {
        true => IntegerWidth::Long,
        false => width_of_counts(seen),
    };
    let displacements = integers(seen, displacements, number, width)?;
    let call = seen.call();
    let types = if is_typed { Some(datatypes(seen, names, number)?) } else { None };
    for (index, (count, displacement)) in counts.into_iter().zip(displacements).enumerate() {
        if count == 0 {
            continue;
        }
        let (datatype, unit) = match types {
            Some(ref types) => (types[index], 1),
            None => {
                let datatype = Datatype::from_raw(seen.word(names.datatype)?);
                (datatype, call.datatype(1, datatype).ok()?.extent() as i64)
            }
        };
        let address = buffer.checked_add_signed(displacement.checked_mul(unit)? as isize)?;
        pieces.add(seen, address, count, datatype)?;
    }
    pieces.ranges()
}

/// Returns the datatypes of an array argument.
pub fn datatypes(seen: &SeenCall, names: &BlockNames, number: u32) -> Option<Vec<Datatype>> {
    let first = std::ptr::with_exposed_provenance(seen.word(names.datatypes)?);
    let call = seen.call();
    // SAFETY: the standard requires `number` datatypes for this parameter.
    let types = unsafe { call.handles::<Datatype>(1, first, number as usize) }.ok()?;
    Some(types.iter().collect())
}

/// The type of the integers in an array argument.
#[derive(Clone, Copy)]
pub enum IntegerWidth {
    /// `int`.
    Int,
    /// `MPI_Count` or `MPI_Aint`, which have 64 bits.
    Long,
}

/// Returns the type of counts and displacements.
pub fn width_of_counts(seen: &SeenCall) -> IntegerWidth {
    if seen.entry.name.ends_with("_c") { IntegerWidth::Long } else { IntegerWidth::Int }
}

/// Returns the integers of an array argument.
pub fn integers(seen: &SeenCall, name: &str, number: u32, width: IntegerWidth) -> Option<Vec<i64>> {
    let first = seen.word(name).filter(|first| *first != 0 || number == 0)?;
    let read = |index: usize| {
        // SAFETY: the standard requires `number` integers of this size for the parameters whose
        // names are passed here.
        unsafe {
            match width {
                IntegerWidth::Long => *std::ptr::with_exposed_provenance::<i64>(first).add(index),
                IntegerWidth::Int => {
                    i64::from(*std::ptr::with_exposed_provenance::<c_int>(first).add(index))
                }
            }
        }
    };
    Some((0..number as usize).map(read).collect())
}

/// Returns a checksum that shows whether memory has changed; `None` if the memory cannot be read.
/// The program may have freed it, so it is read by a system call.
pub fn checksum(memory: &MemoryRanges) -> Option<u64> {
    let own = std::process::id() as i32;
    let mut chunk = vec![0; CHUNK.min(memory.iter().map(|(_, length)| length).max().unwrap_or(0))];
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    for (mut address, mut length) in memory.iter() {
        while length > 0 {
            let part = length.min(chunk.len());
            let local = Run { address: chunk.as_mut_ptr().expose_provenance(), length: part };
            // SAFETY: the chunk belongs to this function, and has `part` bytes.
            let copied =
                unsafe { cross_memory::read(own, &[local], &[Run { address, length: part }]) };
            if copied.ok() != Some(part) {
                return None;
            }
            for word in chunk[..part].chunks(8) {
                let mut bytes = [0; 8];
                bytes[..word.len()].copy_from_slice(word);
                sum = (sum ^ u64::from_ne_bytes(bytes)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                sum ^= sum >> 29;
            }
            address += part;
            length -= part;
        }
    }
    Some(sum)
}
