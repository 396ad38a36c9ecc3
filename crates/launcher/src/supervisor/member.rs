//! What the supervisor knows of one rank, wherever it runs.

use std::time::Instant;

use sys::process::End;

use crate::lines::{Form, Lines};
use crate::outlets::Outlets;
use crate::protocol::Target;

/// A rank of the job.
pub(super) struct Member {
    /// The position of its host.
    pub host: usize,
    /// Its number on its machine, once it was started.
    pub process: i32,
    /// How it ended, once it has.
    pub end: Option<End>,
    /// It is ended while others go on; when it is killed if it does not end by itself.
    pub doomed: Option<Instant>,
    /// Whether it can still speak to the PMI server.
    pub is_connected: bool,
    lines: [Lines; 2],
    is_quiet: [bool; 2],
}

impl Member {
    /// Each line of what it writes begins with `tag`.
    pub(super) fn new(host: usize, tag: &str, form: Form) -> Self {
        Self {
            host,
            process: 0,
            end: None,
            doomed: None,
            is_connected: true,
            lines: [Lines::new(tag.to_owned(), form), Lines::new(tag.to_owned(), form)],
            is_quiet: [false; 2],
        }
    }

    /// Passes on what it wrote.
    pub(super) fn wrote(&mut self, target: Target, bytes: &[u8], outlets: &mut Outlets) {
        self.lines[target as usize].take(bytes, outlets.queue(target));
    }

    /// Passes on what is left, as it has ended.
    pub(super) fn finish_lines(&mut self, outlets: &mut Outlets) {
        for target in [Target::Output, Target::Errors] {
            self.lines[target as usize].finish(outlets.queue(target));
        }
    }

    /// It has closed one of its outputs.
    pub(super) fn fall_quiet(&mut self, target: Target, outlets: &mut Outlets) {
        self.is_quiet[target as usize] = true;
        self.lines[target as usize].finish(outlets.queue(target));
    }

    /// Nothing more will be heard from it.
    pub(super) fn vanish(&mut self, end: End, outlets: &mut Outlets) {
        self.end.get_or_insert(end);
        self.is_connected = false;
        self.is_quiet = [true; 2];
        self.finish_lines(outlets);
    }

    /// Whether it wrote something to its output that is no whole line, perhaps a question.
    pub(super) fn has_partial_line(&self) -> bool {
        self.lines[Target::Output as usize].has_partial()
    }

    /// Passes on what it wrote to its output, though it is no whole line.
    pub(super) fn show_partial_line(&mut self, outlets: &mut Outlets) {
        self.lines[Target::Output as usize].show_partial(outlets.queue(Target::Output));
    }

    /// Whether it will write nothing more.
    pub(super) fn is_silent(&self) -> bool {
        self.is_quiet == [true; 2]
    }

    /// What it wrote last: to its error output, or else to its output.
    pub(super) fn last_lines(&self) -> Vec<String> {
        let [output, errors] = &self.lines;
        let errors: Vec<String> = errors.recent().collect();
        if errors.is_empty() { output.recent().collect() } else { errors }
    }
}
