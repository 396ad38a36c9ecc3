//! A finding about one subject, and its display.

use serde::{Deserialize, Serialize};

use crate::output;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// No problem.
    Fit,
    /// Worth knowing, but possibly intended.
    Note,
    /// Jobs work, but slower than they could.
    Slow,
    /// Jobs do not work, or not as intended.
    Fault,
}

/// A finding about one subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The subject.
    pub subject: String,
    /// The severity.
    pub verdict: Verdict,
    /// The facts.
    pub found: String,
    /// The remedy; empty if none is needed.
    pub remedy: String,
}

impl Finding {
    pub fn fit(subject: &str, found: impl Into<String>) -> Self {
        Self::new(Verdict::Fit, subject, found, "")
    }

    pub fn note(subject: &str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Verdict::Note, subject, found, remedy)
    }

    pub fn slow(subject: &str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Verdict::Slow, subject, found, remedy)
    }

    pub fn fault(subject: &str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Verdict::Fault, subject, found, remedy)
    }

    fn new(
        verdict: Verdict,
        subject: &str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let found = base::without_error_numbers(&found.into());
        Self { subject: subject.to_owned(), verdict, found, remedy: remedy.into() }
    }

    /// The page of a host whose only finding is this one.
    pub fn page_of(&self, host: &str, form: PageForm) -> String {
        format!("{host}\n{}", self.text(form))
    }

    /// The finding as lines of a page.
    pub fn text(&self, form: PageForm) -> String {
        // The words, and their colours as terminals number them.
        let (mark, colour) = match self.verdict {
            Verdict::Fit => ("ok", 32),
            Verdict::Note => ("note", 36),
            Verdict::Slow => ("slow", 33),
            Verdict::Fault => ("FAULT", 31),
        };
        let mark = match form.has_colours {
            true => format!("\u{1b}[{colour}m{mark:<5}\u{1b}[0m"),
            false => format!("{mark:<5}"),
        };
        let mut text = String::new();
        let width = form.columns.saturating_sub(INDENT + 3).max(TEXT_WIDTH_MIN);
        let mut head = format!("  {mark}  {:<SUBJECT_WIDTH$}  ", self.subject);
        for line in self.found.lines().flat_map(|line| wrapped(line, width)) {
            text += &format!("{head}{line}\n");
            head = " ".repeat(INDENT);
        }
        let mut head = format!("{}-> ", " ".repeat(INDENT));
        for line in self.remedy.lines().flat_map(|line| wrapped(line, width)) {
            text += &format!("{head}{line}\n");
            head = " ".repeat(INDENT + 3);
        }
        text
    }
}

/// How findings are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageForm {
    pub columns: usize,
    pub has_colours: bool,
}

impl PageForm {
    /// The form at standard output.
    pub fn here() -> Self {
        let columns = output::columns().unwrap_or(COLUMNS_MAX).min(COLUMNS_MAX);
        Self { columns, has_colours: output::has_colours() }
    }
}

const SUBJECT_WIDTH: usize = 14;
/// The column at which the text begins.
const INDENT: usize = 2 + 5 + 2 + SUBJECT_WIDTH + 2;
/// The width of a page at most: longer lines are hard to read.
const COLUMNS_MAX: usize = 100;
/// The width of the text at least, even if the terminal is narrower than the page.
const TEXT_WIDTH_MIN: usize = 30;

/// Breaks a line into lines of limited width.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in line.split_whitespace() {
        let last = lines.last_mut().expect("there is one");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= width {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_wrapped_below_their_subject() {
        let finding = Finding::fault("descriptors", "word ".repeat(40), "raise the limit");
        for columns in [100, 80, 60] {
            let form = PageForm { columns, has_colours: false };
            let text = finding.text(form);
            assert!(text.starts_with("  FAULT  descriptors     word word"), "{text}");
            assert!(text.lines().all(|line| line.len() <= columns), "{text}");
            assert_eq!(text.matches("word").count(), 40);
            assert!(text.ends_with("-> raise the limit\n"), "{text}");
            assert_eq!(Finding::fit("cores", "2").text(form), "  ok     cores           2\n");
        }
        let coloured = PageForm { columns: 80, has_colours: true };
        let text = finding.text(coloured);
        assert!(text.starts_with("  \u{1b}[31mFAULT\u{1b}[0m  descriptors     word"), "{text}");
    }
}
