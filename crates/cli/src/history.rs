//! `combray history`: the durations of earlier runs.

use profiles::history::{ProgramHistory, details, list};
use runtime::histories::{HistoryFolder, since_1970};

use crate::output::print;

/// The options of `combray history`.
#[derive(clap::Args)]
pub struct HistoryOptions {
    /// Shows all durations of the programs whose path or arguments contain this text
    program: Option<String>,
    /// Prints all runs as JSON
    #[arg(long)]
    json: bool,
    /// Removes the runs of these programs
    #[arg(long, requires = "program", conflicts_with = "json")]
    forget: bool,
}

/// Lists the programs whose durations are kept, or shows or removes some of them.
///
/// # Errors
/// A message for the user: there is no folder, or no such program, or it cannot be removed.
pub fn run(options: &HistoryOptions) -> Result<(), String> {
    let folder = HistoryFolder::of_user()
        .ok_or("neither XDG_STATE_HOME nor HOME is set: there is no folder for durations")?;
    let place = folder.path().display();
    let mut histories = folder.all();
    if let Some(text) = &options.program {
        histories.retain(|history| is_named(history, text));
        if histories.is_empty() {
            return Err(format!("no program whose path or arguments contain {text} is in {place}"));
        }
    }
    if options.forget {
        for history in &histories {
            folder.forget(&history.key).map_err(|cause| {
                format!("the runs of {} cannot be removed: {cause}", history.key.program)
            })?;
        }
        return Ok(());
    }
    if options.json {
        let text = serde_json::to_string_pretty(&histories).map_err(|cause| cause.to_string())?;
        return print(&(text + "\n"));
    }
    let (now, _) = since_1970();
    if histories.is_empty() {
        return print(&format!(
            "{place} has no durations yet; combray run --profile ./program adds those of a run\n"
        ));
    }
    print(&match &options.program {
        Some(_) => histories.iter().map(|one| details(one, now)).collect::<String>(),
        None => format!("{}in {place}\n", list(&histories, now)),
    })
}

fn is_named(history: &ProgramHistory, text: &str) -> bool {
    let mut words = std::iter::once(&history.key.program).chain(&history.key.arguments);
    words.any(|word| word.contains(text))
}
