//! Checks numbers in the documentation that the code determines: `2 ms<!-- AWAKE_MAX -->` is
//! compared with the constant of that name, and `9<!-- wire::VERSION -->` with that of one crate.

use std::collections::BTreeSet;
use std::path::Path;

use super::{files_with, read, report, workspace};

#[test]
fn numbers_in_the_documentation_are_those_of_the_code() {
    let mut faults = Vec::new();
    let mut quoted = 0;
    let pages = files_with(&workspace().join("docs"), &["md"]);
    for path in pages.iter().chain([&workspace().join("ARCHITECTURE.md")]) {
        let text = read(path);
        let mut pieces = text.split("<!-- ");
        let mut before = pieces.next().unwrap_or_default();
        for piece in pieces {
            let (name, after) = piece.split_once(" -->").unwrap_or((piece, ""));
            if is_constant(name) {
                quoted += 1;
                if let Err(problem) = compare(before, name) {
                    faults.push(format!("{}: {problem}", path.display()));
                }
            }
            before = after;
        }
    }
    assert!(quoted > 0, "some numbers are quoted");
    report(faults);
}

fn is_constant(name: &str) -> bool {
    let (crate_name, constant) = name.rsplit_once("::").unwrap_or(("", name));
    crate_name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
        && !constant.is_empty()
        && constant.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

/// Compares the value at the end of `before` with that of the constant.
fn compare(before: &str, constant: &str) -> Result<(), String> {
    let words: Vec<&str> = before.split_whitespace().rev().take(2).collect();
    let [unit, number] = words[..] else { return Err(format!("no number before {constant}")) };
    // A number may have no unit.
    let (number, unit) = if factor(unit).is_some() { (number, unit) } else { (unit, "") };
    let digits: String = number.chars().filter(|c| c.is_ascii_digit() || *c == '.').collect();
    let reported =
        digits.parse::<f64>().map_err(|_| format!("{number} before {constant} is no number"))?;
    let reported = (reported * factor(unit).unwrap_or(1.0)).round() as u128;
    let values: Vec<u128> = values_of(constant).into_iter().collect();
    match values[..] {
        [] => Err(format!("{constant} is no constant of the code")),
        [value] if value == reported => Ok(()),
        [value] => Err(format!("{number} {unit} is said to be {constant}, which is {value}")),
        _ => Err(format!("several constants are called {constant}")),
    }
}

/// The factor of a unit, in nanoseconds or bytes.
fn factor(unit: &str) -> Option<f64> {
    Some(match unit {
        "µs" => 1e3,
        "ms" => 1e6,
        "s" | "seconds" => 1e9,
        "bytes" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1048576.0,
        _ => return None,
    })
}

/// The distinct values of all constants with this name, which may begin with that of a crate.
fn values_of(name: &str) -> BTreeSet<u128> {
    let (crate_name, constant) = name.rsplit_once("::").unwrap_or(("", name));
    let folder = workspace().join("crates").join(crate_name.replace('_', "-"));
    let definition = format!("const {constant}: ");
    let in_file = |path: &Path| -> Vec<u128> {
        let text = read(path);
        let found = text.split(&definition).skip(1);
        found.filter_map(|rest| value(rest.split_once(" = ")?.1.split_once(';')?.0)).collect()
    };
    files_with(&folder, &["rs"]).iter().flat_map(|path| in_file(path)).collect()
}

/// The value of an expression: a number, a product or a shift of two numbers, or a duration.
fn value(expression: &str) -> Option<u128> {
    let expression = expression.trim();
    if let Some(inner) = expression.strip_prefix("Duration::from_") {
        let (unit, number) = inner.strip_suffix(')')?.split_once('(')?;
        let nanoseconds = match unit {
            "secs" => 1_000_000_000,
            "millis" => 1_000_000,
            "micros" => 1000,
            "nanos" => 1,
            _ => return None,
        };
        return Some(value(number)? * nanoseconds);
    }
    if let Some((left, right)) = expression.split_once("<<") {
        return Some(value(left)? << value(right)?);
    }
    if let Some((left, right)) = expression.split_once('*') {
        return Some(value(left)? * value(right)?);
    }
    expression.replace('_', "").parse().ok()
}

#[test]
fn values_are_worked_out() {
    let known = [("64 << 10", 65536), ("3 * 1_000", 3000), ("Duration::from_millis(2)", 2_000_000)];
    for (expression, expected) in known {
        assert_eq!(value(expression), Some(expected), "{expression}");
    }
    assert_eq!(value("cfg!(loom)"), None);
}

/// Several crates have a constant of this name.
#[test]
fn a_constant_may_be_that_of_one_crate() {
    assert!(is_constant("wire::VERSION") && !is_constant("a comment"));
    assert!(values_of("VERSION").len() > 1);
    let [version] = values_of("wire::VERSION").into_iter().collect::<Vec<_>>()[..] else {
        panic!("one version of the format of records")
    };
    assert_eq!(compare(&format!("the version ({version}"), "wire::VERSION"), Ok(()));
    assert!(compare(&format!("the version ({}", version - 1), "wire::VERSION").is_err());
}
