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
    text += "\nCritical path\n";
    for one in &findings.critical_path {
        let share = one.seconds / seconds.max(f64::MIN_POSITIVE);
        if share >= SHARE_MIN {
            let (rank, activity) = (one.rank, &one.activity);
            text += &format!(
                "{:>10}  {:>6}  rank {rank}: {activity}\n",
                time(one.seconds),
                percent(share)
            );
        }
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

pub(super) fn time(seconds: f64) -> String {
    match seconds {
        1.0.. => format!("{seconds:.2} s"),
        1e-3.. => format!("{:.2} ms", seconds * 1e3),
        _ => format!("{:.1} us", seconds * 1e6),
    }
}
