//! Where a thread runs, in the format that the user or the program chooses.

use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use sys::{cores, process};

use crate::environment;
use crate::thread::Thread;

/// The format, once the program has set one.
static FORMAT: Mutex<Option<String>> = Mutex::new(None);

/// Returns the present format.
pub fn format() -> String {
    let set = FORMAT.lock().unwrap_or_else(PoisonError::into_inner).clone();
    set.unwrap_or_else(|| environment::settings().affinity_format.clone())
}

/// Sets the format.
pub fn set_format(format: String) {
    *FORMAT.lock().unwrap_or_else(PoisonError::into_inner) = Some(format);
}

/// Returns what a format, or the present one if it is empty, says of the calling thread.
pub fn capture(format: &str) -> String {
    let thread = Thread::current();
    let team = thread.team.get();
    let (league, level, outer_id) =
        team.region.see(|region| (region.league, region.level, region.outer_id));
    let value = |field: Field| match field {
        Field::TeamNumber => league.0.to_string(),
        Field::Teams => league.1.to_string(),
        Field::Level => level.to_string(),
        Field::ThreadNumber => thread.id.get().to_string(),
        Field::Threads => team.size().to_string(),
        Field::AncestorNumber if level == 0 => "-1".to_owned(),
        Field::AncestorNumber => outer_id.to_string(),
        Field::Host => process::host_name(),
        Field::Process => std::process::id().to_string(),
        Field::NativeThread => process::thread_id().to_string(),
        Field::Affinity => ranges(&cores::allowed()),
    };
    match format {
        "" => fill_in(&self::format(), value),
        _ => fill_in(format, value),
    }
}

/// Writes where the calling thread runs.
pub fn display(format: &str) {
    let line = capture(format) + "\n";
    // Nothing can be done if standard error does not take it.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
}

/// Writes where the calling thread runs if the user wants it (`OMP_DISPLAY_AFFINITY`), and it has
/// not written the same line before.
pub fn display_if_changed() {
    if !environment::settings().displays_affinity {
        return;
    }
    let line = capture("");
    Thread::current().displayed.with(|displayed| {
        if *displayed != line {
            display("");
            *displayed = line;
        }
    });
}

/// What a format can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    TeamNumber,
    Teams,
    Level,
    ThreadNumber,
    Threads,
    AncestorNumber,
    Host,
    Process,
    NativeThread,
    Affinity,
}

const FIELDS: [(char, &str, Field); 10] = [
    ('t', "team_num", Field::TeamNumber),
    ('T', "num_teams", Field::Teams),
    ('L', "nesting_level", Field::Level),
    ('n', "thread_num", Field::ThreadNumber),
    ('N', "num_threads", Field::Threads),
    ('a', "ancestor_tnum", Field::AncestorNumber),
    ('H', "host", Field::Host),
    ('P', "process_id", Field::Process),
    ('i', "native_thread_id", Field::NativeThread),
    ('A', "thread_affinity", Field::Affinity),
];

/// A field needs no more letters than this.
const WIDTH_MAX: usize = 1 << 12;

/// Fills in a format: `%`, optionally `0.` or `.` and a width, and a letter or a name in braces.
fn fill_in(format: &str, value: impl Fn(Field) -> String) -> String {
    let mut text = String::new();
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        text += before;
        if let Some(after) = after.strip_prefix('%') {
            text.push('%');
            rest = after;
            continue;
        }
        let (zeros, after) = strip(after, "0");
        let (right, after) = strip(after, ".");
        let end = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
        let width = after[..end].parse().unwrap_or(0).min(WIDTH_MAX);
        let (field, after) = named(&after[end..]);
        rest = after;
        let shown = field.map_or_else(|| "undefined".to_owned(), &value);
        // Texts are not filled with zeros.
        let number = shown.parse::<i64>().ok().filter(|_| zeros);
        // Writing to a string cannot fail.
        let _ = match (right, number) {
            (false, _) => write!(text, "{shown:<width$}"),
            (true, None) => write!(text, "{shown:>width$}"),
            (true, Some(number)) => write!(text, "{number:0width$}"),
        };
    }
    text + rest
}

fn strip<'a>(text: &'a str, prefix: &str) -> (bool, &'a str) {
    text.strip_prefix(prefix).map_or((false, text), |rest| (true, rest))
}

/// The field that a format names next, and what follows it.
fn named(text: &str) -> (Option<Field>, &str) {
    if let Some((name, rest)) = text.strip_prefix('{').and_then(|text| text.split_once('}')) {
        let field = FIELDS.iter().find(|(_, long, _)| *long == name);
        return (field.map(|(_, _, field)| *field), rest);
    }
    let mut letters = text.chars();
    let letter = letters.next();
    let field = FIELDS.iter().find(|(short, _, _)| Some(*short) == letter);
    (field.map(|(_, _, field)| *field), letters.as_str())
}

/// Lists numbers in order, with ranges: `0-3,8`.
fn ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|one, next| one + 1 == *next);
    let run = |run: &[usize]| match (run.first(), run.last()) {
        (Some(first), Some(last)) if first < last => format!("{first}-{last}"),
        (first, _) => first.map(usize::to_string).unwrap_or_default(),
    };
    runs.map(run).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(format: &str) -> String {
        fill_in(format, |field| match field {
            Field::Level => "1".to_owned(),
            Field::ThreadNumber => "12".to_owned(),
            Field::AncestorNumber => "-1".to_owned(),
            _ => "x".to_owned(),
        })
    }

    #[test]
    fn fields_have_widths_and_sides() {
        assert_eq!(filled("a%Lb%n%%"), "a1b12%");
        assert_eq!(filled("[%5n][%.5n][%0.5n][%1n]"), "[12   ][   12][00012][12]");
        assert_eq!(filled("[%{thread_num}][%0.4{nesting_level}][%0.4a]"), "[12][0001][-001]");
        assert_eq!(filled("[%0.3H][%.3H][%3H]"), "[  x][  x][x  ]");
        assert_eq!(filled("%q %{none} %"), "undefined undefined undefined");
        assert_eq!(filled("%{open"), "undefinedopen");
    }

    #[test]
    fn cores_are_listed_as_ranges() {
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[3]), "3");
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    }
}
