//! Failures that the program has acknowledged.

use std::rc::Rc;

use base::GateId;

use crate::Process;
use crate::group::Group;
use crate::team::Team;

impl Team {
    /// Returns the failed processes that this process knows, in the order in which it learnt of
    /// the failures (`MPIX_Comm_get_failed`); of an intercommunicator, those of both sides.
    pub fn failed(&self, process: &Process) -> Rc<Group> {
        Group::of(&self.failed_among(process, usize::MAX))
    }

    /// Returns the processes whose failures were acknowledged (`MPIX_Comm_failure_get_acked`).
    pub fn acknowledged(&self, process: &Process) -> Rc<Group> {
        Group::of(&self.failed_among(process, self.acknowledged_failures(process)))
    }

    /// Acknowledges all failures that this process knows (`MPIX_Comm_failure_ack`). Receives from
    /// any source continue without the failed processes.
    pub fn acknowledge_all(&self, process: &Process) {
        let known = process.runtime().failed().len();
        self.acknowledge(process, known);
    }

    /// Acknowledges the first `count` processes of [`failed`](Self::failed), in addition to those
    /// acknowledged before (`MPIX_Comm_ack_failed`). Returns the number of acknowledged failures.
    pub fn acknowledge_first(&self, process: &Process, count: usize) -> usize {
        let members = self.all_members();
        let known = process.runtime().failed().to_vec();
        let places = (1..).zip(&known).filter(|(_, gate)| members.rank_of(**gate).is_some());
        if let Some((last, _)) = places.take(count).last() {
            self.acknowledge(process, last);
        }
        self.failed_among(process, self.acknowledged_failures(process)).len()
    }

    /// Returns the members of this communicator among the first `count` failed processes of the
    /// job.
    fn failed_among(&self, process: &Process, count: usize) -> Vec<GateId> {
        let members = self.all_members();
        let runtime = process.runtime();
        let known = runtime.failed().iter().copied().take(count);
        known.filter(|&gate| members.rank_of(gate).is_some()).collect()
    }

    /// How many of the failures that this process knows the program has acknowledged on this
    /// communicator.
    fn acknowledged_failures(&self, process: &Process) -> usize {
        process.runtime().acknowledged_failures(self.point_to_point_context())
    }

    fn acknowledge(&self, process: &Process, count: usize) {
        if count > self.acknowledged_failures(process) {
            process.runtime().acknowledge_failures(self.point_to_point_context(), count);
        }
    }
}
