//! Which functions are collective operations, by their names.

/// The kinds of collective operations, by the direction of their data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectiveKind {
    /// All members wait for all, without data.
    Barrier,
    /// All members get data of one.
    OneToAll,
    /// One member gets data of all.
    AllToOne,
    /// All members get data of all.
    AllToAll,
    /// Any other operation that all members of a communicator call together.
    Other,
}

/// The beginnings of names. Of two that fit, the first one counts.
const BEGINNINGS: [(&str, CollectiveKind); 23] = [
    ("Barrier", CollectiveKind::Barrier),
    ("Bcast", CollectiveKind::OneToAll),
    ("Scatter", CollectiveKind::OneToAll),
    ("Allgather", CollectiveKind::AllToAll),
    ("Allreduce", CollectiveKind::AllToAll),
    ("Alltoall", CollectiveKind::AllToAll),
    ("Reduce_scatter", CollectiveKind::AllToAll),
    ("Reduce", CollectiveKind::AllToOne),
    ("Gather", CollectiveKind::AllToOne),
    ("Scan", CollectiveKind::Other),
    ("Exscan", CollectiveKind::Other),
    ("Neighbor_", CollectiveKind::Other),
    ("Comm_dup", CollectiveKind::Other),
    ("Comm_split", CollectiveKind::Other),
    ("Comm_create", CollectiveKind::Other),
    ("Cart_create", CollectiveKind::Other),
    ("Graph_create", CollectiveKind::Other),
    ("Dist_graph_create", CollectiveKind::Other),
    ("Win_fence", CollectiveKind::Other),
    ("Win_create", CollectiveKind::Other),
    ("Win_allocate", CollectiveKind::Other),
    ("Win_free", CollectiveKind::Other),
    ("File_open", CollectiveKind::Other),
];

impl CollectiveKind {
    /// Returns the kind of a function that all members of a communicator call together; `None` for
    /// other functions.
    pub fn of(function: &str) -> Option<Self> {
        let name = function.strip_prefix("MPI_").unwrap_or(function);
        let name = name.strip_suffix("_c").unwrap_or(name);
        if ["Reduce_local", "Comm_create_group"].contains(&name) {
            return None;
        }
        if name == "File_close" || name.starts_with("File_") && name.ends_with("_all") {
            return Some(Self::Other);
        }
        let found = BEGINNINGS.iter().find(|(beginning, _)| name.starts_with(beginning));
        found.map(|(_, kind)| *kind)
    }

    /// Returns the kind of the operation that a function begins, such as `MPI_Iallreduce`; `None`
    /// for other functions.
    pub fn begun_by(function: &str) -> Option<Self> {
        let mut letters = function.strip_prefix("MPI_I")?.chars();
        let capital = letters.next()?.to_ascii_uppercase();
        Self::of(&format!("{capital}{}", letters.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_that_block_and_that_begin_are_told_apart() {
        use CollectiveKind::{AllToAll, AllToOne, OneToAll, Other};
        for (function, is, begins) in [
            ("MPI_Allreduce", Some(AllToAll), None),
            ("MPI_Reduce_scatter_block", Some(AllToAll), None),
            ("MPI_Reduce", Some(AllToOne), None),
            ("MPI_Scatterv", Some(OneToAll), None),
            ("MPI_Iallreduce", None, Some(AllToAll)),
            ("MPI_Ibcast", None, Some(OneToAll)),
            ("MPI_Ineighbor_alltoallv", None, Some(Other)),
            ("MPI_File_write_all", Some(Other), None),
            ("MPI_File_read_at_all_c", Some(Other), None),
            ("MPI_File_close", Some(Other), None),
            ("MPI_Isend", None, None),
            ("MPI_Init", None, None),
            ("MPI_Reduce_local", None, None),
        ] {
            let found = (CollectiveKind::of(function), CollectiveKind::begun_by(function));
            assert_eq!(found, (is, begins), "{function}");
        }
    }
}
