//! The environment of a rank.

use std::ffi::OsString;

use base::variables;

/// Beginnings of variables in which launchers pass a process its place. Values from an outer
/// launcher do not apply to the processes of this job.
const OF_LAUNCHERS: &[&str] = &[
    variables::RANK,
    variables::SIZE,
    variables::LOCAL_RANK,
    variables::LOCAL_SIZE,
    variables::LOCAL_GPU,
    variables::LENDING,
    variables::CORES,
    variables::DESCRIPTORS,
    variables::PARTS,
    variables::QUESTIONS,
    variables::TOPOLOGY,
    variables::TRACE_MEMORY,
    variables::JOB,
    variables::PARENT_PORT,
    variables::KEEP_GOING,
    "PMI_",
    "PMIX_RANK",
    "PMIX_NAMESPACE",
    "PMIX_SERVER_",
    "OMPI_COMM_WORLD_",
    "OMPI_UNIVERSE_SIZE",
    "MPI_LOCAL",
    "HYDI_",
    "PALS_RANKID",
    "PALS_NRANKS",
];

/// Returns the variables of the launcher that its ranks must not see.
pub(crate) fn stale(names: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    names.filter(|name| {
        let name = name.as_encoded_bytes();
        OF_LAUNCHERS.iter().any(|known| name.starts_with(known.as_bytes()))
    })
}

/// The place of a process in its job.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankIdentity<'a> {
    pub rank: u32,
    /// The number of processes of the job.
    pub size: u32,
    /// Rank and number among the processes of this machine.
    pub local_rank: u32,
    pub local_size: u32,
    /// The name of the job.
    pub job: &'a str,
}

/// Returns the variables of a rank: our own, PMI's, and those that scripts written for other
/// libraries read.
pub(super) fn of_rank(place: &RankIdentity<'_>) -> impl Iterator<Item = (&'static str, String)> {
    let RankIdentity { rank, size, local_rank, local_size, job } = *place;
    let numbers = [
        (rank, [variables::RANK, "PMI_RANK", "OMPI_COMM_WORLD_RANK"].as_slice()),
        (size, &[variables::SIZE, "PMI_SIZE", "OMPI_COMM_WORLD_SIZE"]),
        (
            local_rank,
            &[
                variables::LOCAL_RANK,
                "PMI_LOCAL_RANK",
                "OMPI_COMM_WORLD_LOCAL_RANK",
                "MPI_LOCALRANKID",
            ],
        ),
        (
            local_size,
            &[
                variables::LOCAL_SIZE,
                "PMI_LOCAL_SIZE",
                "OMPI_COMM_WORLD_LOCAL_SIZE",
                "MPI_LOCALNRANKS",
            ],
        ),
    ];
    let each = |(number, names): (u32, &'static [&'static str])| {
        names.iter().map(move |&name| (name, number.to_string()))
    };
    numbers.into_iter().flat_map(each).chain([(variables::JOB, job.to_owned())])
}

/// Returns variables that make languages with their own buffers write to a pipe as to a terminal,
/// so that output is not lost when the process is killed. C and C++ get this from the library
/// (`mpi-abi`), and Fortran's runtime library does it by default. `is_set` says whether the user
/// has set a variable.
pub(super) fn for_whole_lines(
    is_set: impl Fn(&str) -> bool,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    [("PYTHONUNBUFFERED", "1")].into_iter().filter(move |(name, _)| !is_set(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_chosen_a_buffer_keeps_it() {
        assert_eq!(for_whole_lines(|_| true).count(), 0);
        assert_eq!(for_whole_lines(|_| false).count(), 1);
    }

    #[test]
    fn what_ranks_learn_is_cleared_in_the_next_launch() {
        let place = RankIdentity { rank: 0, size: 1, local_rank: 0, local_size: 1, job: "x" };
        for (name, _) in of_rank(&place).chain([("PMI_FD", String::new())]) {
            assert_eq!(stale([OsString::from(name)].into_iter()).count(), 1, "{name}");
        }
        let kept = ["PATH", "OMPI_MCA_btl", "SLURM_JOB_ID", "COMBRAY_STRATEGY"];
        assert_eq!(stale(kept.into_iter().map(OsString::from)).count(), 0);
    }
}
