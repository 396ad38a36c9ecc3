//! What the environment tells of the launcher.

use super::JoinError;

/// How this process was started.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Without a launcher, or by one as its only process.
    Alone,
    /// By a launcher that answers at a descriptor.
    Server { descriptor: i32, rank: u32, size: u32 },
}

/// Variables by which launchers tell how many processes they started. None of them means that we
/// can talk to the launcher.
const FOREIGN_SIZES: &[(&str, &str)] = &[
    ("OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun"),
    ("SLURM_STEP_NUM_TASKS", "Slurm's srun"),
    ("PALS_NRANKS", "PALS"),
    ("FLUX_JOB_SIZE", "Flux"),
    ("MPI_LOCALNRANKS", "MPICH's or Intel MPI's launcher"),
];

pub(super) fn find(variable: impl Fn(&str) -> Option<String>) -> Result<Found, JoinError> {
    let number = |name: &str| variable(name).and_then(|text| text.trim().parse::<u32>().ok());
    let size = number("PMI_SIZE");
    if let (Some(descriptor), Some(size)) = (variable("PMI_FD"), size) {
        let wrong =
            |what: &str| JoinError::new(format!("the launcher's variables make no sense: {what}"));
        let descriptor = descriptor.trim().parse();
        let descriptor = descriptor.map_err(|_| wrong("PMI_FD is not a number"))?;
        let rank = number("PMI_RANK").ok_or_else(|| wrong("PMI_RANK is missing"))?;
        if rank >= size {
            return Err(wrong(&format!("PMI_RANK is {rank}, PMI_SIZE {size}")));
        }
        return Ok(Found::Server { descriptor, rank, size });
    }
    if size.is_some_and(|size| size > 1) {
        return Err(cannot_talk("PMI_SIZE", size.unwrap_or(0), "a launcher"));
    }
    if let Some(port) = variable("PMI_PORT") {
        return Err(JoinError::new(format!(
            "PMI_PORT is {port}: the launcher speaks PMI over the network, not over a descriptor \
             (PMI_FD). {REMEDY}, without its option -pmi-port; to run it alone, unset PMI_PORT"
        )));
    }
    for &(name, launcher) in FOREIGN_SIZES {
        if let Some(size) = number(name).filter(|&size| size > 1) {
            return Err(cannot_talk(name, size, launcher));
        }
    }
    if let Some(rank) = variable("PMIX_RANK")
        && !sizes_told(&number)
    {
        return Err(JoinError::new(format!(
            "PMIX_RANK is {rank}: a launcher that speaks PMIx started this process and perhaps \
             others, but it offers no PMI-1 connection (PMI_FD), by which they could find each \
             other. {REMEDY}; to run it alone, unset PMIX_RANK"
        )));
    }
    Ok(Found::Alone)
}

/// Whether the launcher told how many processes there are. One, where this is asked.
fn sizes_told(number: &impl Fn(&str) -> Option<u32>) -> bool {
    number("PMI_SIZE").is_some() || FOREIGN_SIZES.iter().any(|pair| number(pair.0).is_some())
}

const REMEDY: &str = "Start the program with \"combray run\" (or its other name, mpirun), or with \
                      a launcher that speaks PMI-1 such as mpiexec.hydra";

fn cannot_talk(name: &str, size: u32, launcher: &str) -> JoinError {
    JoinError::new(format!(
        "{name} says that {launcher} started {size} processes, but it offers no PMI-1 connection \
         (PMI_FD), so that they cannot find each other and would run as {size} jobs of one \
         process. {REMEDY}; to run it alone, unset {name}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Result<Found, JoinError> {
        find(|name| {
            let pair = variables.iter().find(|(known, _)| *known == name);
            pair.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn without_a_launcher_a_process_is_alone() {
        assert_eq!(found(&[]), Ok(Found::Alone));
        assert_eq!(found(&[("PMI_SIZE", "1")]), Ok(Found::Alone));
        assert_eq!(found(&[("SLURM_STEP_NUM_TASKS", "1")]), Ok(Found::Alone));
    }

    #[test]
    fn a_server_is_found_whatever_else_is_set() {
        let server = Ok(Found::Server { descriptor: 7, rank: 1, size: 4 });
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
            assert!(error.contains(name) && error.contains("combray run"), "{error}");
        }
    }
}
