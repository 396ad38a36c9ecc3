//! What the supervisor knows of one rank, wherever it runs.

use std::time::Instant;

use sys::process::End;

use crate::lines::{LineMode, Lines};
use crate::outlets::Outlets;
use crate::protocol::OutputStream;

/// A rank of the job.
pub(super) struct RankState {
    /// The position of its host.
    pub host: usize,
    /// Its number on its machine, once it was started.
    pub process: i32,
    /// How it ended, once it has.
    pub end: Option<End>,
    /// It is ended while others go on; when it is killed if it does not end by itself.
    pub kill_deadline: Option<Instant>,
    /// Whether it can still speak to the PMI server.
    pub is_connected: bool,
    lines: [Lines; 2],
    is_output_closed: [bool; 2],
}

impl RankState {
    /// Each line of what it writes begins with `tag`.
    pub(super) fn new(host: usize, tag: &str, form: LineMode) -> Self {
        Self {
            host,
            process: 0,
            end: None,
            kill_deadline: None,
            is_connected: true,
            lines: [Lines::new(tag.to_owned(), form), Lines::new(tag.to_owned(), form)],
            is_output_closed: [false; 2],
        }
    }

    /// Passes on what it wrote.
    pub(super) fn handle_output(
        &mut self,
        target: OutputStream,
        bytes: &[u8],
        outlets: &mut Outlets,
    ) {
        self.lines[target as usize].take(bytes, outlets.queue(target));
    }

    /// Passes on what is left, as it has ended.
    pub(super) fn finish_lines(&mut self, outlets: &mut Outlets) {
        for target in [OutputStream::Output, OutputStream::Errors] {
            self.lines[target as usize].finish(outlets.queue(target));
        }
    }

    /// It has closed one of its outputs.
    pub(super) fn close_output(&mut self, target: OutputStream, outlets: &mut Outlets) {
        self.is_output_closed[target as usize] = true;
        self.lines[target as usize].finish(outlets.queue(target));
    }

    /// Nothing more is received from it.
    pub(super) fn mark_lost(&mut self, end: End, outlets: &mut Outlets) {
        self.end.get_or_insert(end);
        self.is_connected = false;
        self.is_output_closed = [true; 2];
        self.finish_lines(outlets);
    }

    /// Whether it wrote something to its output that is no whole line, perhaps a question.
    pub(super) fn has_partial_line(&self) -> bool {
        self.lines[OutputStream::Output as usize].has_partial()
    }

    /// Passes on what it wrote to its output, though it is no whole line.
    pub(super) fn show_partial_line(&mut self, outlets: &mut Outlets) {
        self.lines[OutputStream::Output as usize].show_partial(outlets.queue(OutputStream::Output));
    }

    /// Whether it will write nothing more.
    pub(super) fn has_closed_outputs(&self) -> bool {
        self.is_output_closed == [true; 2]
    }

    /// What it wrote last: to its error output, or else to its output.
    pub(super) fn last_lines(&self) -> Vec<String> {
        let [output, errors] = &self.lines;
        let errors: Vec<String> = errors.recent().collect();
        if errors.is_empty() { output.recent().collect() } else { errors }
    }
}
