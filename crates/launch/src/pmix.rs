//! PMIx, which PRRTE, Open MPI's mpirun, and Slurm's plugin speak, through libpmix.

mod library;

use std::collections::HashMap;

use ::pmix::{Client, FenceData, ValueOwner, keys};

use crate::{JobPlace, JoinError, Manager};

/// In jobs of more processes than this, a process looks up the values of few others, so that not
/// all are brought to each machine.
const FETCHED_RANKS_MAX: u32 = 128;

/// A launcher that is reached through libpmix.
pub(super) struct Pmix {
    client: Client,
    size: u32,
}

impl Pmix {
    /// Joins the job of the launcher that libpmix finds in the environment.
    pub(super) fn join() -> Result<(JobPlace, Self), JoinError> {
        let library = library::load()?;
        let version = library.version();
        let error = |cause: ::pmix::PmixError| {
            JoinError::new(format!(
                "PMIX_NAMESPACE shows that a launcher started this process, but it does not answer \
                 over PMIx ({cause}; the library is {}). Check that the launcher still runs, and \
                 that its version of PMIx is at least that of the library. To run the program \
                 alone, unset PMIX_NAMESPACE",
                version.trim()
            ))
        };
        let client = library.connect().map_err(error)?;
        let rank = client.rank();
        let number = |whom, key| client.number(whom, key).map_err(error);
        let size = number(ValueOwner::Job, keys::JOB_SIZE)?;
        let application_number = number(ValueOwner::Rank(rank), keys::APPLICATION_NUMBER)?;
        let universe_size = number(ValueOwner::Job, keys::UNIVERSE_SIZE)?;
        let Some(size) = size.filter(|size| rank < *size) else {
            return Err(JoinError::new(format!(
                "the launcher's data is invalid: it gave this process rank {rank} in a job of {} \
                 processes",
                size.map_or("an unknown number of".to_owned(), |size| size.to_string())
            )));
        };
        Ok((JobPlace { rank, size, application_number, universe_size }, Self { client, size }))
    }
}

impl Manager for Pmix {
    fn put(&mut self, key: &str, value: &str) -> Result<(), JoinError> {
        self.client.put(key, value).map_err(|cause| {
            JoinError::new(format!("the launcher refused to store {key}: {cause}"))
        })
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<Option<String>, JoinError> {
        self.client.get(rank, key).map_err(gone)
    }

    fn publish(
        &mut self,
        values: &[(String, String)],
        _wanted: &[(u32, String)],
    ) -> Result<(), JoinError> {
        values.iter().try_for_each(|(key, value)| self.put(key, value))?;
        let is_small = self.size <= FETCHED_RANKS_MAX;
        let data = if is_small { FenceData::Fetched } else { FenceData::Left };
        self.client.fence(data).map_err(gone)
    }

    /// What was published before is there, or is found when it is looked up.
    fn barrier(&mut self) -> Result<(), JoinError> {
        self.client.fence(FenceData::Left).map_err(gone)
    }

    fn finalize(&mut self) -> Result<(), JoinError> {
        self.client.finalize().map_err(gone)
    }

    fn job_name(&self) -> String {
        sys::environment::text("PMIX_NAMESPACE").unwrap_or_default()
    }

    fn abort(&mut self, code: i32) {
        // If the launcher is gone, there is no job left to end. The caller has shown the user the
        // reason.
        let _ = self.client.abort(code, "MPI ended the job");
    }

    fn when_gone(&self, gone: fn()) {
        self.client.when_lost(gone);
    }

    fn machines(&mut self) -> Result<Option<Vec<u32>>, JoinError> {
        let ranks = || (0..self.size).map(ValueOwner::Rank);
        let number = |whom| self.client.number(whom, keys::NODE_NUMBER).map_err(gone);
        let numbers = ranks().map(number).collect::<Result<Option<Vec<u32>>, _>>()?;
        if numbers.is_some() {
            return Ok(numbers);
        }
        // Slurm publishes names only.
        let name = |whom| self.client.text(whom, keys::HOST_NAME).map_err(gone);
        let names = ranks().map(name).collect::<Result<Option<Vec<String>>, _>>()?;
        Ok(names.map(|names| numbered(&names)))
    }
}

/// Numbers names in the order in which they first occur.
fn numbered(names: &[String]) -> Vec<u32> {
    let mut known = HashMap::new();
    let number = |name| {
        let next = known.len() as u32;
        *known.entry(name).or_insert(next)
    };
    names.iter().map(number).collect()
}

fn gone(cause: ::pmix::PmixError) -> JoinError {
    JoinError::gone(&cause.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_numbers() {
        assert_eq!(numbered(&["b", "a", "b", "c"].map(str::to_owned)), [0, 1, 0, 2]);
    }
}
