//! The matrix of communication of a whole job, which process 0 writes at the end.

use std::path::Path;

use memory::Buffer;
use placement::Matrix;
use runtime::{SentTotals, configuration};

use super::Process;
use crate::collective::{self, Collective, Invocation, Root};

/// What a process tells of one peer: its rank, bytes, messages.
const ENTRY_BYTES: usize = 24;

impl Process {
    /// Brings what all processes recorded to process 0, which writes it to the file that it was
    /// told. If some processes are not there any more, nothing is written.
    pub(super) fn write_record(&self) {
        let recorded = self.runtime().recorded();
        let (world, file) = (self.world(), configuration::record());
        let counts = scratch(world.size() as usize * 8);
        counts.write(world.rank() as usize * 8, &(recorded.len() as u64).to_le_bytes());
        let invocation = Invocation::nonblocking(world);
        let exchange = collective::allgather_packed(&invocation, counts.clone(), 8);
        let mut is_complete = exchange.is_ok_and(|exchange| self.completes(exchange));
        let peers = |rank: u32| read_number(&counts, rank as usize * 8).min(world.size().into());
        let rows: Vec<Buffer> =
            (0..world.size()).map(|rank| scratch(peers(rank) as usize * ENTRY_BYTES)).collect();
        let own = scratch(recorded.len() * ENTRY_BYTES);
        for (index, (peer, SentTotals { bytes, messages })) in recorded.into_iter().enumerate() {
            for (place, number) in [u64::from(peer), bytes, messages].into_iter().enumerate() {
                own.write(index * ENTRY_BYTES + place * 8, &number.to_le_bytes());
            }
        }
        let into = (world.rank() == 0).then(|| rows.clone());
        let gather = collective::gatherv(&invocation, Root::Rank(0), Some(own), into);
        is_complete = is_complete && gather.is_ok_and(|gather| self.completes(gather));
        if let (true, true, Some(file)) = (is_complete, world.rank() == 0, file) {
            write(&file, &matrix(&rows));
        }
    }

    /// Runs an operation to its end, if all processes are there.
    fn completes(&self, operation: Collective) -> bool {
        let request = operation.into_request(self);
        self.wait_until(&mut |process| request.is_ready(process));
        !self.has_lost_processes()
    }
}

fn matrix(rows: &[Buffer]) -> Matrix {
    let mut matrix = Matrix::new(rows.len() as u32);
    for (rank, row) in (0..).zip(rows) {
        for at in (0..row.len()).step_by(ENTRY_BYTES) {
            let [peer, bytes, messages] = [0, 8, 16].map(|place| read_number(row, at + place));
            if peer != u64::from(rank) && peer < rows.len() as u64 {
                matrix.add(rank, peer as u32, bytes, messages);
            }
        }
    }
    matrix
}

fn write(file: &Path, matrix: &Matrix) {
    if let Err(cause) = std::fs::write(file, matrix.to_text()) {
        eprintln!(
            "combray: the matrix of communication cannot be written to {}: {cause}",
            file.display()
        );
    }
}

fn read_number(buffer: &Buffer, at: usize) -> u64 {
    let mut bytes = [0; 8];
    buffer.read(at, &mut bytes);
    u64::from_le_bytes(bytes)
}

fn scratch(bytes: usize) -> Buffer {
    Buffer::zeroed(bytes)
}
