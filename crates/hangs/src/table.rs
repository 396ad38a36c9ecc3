//! All ranks of a job as a table.

use std::fmt::Write;

use crate::words;
use crate::{
    Awaited, JobReport, MessageWait, Outside, PortWait, Queue, RankAnswer, RankReport,
    ReturnedError, SpawnedReport, Stage, StagedData,
};

/// The maximum number of ranks in the table.
const ROWS_MAX: usize = 128;

/// Returns the causes, then a row for each rank, then the contents of its queues.
pub fn table(report: &JobReport) -> String {
    let JobReport { job, program, seconds, causes, ranks, .. } = report;
    let mut text: String = causes.iter().flat_map(|cause| [cause.as_str(), "\n"]).collect();
    let count = match ranks.len() {
        1 => "1 rank".to_owned(),
        count => format!("{count} ranks"),
    };
    text += &format!("job {job}: {program}, {count}, for {}\n", words::seconds(*seconds));
    let header = ["rank", "host", "process", "since", "in", "waits for"].map(str::to_owned);
    let mut rows = vec![header];
    rows.extend(ranks.iter().take(ROWS_MAX).map(row));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..5).filter_map(width).collect();
    for [rank, host, process, since, place, awaited] in &rows {
        let line = format!(
            "{rank:>0$}  {host:<1$}  {process:>2$}  {since:>3$}  {place:<4$}  {awaited}",
            widths[0], widths[1], widths[2], widths[3], widths[4]
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    if ranks.len() > ROWS_MAX {
        // Writing to a string never fails.
        let _ = writeln!(text, "and {} more; --json lists all of them", ranks.len() - ROWS_MAX);
    }
    for RankReport { rank, answer, .. } in ranks.iter().take(ROWS_MAX) {
        let Some(RankAnswer { posted, unexpected, errors, calls, staged, .. }) = answer else {
            continue;
        };
        text.push_str(&queue(*rank, unexpected, "arrived, not received", "from"));
        // A single receive that the row shows already is not repeated.
        let only = posted.first.first().filter(|_| posted.length == 1);
        let is_in_row = only.is_some_and(|only| {
            calls.iter().any(|call| target(&call.awaits) == message(only, "from"))
        });
        if !is_in_row {
            text.push_str(&queue(*rank, posted, "receives without a message", "from"));
        }
        text.extend(errors.iter().map(|error| returned(*rank, error)));
        text.extend(staged.iter().map(|data| in_processor_memory(*rank, data)));
    }
    add_spawned(&mut text, &report.spawned, "spawned ");
    text
}

/// Appends a line for each spawned job, and those that it has spawned.
fn add_spawned(text: &mut String, jobs: &[SpawnedReport], beginning: &str) {
    for job in jobs {
        let _ = writeln!(text, "{beginning}{}", job.line());
        add_spawned(text, &job.spawned, &format!("  {beginning}"));
    }
}

fn returned(rank: u32, error: &ReturnedError) -> String {
    let what = error.unsent.as_ref().map(|unsent| format!(" with {}", message(unsent, "to")));
    let place = error.communicator.as_ref().map(|on| format!(" on {}", words::communicator(on)));
    let caller = error.caller.as_ref().map(|caller| format!("; called by {caller}"));
    format!(
        "rank {rank}, {}{}: {}{}\n",
        error.function,
        what.or(place).unwrap_or_default(),
        words::returned(error),
        caller.unwrap_or_default()
    )
}

fn in_processor_memory(rank: u32, StagedData { messages, reason }: &StagedData) -> String {
    let count = match messages {
        1 => "1 message".to_owned(),
        count => format!("{count} messages"),
    };
    format!(
        "rank {rank}, device memory of {count} went through memory of the processor: {reason}\n"
    )
}

fn row(report: &RankReport) -> [String; 6] {
    let RankReport { rank, host, process, stage, state, system_call, answer } = report;
    let state_word = state.clone().unwrap_or_default();
    let (mut since, mut awaited) = (String::new(), String::new());
    let place;
    let is_stopped = state_word.starts_with("stopped");
    match (stage, answer) {
        (Stage::Ended(how), _) => place = how.clone(),
        (Stage::Finalized, _) => place = "after MPI_Finalize".to_owned(),
        _ if is_stopped => place = "stopped by a signal".to_owned(),
        (Stage::Elsewhere, _) => place = "on another machine, not queried".to_owned(),
        (Stage::BeforeInit, None) => place = "before the end of MPI_Init".to_owned(),
        (_, None) => {
            place = format!("no answer ({state_word})");
            awaited = system_call.clone().unwrap_or_default();
        }
        (_, Some(answer)) if !answer.calls.is_empty() => {
            since = words::seconds(answer.calls[0].seconds);
            let functions: Vec<String> = answer.calls.iter().map(words::function).collect();
            place = functions.join(" + ");
            let waits: Vec<String> = answer.calls.iter().map(|call| target(&call.awaits)).collect();
            awaited = waits.join(" + ");
            if let Some(caller) = &answer.calls[0].caller {
                awaited = match awaited.is_empty() {
                    true => format!("called by {caller}"),
                    false => format!("{awaited}; called by {caller}"),
                };
            }
        }
        (_, Some(answer)) => match answer.outside {
            Some(Outside::Computes(time)) => {
                since = words::seconds(time);
                place = match state_word.as_str() {
                    "sleeping" => "sleeps outside of MPI".to_owned(),
                    _ => format!("computes ({state_word})"),
                };
            }
            _ => place = "calls that do not wait".to_owned(),
        },
    }
    let process = if *process == 0 { String::new() } else { process.to_string() };
    [rank.to_string(), host.clone(), process, since, place, awaited]
}

fn target(awaited: &Awaited) -> String {
    match awaited {
        Awaited::Message(wait) => message(wait, "from"),
        Awaited::Taken(wait) => message(wait, "to"),
        Awaited::Members(wait) => {
            let place = words::communicator(&wait.communicator);
            match wait.missing.is_empty() {
                true => place,
                false => format!("{} on {place}", words::ranks(&wait.missing)),
            }
        }
        Awaited::Window(target) => format!("memory of rank {target}"),
        Awaited::OtherJob(PortWait::Start(..)) => "spawned processes".to_owned(),
        Awaited::OtherJob(_) => "another job, at a port".to_owned(),
        Awaited::Unknown => String::new(),
    }
}

fn message(wait: &MessageWait, preposition: &str) -> String {
    let length = wait.bytes.map(|length| format!(", {}", words::bytes(length)));
    format!(
        "{} {preposition} {} on {}{}",
        words::tag(wait),
        words::peers(wait),
        words::communicator(&wait.communicator),
        length.unwrap_or_default()
    )
}

fn queue(rank: u32, queue: &Queue, what: &str, preposition: &str) -> String {
    if queue.length == 0 {
        return String::new();
    }
    let shown: Vec<String> = queue.first.iter().map(|one| message(one, preposition)).collect();
    let more = queue.length.saturating_sub(queue.first.len());
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("rank {rank}, {what}: {}{more}\n", shown.join("; "))
}
