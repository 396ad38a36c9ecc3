//! Commands at terminals of their own.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A command at a terminal of its own.
pub struct Terminal {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    /// What the terminal has shown.
    pub shown: Vec<u8>,
}

impl Terminal {
    pub fn begin(command: &str) -> Self {
        let mut terminal = Command::new("script");
        terminal.args(["-qec", command, "/dev/null"]);
        terminal.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = terminal.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, input, output, shown: Vec::new() }
    }

    /// Types words.
    pub fn write(&mut self, words: &str) {
        self.input.write_all(words.as_bytes()).unwrap();
    }

    /// Waits until the terminal shows a text, behind its first `begun` bytes.
    pub fn await_text(&mut self, expected: &str, begun: usize) {
        let mut byte = [0];
        while !String::from_utf8_lossy(&self.shown[begun..]).contains(expected) {
            let count = self.output.read(&mut byte).unwrap();
            let text = String::from_utf8_lossy(&self.shown);
            assert_eq!(count, 1, "{expected} is missing: {text}");
            self.shown.push(byte[0]);
        }
    }

    /// Returns whether the command succeeded, and all that the terminal has shown.
    pub fn end(mut self) -> (bool, String) {
        self.output.read_to_end(&mut self.shown).unwrap();
        let succeeded = self.child.wait().unwrap().success();
        (succeeded, String::from_utf8_lossy(&self.shown).into_owned())
    }
}
