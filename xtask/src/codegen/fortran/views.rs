//! What becomes of a buffer that module `mpi_f08` hands over as a descriptor.

use super::routine::{ArgumentKind, FortranArgument, Intent, Routine, plain};

/// How an array section is made an address, a count and a datatype; see `view_kind` in
/// fortran/descriptors.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionView {
    /// Only the address of the first element matters.
    Address,
    /// One block: its count and its datatype are replaced.
    Single {
        count: usize,
        datatype: usize,
    },
    /// Several blocks: the datatype is replaced.
    Blocks {
        datatype: usize,
    },
    Whole,
    Region,
}

/// The view of the argument with an index.
pub fn view(routine: &Routine, index: usize) -> SectionView {
    let name = plain(&routine.name).trim_start_matches("MPI_");
    let argument = routine.arguments[index].name.as_str();
    if ADDRESSES.contains(&name) || name.ends_with("_end") {
        return SectionView::Address;
    }
    if name == "Win_create" || name.ends_with("ttach_buffer") || name == "Buffer_attach" {
        return SectionView::Region;
    }
    if is_whole(routine, name, argument) {
        return SectionView::Whole;
    }
    let is_datatype =
        |one: &FortranArgument| one.kind == ArgumentKind::Handle("Datatype".to_owned());
    let after = routine.arguments.iter().skip(index).position(is_datatype);
    let datatype = index + after.expect("buffers have datatypes");
    if has_blocks(name, argument) {
        SectionView::Blocks { datatype }
    } else {
        SectionView::Single { count: datatype - 1, datatype }
    }
}

/// Calls that take one element of a predefined datatype, or an address.
const ADDRESSES: [&str; 7] = [
    "Get_address",
    "Win_attach",
    "Win_detach",
    "Free_mem",
    "F_sync_reg",
    "Compare_and_swap",
    "Fetch_and_op",
];

/// Reductions need the datatypes of their operations, packed data is bytes, and alltoallw has a
/// datatype for each process.
fn is_whole(routine: &Routine, name: &str, argument: &str) -> bool {
    let has = |name: &str| routine.arguments.iter().any(|one| one.name == name);
    let reduces = has("op") && !has("win");
    let is_packed = matches!(
        (name, argument),
        ("Pack" | "Pack_external", "outbuf") | ("Unpack" | "Unpack_external", "inbuf")
    );
    reduces || is_packed || has("sendtypes")
}

fn has_blocks(name: &str, argument: &str) -> bool {
    let name = name.to_lowercase();
    let is = |word: &str| name.contains(word);
    match argument {
        "recvbuf" => is("gather") || is("alltoall"),
        "sendbuf" => is("scatter") || is("alltoall"),
        _ => name.starts_with("psend") || name.starts_with("precv"),
    }
}

/// What the call does with the buffer, as an expression in C.
pub fn uses(routine: &Routine, argument: &FortranArgument) -> &'static str {
    let is_kept = argument.is_kept;
    match (argument.intent == Intent::In, is_kept) {
        (true, false) => "READ",
        (true, true) => "READ | KEPT",
        (false, false) if routine.name.contains("_init") => "READ | WRITTEN | KEPT",
        (false, false) => "READ | WRITTEN",
        (false, true) => "READ | WRITTEN | KEPT",
    }
}
