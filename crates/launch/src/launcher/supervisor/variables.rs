//! The environment of a rank.

use std::ffi::OsString;

/// Beginnings of variables by which launchers tell a process its place. Those of a launcher further
/// out are no longer true for the processes of this job.
const OF_LAUNCHERS: &[&str] = &[
    "COMBRAY_RANK",
    "COMBRAY_SIZE",
    "COMBRAY_LOCAL_",
    "COMBRAY_JOB",
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

/// Those of the launcher's variables that its ranks must not see.
pub(super) fn stale(names: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    names.filter(|name| {
        let name = name.as_encoded_bytes();
        OF_LAUNCHERS.iter().any(|known| name.starts_with(known.as_bytes()))
    })
}

/// What a rank learns: our own names, PMI's, and those that scripts written for other libraries
/// read.
pub(super) fn of_rank(rank: u32, size: u32, job: &str) -> impl Iterator<Item = (&str, String)> {
    let of_rank = [
        "COMBRAY_RANK",
        "COMBRAY_LOCAL_RANK",
        "PMI_RANK",
        "PMI_LOCAL_RANK",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "MPI_LOCALRANKID",
    ];
    let of_size = [
        "COMBRAY_SIZE",
        "COMBRAY_LOCAL_SIZE",
        "PMI_SIZE",
        "PMI_LOCAL_SIZE",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "MPI_LOCALNRANKS",
    ];
    let ranks = of_rank.into_iter().map(move |name| (name, rank.to_string()));
    let sizes = of_size.into_iter().map(move |name| (name, size.to_string()));
    ranks.chain(sizes).chain([("COMBRAY_JOB", job.to_owned())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ranks_learn_is_cleared_in_the_next_launch() {
        for (name, _) in of_rank(0, 1, "x").chain([("PMI_FD", String::new())]) {
            assert_eq!(stale([OsString::from(name)].into_iter()).count(), 1, "{name}");
        }
        let kept = ["PATH", "OMPI_MCA_btl", "SLURM_JOB_ID", "COMBRAY_STRATEGY"];
        assert_eq!(stale(kept.into_iter().map(OsString::from)).count(), 0);
    }
}
