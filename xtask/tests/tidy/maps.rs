//! Checks the maps of the code: ARCHITECTURE.md with its picture of the layers, and the sections
//! "Reading order" in the READMEs of large crates.

use std::fs;
use std::path::Path;

use super::{crates, files_with, read, report, tier, workspace};

/// The page with the map of all crates.
const MAP: &str = "ARCHITECTURE.md";

/// The heading of the orientation in the README of a crate.
const READING_ORDER: &str = "## Reading order";

/// Crates with more lines of Rust than this, tests included, need a reading order.
const LINES_WITHOUT_ORDER_MAX: usize = 3000;

/// The maximum number of lines of a reading order.
const ORDER_LINES_MAX: usize = 60;

/// The text between backquotes.
fn code_words(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn the_map_names_files_that_exist() {
    let text = read(&workspace().join(MAP));
    // A crate's name, then a file of its sources.
    let hops = code_words(&text).filter(|word| word.ends_with(".rs"));
    let hops: Vec<&str> = hops.filter(|word| !word.contains("crates/")).collect();
    assert!(hops.len() > 100, "the ways through the code name their files");
    let exists = |hop: &&str| match hop.strip_prefix("xtask/") {
        Some(_) => workspace().join(hop).exists(),
        None => {
            let (name, file) = hop.split_once('/').unwrap_or((hop, ""));
            workspace().join("crates").join(name).join("src").join(file).exists()
        }
    };
    let missing = hops.into_iter().filter(|hop| !exists(hop));
    report(missing.map(|hop| format!("{MAP}: there is no {hop}")).collect());
}

/// The crates of the picture, each with its tier. A line of the picture begins with the tier, or
/// continues the line above; the second column has the crates.
fn pictured(page: &str) -> Vec<(String, u32)> {
    let picture = page.split("```").find(|block| block.starts_with("text\n tier |"));
    let mut found = Vec::new();
    let mut tier = 0;
    for line in picture.unwrap_or_default().lines().skip(2) {
        let columns: Vec<&str> = line.split('|').collect();
        let [number, names, _] = columns[..] else { continue };
        tier = number.trim().parse().unwrap_or(tier);
        found.extend(names.split_whitespace().map(|name| (name.to_owned(), tier)));
    }
    found
}

#[test]
fn the_picture_shows_each_crate_in_its_tier() {
    let pictured = pictured(&read(&workspace().join(MAP)));
    let crates = crates();
    let mut faults = Vec::new();
    for (name, _) in &crates {
        let (shown, real) = (pictured.iter().filter(|(one, _)| one == name), tier(name));
        let tiers: Vec<u32> = shown.map(|(_, tier)| *tier).collect();
        if tiers.len() != 1 || Some(tiers[0]) != real {
            let real = real.map_or("none".to_owned(), |tier| tier.to_string());
            faults.push(format!("{MAP}: the picture must show {name} once, in tier {real}"));
        }
    }
    let is_crate = |name: &str| crates.iter().any(|(other, _)| other == name);
    let unknown = pictured.iter().filter(|(name, _)| !is_crate(name));
    faults.extend(unknown.map(|(name, _)| format!("{MAP}: the picture shows {name}, no crate")));
    report(faults);
}

/// The crates that have a paragraph, each with the tiers in the heading above it: `Tiers 6 to 8`,
/// or `Tier 9`.
fn described(page: &str) -> Vec<(String, u32, u32)> {
    let mut found = Vec::new();
    let mut tiers = (0, 0);
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("### Tier") {
            let numbers = heading.split(':').next().unwrap_or_default();
            let numbers = numbers.split(|letter: char| !letter.is_ascii_digit());
            let numbers: Vec<u32> = numbers.filter_map(|number| number.parse().ok()).collect();
            tiers = (numbers[0], numbers[numbers.len() - 1]);
        }
        let name = line.strip_prefix("**`").and_then(|rest| rest.split_once("`**"));
        found.extend(name.map(|(name, _)| (name.to_owned(), tiers.0, tiers.1)));
    }
    found
}

#[test]
fn each_crate_has_a_paragraph_under_its_tier() {
    let described = described(&read(&workspace().join(MAP)));
    let is_right = |name: &str| {
        let tier = tier(name).unwrap_or(u32::MAX);
        described.iter().any(|(one, low, high)| one == name && (*low..=*high).contains(&tier))
    };
    let missing = crates().into_iter().filter(|(name, _)| !is_right(name));
    let mut faults: Vec<String> = missing
        .map(|(name, _)| format!("{MAP}: no paragraph begins with **`{name}`** under its tier"))
        .collect();
    let tiers: Vec<u32> = described.iter().map(|(_, low, _)| *low).collect();
    if !tiers.is_sorted() {
        faults.push(format!("{MAP}: the paragraphs are not in the order of tiers"));
    }
    report(faults);
}

/// The section of a README from this heading to the next one, without the heading.
fn section<'a>(text: &'a str, heading: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(heading)?;
    Some(rest.split("\n## ").next().unwrap_or_default())
}

/// Why the reading order of a crate is wrong.
fn faults_of_order(name: &str, folder: &Path, order: &str) -> Vec<String> {
    let lines = order.trim().lines().count();
    let too_long = (lines > ORDER_LINES_MAX).then(|| {
        format!("{name}/README.md: a reading order of {lines} lines, at most {ORDER_LINES_MAX}")
    });
    let files = code_words(order).filter(|word| word.ends_with(".rs"));
    let missing = files.filter(|file| !folder.join("src").join(file).exists());
    let missing = missing.map(|file| format!("{name}/README.md: there is no {file}"));
    missing.chain(too_long).collect()
}

#[test]
fn large_crates_have_a_reading_order() {
    let mut faults = Vec::new();
    let mut orders = 0;
    for (name, folder) in crates().into_iter().filter(|(name, _)| name != "xtask") {
        let sources = files_with(&folder.join("src"), &["rs"]);
        let generated = |path: &Path| path.iter().any(|part| part == "generated");
        let own = sources.iter().filter(|path| !generated(path));
        let lines: usize = own.map(|path| read(path).lines().count()).sum();
        let readme = fs::read_to_string(folder.join("README.md")).unwrap_or_default();
        match section(&readme, READING_ORDER) {
            Some(order) => {
                orders += 1;
                faults.extend(faults_of_order(&name, &folder, order));
            }
            None if lines > LINES_WITHOUT_ORDER_MAX => {
                faults.push(format!("{name}: {lines} lines, and no \"{READING_ORDER}\" in README"));
            }
            None => {}
        }
    }
    assert!(orders > 10, "the reading orders are found");
    report(faults);
}

#[test]
fn the_forms_of_the_map_are_understood() {
    let page = "```text\n tier | crates | adds\n-----+---\n    2 | a  b | x\n      | c | y\n```\n\
                ### Tiers 6 to 8: m\n\n**`a`** is\n\n### Tier 9: n\n**`b`** has";
    let names: Vec<String> =
        pictured(page).into_iter().map(|(name, tier)| format!("{name}{tier}")).collect();
    assert_eq!(names, ["a2", "b2", "c2"]);
    assert_eq!(described(page), [("a".to_owned(), 6, 8), ("b".to_owned(), 9, 9)]);
    assert_eq!(section("## A\n1\n## B\n2", "## A"), Some("\n1"));
}
