//! Forwards output in whole lines.

use std::collections::VecDeque;

/// Collects what a process writes and forwards it line by line.
#[derive(Debug)]
pub(crate) struct Lines {
    tag: String,
    /// Returns the time, which stands before the tag.
    time: Option<fn() -> String>,
    mode: LineMode,
    /// The beginning of an incomplete line.
    partial: Vec<u8>,
    /// Whether the last forwarded byte was not the end of a line.
    is_inside_line: bool,
    recent: VecDeque<Vec<u8>>,
}

/// How output is forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineMode {
    /// In whole lines, because other processes write to that place, too. An incomplete last line
    /// gets a line end.
    WholeLines,
    /// Byte by byte as it arrives, because no other process writes to that place.
    Bytes,
}

/// A line longer than this is forwarded in pieces, between which lines of other processes may
/// appear.
const LINE_BYTES_MAX: usize = 1 << 20;

/// How many lines are kept, and how many bytes of each.
const RECENT_MAX: usize = 5;
const RECENT_BYTES_MAX: usize = 200;

impl Lines {
    /// Creates a collector whose lines begin with `tag`.
    pub(crate) fn new(tag: String, form: LineMode) -> Self {
        let (partial, recent) = (Vec::new(), VecDeque::new());
        Self { tag, time: None, mode: form, partial, is_inside_line: false, recent }
    }

    /// Sets the function whose result stands before each line.
    pub(crate) fn timed(self, time: Option<fn() -> String>) -> Self {
        Self { time, ..self }
    }

    /// Accepts bytes, and appends the lines that are complete now to `out`.
    pub(crate) fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.mode == LineMode::Bytes {
            return self.pass_on(bytes, out);
        }
        // Only the new bytes are searched: a long line would otherwise be scanned repeatedly.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let (head, tail) = bytes.split_at(whole);
        if !head.is_empty() {
            self.partial.extend_from_slice(head);
            self.show_partial(out);
        }
        self.partial.extend_from_slice(tail);
        if self.partial.len() > LINE_BYTES_MAX {
            self.show_partial(out);
        }
    }

    /// Whether the beginning of a line is held back.
    pub(crate) fn has_partial(&self) -> bool {
        !self.partial.is_empty()
    }

    /// Forwards what is there, even if it is an incomplete line.
    pub(crate) fn show_partial(&mut self, out: &mut Vec<u8>) {
        let text = std::mem::take(&mut self.partial);
        self.pass_on(&text, out);
    }

    /// Forwards what is left when the process writes no more.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        self.show_partial(out);
        if self.is_inside_line && self.mode == LineMode::WholeLines {
            out.push(b'\n');
            self.is_inside_line = false;
        }
    }

    /// Returns the last lines that are not empty, oldest first.
    pub(crate) fn recent(&self) -> impl Iterator<Item = String> {
        let texts = self.recent.iter().map(|line| String::from_utf8_lossy(line));
        texts.map(|text| text.trim_end().to_owned()).filter(|text| !text.is_empty())
    }

    fn pass_on(&mut self, text: &[u8], out: &mut Vec<u8>) {
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            if !self.is_inside_line {
                out.extend(self.time.map(|time| time()).unwrap_or_default().as_bytes());
                out.extend_from_slice(self.tag.as_bytes());
            }
            out.extend_from_slice(line);
            self.remember(line);
            self.is_inside_line = line.last() != Some(&b'\n');
        }
    }

    fn remember(&mut self, line: &[u8]) {
        if !self.is_inside_line {
            self.recent.push_back(Vec::new());
        }
        while self.recent.len() > RECENT_MAX {
            self.recent.pop_front();
        }
        if let Some(last) = self.recent.back_mut() {
            let room = RECENT_BYTES_MAX.saturating_sub(last.len());
            last.extend_from_slice(&line[..line.len().min(room)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    fn whole(tag: &str) -> Lines {
        Lines::new(tag.to_owned(), LineMode::WholeLines)
    }

    #[test]
    fn lines_stay_whole_and_tagged() {
        let (mut lines, mut out) = (whole("[3] "), Vec::new());
        lines.take(b"one\ntw", &mut out);
        lines.take(b"o", &mut out);
        assert_eq!(out, b"[3] one\n");
        lines.take(b"\nthree", &mut out);
        assert!(lines.has_partial());
        lines.finish(&mut out);
        assert_eq!(out, b"[3] one\n[3] two\n[3] three\n");
        assert_eq!(lines.recent().collect::<Vec<_>>(), ["one", "two", "three"]);
    }

    #[test]
    fn a_line_without_end_does_not_fill_the_memory() {
        let (mut lines, mut out) = (whole("[0] "), Vec::new());
        for _ in 0..1000 {
            lines.take(&[b'x'; 4096], &mut out);
            assert!(lines.partial.len() <= LINE_BYTES_MAX + 4096);
        }
        lines.finish(&mut out);
        assert_eq!(out.len(), "[0] ".len() + 4_096_000 + 1);
        assert_eq!(lines.recent().map(|line| line.len()).collect::<Vec<_>>(), [RECENT_BYTES_MAX]);
    }

    #[test]
    fn a_question_is_shown_and_its_line_goes_on() {
        let (mut lines, mut out) = (whole("[0] "), Vec::new());
        lines.take(b"how many? ", &mut out);
        lines.show_partial(&mut out);
        lines.take(b"thanks\nbye\n", &mut out);
        assert_eq!(out, b"[0] how many? thanks\n[0] bye\n");
    }

    proptest! {
        #[test]
        fn plain_output_is_not_changed(pieces in proptest::collection::vec("[a\n]{0,9}", 0..20)) {
            let (mut lines, mut out) = (Lines::new(String::new(), LineMode::Bytes), Vec::new());
            pieces.iter().for_each(|piece| lines.take(piece.as_bytes(), &mut out));
            lines.finish(&mut out);
            prop_assert_eq!(String::from_utf8(out).unwrap(), pieces.concat());
        }

        #[test]
        fn how_output_is_cut_does_not_matter(pieces in proptest::collection::vec("[a\n]{0,9}", 0..20)) {
            let (mut lines, mut out) = (whole("> "), Vec::new());
            for piece in &pieces {
                lines.take(piece.as_bytes(), &mut out);
                prop_assert!(out.is_empty() || out.last() == Some(&b'\n'));
            }
            lines.finish(&mut out);
            let expected: String = pieces.concat().lines().map(|line| format!("> {line}\n")).collect();
            prop_assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
