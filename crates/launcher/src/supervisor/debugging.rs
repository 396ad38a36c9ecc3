//! Passes debuggers the table of processes, and holds the processes until a debugger is ready.

use std::os::fd::RawFd;
use std::path::Path;

use super::Supervisor;
use crate::process_table::TableWriter;

/// The interface between the job and a debugger at its launcher.
pub(super) struct Debugging {
    /// None: the table cannot be passed to the launcher.
    table: Option<TableWriter>,
    /// Requests to the PMI server that ranks have sent while they are held.
    held: Vec<(u32, Vec<u8>)>,
}

impl Debugging {
    pub(super) fn new(table: Option<TableWriter>) -> Self {
        Self { table, held: Vec::new() }
    }

    /// Returns the descriptor to watch for reading.
    pub(super) fn watched(&self) -> Option<RawFd> {
        self.table.as_ref()?.watched()
    }

    /// Keeps the request of a rank if all ranks must wait for a debugger. Returns whether it did.
    pub(super) fn hold(&mut self, rank: u32, bytes: &[u8]) -> bool {
        let holds = self.table.as_ref().is_some_and(TableWriter::holds);
        if holds {
            self.held.push((rank, bytes.to_vec()));
        }
        holds
    }
}

impl Supervisor<'_> {
    /// Publishes the table of processes: all are started.
    pub(super) fn tell_debuggers(&mut self) {
        let Some(table) = &mut self.debugging.table else { return };
        let programs = self.plan.applications.iter().flat_map(|application| {
            std::iter::repeat_n(&application.program, application.processes as usize)
        });
        let lines = self.ranks.iter().zip(programs).map(|(rank, program)| {
            let host = &self.hosts[rank.host];
            // If the program is a script, the debugger can attach only to its interpreter.
            let running = std::fs::read_link(format!("/proc/{}/exe", rank.process));
            let file = match running {
                Ok(file) if host.is_local() => file,
                _ => Path::new(program).to_owned(),
            };
            (host.name.clone(), file.to_string_lossy().into_owned(), rank.process)
        });
        table.tell(&lines.collect::<Vec<_>>());
    }

    /// Releases the processes: the debugger, if there is one, is ready.
    pub(super) fn release_held(&mut self) {
        if let Some(table) = &mut self.debugging.table {
            table.release();
        }
        for (rank, bytes) in std::mem::take(&mut self.debugging.held) {
            self.receive_pmi(rank, &bytes);
        }
    }

    /// Passes the request of a rank to the PMI server, and carries out the actions that follow.
    pub(super) fn receive_pmi(&mut self, rank: u32, bytes: &[u8]) {
        let actions = self.server.receive(rank, bytes);
        actions.into_iter().for_each(|action| self.act(action));
    }
}
