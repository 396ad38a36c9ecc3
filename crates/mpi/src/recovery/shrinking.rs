//! Creation of communicators of the remaining processes after failures.

use std::cell::RefCell;
use std::rc::Rc;

use base::{GateId, Result};
use collectives::agreement::Decision;

use super::agreement::ActiveAgreement;
use super::nobody_left;
use crate::Process;
use crate::attribute::Attributes;
use crate::communicator::Communicator;
use crate::contexts::ContextBlock;
use crate::group::Group;
use crate::message_domain::RemoteGroup;
use crate::request::Request;

/// A callback that receives the new communicator, or the error.
pub type NewCommunicator = Box<dyn FnOnce(Result<Rc<Communicator>>)>;

impl Communicator {
    /// Creates a communicator of the processes that have not failed, in their order, without
    /// attributes and topology (`MPIX_Comm_shrink`). All living processes agree on the set of
    /// failed processes. This communicator may have been revoked.
    ///
    /// # Errors
    /// `ProcFailed` if no process is left on the remote side of an intercommunicator; `NoSpace`
    /// if the first remaining process has no contexts left.
    pub fn shrink(self: &Rc<Self>, process: &Process) -> Result<Rc<Communicator>> {
        let made = Rc::new(RefCell::new(None));
        let place = Rc::clone(&made);
        let keep = move |outcome: Result<Rc<Communicator>>| {
            place.replace(Some(outcome));
        };
        self.start_shrinking(process, Box::new(keep)).wait(process)?;
        made.take().expect("the agreement has ended")
    }

    /// Begins to shrink as [`shrink`](Self::shrink) does (`MPIX_Comm_ishrink`). When the request
    /// completes, `made` is called with the outcome. Until then the program has the communicator
    /// `place`, whose error handler and name the new one inherits.
    pub fn begin_shrink(
        self: &Rc<Self>,
        process: &Process,
        place: &Rc<Communicator>,
        made: NewCommunicator,
    ) -> Request {
        let place = Rc::clone(place);
        let take_over = move |outcome: Result<Rc<Communicator>>| {
            if let Ok(made) = &outcome {
                made.set_error_handler(place.error_handler());
                made.set_name(&place.name());
            }
            made(outcome);
        };
        Request::Operation(self.start_shrinking(process, Box::new(take_over)))
    }

    fn start_shrinking(
        self: &Rc<Self>,
        process: &Process,
        made: NewCommunicator,
    ) -> Rc<ActiveAgreement> {
        let contribution = self.contribution(process, [-1; 2], process.contexts().take());
        let communicator = Rc::clone(self);
        let conclusion = move |process: &Process, decision: &Decision| {
            let outcome = communicator.shrunk(process, decision);
            let received = outcome.as_ref().map(|_| ()).map_err(Clone::clone);
            made(outcome);
            received
        };
        process.agreements_of(self).begin(process, contribution, Box::new(conclusion))
    }

    fn shrunk(&self, process: &Process, decision: &Decision) -> Result<Rc<Communicator>> {
        let all_members = self.all_members();
        let left = |group: &Group| {
            let lives = |gate: &GateId| {
                let member = all_members.rank_of(*gate);
                member.is_some_and(|member| !decision.failed.contains(member))
            };
            Group::of(&group.gates().filter(lives).collect::<Vec<_>>())
        };
        let group = left(self.group());
        let remote = match self.remote() {
            None => None,
            Some(remote) => {
                let others = left(&remote.group);
                if others.size() == 0 {
                    return Err(nobody_left());
                }
                Some(RemoteGroup::beside(&group, others, remote.first_local == 0))
            }
        };
        let block = ContextBlock::from_bytes(decision.candidate.to_le_bytes()).checked()?;
        Ok(self.derive(process, block, group, remote, Attributes::default()))
    }
}
