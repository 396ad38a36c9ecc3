//! Makes texts safe for a terminal.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The maximal length in bytes of a text in JSON that is kept.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// Returns a text as one line: characters that control a terminal, end a line, or change the
/// direction of text are shown as escapes.
pub fn one_line(text: &str) -> String {
    readable(text, |_| false)
}

/// Like [`one_line`], but line ends stay.
pub fn several_lines(text: &str) -> String {
    readable(text, |letter| letter == '\n')
}

/// Returns a message that may quote a user or a file: like [`several_lines`], but very long lines
/// are cut to their beginning and end, with the number of letters between.
pub fn message(text: &str) -> String {
    let text = base::without_error_numbers(text);
    let lines = text.split('\n').map(|line| {
        let count = line.chars().count();
        if count <= LINE_LETTERS_MAX {
            return one_line(line);
        }
        let letters = |from: usize, to: usize| -> String {
            line.chars().skip(from).take(to - from).collect()
        };
        let (begin, end) = (letters(0, BEGIN_LETTERS), letters(count - END_LETTERS, count));
        let left_out = count - BEGIN_LETTERS - END_LETTERS;
        format!("{} [... {left_out} letters ...] {}", one_line(&begin), one_line(&end))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Lines of a message with more letters are cut, and this many letters at their beginning and end
/// are shown.
const LINE_LETTERS_MAX: usize = 2000;
const BEGIN_LETTERS: usize = 1000;
const END_LETTERS: usize = 500;

/// Reads JSON, in which all texts become [one line](one_line) of some KiB at most.
///
/// # Errors
/// The bytes are no JSON, or not of this type.
pub fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    let mut value = serde_json::from_slice(bytes)?;
    make_readable(&mut value);
    serde_json::from_value(value)
}

fn readable(text: &str, stays: impl Fn(char) -> bool) -> String {
    let shown = |letter: char| match is_obeyed(letter) && !stays(letter) {
        true => letter.escape_default().to_string(),
        false => letter.to_string(),
    };
    text.chars().map(shown).collect()
}

/// Whether a letter is a control (C0, DEL or C1), a line or paragraph separator, or a direction
/// mark, with which the shown text would differ from the real one.
fn is_obeyed(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(letter, '\u{2066}'..='\u{2069}')
}

/// Makes all texts of a JSON value readable. The recursion is bounded by the parser's limit on
/// nesting.
fn make_readable(value: &mut Value) {
    match value {
        Value::String(text) => {
            let mut end = text.len().min(TEXT_BYTES_MAX);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            let cut = if end < text.len() { "..." } else { "" };
            *text = one_line(&text[..end]) + cut;
        }
        Value::Array(values) => values.iter_mut().for_each(make_readable),
        Value::Object(fields) => fields.values_mut().for_each(make_readable),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_message_is_readable_and_not_long() {
        let short = "combray: a \"name\"\n  and more";
        assert_eq!(message(short), short);
        let long = format!("line 1 of f: \"{}\x1b[31m\" is no name", "\u{e9}".repeat(3_000_000));
        let shown = message(&long);
        assert!(shown.chars().count() < LINE_LETTERS_MAX, "{}", shown.len());
        assert!(shown.starts_with("line 1 of f: ") && shown.ends_with("\\u{1b}[31m\" is no name"));
        assert!(shown.contains(" letters ...] "));
    }

    #[test]
    fn a_terminal_finds_nothing_to_obey() {
        assert_eq!(one_line("plain \u{e9} text"), "plain \u{e9} text");
        assert_eq!(one_line("\u{1b}]0;t\u{7}"), "\\u{1b}]0;t\\u{7}");
        assert_eq!(one_line("a\nb\rc\td"), "a\\nb\\rc\\td");
        assert_eq!(several_lines("a\nb\rc"), "a\nb\\rc");
        for letter in ['\u{7f}', '\u{9b}', '\u{202e}', '\u{2066}', '\u{200f}', '\u{2028}'] {
            assert!(one_line(&letter.to_string()).starts_with("\\u{"), "{letter:?}");
        }
    }

    #[test]
    fn all_texts_in_json_are_readable_and_short() {
        let text = r#"{"a": ["\u001b[2J", {"b": "x\ny"}], "c": "plain"}"#;
        let value: Value = from_json(text.as_bytes()).unwrap();
        assert_eq!(value["a"][0], "\\u{1b}[2J");
        assert_eq!(value["a"][1]["b"], "x\\ny");
        assert_eq!(value["c"], "plain");
        let long = serde_json::to_vec(&BTreeMap::from([("a", "\u{e9}".repeat(1 << 20))])).unwrap();
        let value: BTreeMap<String, String> = from_json(&long).unwrap();
        assert_eq!(value["a"].len(), TEXT_BYTES_MAX + 3);
        assert!(from_json::<u32>(&[b'['; 100_000]).is_err());
    }
}
