//! Completions for bash, zsh and fish.

use clap::{Arg, ArgAction, Command, ValueHint};
use clap_complete::{Shell, generate};

use crate::run::options::{OPTIONS, RunOption, ValueCount};

/// The other names of the launcher.
const LAUNCHERS: [&str; 2] = ["mpirun", "mpiexec"];

/// The completion files: path below `share`, and text.
pub fn all(command: Command) -> Vec<(String, Vec<u8>)> {
    let combray = command.mut_subcommand("run", |_| with_options(Command::new("run")));
    let launchers = LAUNCHERS.map(|name| (name, with_options(Command::new(name))));
    let mut files = Vec::new();
    for (name, mut command) in [("combray", combray)].into_iter().chain(launchers) {
        for (shell, path) in [
            (Shell::Bash, format!("bash-completion/completions/{name}")),
            (Shell::Zsh, format!("zsh/site-functions/_{name}")),
            (Shell::Fish, format!("fish/vendor_completions.d/{name}.fish")),
        ] {
            let mut text = Vec::new();
            match (shell, name) {
                (Shell::Bash, "combray") => {
                    generate(shell, &mut command, name, &mut text);
                    text.extend(launcher_for_bash());
                    text.extend(COMBRAY_FOR_BASH.bytes());
                }
                (Shell::Bash, _) => {
                    text.extend(launcher_for_bash());
                    text.extend(format!("\ncomplete {BASH_ELSE} -F _combray_run {name}\n").bytes());
                }
                _ => generate(shell, &mut command, name, &mut text),
            }
            files.push((path, text));
        }
    }
    files
}

/// What bash offers if a function offers nothing.
const BASH_ELSE: &str = "-o bashdefault -o default";

/// `combray run` completes the words of the launcher; the other subcommands use clap's completion.
const COMBRAY_FOR_BASH: &str = "
_combray_or_run() {
    if [[ ${COMP_WORDS[1]} == run && $COMP_CWORD -gt 1 ]]; then _combray_run \"$@\"; else _combray \"$@\"; fi
}
complete -o bashdefault -o default -F _combray_or_run combray
";

/// The completion function for the launcher, in all spellings. clap's own function knows neither
/// options with one dash, nor hosts and programs.
fn launcher_for_bash() -> Vec<u8> {
    let shown: Vec<&str> = OPTIONS
        .iter()
        .filter(|option| !option.help.is_empty())
        .flat_map(|option| option.names.iter().copied())
        .collect();
    let spelled = |wanted: &dyn Fn(&RunOption) -> bool| {
        let options = OPTIONS.iter().filter(|option| wanted(option));
        let names: Vec<&str> = options.flat_map(|option| option.names.iter().copied()).collect();
        names.join(" | ")
    };
    let followed_by = |hinted: ValueHint| {
        spelled(&|option| option.takes == ValueCount::One && hint(value_of(option)) == hinted)
    };
    let values = spelled(&|option| {
        option.takes == ValueCount::One
            && ![ValueHint::Hostname, ValueHint::CommandName, ValueHint::DirPath]
                .contains(&hint(value_of(option)))
    });
    let text = include_str!("launcher.bash")
        .replace("@OPTIONS@", &shown.join(" "))
        .replace("@HOSTS@", &followed_by(ValueHint::Hostname))
        .replace("@COMMANDS@", &followed_by(ValueHint::CommandName))
        .replace("@FOLDERS@", &followed_by(ValueHint::DirPath))
        .replace("@VALUES@", &values)
        .replace("@PAIRS@", &spelled(&|option| option.takes == ValueCount::Two));
    text.into_bytes()
}

/// The name of an option's value, from its help text.
fn value_of(option: &RunOption) -> &'static str {
    option.help.split_once("    ").map_or("", |(value, _)| value.trim())
}

/// The launcher's command line, as far as clap's completions can express it: documented options
/// with two dashes or one letter, then a program.
fn with_options(command: Command) -> Command {
    let shown = |option: &&'static RunOption| !option.help.is_empty();
    let command = OPTIONS.iter().filter(shown).filter_map(argument).fold(command, Command::arg);
    let program = Arg::new("program").value_hint(ValueHint::CommandName);
    let words = Arg::new("arguments").value_hint(ValueHint::FilePath).num_args(0..);
    command
        .about("Starts the processes of a program")
        .disable_help_flag(true)
        .arg(program)
        .arg(words)
}

fn argument(option: &'static RunOption) -> Option<Arg> {
    let long = option.names.iter().find_map(|name| name.strip_prefix("--"));
    let letter = |name: &&str| {
        let mut letters = name.strip_prefix('-')?.chars();
        letters.next().filter(|letter| *letter != '-' && letters.next().is_none())
    };
    let short = option.names.iter().find_map(letter);
    let (values, effect) = option.help.split_once("    ").unwrap_or(("", option.help));
    let mut argument = Arg::new(option.names[0]).help(effect.trim().to_owned());
    argument = match option.takes {
        ValueCount::Nothing => argument.action(ArgAction::SetTrue),
        ValueCount::One => argument.num_args(1).value_hint(hint(values.trim())),
        ValueCount::Two => argument.num_args(2),
        ValueCount::FileEndingIn(_) => {
            argument.num_args(0..=1).value_hint(hint(values.trim_matches(['[', ']'])))
        }
    };
    match (long, short) {
        (None, None) => None,
        (Some(long), None) => Some(argument.long(long)),
        (None, Some(short)) => Some(argument.short(short)),
        (Some(long), Some(short)) => Some(argument.long(long).short(short)),
    }
}

/// The kind of a value, from its name in the help text.
fn hint(value: &str) -> ValueHint {
    match value {
        "FILE" | "NAME" | "MACHINE" => ValueHint::FilePath,
        "FOLDER" => ValueHint::DirPath,
        "NAMES" => ValueHint::Hostname,
        "COMMAND" => ValueHint::CommandName,
        _ => ValueHint::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::help::Section;

    #[test]
    fn shells_know_subcommands_and_options() {
        let files = all(crate::command_line());
        assert_eq!(files.len(), 9);
        for (path, text) in files {
            let text = String::from_utf8(text).unwrap();
            for section in Section::ALL {
                for option in section.options() {
                    let Some(name) = option.names.iter().find(|name| name.starts_with("--")) else {
                        continue;
                    };
                    let name = name.trim_start_matches('-');
                    assert!(text.contains(name), "{path} lacks {name}");
                }
            }
            let has_subcommands = text.contains("doctor");
            assert_eq!(has_subcommands, path.contains("combray"), "{path}");
        }
    }
}
