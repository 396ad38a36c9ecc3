//! Passes the table of processes from the supervisor to the launcher, which debuggers inspect.
//!
//! The table is in a memory file, and a byte on a socket reports that it is complete. Neither
//! process blocks on the other, as a debugger may have stopped one of them. If a debugger started
//! the launcher, the processes of the job wait in MPI_Init until the debugger lets the launcher go
//! on.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use mpir::JobProcess;
use sys::{mapping, socket};

/// An entry of the table: host, executable file, process id.
type Line = (String, String, i32);

/// The launcher's side.
pub(super) struct TableReader {
    table: File,
    /// None once the table was read, or the supervisor has ended.
    socket: Option<UnixStream>,
}

/// The supervisor's side.
pub(super) struct TableWriter {
    table: File,
    socket: UnixStream,
    state: WriterState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriterState {
    /// The processes are not started yet.
    Starting,
    /// The launcher was notified.
    Notified,
    /// The processes may go on, if they had to wait.
    Released,
}

/// Creates both sides.
///
/// # Errors
/// The system provides no memory file, or no socket.
pub(super) fn open() -> io::Result<(TableReader, TableWriter)> {
    let table = mapping::create_memory_file(c"combray-processes", 0)?;
    let (ours, theirs) = socket::pair()?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    let writer =
        TableWriter { table: table.try_clone()?, socket: theirs, state: WriterState::Starting };
    Ok((TableReader { table, socket: Some(ours) }, writer))
}

impl TableReader {
    /// Returns the descriptor to watch for reading.
    pub(super) fn watched(&self) -> Option<RawFd> {
        self.socket.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Publishes the table to debuggers, and notifies the supervisor that they have it.
    pub(super) fn serve(&mut self) {
        let Some(mut socket) = self.socket.take() else { return };
        // Without a byte, the supervisor has ended.
        if !matches!(socket.read(&mut [0]), Ok(1)) {
            return;
        }
        let mut text = Vec::new();
        let read = self.table.rewind().and_then(|()| self.table.read_to_end(&mut text));
        let lines: Vec<Line> =
            read.ok().and_then(|_| serde_json::from_slice(&text).ok()).unwrap_or_default();
        let processes: Vec<JobProcess> = lines
            .into_iter()
            .map(|(host, executable, process)| JobProcess { host, executable, process })
            .collect();
        mpir::publish(&processes);
        // A supervisor that has ended needs no answer.
        let _ = socket.write(&[0]);
    }
}

impl TableWriter {
    /// Whether the processes must wait.
    pub(super) fn holds(&self) -> bool {
        self.state != WriterState::Released && mpir::is_being_debugged()
    }

    /// Returns the descriptor to watch for reading.
    pub(super) fn watched(&self) -> Option<RawFd> {
        (self.state == WriterState::Notified).then(|| self.socket.as_raw_fd())
    }

    /// Publishes the table when all processes are started, with one entry for each rank. Returns
    /// false if it cannot be published: then the job runs without debuggers.
    pub(super) fn publish(&mut self, processes: &[JobProcess]) -> bool {
        let line = |one: &JobProcess| (one.host.clone(), one.executable.clone(), one.process);
        let lines: Vec<Line> = processes.iter().map(line).collect();
        let text = serde_json::to_vec(&lines).unwrap_or_default();
        let reported = mapping::check_file_size(text.len())
            .and_then(|()| self.table.write_all(&text))
            .and_then(|()| self.socket.write_all(&[0]));
        self.state = if reported.is_ok() { WriterState::Notified } else { WriterState::Released };
        reported.is_ok()
    }

    /// Records that the launcher has answered, or has ended.
    pub(super) fn release(&mut self) {
        self.state = WriterState::Released;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launcher_learns_the_processes_and_answers_once() {
        let (mut reader, mut writer) = open().unwrap();
        assert_eq!(writer.watched(), None);
        let (host, executable) = ("here".to_owned(), "/bin/true".to_owned());
        assert!(writer.publish(&[JobProcess { host, executable, process: 7 }]));
        assert!(writer.watched().is_some());
        reader.serve();
        assert_eq!(reader.watched(), None);
        assert_eq!(mpir::MPIR_proctable_size.load(std::sync::atomic::Ordering::Relaxed), 1);
        assert_eq!(writer.socket.read(&mut [0; 8]).unwrap(), 1);
        writer.release();
        assert!(!writer.holds() && writer.watched().is_none());
    }

    #[test]
    fn a_process_that_has_ended_tells_nothing() {
        let (mut reader, writer) = open().unwrap();
        drop(writer);
        reader.serve();
        assert_eq!(reader.watched(), None);
    }
}
