//! The supervisor's state of one rank, on whichever machine it runs.

use std::io::Write;
use std::time::Instant;

use sys::process::End;

use crate::lines::{LineMode, Lines};
use crate::outlets::Outlets;
use crate::output::{OutputFile, OutputForm};
use crate::protocol::OutputStream;

/// A rank of the job.
pub(super) struct RankState {
    /// The index of its host.
    pub host: usize,
    /// Its process id on its machine, once it was started.
    pub process: i32,
    /// How it ended, once it has.
    pub end: Option<End>,
    /// When it is killed if it has not ended by itself; set when it is ended while others go on.
    pub kill_deadline: Option<Instant>,
    /// Whether it can still send requests to the PMI server.
    pub is_connected: bool,
    lines: [Lines; 2],
    /// The files to which its output goes, in addition or exclusively.
    files: [Option<OutputFile>; 2],
    /// Whether its output goes to files only.
    is_hidden: [bool; 2],
    /// Whether its error output is merged into its output.
    is_merged: bool,
    is_output_closed: [bool; 2],
}

impl RankState {
    pub(super) fn new(
        host: usize,
        number: usize,
        mode: LineMode,
        form: &OutputForm,
        files: [Option<OutputFile>; 2],
    ) -> Self {
        let lines = |tag| Lines::new(tag, mode).timed(form.is_timed);
        Self {
            host,
            process: 0,
            end: None,
            kill_deadline: None,
            is_connected: true,
            lines: form.tags(number).map(lines),
            is_hidden: files.each_ref().map(|file| file.is_some() && !form.is_copied),
            files,
            is_merged: form.is_merged,
            is_output_closed: [false; 2],
        }
    }

    /// Forwards what it wrote.
    ///
    /// # Errors
    /// A message for users: its file cannot be written, and will not be from now on.
    pub(super) fn handle_output(
        &mut self,
        target: OutputStream,
        bytes: &[u8],
        outlets: &mut Outlets,
    ) -> Result<(), String> {
        self.pass_on(target, outlets, |lines, out| lines.take(bytes, out));
        let Some(OutputFile { path, file }) = &mut self.files[target as usize] else {
            return Ok(());
        };
        let written = file.write_all(bytes);
        let told =
            written.map_err(|cause| format!("{} cannot be written: {cause}", path.display()));
        if told.is_err() {
            self.files[target as usize] = None;
        }
        told
    }

    /// Forwards lines to where they are to be shown. Lines that go to a file only are also kept as
    /// recent lines.
    fn pass_on(
        &mut self,
        target: OutputStream,
        outlets: &mut Outlets,
        write: impl FnOnce(&mut Lines, &mut Vec<u8>),
    ) {
        let place = if self.is_merged { OutputStream::Output } else { target };
        let lines = &mut self.lines[target as usize];
        match self.is_hidden[target as usize] {
            true => write(lines, &mut Vec::new()),
            false => write(lines, outlets.queue(place)),
        }
    }

    /// Forwards what is left, as the rank has ended.
    pub(super) fn finish_lines(&mut self, outlets: &mut Outlets) {
        for target in [OutputStream::Output, OutputStream::Errors] {
            self.pass_on(target, outlets, Lines::finish);
        }
    }

    /// Records that the rank has closed one of its outputs.
    pub(super) fn close_output(&mut self, target: OutputStream, outlets: &mut Outlets) {
        self.is_output_closed[target as usize] = true;
        self.pass_on(target, outlets, Lines::finish);
    }

    /// Records that nothing more is received from the rank.
    pub(super) fn mark_lost(&mut self, end: End, outlets: &mut Outlets) {
        self.end.get_or_insert(end);
        self.is_connected = false;
        self.is_output_closed = [true; 2];
        self.finish_lines(outlets);
    }

    /// Whether it wrote an incomplete line to its output, perhaps a prompt.
    pub(super) fn has_partial_line(&self) -> bool {
        self.lines[OutputStream::Output as usize].has_partial()
    }

    /// Forwards the incomplete line of its output.
    pub(super) fn show_partial_line(&mut self, outlets: &mut Outlets) {
        self.pass_on(OutputStream::Output, outlets, Lines::show_partial);
    }

    /// Whether it has closed both outputs.
    pub(super) fn has_closed_outputs(&self) -> bool {
        self.is_output_closed == [true; 2]
    }

    /// Returns the lines that it wrote last: to its error output, or else to its output.
    pub(super) fn last_lines(&self) -> Vec<String> {
        let [output, errors] = &self.lines;
        let errors: Vec<String> = errors.recent().collect();
        if errors.is_empty() { output.recent().collect() } else { errors }
    }
}
