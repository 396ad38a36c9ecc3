//! The profile as one page of text.

use std::collections::BTreeMap;

use crate::energy;
use crate::history::RunComparison;
use crate::words::{self, CALL_HEADER, percent, seconds};
use crate::{CallSummary, JobProfile, LentCores, RankProfile};

/// The maximum number of rows of each table.
const ROWS_MAX: usize = 10;

/// The maximum number of ranks that are shown individually. Of a larger job only the ranks that
/// waited most and those that waited least are shown.
const RANKS_MAX: usize = 16;

/// Returns the page: at most 80 lines of at most about 120 letters.
pub(crate) fn text(profile: &JobProfile) -> String {
    let mut hosts: Vec<&str> = profile.ranks.iter().map(|rank| rank.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let total = profile.total;
    let mut text = format!(
        "combray profile: {}, {}, {} from MPI_Init to MPI_Finalize\n\
         of the time of all ranks: {} computing, {} communicating, {} waiting\n",
        profile.program,
        places(profile.ranks.len(), hosts.len()),
        seconds(profile.seconds),
        percent(total.computing, total.sum()),
        percent(total.communicating, total.sum()),
        percent(total.waiting, total.sum()),
    );
    text += &energy::sentence(profile);
    text += &advice(profile);
    text += &profile.history.as_ref().map_or_else(String::new, RunComparison::text);
    text += &by_rank(profile);
    text += &by_call(profile);
    text += &table(PHASES_TITLE, &PHASES_HEADER, &phases(profile));
    text += &table(energy::RANKS_TITLE, &energy::RANKS_HEADER, &energy::ranks(profile));
    text += &table(energy::PHASES_TITLE, &energy::PHASES_HEADER, &energy::phases(profile));
    text += &by_pair_waited(profile);
    text += &messages(profile);
    text += &library(profile);
    text += &table(LENDING_TITLE, &LENDING_HEADER, &lending(profile));
    text
}

fn places(ranks: usize, hosts: usize) -> String {
    let plural = |count: usize, one: &str| match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {one}s"),
    };
    format!("{} on {}", plural(ranks, "rank"), plural(hosts, "machine"))
}

fn advice(profile: &JobProfile) -> String {
    if profile.advice.is_empty() {
        return "\nNothing stands out that costs 2 % of the time.\n".to_owned();
    }
    let mut text = "\nWhat would help most\n".to_owned();
    for (index, one) in profile.advice.iter().enumerate() {
        let share = match one.seconds > 0.0 {
            true => format!(": up to {} of the time", percent(one.seconds, profile.total.sum())),
            false => String::new(),
        };
        text += &format!("{}. {}{share}.\n", index + 1, one.reason);
        text += &format!("   To do: {}.\n", one.remedy);
    }
    text
}

/// Formats a table with a title. The first and last columns are left-aligned, the others
/// right-aligned.
pub(crate) fn table(title: &str, header: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let header: Vec<String> = header.iter().map(|&word| word.to_owned()).collect();
    let width = |column: usize| {
        let words = rows.iter().chain([&header]).map(|row| row[column].chars().count());
        words.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let mut text = format!("\n{title}\n");
    for row in [&header].into_iter().chain(rows) {
        let mut line = String::new();
        for (column, word) in row.iter().enumerate() {
            let width = widths[column];
            line += &match column + 1 == row.len() {
                true => format!("  {word}"),
                false => format!("  {word:>width$}"),
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn by_rank(profile: &JobProfile) -> String {
    let mut shown: Vec<usize> = (0..profile.ranks.len()).collect();
    let is_part = shown.len() > RANKS_MAX;
    if is_part {
        shown.sort_by(|&one, &other| {
            profile.times[other].waiting.total_cmp(&profile.times[one].waiting)
        });
        let least = shown.split_off(shown.len() - RANKS_MAX / 2);
        shown.truncate(RANKS_MAX / 2);
        shown.extend(least);
    }
    let row = |&index: &usize| {
        let (rank, time) = (&profile.ranks[index], profile.times[index]);
        let share = |part| format!("{} {:>5}", seconds(part), percent(part, time.sum()));
        vec![
            rank.rank.to_string(),
            share(time.computing),
            share(time.communicating),
            share(time.waiting),
            percent(rank.processor_seconds, rank.seconds),
            mostly_for(profile, rank.rank),
        ]
    };
    let rows: Vec<Vec<String>> = shown.iter().map(row).collect();
    let title = match is_part {
        true => "Time by rank (the ranks that waited most, and those that waited least)",
        false => "Time by rank",
    };
    let header = ["rank", "computing", "communicating", "waiting", "on a core", "mostly for"];
    table(title, &header, &rows)
}

/// For which rank a rank waited longest, and for how long.
pub(crate) fn mostly_for(profile: &JobProfile, waiter: u32) -> String {
    let waited = profile.late.iter().find(|one| one.waiter == waiter);
    waited.map(|one| format!("rank {}, {}", one.late, seconds(one.seconds))).unwrap_or_default()
}

fn by_call(profile: &JobProfile) -> String {
    let matters = |call: &&CallSummary| call.seconds >= 0.001 * profile.total.sum();
    let rows: Vec<Vec<String>> = profile
        .calls
        .iter()
        .filter(matters)
        .take(ROWS_MAX)
        .map(|call| call.cells(profile.total.sum()).to_vec())
        .collect();
    table("Time by call, of all ranks together", &CALL_HEADER, &rows)
}

pub(crate) const PHASES_TITLE: &str = "Time by phase";
pub(crate) const PHASES_HEADER: [&str; 5] = ["longest", "of rank", "mean", "times", "phase"];

/// The rows of the table of the phases that the program has named, the longest first.
pub(crate) fn phases(profile: &JobProfile) -> Vec<Vec<String>> {
    let mut phases: BTreeMap<&str, Vec<(f64, u32, u64)>> = BTreeMap::new();
    for rank in &profile.ranks {
        for phase in &rank.phases {
            phases.entry(&phase.name).or_default().push((phase.seconds, rank.rank, phase.times));
        }
    }
    let mut phases: Vec<_> = phases.into_iter().collect();
    let longest = |all: &[(f64, u32, u64)]| {
        all.iter().copied().max_by(|one, other| one.0.total_cmp(&other.0)).unwrap_or_default()
    };
    phases.sort_by(|one, other| longest(&other.1).0.total_cmp(&longest(&one.1).0));
    let row = |(name, all): (&str, Vec<(f64, u32, u64)>)| {
        let (most, rank, times) = longest(&all);
        let mean = all.iter().map(|one| one.0).sum::<f64>() / profile.ranks.len().max(1) as f64;
        let name = name.to_owned();
        vec![seconds(most), rank.to_string(), seconds(mean), words::count(times), name]
    };
    phases.into_iter().take(ROWS_MAX).map(row).collect()
}

fn by_pair_waited(profile: &JobProfile) -> String {
    let reported = profile.late.iter().filter(|one| one.seconds >= 0.001 * profile.seconds);
    let rows: Vec<Vec<String>> = reported
        .take(ROWS_MAX)
        .map(|one| {
            let waits = if one.waits > 0 { words::count(one.waits) } else { String::new() };
            vec![
                one.waiter.to_string(),
                one.late.to_string(),
                seconds(one.seconds),
                waits,
                format!(
                    "{}, {}",
                    words::cause(one.cause),
                    words::place(&one.function, one.caller.as_deref())
                ),
            ]
        })
        .collect();
    table("Waits between ranks", &["rank", "for", "time", "times", "why"], &rows)
}

/// The number and sizes of messages, as paragraphs of text.
pub(crate) fn messages(profile: &JobProfile) -> String {
    let (count, bytes) = profile.sent();
    if count == 0 {
        return String::new();
    }
    let mut text = format!("\nMessages: {}, {} in all\n", words::count(count), words::bytes(bytes));
    let sizes = [
        (0, 8, "below 128 bytes"),
        (8, 11, "to 1 KiB"),
        (11, 17, "to 64 KiB"),
        (17, 21, "to 1 MiB"),
        (21, 64, "more"),
    ];
    let of = |from: usize, to: usize| -> u64 {
        let all = profile.ranks.iter().flat_map(|rank| rank.sizes.iter().take(to).skip(from));
        all.sum()
    };
    let classes: Vec<String> = sizes
        .iter()
        .map(|&(from, to, name)| (of(from, to), name))
        .filter(|(number, _)| *number > 0)
        .map(|(number, name)| format!("{} {name}", words::count(number)))
        .collect();
    text += &format!("  by size: {}\n", classes.join(", "));
    let mut pairs: Vec<(u32, u32, u64, u64)> = profile
        .ranks
        .iter()
        .flat_map(|rank| rank.sent.iter().map(|to| (rank.rank, to.peer, to.bytes, to.messages)))
        .collect();
    pairs.sort_by_key(|pair| std::cmp::Reverse((pair.2, pair.3)));
    let most: Vec<String> = pairs
        .iter()
        .take(4)
        .map(|(from, to, bytes, count)| {
            format!("{from} to {to} {} in {}", words::bytes(*bytes), words::count(*count))
        })
        .collect();
    text += &format!("  most from rank {}\n", most.join("; "));
    text
}

pub(crate) const LENDING_TITLE: &str = "Cores lent, in time of one core";
pub(crate) const LENDING_HEADER: [&str; 4] = ["rank", "lent", "times", "borrowed"];

/// The rows of the table of the cores that ranks have lent each other; empty if none has.
pub(crate) fn lending(profile: &JobProfile) -> Vec<Vec<String>> {
    let has_any = |rank: &&RankProfile| rank.lent.times > 0 || rank.lent.borrowed_seconds > 0.0;
    let mut ranks: Vec<&RankProfile> = profile.ranks.iter().filter(has_any).collect();
    let moved = |rank: &RankProfile| rank.lent.lent_seconds + rank.lent.borrowed_seconds;
    ranks.sort_by(|one, other| moved(other).total_cmp(&moved(one)));
    let row = |rank: &&RankProfile| {
        let LentCores { lent_seconds, times, borrowed_seconds } = rank.lent;
        let share = |part| format!("{} {:>5}", seconds(part), percent(part, rank.seconds));
        vec![
            rank.rank.to_string(),
            share(lent_seconds),
            words::count(times),
            share(borrowed_seconds),
        ]
    };
    ranks.iter().take(ROWS_MAX).map(row).collect()
}

/// How the library sent the messages, as paragraphs of text.
pub(crate) fn library(profile: &JobProfile) -> String {
    let sum = |name: &str| profile.variable(name);
    let eager = sum("eager_sent");
    let all = eager + sum("announced_sent");
    let alone = sum("short_cuts") + sum("fragmented");
    // The messages that went through an outbox, where they may share packets.
    let queued = eager.saturating_sub(alone);
    let packets = sum("packets_sent").saturating_sub(alone);
    let share = |part: u64| percent(part as f64, all as f64);
    let most = |of: &dyn Fn(&RankProfile) -> u64| profile.ranks.iter().map(of).max().unwrap_or(0);
    let helper: f64 = profile.ranks.iter().map(|rank| rank.helper_seconds).sum();
    let mut text = format!(
        "\nInside the library: {} of messages shared a packet, {} went in parts, {} were copied once; \
         {} came before their receive\n",
        share(queued.saturating_sub(packets)),
        share(sum("fragmented") + sum("streamed")),
        share(sum("fetched")),
        share(sum("unexpected_total")),
    );
    text += &format!(
        "  shared memory: {} per rank at most; unexpected messages: {} at most; the helper had a \
         processor for {} ({} of all time)\n",
        words::bytes(most(&|rank| rank.shared_memory_bytes)),
        words::bytes(most(&|rank| rank.variable("unexpected_bytes_highest"))),
        seconds(helper),
        percent(helper, profile.total.sum()),
    );
    text
}
