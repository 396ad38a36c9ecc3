//! Output in whole lines.

use std::collections::VecDeque;
use std::io::{self, Write};

/// Collects what a process writes and passes it on line by line.
#[derive(Debug)]
pub(crate) struct Lines {
    tag: String,
    partial: Vec<u8>,
    recent: VecDeque<String>,
}

/// A line longer than this is passed on in pieces.
const LINE_BYTES_MAX: usize = 64 << 10;

/// How many lines are remembered.
const RECENT_MAX: usize = 5;

impl Lines {
    /// Each line will begin with `tag`.
    pub(crate) fn new(tag: String) -> Self {
        Self { tag, partial: Vec::new(), recent: VecDeque::new() }
    }

    /// Takes bytes, and writes the lines that are whole now to `out`, in one piece.
    pub(crate) fn take(&mut self, bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
        self.partial.extend_from_slice(bytes);
        let whole = match self.partial.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            None if self.partial.len() > LINE_BYTES_MAX => self.partial.len(),
            None => return Ok(()),
        };
        let text: Vec<u8> = self.partial.drain(..whole).collect();
        self.write(&text, out)
    }

    /// Writes what is left when the process has closed its end, as a whole line.
    pub(crate) fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.partial.is_empty() {
            return Ok(());
        }
        let mut text = std::mem::take(&mut self.partial);
        if !self.tag.is_empty() {
            text.push(b'\n');
        }
        self.write(&text, out)
    }

    /// The last lines, oldest first.
    pub(crate) fn recent(&self) -> impl Iterator<Item = &str> {
        self.recent.iter().map(String::as_str)
    }

    fn write(&mut self, text: &[u8], out: &mut dyn Write) -> io::Result<()> {
        let mut tagged = Vec::with_capacity(text.len() + self.tag.len());
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            tagged.extend_from_slice(self.tag.as_bytes());
            tagged.extend_from_slice(line);
            self.remember(line);
        }
        out.write_all(&tagged)?;
        out.flush()
    }

    fn remember(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end();
        if !text.is_empty() {
            self.recent.push_back(text.chars().take(200).collect());
            while self.recent.len() > RECENT_MAX {
                self.recent.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_whole_and_tagged() {
        let mut lines = Lines::new("[3] ".into());
        let mut out = Vec::new();
        lines.take(b"one\ntw", &mut out).unwrap();
        lines.take(b"o", &mut out).unwrap();
        assert_eq!(out, b"[3] one\n");
        lines.take(b"\nthree", &mut out).unwrap();
        lines.finish(&mut out).unwrap();
        assert_eq!(out, b"[3] one\n[3] two\n[3] three\n");
        assert_eq!(lines.recent().collect::<Vec<_>>(), ["one", "two", "three"]);
    }

    #[test]
    fn a_line_without_end_does_not_fill_the_memory() {
        let mut lines = Lines::new(String::new());
        let mut out = Vec::new();
        for _ in 0..100 {
            lines.take(&[b'x'; 4096], &mut out).unwrap();
        }
        lines.finish(&mut out).unwrap();
        assert_eq!(out.len(), 409_600);
    }
}
