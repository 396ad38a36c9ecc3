//! How many processes the user asks an elastic program to have (`combray resize`).

use std::rc::Rc;

use base::{Error, ErrorClass, Result};
use launch::wanted::WantedSize;
use mpi::Process;
use mpi::communicator::Communicator;

use crate::meeting::share;

/// What the launcher of rank 0 has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WantedAnswer {
    /// 0: the user has asked for nothing.
    processes: u32,
    hosts: String,
}

wire::codec!(WantedAnswer { processes, hosts });

/// Returns how many processes the user asks the members of the communicator to be, and where new
/// ones are to run; none if the user has asked for nothing. Collective; the launcher of the process
/// of rank 0 is asked.
///
/// # Errors
/// On all members: `Comm` for an intercommunicator, `Other` if the launcher does not answer, and
/// those of collective operations.
pub fn wanted_size(
    process: &Process,
    communicator: &Rc<Communicator>,
) -> Result<Option<WantedSize>> {
    if communicator.remote().is_some() {
        let detail = "an intercommunicator has two groups, of which each would have its own size";
        return Err(Error::new(ErrorClass::Comm, detail));
    }
    let answer = share(process, communicator, 0, || {
        let wanted = process.wanted_size(communicator.size())?;
        let (processes, hosts) =
            wanted.map_or_else(Default::default, |one| (one.processes, one.hosts));
        Ok(WantedAnswer { processes, hosts })
    })?;
    let WantedAnswer { processes, hosts } = answer;
    Ok((processes > 0).then_some(WantedSize { processes, hosts }))
}
