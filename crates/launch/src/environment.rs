//! Reads the launcher's variables in the environment.

use crate::JoinError;
use crate::wire::Version;

/// How this process was started.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FoundManager {
    /// Without a launcher, or by one as its only process.
    Alone,
    /// By a launcher that speaks PMI, in one of these versions.
    Pmi(ServerEndpoint, [Version; 2]),
    /// By a launcher that speaks PMI, or by one that speaks PMIx and was itself started by a
    /// launcher that speaks PMI.
    PmiOrPmix(ServerEndpoint, [Version; 2]),
    /// By a launcher that speaks PMIx.
    Pmix,
}

/// How a launcher that speaks PMI is reached.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ServerEndpoint {
    /// At a descriptor that it left open. `job` is the launcher's name of the job, or empty.
    Descriptor { number: i32, rank: u32, size: u32, job: String },
    /// At an address, to which this process sends its `id`.
    Port { address: String, id: String },
}

/// Variables in which launchers give the number of processes that they started, those with the rank
/// of each process, and the launchers. Their presence does not mean that this process can connect
/// to the launcher.
const FOREIGN_SIZES: &[(&str, &str, &str)] = &[
    ("PMI_SIZE", "PMI_RANK", "a launcher"),
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "Open MPI's mpirun"),
    ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "Slurm's srun"),
    ("PALS_NRANKS", "PALS_RANKID", "PALS"),
    ("FLUX_JOB_SIZE", "FLUX_TASK_RANK", "Flux"),
    ("MPI_LOCALNRANKS", "MPI_LOCALRANKID", "MPICH's or Intel MPI's launcher"),
];

pub(super) fn find(variable: impl Fn(&str) -> Option<String>) -> Result<FoundManager, JoinError> {
    let has_pmix = variable("PMIX_NAMESPACE").is_some() && variable("PMIX_RANK").is_some();
    // Slurm's users use its PMI-2; its PMI-1 gets little use. Other launchers are asked for PMI-1
    // first.
    let versions = match variable("SLURM_STEP_ID") {
        Some(_) => [Version::Two, Version::One],
        None => [Version::One, Version::Two],
    };
    match server(&variable)? {
        Some(server) if has_pmix => return Ok(FoundManager::PmiOrPmix(server, versions)),
        Some(server) => return Ok(FoundManager::Pmi(server, versions)),
        None if has_pmix => return Ok(FoundManager::Pmix),
        None => {}
    }
    let number = |name: &str| variable(name).and_then(|text| text.trim().parse::<u32>().ok());
    for &(name, rank, launcher) in FOREIGN_SIZES {
        if let Some(size) = number(name).filter(|&size| size > 1) {
            // Thousands of processes would explain it thousands of times.
            return Err(match number(rank) {
                Some(1..) => JoinError::new(format!(
                    "{launcher} provides no connection over PMI or PMIx: use combray run ({rank}=0 \
                     reports more)"
                )),
                _ => cannot_talk(name, size, launcher),
            });
        }
    }
    Ok(FoundManager::Alone)
}

/// Returns how the launcher that speaks PMI is reached, if there is such a launcher.
fn server(variable: &impl Fn(&str) -> Option<String>) -> Result<Option<ServerEndpoint>, JoinError> {
    let number = |name: &str| variable(name).and_then(|text| text.trim().parse::<u32>().ok());
    let wrong =
        |what: &str| JoinError::new(format!("the variables of the launcher are invalid: {what}"));
    if let (Some(descriptor), Some(size)) = (variable("PMI_FD"), number("PMI_SIZE")) {
        let descriptor = descriptor.trim().parse();
        let descriptor = descriptor.map_err(|_| wrong("PMI_FD is not a number"))?;
        let rank = number("PMI_RANK").ok_or_else(|| wrong("PMI_RANK is missing"))?;
        if rank >= size {
            return Err(wrong(&format!("PMI_RANK is {rank}, PMI_SIZE {size}")));
        }
        let job = variable("PMI_JOBID").unwrap_or_default();
        return Ok(Some(ServerEndpoint::Descriptor { number: descriptor, rank, size, job }));
    }
    if let Some(address) = variable("PMI_PORT") {
        let id = variable("PMI_ID").ok_or_else(|| wrong("PMI_PORT is set, but PMI_ID is not"))?;
        return Ok(Some(ServerEndpoint::Port { address, id }));
    }
    Ok(None)
}

fn cannot_talk(name: &str, size: u32, launcher: &str) -> JoinError {
    let how = match name {
        "SLURM_STEP_NUM_TASKS" => {
            "Start the program with \"srun --mpi=pmix\" or \"srun --mpi=pmi2\" (\"srun --mpi=list\" \
             shows which of them this Slurm has)"
        }
        _ => {
            "Start the program with \"combray run\" (or its other name, mpirun), or with a launcher \
             that speaks PMI or PMIx, such as mpiexec.hydra, prterun or \"srun --mpi=pmix\""
        }
    };
    JoinError::new(format!(
        "{name} shows that {launcher} started {size} processes, but it provides no connection over \
         PMI (PMI_FD) or PMIx (PMIX_NAMESPACE), so the processes cannot find each other and would \
         run as {size} jobs of one process. {how}; to run the program alone, unset {name}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Result<FoundManager, JoinError> {
        find(|name| {
            let pair = variables.iter().find(|(known, _)| *known == name);
            pair.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn without_a_launcher_a_process_is_alone() {
        assert_eq!(found(&[]), Ok(FoundManager::Alone));
        assert_eq!(found(&[("PMI_SIZE", "1")]), Ok(FoundManager::Alone));
        assert_eq!(found(&[("SLURM_STEP_NUM_TASKS", "1")]), Ok(FoundManager::Alone));
    }

    #[test]
    fn a_server_is_found_whatever_else_is_set() {
        let server = ServerEndpoint::Descriptor { number: 7, rank: 1, size: 4, job: String::new() };
        let server = Ok(FoundManager::Pmi(server, [Version::One, Version::Two]));
        let variables =
            [("PMI_FD", "7"), ("PMI_RANK", "1"), ("PMI_SIZE", "4"), ("OMPI_COMM_WORLD_SIZE", "4")];
        assert_eq!(found(&variables), server);
        assert!(found(&[("PMI_FD", "7"), ("PMI_RANK", "4"), ("PMI_SIZE", "4")]).is_err());
        assert!(found(&[("PMI_FD", "x"), ("PMI_RANK", "0"), ("PMI_SIZE", "4")]).is_err());
    }

    #[test]
    fn several_processes_without_a_server_are_an_error() {
        for name in ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS"]
        {
            let error = found(&[(name, "4")]).unwrap_err().to_string();
            let remedy = if name.starts_with("SLURM") { "srun --mpi=pmi2" } else { "combray run" };
            assert!(error.contains(name) && error.contains(remedy), "{error}");
        }
    }

    #[test]
    fn only_one_process_of_many_explains_why_they_have_no_server() {
        for &(size, rank, _) in FOREIGN_SIZES {
            let of = |own| found(&[(size, "4"), (rank, own)]).unwrap_err().to_string();
            let (first, last) = (of("0"), of("3"));
            assert!(first.contains("Start the program with") && first.contains(size), "{first}");
            assert!(last.contains(&format!("{rank}=0")) && last.len() < 130, "{last}");
        }
    }

    #[test]
    fn launchers_inside_launchers_are_distinguished() {
        let pmix = [("PMIX_NAMESPACE", "job@1"), ("PMIX_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "4")];
        assert_eq!(found(&pmix), Ok(FoundManager::Pmix));
        let slurm = [
            ("PMI_FD", "7"),
            ("PMI_RANK", "0"),
            ("PMI_SIZE", "2"),
            ("PMI_JOBID", "12.0"),
            ("SLURM_STEP_ID", "0"),
        ];
        let job = || "12.0".to_owned();
        let server = || ServerEndpoint::Descriptor { number: 7, rank: 0, size: 2, job: job() };
        let versions = [Version::Two, Version::One];
        assert_eq!(found(&slurm), Ok(FoundManager::Pmi(server(), versions)));
        assert_eq!(
            found(&[&slurm[..], &pmix[..]].concat()),
            Ok(FoundManager::PmiOrPmix(server(), versions))
        );
    }

    #[test]
    fn a_launcher_may_listen_at_an_address() {
        let port = found(&[("PMI_PORT", "host:77"), ("PMI_ID", "3")]);
        let server = ServerEndpoint::Port { address: "host:77".to_owned(), id: "3".to_owned() };
        assert_eq!(port, Ok(FoundManager::Pmi(server, [Version::One, Version::Two])));
        assert!(found(&[("PMI_PORT", "host:77")]).is_err());
    }
}
