//! A process without a launcher.

use std::collections::HashMap;

use sys::process;

use crate::{JobPlace, JoinError, Manager, SUPERVISOR};

/// Warns the user if our launcher is an ancestor of this process and its variables are missing:
/// processes meant as one job then run as many jobs.
pub(super) fn report_if_launched() {
    if process::ancestor_named(SUPERVISOR).is_some() {
        // One write, as other ranks write this warning too.
        let line = format!(
            "combray: note: process {} runs alone, as a job of one process, though \"combray run\" \
             has started it: its environment has lost PMI_FD, PMI_RANK and PMI_SIZE (env -i, sudo, a \
             container with an environment of its own?)\n",
            std::process::id()
        );
        eprint!("{line}");
    }
}

/// Takes the place of a launcher: keeps in this process what it publishes.
#[derive(Default)]
pub(super) struct Singleton {
    values: HashMap<String, String>,
}

impl Singleton {
    /// The place of a process in its job of one.
    pub(super) const PLACE: JobPlace =
        JobPlace { rank: 0, size: 1, application_number: None, universe_size: None };
}

impl Manager for Singleton {
    fn put(&mut self, key: &str, value: &str) -> Result<(), JoinError> {
        self.values.insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<Option<String>, JoinError> {
        Ok(self.values.get(key).filter(|_| rank == 0).cloned())
    }

    fn barrier(&mut self) -> Result<(), JoinError> {
        Ok(())
    }

    fn finalize(&mut self) -> Result<(), JoinError> {
        Ok(())
    }

    fn job_name(&self) -> String {
        String::new()
    }

    fn abort(&mut self, _code: i32) {}

    fn machines(&mut self) -> Result<Option<Vec<u32>>, JoinError> {
        Ok(Some(vec![0]))
    }
}
