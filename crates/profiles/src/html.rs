//! The profile as a page for a browser: one file that needs no network and no script.

use crate::energy;
use crate::history::listing::SLOWER_HEADER;
use crate::page;
use crate::words::{self, CALL_HEADER, percent, seconds};
use crate::{CallSummary, JobProfile, LateRank, TimeSplit};

/// The maximum number of hosts that are named.
const HOSTS_MAX: usize = 8;

/// The maximum number of rows of each table.
const ROWS_MAX: usize = 40;

/// The maximum number of ranks for which the matrix is shown; a larger one would not be readable.
const MATRIX_MAX: usize = 64;

/// The maximum number of ranks that are all labelled beside the matrix; of more, every eighth is.
const LABELLED_MAX: usize = 16;
const LABEL_EACH: usize = 8;

const STYLE: &str = "\
:root{color-scheme:light dark;--ground:#fff;--text:#1b1f24;--soft:#667;--line:#d8dce2;\
--computing:#3a7d44;--communicating:#2f6db5;--waiting:#d9822b}\
@media(prefers-color-scheme:dark){:root{--ground:#14171b;--text:#e4e7eb;--soft:#9aa3ad;--line:#333a42;\
--computing:#5fb06c;--communicating:#6aa5e8;--waiting:#e8a25a}}\
body{background:var(--ground);color:var(--text);font:15px/1.45 system-ui,sans-serif;max-width:70rem;\
margin:2rem auto;padding:0 1rem}h1{font-size:1.3rem}h2{font-size:1.05rem;margin-top:2rem}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
td,th{padding:.15rem .7rem .15rem 0;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}\
th{color:var(--soft);font-weight:normal}td:last-child,th:last-child{text-align:left;white-space:normal}\
.bar{display:flex;height:1rem;width:min(34rem,60vw);background:var(--line)}\
.computing{background:var(--computing)}.communicating{background:var(--communicating)}\
.waiting{background:var(--waiting)}.key span{display:inline-block;width:.8rem;height:.8rem;margin:0 .3rem 0 1rem}\
.soft{color:var(--soft)}.wide{overflow-x:auto}.matrix td{width:.9rem;min-width:.9rem;height:.9rem;padding:0;\
border:1px solid var(--line)}.matrix th{padding:0 .3rem 0 0;border:0;font-size:.7rem}\
.matrix tr:first-child th+th{max-width:.9rem;padding:0;text-align:left;overflow:visible}";

/// Returns the page.
pub(crate) fn page(profile: &JobProfile) -> String {
    let title = format!("Profile of {}", escaped(&profile.program));
    let total = profile.total;
    let share = |part| percent(part, total.sum());
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
         <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n<p class=\"soft\">Combray {}, on {}</p>\n\
         <p>{} ranks, {}: {} computing, {} communicating, {} waiting.</p>\n",
        base::VERSION,
        hosts(profile),
        profile.ranks.len(),
        seconds(profile.seconds),
        share(total.computing),
        share(total.communicating),
        share(total.waiting),
    );
    text += &advice(profile);
    if let Some(history) = &profile.history {
        let slower = table(&SLOWER_HEADER, history.rows().into_iter());
        text += &match slower.is_empty() {
            true => format!("<p>{}.</p>\n", escaped(&history.title())),
            false => section(&history.title(), &slower),
        };
    }
    text += &ranks(profile);
    text += &section("Time by call, of all ranks together", &calls(profile));
    let phases = table(&page::PHASES_HEADER, page::phases(profile).into_iter());
    text += &section(page::PHASES_TITLE, &phases);
    let by_rank = table(&energy::RANKS_HEADER, energy::ranks(profile).into_iter());
    text += &section(energy::RANKS_TITLE, &by_rank);
    let by_phase = table(&energy::PHASES_HEADER, energy::phases(profile).into_iter());
    text += &section(energy::PHASES_TITLE, &by_phase);
    text += &section("Waits between ranks", &late(&profile.late));
    text += &paragraphs(&(page::messages(profile) + &page::library(profile)));
    let lent = table(&page::LENDING_HEADER, page::lending(profile).into_iter());
    text += &section(page::LENDING_TITLE, &lent);
    text += &section("Bytes from rank to rank", &matrix(profile));
    text += &folded(
        "Counted by the library, of all ranks together",
        "combray info --variables explains these variables",
        &variables(profile),
    );
    // A `<` in the data could end this element.
    let data = profile.to_json().replace('<', "\\u003c");
    text + &format!(
        "<script type=\"application/json\" id=\"profile\">{data}</script>\n</body></html>\n"
    )
}

/// The names of the hosts in the order of their ranks: of many, the first ones.
fn hosts(profile: &JobProfile) -> String {
    let mut names: Vec<&str> = profile.ranks.iter().map(|rank| rank.host.as_str()).collect();
    names.dedup();
    let more = names.len().saturating_sub(HOSTS_MAX);
    names.truncate(HOSTS_MAX);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    escaped(&names.join(", ")) + &more
}

/// Paragraphs of text, as the page of text has them.
fn paragraphs(text: &str) -> String {
    let parts = text.split("\n\n").map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| format!("<p>{}</p>\n", escaped(part).replace('\n', "<br>"))).collect()
}

fn section(title: &str, content: &str) -> String {
    match content.is_empty() {
        true => String::new(),
        false => format!("<h2>{title}</h2>\n<div class=\"wide\">{content}</div>\n"),
    }
}

/// A section that is shown when its title is clicked.
fn folded(title: &str, note: &str, content: &str) -> String {
    match content.is_empty() {
        true => String::new(),
        false => format!(
            "<details><summary>{title}</summary>\n<p class=\"soft\">{note}</p>\n\
             <div class=\"wide\">{content}</div>\n</details>\n"
        ),
    }
}

fn advice(profile: &JobProfile) -> String {
    let item = |one: &crate::Advice| {
        let share = match one.seconds > 0.0 {
            true => {
                format!(": up to <b>{}</b> of the time", percent(one.seconds, profile.total.sum()))
            }
            false => String::new(),
        };
        format!(
            "<li>{}{share}.<br><span class=\"soft\">To do: {}.</span></li>\n",
            escaped(&one.reason),
            escaped(&one.remedy)
        )
    };
    let items: String = profile.advice.iter().map(item).collect();
    match items.is_empty() {
        true => "<p>Nothing stands out that costs 2 % of the time.</p>\n".to_owned(),
        false => format!("<h2>What would help most</h2>\n<ol>\n{items}</ol>\n"),
    }
}

fn ranks(profile: &JobProfile) -> String {
    let key = ["computing", "communicating", "waiting"]
        .map(|word| format!("<span class=\"{word}\"></span>{word}"))
        .concat();
    let row = |(index, time): (usize, &TimeSplit)| {
        let rank = &profile.ranks[index];
        let part = |name: &str, part: f64| {
            let width = 100.0 * part / profile.seconds.max(f64::MIN_POSITIVE);
            format!(
                "<div class=\"{name}\" style=\"width:{width:.2}%\" title=\"{name}: {}\"></div>",
                seconds(part)
            )
        };
        let bars = [
            part("computing", time.computing),
            part("communicating", time.communicating),
            part("waiting", time.waiting),
        ];
        format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td><div \
             class=\"bar\">{}</div></td></tr>\n",
            rank.rank,
            escaped(&rank.host),
            seconds(time.computing),
            seconds(time.communicating),
            seconds(time.waiting),
            percent(rank.processor_seconds, rank.seconds),
            page::mostly_for(profile, rank.rank),
            bars.concat()
        )
    };
    let rows: String = profile.times.iter().enumerate().map(row).collect();
    let table = format!(
        "<p class=\"key\">{key}</p>\n<table><tr><th>rank</th><th>host</th><th>computing</th>\
         <th>communicating</th><th>waiting</th><th>on a core</th><th>mostly for</th><th></th></tr>\n{rows}</table>\n"
    );
    section("Time by rank", &table)
}

fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let cells = |row: Vec<String>| -> String {
        let cells: String = row.iter().map(|cell| format!("<td>{}</td>", escaped(cell))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let rows: String = rows.map(cells).collect();
    if rows.is_empty() {
        return rows;
    }
    let head: String = header.iter().map(|word| format!("<th>{word}</th>")).collect();
    format!("<table><tr>{head}</tr>\n{rows}</table>")
}

fn calls(profile: &JobProfile) -> String {
    let row = |call: &CallSummary| call.cells(profile.total.sum()).to_vec();
    table(&CALL_HEADER, profile.calls.iter().take(ROWS_MAX).map(row))
}

fn late(late: &[LateRank]) -> String {
    let row = |one: &LateRank| {
        let place = words::place(&one.function, one.caller.as_deref());
        vec![
            one.waiter.to_string(),
            one.late.to_string(),
            seconds(one.seconds),
            format!("{}, {place}", words::cause(one.cause)),
        ]
    };
    table(&["rank", "waited for", "time", "why"], late.iter().take(ROWS_MAX).map(row))
}

fn variables(profile: &JobProfile) -> String {
    let names = profile.ranks.first().into_iter().flat_map(|rank| &rank.variables);
    let row = |(name, _): &(String, u64)| vec![words::count(profile.variable(name)), name.clone()];
    table(&["value", "performance variable"], names.map(row))
}

/// Returns the matrix of bytes between ranks: the darker a cell, the more.
fn matrix(profile: &JobProfile) -> String {
    let count = profile.ranks.len();
    let most = profile.ranks.iter().flat_map(|rank| &rank.sent).map(|to| to.bytes).max();
    let Some(most) = most.filter(|_| count <= MATRIX_MAX) else { return String::new() };
    // A label in each column would make the columns wider.
    let label = |rank: usize| match count <= LABELLED_MAX || rank.is_multiple_of(LABEL_EACH) {
        true => rank.to_string(),
        false => String::new(),
    };
    let header: String = (0..count).map(|to| format!("<th>{}</th>", label(to))).collect();
    let row = |rank: &crate::RankProfile| {
        let cell = |to: u32| {
            let sent = rank.sent.iter().find(|sent| sent.peer == to);
            let Some(sent) = sent.filter(|sent| sent.messages > 0) else {
                return "<td></td>".to_owned();
            };
            let share = 8.0 + 92.0 * sent.bytes as f64 / most.max(1) as f64;
            format!(
                "<td style=\"background:color-mix(in srgb,var(--communicating) {share:.0}%,transparent)\" \
                 title=\"{} to {to}: {} in {} messages\"></td>",
                rank.rank,
                words::bytes(sent.bytes),
                words::count(sent.messages)
            )
        };
        let cells: String = (0..count as u32).map(cell).collect();
        format!("<tr><th>{}</th>{cells}</tr>\n", label(rank.rank as usize))
    };
    let rows: String = profile.ranks.iter().map(row).collect();
    format!("<table class=\"matrix\"><tr><th>from \\ to</th>{header}</tr>\n{rows}</table>")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
