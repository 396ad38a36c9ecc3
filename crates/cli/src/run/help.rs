//! The text of `combray run --help`: the options in the order in which users look for them.

use super::options::{Meaning, OPTIONS, RunOption};
use crate::{examples, prefix};

/// The topic of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Processes,
    Hosts,
    Places,
    Output,
    End,
    Reports,
    Variables,
    Others,
}

impl Section {
    /// All sections, in the order in which they are shown.
    pub const ALL: [Self; 8] = [
        Self::Processes,
        Self::Hosts,
        Self::Places,
        Self::Output,
        Self::End,
        Self::Reports,
        Self::Variables,
        Self::Others,
    ];

    /// Its title.
    pub fn title(self) -> &'static str {
        match self {
            Self::Processes => "Number of processes",
            Self::Hosts => "Hosts",
            Self::Places => "Cores",
            Self::Output => "Output",
            Self::Variables => "Variables and folder",
            Self::End => "Time limits and failures",
            Self::Reports => "Checks and recordings",
            Self::Others => "Others",
        }
    }

    /// The options of the section that have a text, in the order of the table.
    pub fn options(self) -> impl Iterator<Item = ShownOption> {
        let own = OPTIONS.iter().filter(move |option| section(option.meaning) == self);
        own.filter(|option| !option.help.is_empty()).map(ShownOption::of)
    }
}

/// An option as the help shows it.
pub struct ShownOption {
    /// The first spelling, or the first two.
    pub names: &'static [&'static str],
    /// The names of its values.
    pub values: &'static str,
    /// What it does.
    pub effect: &'static str,
}

impl ShownOption {
    fn of(option: &'static RunOption) -> Self {
        let (values, effect) = option.help.split_once("    ").unwrap_or(("", option.help));
        // The second spelling, only if it is another word rather than a variant with other dashes.
        let bare = |name: &&'static str| name.trim_start_matches('-');
        let differs =
            option.names.get(1).is_some_and(|other| bare(other) != bare(&option.names[0]));
        let names = &option.names[..1 + usize::from(differs)];
        Self { names, values: values.trim(), effect: effect.trim() }
    }
}

fn section(meaning: Meaning) -> Section {
    match meaning {
        Meaning::Processes
        | Meaning::ProcessesPerMachine
        | Meaning::OnePerMachine
        | Meaning::Oversubscribe
        | Meaning::NoOversubscribe => Section::Processes,
        Meaning::Hosts
        | Meaning::HostFile
        | Meaning::Rankfile
        | Meaning::LaunchAgent
        | Meaning::Launcher
        | Meaning::Interface
        | Meaning::InTurn
        | Meaning::ShowAllocation
        | Meaning::Verbose => Section::Hosts,
        Meaning::Binding(_)
        | Meaning::BindingAs(..)
        | Meaning::Needs
        | Meaning::CoresEach
        | Meaning::EachPackage
        | Meaning::ReportBindings
        | Meaning::DryRun
        | Meaning::Machine => Section::Places,
        Meaning::TagOutput
        | Meaning::TagRank
        | Meaning::TimeOutput
        | Meaning::MergeOutput
        | Meaning::OutputFolder
        | Meaning::FilePattern(_)
        | Meaning::Output
        | Meaning::StandardInput => Section::Output,
        Meaning::Record
        | Meaning::Check
        | Meaning::Profile
        | Meaning::Trace
        | Meaning::TraceLast
        | Meaning::Order(_) => Section::Reports,
        Meaning::Variable
        | Meaning::GlobalVariable
        | Meaning::VariableList
        | Meaning::AllVariables
        | Meaning::Folder
        | Meaning::ForceLibrary
        | Meaning::OpenMp
        | Meaning::InitialErrhandler => Section::Variables,
        Meaning::Timeout | Meaning::Stall | Meaning::KeepGoing | Meaning::FaultTolerance => {
            Section::End
        }
        Meaning::Display
        | Meaning::Help
        | Meaning::Version
        | Meaning::Accepted
        | Meaning::Parameter => Section::Others,
    }
}

/// The synopsis of the command.
pub const USAGE: &str =
    "combray run [OPTIONS] PROGRAM [ARGUMENTS] [: [OPTIONS] PROGRAM [ARGUMENTS] ...]";

/// The text of `--help`.
pub fn text() -> String {
    let mut text = format!(
        "Starts the processes of a program, on this machine or on several.\n\n{USAGE}\n\n{}",
        examples::text("run")
    );
    for section in Section::ALL {
        text += &format!("\n\n{}\n", section.title());
        for ShownOption { names, values, effect } in section.options() {
            let words = format!("{} {values}", names.join(", "));
            let words = words.trim_end();
            let gap = if words.len() > 28 { format!("\n{:30}", "") } else { String::new() };
            text += &format!("  {words:<28}{gap}  {effect}\n");
        }
        text.truncate(text.trim_end().len());
    }
    text + &format!(
        "\n\n{}\nOther spellings of Open MPI's and MPICH's launchers are accepted; {} lists \
         them.\n",
        EXIT_CODE,
        prefix::page("user/launching.md")
    )
}

/// The explanation of the exit code.
pub const EXIT_CODE: &str = "A process that fails ends the job; the exit code is its own, or 128 and the number of the \
                             signal\nthat killed it; 124 when the time limit has passed.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_of_the_table_is_shown_once() {
        let help = text();
        for option in OPTIONS.iter().filter(|option| !option.help.is_empty()) {
            let shown = ShownOption::of(option);
            assert_eq!(help.matches(shown.effect).count(), 1, "{}", shown.effect);
        }
        assert!(help.find("-n, -np") < help.find("--hosts, -H"), "{help}");
    }
}
