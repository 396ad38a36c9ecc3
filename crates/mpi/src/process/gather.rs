//! Data that all processes send to process 0 at finalization.

use memory::Buffer;

use super::Process;
use crate::collective::{self, Collective, Invocation, Root};

impl Process {
    /// Gathers the bytes of all processes on process 0, by rank. Returns `None` on other
    /// processes, or if processes have failed.
    pub(super) fn gather(&self, own: &[u8]) -> Option<Vec<Vec<u8>>> {
        let world = self.world();
        let counts = Buffer::zeroed(world.size() as usize * 8);
        counts.write(world.rank() as usize * 8, &(own.len() as u64).to_le_bytes());
        let invocation = Invocation::nonblocking(world);
        let exchange = collective::allgather_packed(&invocation, counts.clone(), 8);
        let reported = exchange.is_ok_and(|exchange| self.completes(exchange));
        let length = |rank: u32| {
            let mut bytes = [0; 8];
            counts.read(rank as usize * 8, &mut bytes);
            u64::from_le_bytes(bytes).min(BYTES_MAX) as usize
        };
        let rows: Vec<Buffer> =
            (0..world.size()).map(|rank| Buffer::zeroed(length(rank))).collect();
        let mine = Buffer::zeroed(own.len().min(BYTES_MAX as usize));
        mine.write(0, &own[..mine.len()]);
        let into = (world.rank() == 0).then(|| rows.clone());
        let gather = collective::gatherv(&invocation, Root::Rank(0), Some(mine), into);
        let is_complete = reported && gather.is_ok_and(|gather| self.completes(gather));
        let bytes_of = |row: &Buffer| {
            let mut bytes = vec![0; row.len()];
            row.read(0, &mut bytes);
            bytes
        };
        (is_complete && world.rank() == 0).then(|| rows.iter().map(bytes_of).collect())
    }

    /// Runs an operation until it is complete. Returns whether no process has failed.
    fn completes(&self, operation: Collective) -> bool {
        let request = operation.into_request(self);
        self.wait_until(&mut |process| request.is_ready(process));
        !self.has_lost_processes()
    }
}

/// The maximum number of bytes that a process sends.
const BYTES_MAX: u64 = 64 << 20;
