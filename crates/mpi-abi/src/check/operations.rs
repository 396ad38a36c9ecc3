//! The names of collective operations and of reduction operations.

use crate::c::HandleKind;
use crate::handles::describe;

/// The functions that all processes of a communicator must call in one order. This list has those
/// that also have nonblocking and persistent forms, without prefix and in lower case; `CREATIONS`
/// and `BEGUN_CREATIONS` have those that create objects.
const OPERATIONS: &[&str] = &[
    "barrier",
    "bcast",
    "gather",
    "gatherv",
    "scatter",
    "scatterv",
    "allgather",
    "allgatherv",
    "alltoall",
    "alltoallv",
    "alltoallw",
    "reduce",
    "allreduce",
    "reduce_scatter",
    "reduce_scatter_block",
    "scan",
    "exscan",
    "neighbor_allgather",
    "neighbor_allgatherv",
    "neighbor_alltoall",
    "neighbor_alltoallv",
    "neighbor_alltoallw",
];
const CREATIONS: &[&str] = &[
    "MPI_Comm_dup",
    "MPI_Comm_dup_with_info",
    "MPI_Comm_create",
    "MPI_Comm_split",
    "MPI_Comm_split_type",
    "MPI_Cart_create",
    "MPI_Cart_sub",
    "MPI_Graph_create",
    "MPI_Dist_graph_create",
    "MPI_Dist_graph_create_adjacent",
    "MPI_Win_create",
    "MPI_Win_allocate",
    "MPI_Win_allocate_shared",
    "MPI_Win_create_dynamic",
    "MPI_File_open",
];
const BEGUN_CREATIONS: &[&str] = &["MPI_Comm_idup", "MPI_Comm_idup_with_info"];

/// When a collective function returns: at the end of its operation, or before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ReturnTime {
    AtTheEnd,
    AtOnce,
}

/// Returns when a collective function returns; `None` for all other functions.
pub fn collective(function: &str) -> Option<ReturnTime> {
    let function = function.strip_suffix("_c").unwrap_or(function);
    if CREATIONS.contains(&function) {
        return Some(ReturnTime::AtTheEnd);
    }
    if BEGUN_CREATIONS.contains(&function) {
        return Some(ReturnTime::AtOnce);
    }
    let name = function.strip_prefix("MPI_")?.to_ascii_lowercase();
    match operation_of(function)? == name {
        true => Some(ReturnTime::AtTheEnd),
        false => Some(ReturnTime::AtOnce),
    }
}

/// Returns the operation of which a function is a form, such as `allreduce`.
pub fn operation_of(function: &str) -> Option<String> {
    let function = function.strip_suffix("_c").unwrap_or(function);
    let name = function.strip_prefix("MPI_")?.to_ascii_lowercase();
    if OPERATIONS.contains(&name.as_str()) {
        return Some(name);
    }
    let begun = name.strip_suffix("_init").or_else(|| name.strip_prefix('i'))?;
    OPERATIONS.contains(&begun).then(|| begun.to_owned())
}

/// Returns the name of a reduction operation in messages.
pub fn operation_name(handle: usize) -> String {
    let described = describe(handle, HandleKind::Op);
    let name = described.strip_prefix("is ").filter(|name| name.starts_with("MPI_"));
    name.unwrap_or("an operation of the program").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collective_functions_are_known_in_all_forms() {
        let known = |name: &str| collective(name).map(|time| time == ReturnTime::AtTheEnd);
        assert_eq!(known("MPI_Barrier"), Some(true));
        assert_eq!(known("MPI_Allreduce_c"), Some(true));
        assert_eq!(known("MPI_Ibcast"), Some(false));
        assert_eq!(known("MPI_Bcast_init_c"), Some(false));
        assert_eq!(known("MPI_Comm_split"), Some(true));
        assert_eq!(known("MPI_Ineighbor_alltoallw"), Some(false));
        for other in ["MPI_Isend", "MPI_Init", "MPI_Send_init", "MPI_Comm_rank", "MPI_Reduce_local"]
        {
            assert_eq!(known(other), None, "{other}");
        }
    }
}
