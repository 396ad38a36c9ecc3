//! A finding about one subject, and its display.

use std::fmt;

use serde::{Deserialize, Serialize};

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
    pub fn page_of(&self, host: &str) -> String {
        format!("{host}\n{self}")
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.verdict {
            Verdict::Fit => "ok",
            Verdict::Note => "note",
            Verdict::Slow => "slow",
            Verdict::Fault => "FAULT",
        };
        let mut head = format!("  {mark:<5}  {:<SUBJECT_WIDTH$}  ", self.subject);
        for line in self.found.lines().flat_map(wrapped) {
            writeln!(f, "{head}{line}")?;
            head = " ".repeat(INDENT);
        }
        let mut head = format!("{}-> ", " ".repeat(INDENT));
        for line in self.remedy.lines().flat_map(wrapped) {
            writeln!(f, "{head}{line}")?;
            head = " ".repeat(INDENT + 3);
        }
        Ok(())
    }
}

const SUBJECT_WIDTH: usize = 14;
/// The column at which the text begins.
const INDENT: usize = 2 + 5 + 2 + SUBJECT_WIDTH + 2;
/// The width of the text.
const TEXT_WIDTH: usize = 100 - INDENT - 3;

/// Breaks a line into lines of limited width.
fn wrapped(line: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in line.split_whitespace() {
        let last = lines.last_mut().expect("there is one");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= TEXT_WIDTH {
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
        let text = finding.to_string();
        assert!(text.starts_with("  FAULT  descriptors     word word"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 100), "{text}");
        assert_eq!(text.matches("word").count(), 40);
        assert!(text.ends_with("-> raise the limit\n"), "{text}");
        assert_eq!(Finding::fit("cores", "2").to_string(), "  ok     cores           2\n");
    }
}
