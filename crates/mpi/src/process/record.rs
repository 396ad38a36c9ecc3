//! The communication matrix of a whole job, which process 0 writes at finalization.

use std::path::Path;

use placement::Matrix;
use runtime::{SentTotals, configuration};

use super::Process;

/// The length of an entry for one peer: its rank, bytes, messages.
const ENTRY_BYTES: usize = 24;

impl Process {
    /// Gathers the records of all processes on process 0, which writes them to the configured
    /// file. Writes nothing if some processes have failed.
    pub(super) fn write_record(&self) {
        let mut own = Vec::new();
        for (peer, SentTotals { bytes, messages }) in
            self.runtime().recording().into_iter().flat_map(|recording| recording.peers())
        {
            for number in [u64::from(peer), bytes, messages] {
                own.extend_from_slice(&number.to_le_bytes());
            }
        }
        let rows = self.gather(&own);
        if let (Some(rows), Some(file)) = (rows, configuration::record()) {
            write(&file, &matrix(&rows));
        }
    }
}

fn matrix(rows: &[Vec<u8>]) -> Matrix {
    let mut matrix = Matrix::new(rows.len() as u32);
    for (rank, row) in (0..).zip(rows) {
        for entry in row.as_chunks::<ENTRY_BYTES>().0 {
            let (numbers, _) = entry.as_chunks::<8>();
            let peer = u64::from_le_bytes(numbers[0]);
            if peer != u64::from(rank) && peer < rows.len() as u64 {
                let [bytes, messages] = [numbers[1], numbers[2]].map(u64::from_le_bytes);
                matrix.add(rank, peer as u32, bytes, messages);
            }
        }
    }
    matrix
}

/// Reports that a file of the job could not be written.
pub(super) fn report_unwritten(what: &str, file: &Path, cause: &std::io::Error) {
    let cause = base::without_error_numbers(&cause.to_string());
    eprintln!("combray: {what} cannot be written to {}: {cause}", file.display());
}

fn write(file: &Path, matrix: &Matrix) {
    if let Err(cause) = std::fs::write(file, matrix.to_text()) {
        report_unwritten("the matrix of communication", file, &cause);
    }
}
