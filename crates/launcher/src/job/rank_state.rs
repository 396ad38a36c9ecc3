//! The state of one rank, on whichever machine it runs.

use sys::process::End;

use super::actions::{Action, Actions};
use crate::lines::{LineMode, Lines};
use crate::output::OutputForm;
use crate::protocol::OutputStream;

/// The last lines of a rank.
pub(super) struct LastLines {
    pub lines: Vec<String>,
    /// Whether they were passed on to where messages are printed.
    pub are_with_messages: bool,
}

/// A rank of the job.
pub(super) struct RankState {
    number: u32,
    /// The index of its host.
    pub host: usize,
    /// Its process id on its machine, once it was started.
    pub process: i32,
    /// How it ended, once it has.
    pub end: Option<End>,
    /// What it has reported about its crash.
    pub crash: Option<String>,
    /// Whether it is being ended while others go on.
    pub is_unneeded: bool,
    /// Whether it can still send requests to the PMI server.
    pub is_connected: bool,
    lines: [Lines; 2],
    /// Whether its output goes to files.
    has_files: [bool; 2],
    /// Whether output that goes to files is also forwarded.
    is_copied: bool,
    /// Whether its error output is merged into its output.
    is_merged: bool,
    is_output_closed: [bool; 2],
}

impl RankState {
    /// Creates the state of rank `number`. `time`, if any, returns what stands before each line.
    pub(super) fn new(
        number: u32,
        host: usize,
        mode: LineMode,
        form: &OutputForm,
        time: Option<fn() -> String>,
    ) -> Self {
        Self {
            number,
            host,
            process: 0,
            end: None,
            crash: None,
            is_unneeded: false,
            is_connected: true,
            lines: form.tags(number as usize).map(|tag| Lines::new(tag, mode).timed(time)),
            has_files: form.files.each_ref().map(Option::is_some),
            is_copied: form.is_copied,
            is_merged: form.is_merged,
            is_output_closed: [false; 2],
        }
    }

    /// Forwards what it wrote.
    pub(super) fn handle_output(
        &mut self,
        target: OutputStream,
        bytes: Vec<u8>,
        actions: &mut Actions,
    ) {
        self.pass_on(target, actions, |lines, out| lines.take(&bytes, out));
        if self.has_files[target as usize] {
            actions.push(Action::WriteFile(self.number, target, bytes));
        }
    }

    /// Forwards lines to where they are to be shown. Lines that go to a file only are also kept as
    /// recent lines.
    fn pass_on(
        &mut self,
        target: OutputStream,
        actions: &mut Actions,
        write: impl FnOnce(&mut Lines, &mut Vec<u8>),
    ) {
        let place = if self.is_merged { OutputStream::Output } else { target };
        let lines = &mut self.lines[target as usize];
        match self.has_files[target as usize] && !self.is_copied {
            true => write(lines, &mut Vec::new()),
            false => write(lines, actions.output(place)),
        }
    }

    /// Forwards what is left, as the rank has ended.
    pub(super) fn finish_lines(&mut self, actions: &mut Actions) {
        for target in [OutputStream::Output, OutputStream::Errors] {
            self.pass_on(target, actions, Lines::finish);
        }
    }

    /// Records that the rank has closed one of its outputs.
    pub(super) fn close_output(&mut self, target: OutputStream, actions: &mut Actions) {
        self.is_output_closed[target as usize] = true;
        self.pass_on(target, actions, Lines::finish);
    }

    /// Records that nothing more is received from the rank.
    pub(super) fn mark_lost(&mut self, end: End, actions: &mut Actions) {
        self.end.get_or_insert(end);
        self.is_connected = false;
        self.is_output_closed = [true; 2];
        self.finish_lines(actions);
    }

    /// Whether it wrote an incomplete line to its output, perhaps a prompt.
    pub(super) fn has_partial_line(&self) -> bool {
        self.lines[OutputStream::Output as usize].has_partial()
    }

    /// Forwards the incomplete line of its output.
    pub(super) fn show_partial_line(&mut self, actions: &mut Actions) {
        self.pass_on(OutputStream::Output, actions, Lines::show_partial);
    }

    /// Whether it has closed both outputs.
    pub(super) fn has_closed_outputs(&self) -> bool {
        self.is_output_closed == [true; 2]
    }

    /// Returns the lines that it wrote last: to its error output, or else to its output. Errors go
    /// to the place of messages, and output if `is_one_outlet`.
    pub(super) fn last_lines(&self, is_one_outlet: bool) -> LastLines {
        let recent = |target: OutputStream| -> Vec<String> {
            self.lines[target as usize].recent().collect()
        };
        let mut target = OutputStream::Errors;
        let mut lines = recent(target);
        if lines.is_empty() {
            target = OutputStream::Output;
            lines = recent(target);
        }
        let is_shown = !self.has_files[target as usize] || self.is_copied;
        let is_with_messages = is_one_outlet || (target == OutputStream::Errors && !self.is_merged);
        LastLines { lines, are_with_messages: is_shown && is_with_messages }
    }
}
