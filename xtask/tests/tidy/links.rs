//! Checks that links between pages lead to files and headings that exist.

use std::path::{Path, PathBuf};

use super::{files_with, read, report, workspace};

/// The link targets of a page: the text between `](` and `)`, without URLs.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    targets.filter(|target| !target.contains(':') && !target.is_empty())
}

/// The anchors of a page's headings.
fn headings(page: &str) -> impl Iterator<Item = String> {
    let lines = page.lines().filter(|line| line.starts_with('#'));
    lines.map(|line| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = |letter: &char| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter);
        words.chars().filter(kept).map(|letter| if letter == ' ' { '-' } else { letter }).collect()
    })
}

/// The fault of a link, if it has one.
fn fault(page: &Path, link: &str) -> Option<String> {
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let folder = page.parent().unwrap_or(page);
    let target = if path.is_empty() { page.to_owned() } else { folder.join(path) };
    let place = page.strip_prefix(workspace()).unwrap_or(page).display().to_string();
    if !target.exists() {
        return Some(format!("{place}: {link} leads nowhere"));
    }
    let is_page = target.extension().is_some_and(|extension| extension == "md");
    let is_there = || headings(&read(&target)).any(|name| name == heading);
    (is_page && !heading.is_empty() && !is_there())
        .then(|| format!("{place}: {link} leads to no heading"))
}

/// All pages: those of the folders with pages, and those at the top.
fn pages() -> Vec<PathBuf> {
    let root = workspace();
    let mut pages: Vec<PathBuf> =
        ["docs", "crates", "tests", "bench", "examples", "rust", "studies"]
            .iter()
            .flat_map(|folder| files_with(&root.join(folder), &["md"]))
            .collect();
    for name in
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", LIST]
    {
        pages.push(root.join(name));
    }
    pages
}

#[test]
fn links_of_pages_lead_somewhere() {
    let faults = |page: &PathBuf| -> Vec<String> {
        let text = read(page);
        links(&text).filter_map(|link| fault(page, link)).collect()
    };
    let pages = pages();
    assert!(pages.len() > 100, "the pages are found");
    report(pages.iter().flat_map(faults).collect());
}

/// The list of pages for programs that read the documentation.
const LIST: &str = "llms.txt";

#[test]
fn the_index_of_pages_for_users_has_each_page_with_its_title() {
    let folder = workspace().join("docs/user");
    let index = read(&folder.join("README.md"));
    let missing = |page: PathBuf| {
        let text = read(&page);
        let title = text.lines().next()?.trim_start_matches('#').trim().to_owned();
        let line = format!("- [{title}]({})", page.file_name()?.to_str()?);
        (!index.lines().any(|one| one == line))
            .then(|| format!("docs/user/README.md lacks the line {line}"))
    };
    let pages = files_with(&folder, &["md"]).into_iter();
    report(pages.filter(|page| !page.ends_with("README.md")).filter_map(missing).collect());
}

#[test]
fn the_list_of_pages_has_each_page_for_users_with_its_title() {
    let root = workspace();
    let list = read(&root.join(LIST));
    let missing = |page: PathBuf| {
        let text = read(&page);
        let title = text.lines().next()?.trim_start_matches('#').trim().to_owned();
        let name = page.file_name()?.to_str()?.to_owned();
        let line = format!("- [{title}](docs/user/{name})");
        (!list.lines().any(|one| one == line)).then(|| format!("{LIST} lacks the line {line}"))
    };
    report(files_with(&root.join("docs/user"), &["md"]).into_iter().filter_map(missing).collect());
}

/// For a numbered step: the file to which it links first, and the words in code type after that
/// link.
fn step(line: &str) -> Option<(&str, Vec<&str>)> {
    let (number, text) = line.split_once(". ")?;
    number.parse::<u32>().ok()?;
    let file = links(text).next()?;
    let (_, behind) = text.split_once("](")?;
    Some((file, behind.split('`').skip(1).step_by(2).collect()))
}

/// The code words of a step in `docs/internals/extending.md` must occur in the file that the step
/// changes.
#[test]
fn steps_of_recipes_name_what_there_is() {
    let page = workspace().join("docs/internals/extending.md");
    let (text, mut faults, mut words) = (read(&page), Vec::new(), 0);
    for (file, named) in text.lines().filter_map(step) {
        let target = read(&page.with_file_name(file));
        words += named.len();
        let missing = named.into_iter().filter(|word| !target.contains(word));
        faults.extend(missing.map(|word| format!("extending.md: {file} does not hold {word:?}")));
    }
    assert!(words > 30, "the steps are found");
    report(faults);
}

#[test]
fn headings_have_the_names_that_links_use() {
    let names: Vec<String> = headings("# A `b`, c\ntext\n## The C-d_e: f?\n").collect();
    assert_eq!(names, ["a-b-c", "the-c-d_e-f"]);
}
