//! Which functions are collective operations, by their names.

/// Whether all members of a communicator call a function together.
pub(super) fn is_collective(function: &str) -> bool {
    let name = function.trim_start_matches("MPI_");
    let beginnings = [
        "Barrier",
        "Bcast",
        "Gather",
        "Scatter",
        "Allgather",
        "Allreduce",
        "Alltoall",
        "Reduce",
        "Scan",
        "Exscan",
        "Neighbor_",
        "Comm_dup",
        "Comm_split",
        "Comm_create",
        "Cart_create",
        "Graph_create",
        "Dist_graph_create",
        "Win_fence",
        "Win_create",
        "Win_allocate",
        "Win_free",
        "File_open",
        "File_close",
    ];
    let is_of_all = beginnings.iter().any(|beginning| name.starts_with(beginning));
    let is_of_some = ["Reduce_local", "Comm_create_group"].contains(&name);
    is_of_all && !is_of_some || name.starts_with("File_") && name.ends_with("_all")
}

/// Whether a function begins a collective operation, such as `MPI_Iallreduce`.
pub(super) fn begins_collective(function: &str) -> bool {
    let begun = function.strip_prefix("MPI_I").unwrap_or_default();
    let mut letters = begun.chars();
    let capital = letters.next().map(|first| first.to_ascii_uppercase());
    capital.is_some_and(|capital| is_collective(&format!("{capital}{}", letters.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_that_block_and_that_begin_are_told_apart() {
        for (function, is, begins) in [
            ("MPI_Allreduce", true, false),
            ("MPI_Iallreduce", false, true),
            ("MPI_Ineighbor_alltoallv", false, true),
            ("MPI_File_write_all", true, false),
            ("MPI_Isend", false, false),
            ("MPI_Init", false, false),
            ("MPI_Reduce_local", false, false),
        ] {
            assert_eq!(
                (is_collective(function), begins_collective(function)),
                (is, begins),
                "{function}"
            );
        }
    }
}
