//! Failures that the program has seen.

use std::rc::Rc;

use base::GateId;

use crate::Process;
use crate::communicator::Communicator;
use crate::group::Group;

impl Communicator {
    /// `MPIX_Comm_get_failed`: the processes that have failed, as far as this one knows, in the
    /// order in which it has learned it; of an intercommunicator those of both sides.
    pub fn failed(&self, process: &Process) -> Rc<Group> {
        Group::of(&self.failed_among(process, usize::MAX))
    }

    /// `MPIX_Comm_failure_get_acked`: those whose failure was acknowledged.
    pub fn acknowledged(&self, process: &Process) -> Rc<Group> {
        Group::of(&self.failed_among(process, self.acknowledged_failures(process)))
    }

    /// `MPIX_Comm_failure_ack`: acknowledges all failures that this process knows of. Receives from
    /// anybody go on without them.
    pub fn acknowledge_all(&self, process: &Process) {
        let known = process.runtime().failed().len();
        self.acknowledge(process, known);
    }

    /// `MPIX_Comm_ack_failed`: acknowledges the first `count` of [`failed`](Self::failed), and
    /// those that were before; how many that are.
    pub fn acknowledge_first(&self, process: &Process, count: usize) -> usize {
        let members = self.everyone();
        let known = process.runtime().failed().to_vec();
        let places = (1..).zip(&known).filter(|(_, gate)| members.rank_of(**gate).is_some());
        if let Some((last, _)) = places.take(count).last() {
            self.acknowledge(process, last);
        }
        self.failed_among(process, self.acknowledged_failures(process)).len()
    }

    /// Of the first `count` processes of the job that have failed, those that take part here.
    fn failed_among(&self, process: &Process, count: usize) -> Vec<GateId> {
        let members = self.everyone();
        let runtime = process.runtime();
        let known = runtime.failed().iter().copied().take(count);
        known.filter(|&gate| members.rank_of(gate).is_some()).collect()
    }

    /// How many of the failures that the process knows of the program has acknowledged here.
    fn acknowledged_failures(&self, process: &Process) -> usize {
        process.runtime().acknowledged_failures(self.point_to_point_context())
    }

    fn acknowledge(&self, process: &Process, count: usize) {
        if count > self.acknowledged_failures(process) {
            process.runtime().acknowledge_failures(self.point_to_point_context(), count);
        }
    }
}
