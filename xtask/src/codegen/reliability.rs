//! Generates docs/user/reliability.md: the behaviour in case of faults, and the tests that have
//! shown it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The generated part of the page is between these lines.
const BEGIN: &str = "<!-- `cargo xtask codegen`, from tests/faults.txt, faults-shown.txt and outages-shown.txt there: -->\n";
const END: &str = "<!-- end of what is generated -->\n";

const COLUMNS: [(&str, &str); 4] = [
    ("fault", "fault"),
    ("happens", "what happens"),
    ("within", "within"),
    ("told", "what is reported"),
];

/// The text of docs/user/reliability.md.
pub fn page(root: &Path) -> Result<String, String> {
    let read = |name: &str| {
        fs::read_to_string(root.join(name)).map_err(|error| format!("{name}: {error}"))
    };
    let page = read("docs/user/reliability.md")?;
    let parts = page.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let (before, after) = parts.ok_or("docs/user/reliability.md has no place for the faults")?;
    let mut tables = tables(&read("tests/faults.txt")?, &read("tests/faults-shown.txt")?)?;
    tables += &outages(&read("tests/outages-shown.txt")?)?;
    Ok(format!("{before}{BEGIN}{tables}\n{END}{after}"))
}

fn tables(faults: &str, shown: &str) -> Result<String, String> {
    let shown: Vec<&str> = shown.lines().collect();
    let mut text = String::new();
    for block in faults.split("\n\n").map(str::trim).filter(|block| !block.is_empty()) {
        if let Some(title) = block.strip_prefix("# ") {
            let heads: Vec<&str> = COLUMNS.iter().map(|(_, head)| *head).collect();
            _ = write!(
                text,
                "\n## {title}\n\n| {} | test |\n|{}\n",
                heads.join(" | "),
                "---|".repeat(5)
            );
            continue;
        }
        text += "|";
        for (key, _) in COLUMNS {
            _ = write!(text, " {} |", field(block, key)?);
        }
        let tests = field(block, "shown")?;
        let reported: Vec<String> = tests
            .split(", ")
            .filter(|test| !test.is_empty())
            .map(|test| match shown.contains(&test) {
                true => format!("`{test}`"),
                false => format!("`{test}` (has not passed yet)"),
            })
            .collect();
        _ = writeln!(text, " {} |", reported.join(", "));
    }
    Ok(text)
}

/// The results of tests/cluster/outages, by kind of outage and by driver.
fn outages(shown: &str) -> Result<String, String> {
    let mut cells: BTreeMap<(&str, &str), BTreeMap<&str, String>> = BTreeMap::new();
    let mut drivers: Vec<&str> = Vec::new();
    let (silence, shown) = shown.split_once('\n').ok_or("tests/outages-shown.txt is empty")?;
    for line in shown.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [kind, driver, keeps_going, went_on, reported, slowest] = fields[..] else {
            return Err(format!("tests/outages-shown.txt: \"{line}\" is no outage"));
        };
        if !drivers.contains(&driver) {
            drivers.push(driver);
        }
        let seen = match (went_on, reported) {
            ("0", _) => format!("reported, {slowest} s ({reported})"),
            (_, "0") => format!("goes on ({went_on})"),
            _ => format!("goes on ({went_on}), or reported, {slowest} s ({reported})"),
        };
        cells.entry((kind, keeps_going)).or_default().insert(driver, seen);
    }
    drivers.sort_unstable();
    let mut text = format!(
        "\n## By driver\n\nResults of the last run of `tests/cluster/outages`, in whose head the outages are described, on a loaded \
         machine with `COMBRAY_HOST_TIMEOUT={silence}`. \"Goes on\": the job went on. \"Reported\": the other processes got an \
         error, or all were ended, after so many seconds at most. In parentheses: the number of jobs.\n\n\
         | outage | `--keep-going` | {} |\n|{}\n",
        drivers.join(" | "),
        "---|".repeat(drivers.len() + 2)
    );
    for ((kind, keeps_going), seen) in &cells {
        let of = |driver: &&str| seen.get(*driver).cloned().unwrap_or_default();
        let seen: Vec<String> = drivers.iter().map(of).collect();
        _ = writeln!(text, "| {kind} | {keeps_going} | {} |", seen.join(" | "));
    }
    Ok(text)
}

fn field<'a>(block: &'a str, key: &str) -> Result<&'a str, String> {
    let found = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    found.map(str::trim).ok_or_else(|| format!("tests/faults.txt: no \"{key}:\" in\n{block}"))
}
