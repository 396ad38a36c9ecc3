//! The findings and the timeline as a page of HTML.

use crate::findings::bytes;
use crate::{Findings, WaitFinding};

/// The number of rows of each table.
const ROWS_MAX: usize = 100;

const STYLE: &str = "body{font:14px sans-serif;margin:2em;color:#222}table{border-collapse:collapse;\
    margin:0 0 2em}td,th{padding:.2em .8em;border-bottom:1px solid #ddd;text-align:left}\
    td.n{text-align:right;font-variant-numeric:tabular-nums}svg{max-width:100%;height:auto}";

pub(super) fn page(findings: &Findings) -> String {
    let Findings { ranks, hosts, events, seconds, efficiency, .. } = findings;
    let all = *seconds * *ranks as f64;
    let facts = [
        ("ranks", ranks.to_string()),
        ("hosts", hosts.to_string()),
        ("time", format!("{seconds:.6} s")),
        ("events", events.to_string()),
        ("dropped events", findings.dropped.to_string()),
        ("parallel efficiency", percent(efficiency.parallel)),
        ("load balance", percent(efficiency.load_balance)),
        ("communication", percent(efficiency.communication)),
        ("serialisation", percent(efficiency.serialisation)),
        ("transfer", percent(efficiency.transfer)),
    ];
    let facts = facts.map(|(name, value)| row(&[(name, false), (&value, true)])).concat();
    let waits: String =
        findings.waits.iter().take(ROWS_MAX).map(|wait| row_of_wait(wait, all)).collect();
    let path = findings.critical_path.iter().take(ROWS_MAX).map(|one| {
        let share = percent(one.seconds / seconds.max(f64::MIN_POSITIVE));
        let time = format!("{:.6} s", one.seconds);
        let rank = one.rank.to_string();
        row(&[(&time, true), (&share, true), (&rank, true), (&one.described(), false)])
    });
    let path: String = path.collect();
    let phases = findings.phases.iter().take(ROWS_MAX).map(|one| {
        row(&[
            (&one.name, false),
            (&one.times.to_string(), true),
            (&format!("{:.6} s", one.seconds), true),
            (&percent(one.load_balance), true),
            (&one.slowest.to_string(), true),
            (&percent(one.waiting), true),
        ])
    });
    let phases: String = phases.collect();
    let parts = [
        table("The job", &[], &facts),
        format!("<h2>What the ranks did when</h2>{}", findings.picture),
        table(
            "Most expensive waits",
            &["time", "share", "waits", "kind", "rank", "awaited", "call", "place"],
            &waits,
        ),
        table("Critical path", &["time", "share", "rank", "activity"], &path),
        table(
            "Phases",
            &["name", "times", "time", "load balance", "slowest rank", "waiting"],
            &phases,
        ),
        calls(findings),
        rails(findings),
        work(findings),
        counters(findings),
    ];
    format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Trace</title>\
         <style>{STYLE}</style></head><body><h1>Trace</h1>{}</body></html>\n",
        parts.concat()
    )
}

/// Returns a table; nothing if it has no rows.
fn table(title: &str, heads: &[&str], rows: &str) -> String {
    let heads: String = heads.iter().map(|head| format!("<th>{head}</th>")).collect();
    match rows.is_empty() {
        true => String::new(),
        false => format!("<h2>{title}</h2><table><tr>{heads}</tr>{rows}</table>"),
    }
}

fn calls(findings: &Findings) -> String {
    let rows = findings.calls.iter().take(ROWS_MAX).map(|one| {
        row(&[
            (&one.function, false),
            (&format!("{:.6} s", one.seconds), true),
            (&one.calls.to_string(), true),
            (&one.messages.to_string(), true),
            (&bytes(one.message_bytes), true),
            (&bytes(one.bytes_sent), true),
            (&bytes(one.bytes_received), true),
        ])
    });
    let heads = ["function", "time", "calls", "messages", "bytes", "contributed", "results"];
    table("Calls", &heads, &rows.collect::<String>())
}

fn rails(findings: &Findings) -> String {
    let rows = findings.rails.iter().take(ROWS_MAX).map(|one| {
        let counts = [
            one.packets,
            one.aggregated,
            one.messages,
            one.announcements,
            one.pieces,
            one.controls,
            one.parts,
            one.again,
        ];
        let counts = counts.map(|count| count.to_string());
        let mut cells = vec![(one.rail.as_str(), false)];
        cells.extend(counts.iter().map(|count| (count.as_str(), true)));
        let sum = bytes(one.bytes);
        cells.push((&sum, true));
        row(&cells)
    });
    let heads = [
        "rail",
        "packets",
        "aggregated",
        "messages",
        "announcements",
        "pieces",
        "control records",
        "parts",
        "sent again",
        "bytes",
    ];
    table("Rails", &heads, &rows.collect::<String>())
}

fn work(findings: &Findings) -> String {
    let rows = findings.work.iter().take(ROWS_MAX).map(|one| {
        row(&[
            (one.kind, false),
            (&one.name, false),
            (&one.times.to_string(), true),
            (&format!("{:.6} s", one.seconds), true),
            (&bytes(one.bytes), true),
        ])
    });
    let heads = ["kind", "what", "times", "time", "bytes"];
    table("Beside the calls", &heads, &rows.collect::<String>())
}

fn counters(findings: &Findings) -> String {
    let rows = findings.counters.iter().map(|one| {
        row(&[
            (one.name, false),
            (&one.highest.to_string(), true),
            (&one.rank.to_string(), true),
            (&format!("{:.6} s", one.at), true),
        ])
    });
    let heads = ["counter", "highest value", "rank", "at"];
    table("Highest values", &heads, &rows.collect::<String>())
}

fn row_of_wait(wait: &WaitFinding, all: f64) -> String {
    let awaited = wait.awaited.map(|rank| rank.to_string()).unwrap_or_default();
    row(&[
        (&format!("{:.6} s", wait.seconds), true),
        (&percent(wait.seconds / all.max(f64::MIN_POSITIVE)), true),
        (&wait.waits.to_string(), true),
        (wait.kind.name(), false),
        (&wait.rank.to_string(), true),
        (&awaited, true),
        (&wait.function, false),
        (&wait.place, false),
    ])
}

/// Returns a row of cells, each with its text and whether it is a number.
fn row(cells: &[(&str, bool)]) -> String {
    let cell = |(text, is_number): &(&str, bool)| {
        let class = if *is_number { " class=\"n\"" } else { "" };
        format!("<td{class}>{}</td>", escaped(text))
    };
    format!("<tr>{}</tr>", cells.iter().map(cell).collect::<String>())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}
