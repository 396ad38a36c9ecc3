//! The findings as text for a terminal.

use super::{Findings, WaitFinding};

/// The number of waits, and of shares of the critical path, that are shown.
const ROWS_MAX: usize = 10;

/// The number of phases that are shown: the first ones.
const PHASES_MAX: usize = 20;

/// Shares of the critical path below this are not shown.
const SHARE_MIN: f64 = 0.01;

pub(super) fn text(findings: &Findings) -> String {
    let Findings { ranks, hosts, events, dropped, seconds, efficiency, .. } = findings;
    let mut text = format!(
        "{ranks} {} on {hosts} {}, {}, {events} events\n",
        plural(*ranks, "rank", "ranks"),
        plural(*hosts, "host", "hosts"),
        time(*seconds),
    );
    if *dropped > 0 {
        text += &format!(
            "The {dropped} oldest events were dropped; COMBRAY_TRACE_MIB enlarges the memory.\n"
        );
    }
    text += &format!(
        "parallel efficiency {} = load balance {} x communication {}\n",
        percent(efficiency.parallel),
        percent(efficiency.load_balance),
        percent(efficiency.communication),
    );
    text += &format!(
        "communication {} = serialisation {} x transfer {}\n",
        percent(efficiency.communication),
        percent(efficiency.serialisation),
        percent(efficiency.transfer),
    );
    let all = *seconds * *ranks as f64;
    text += "\nMost expensive waits\n";
    if findings.waits.is_empty() {
        text += "none\n";
    } else {
        text += "      time   share    waits  kind              rank  awaited  call\n";
    }
    for wait in findings.waits.iter().take(ROWS_MAX) {
        text += &row(wait, all);
    }
    if !findings.phases.is_empty() {
        text += "\nPhases\n      time    times  load balance  slowest  waiting  name\n";
    }
    for phase in findings.phases.iter().take(PHASES_MAX) {
        text += &format!(
            "{:>10}  {:>7}  {:>12}  {:>7}  {:>7}  {}\n",
            time(phase.seconds),
            phase.times,
            percent(phase.load_balance),
            phase.slowest,
            percent(phase.waiting),
            phase.name,
        );
    }
    text += &library(findings);
    text += "\nCritical path\n";
    for one in &findings.critical_path {
        let share = one.seconds / seconds.max(f64::MIN_POSITIVE);
        if share >= SHARE_MIN {
            text += &format!(
                "{:>10}  {:>6}  rank {}: {}\n",
                time(one.seconds),
                percent(share),
                one.rank,
                one.described()
            );
        }
    }
    text
}

/// Returns what the library did; nothing where nothing was recorded.
fn library(findings: &Findings) -> String {
    let Findings { calls, rails, work, counters, .. } = findings;
    let mut text =
        "\nCalls\n      time    calls   messages  bytes sent  contributed  function\n".to_owned();
    for one in calls.iter().take(ROWS_MAX) {
        text += &format!(
            "{:>10}  {:>7}  {:>9}  {:>10}  {:>11}  {}\n",
            time(one.seconds),
            one.calls,
            one.messages,
            bytes(one.message_bytes),
            bytes(one.bytes_sent),
            one.function,
        );
    }
    if !rails.is_empty() {
        text += "\nRails\n packets  aggregated  messages  announced   pieces    parts       bytes  rail\n";
    }
    for one in rails.iter().take(ROWS_MAX) {
        text += &format!(
            "{:>8}  {:>10}  {:>8}  {:>9}  {:>7}  {:>7}  {:>10}  {}\n",
            one.packets,
            one.aggregated,
            one.messages,
            one.announcements,
            one.pieces,
            one.parts,
            bytes(one.bytes),
            one.rail,
        );
    }
    if !work.is_empty() {
        text += "\nBeside the calls\n      time    times       bytes  kind               what\n";
    }
    for one in work.iter().take(2 * ROWS_MAX) {
        text += &format!(
            "{:>10}  {:>7}  {:>10}  {:<17}  {}\n",
            time(one.seconds),
            one.times,
            bytes(one.bytes),
            one.kind,
            one.name,
        );
    }
    if !counters.is_empty() {
        text += "\nHighest values\n     value  rank          at  counter\n";
    }
    for one in counters {
        let value = match one.name.contains("bytes") {
            true => bytes(one.highest),
            false => one.highest.to_string(),
        };
        text += &format!("{value:>10}  {:>4}  {:>10}  {}\n", one.rank, time(one.at), one.name);
    }
    text
}

fn row(wait: &WaitFinding, all: f64) -> String {
    let place = match wait.place.as_str() {
        "" => String::new(),
        place => format!(" in {place}"),
    };
    format!(
        "{:>10}  {:>6}  {:>7}  {:<16}  {:>4}  {:>7}  {}{place}\n",
        time(wait.seconds),
        percent(wait.seconds / all.max(f64::MIN_POSITIVE)),
        wait.waits,
        wait.kind.name(),
        wait.rank,
        wait.awaited.map_or_else(|| "-".to_owned(), |rank| rank.to_string()),
        wait.function,
    )
}

fn plural<'a>(count: usize, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Returns a number of bytes with a unit.
pub(crate) fn bytes(count: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (count as f64, "B");
    for next in units {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    match unit {
        "B" => format!("{count} B"),
        _ => format!("{value:.1} {unit}"),
    }
}

pub(super) fn time(seconds: f64) -> String {
    match seconds {
        1.0.. => format!("{seconds:.2} s"),
        1e-3.. => format!("{:.2} ms", seconds * 1e3),
        _ => format!("{:.1} us", seconds * 1e6),
    }
}
