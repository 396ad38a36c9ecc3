//! Tests that the commands and options on the pages for users exist.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Command;

use crate::run::options::{self, ValueCount};

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = fs::read_dir(root.join("docs/user")).unwrap();
    let mut pages: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.push(root.join("README.md"));
    pages
}

/// The pieces of code on a page: lines of code blocks, and text between backquotes.
fn code(text: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut is_block = false;
    for line in text.lines() {
        if line.starts_with("```") {
            is_block = !is_block;
        } else if is_block || line.starts_with("    ") {
            pieces.push(line.to_owned());
        } else {
            pieces.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    pieces
}

/// The words of each Combray command in a piece of code, up to shell operators.
fn commands(piece: &str) -> Vec<Vec<&str>> {
    let words: Vec<&str> = piece.split_whitespace().collect();
    let is_ours = |word: &&str| ["combray", "mpirun", "mpiexec"].contains(word);
    let begins = (0..words.len()).filter(|place| is_ours(&words[*place]));
    begins
        .map(|begin| {
            let is_end = |word: &&str| word.starts_with(['#', '|', ';', '<', '>', '&', '=']);
            let rest = words[begin..].iter().copied();
            rest.take_while(|word| !is_end(word))
                .map(|word| word.trim_end_matches([';', ',']))
                .collect()
        })
        .collect()
}

/// Returns the first option that the launcher does not know among the options before the program.
fn unknown_to_the_launcher<'a>(words: &[&'a str]) -> Option<&'a str> {
    let mut words = words.iter().copied();
    while let Some(word) = words.next().filter(|word| word.starts_with('-')) {
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        // A page that only mentions an option may omit its value.
        match options::find(name).map(|option| option.takes) {
            None => return Some(word),
            Some(ValueCount::One) if name == word => _ = words.next(),
            Some(ValueCount::Two) => _ = words.nth(1),
            _ => {}
        }
    }
    None
}

/// Why a command is wrong; `None` if it is right.
fn fault(command: &Command, words: &[&str]) -> Option<String> {
    let [name, rest @ ..] = words else { return None };
    if *name != "combray" {
        let unknown = unknown_to_the_launcher(rest)?;
        return Some(format!("the launcher has no {unknown}"));
    }
    let (subcommand, rest) = rest.split_first()?;
    if !subcommand.bytes().all(|letter| letter.is_ascii_lowercase()) {
        return None;
    }
    let Some(found) = command.find_subcommand(subcommand) else {
        let is_other = crate::OTHER_NAMES.contains(subcommand);
        return (!is_other).then(|| format!("there is no combray {subcommand}"));
    };
    if *subcommand == "run" {
        return unknown_to_the_launcher(rest).map(|word| format!("combray run has no {word}"));
    }
    let is_known = |word: &str| {
        let name = word.trim_start_matches('-').split('=').next();
        word == "--help" || found.get_arguments().any(|argument| argument.get_long() == name)
    };
    let before_a_program = rest.iter().take_while(|word| !word.starts_with("./"));
    before_a_program
        .filter(|word| *subcommand != "bench" && word.starts_with("--"))
        .find(|word| !is_known(word))
        .map(|word| format!("combray {subcommand} has no {word}"))
}

#[test]
fn pages_for_users_type_what_there_is() {
    let command = crate::command_line();
    let (mut faults, mut count) = (Vec::new(), 0);
    for page in pages() {
        for piece in code(&fs::read_to_string(&page).unwrap()) {
            for words in commands(&piece) {
                count += 1;
                let fault = fault(&command, &words);
                faults.extend(fault.map(|fault| format!("{}: {fault}: {piece}", page.display())));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(count > 100, "{count} commands are found");
}

#[test]
fn faults_of_pages_are_found() {
    let command = crate::command_line();
    let fault = |line: &str| commands(line).iter().find_map(|words| fault(&command, words));
    assert_eq!(fault("mpirun -n 2 --tag-output ./program --any"), None);
    assert_eq!(fault("$ combray topo --input FILE   # --nonsense"), None);
    assert!(fault("mpirun -n 2 --tagoutput ./program").unwrap().contains("--tagoutput"));
    assert!(fault("combray see").unwrap().contains("no combray see"));
    assert!(fault("combray topo --inptu FILE").unwrap().contains("--inptu"));
}
