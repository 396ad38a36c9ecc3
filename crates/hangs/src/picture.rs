//! The graph of waits as a picture: ranks on a circle, with an arrow from each to the ranks that it
//! waits for.

use std::f64::consts::TAU;
use std::fmt::Write;

use crate::causes::awaited_by;
use crate::words;
use crate::{Awaited, JobReport, Outside, RankReport, Stage};

/// The maximum number of ranks in the picture: the first ones that wait or are waited for.
const PICTURED_MAX: usize = 64;

/// A rank that waits for more ranks than this has no arrows: they would hide all others.
const ARROWS_MAX: usize = 16;

/// The radius of a rank, and the minimum radius of the circle, in points.
const RADIUS: f64 = 19.0;
const CIRCLE_MIN: f64 = 110.0;

/// The margin around the circle for labels.
const MARGIN: f64 = 170.0;
const LINE: f64 = 18.0;

/// The maximum number of letters in a line.
const LETTERS_MAX: usize = 90;

const STYLE: &str = "\
svg{color-scheme:light dark;background:#fff}text{fill:#1b1f24}.soft{fill:#667}\
.rank{stroke-width:2}.waits{fill:#fdebd3;stroke:#d9822b}.works{fill:#dcf0df;stroke:#3a7d44}\
.ended{fill:#e8eaed;stroke:#889}.silent{fill:#f9d8d6;stroke:#c0392b}\
.arrow{stroke:#889;fill:none;stroke-width:1.5}.tip{fill:#889}.cycle{stroke:#c0392b;stroke-width:2.5}\
.cycletip{fill:#c0392b}\
@media(prefers-color-scheme:dark){svg{background:#14171b}text{fill:#e4e7eb}.soft{fill:#9aa3ad}\
.waits{fill:#4a3418;stroke:#e8a25a}.works{fill:#1d3b23;stroke:#5fb06c}.ended{fill:#2a2f36;stroke:#8a93a0}\
.silent{fill:#4d211e;stroke:#f07a6e}.arrow{stroke:#8a93a0}.tip{fill:#8a93a0}.cycle{stroke:#f07a6e}\
.cycletip{fill:#f07a6e}}";

/// The CSS classes of ranks, with their descriptions.
const KINDS: [(&str, &str); 4] = [
    ("waits", "waits in a call"),
    ("works", "computes, or makes calls that do not wait"),
    ("ended", "has ended, or is in MPI_Finalize"),
    ("silent", "stopped, or does not answer"),
];

/// Returns the picture, an SVG in light or dark colours, according to the reader's settings.
pub fn picture(report: &JobReport) -> String {
    let arrows = arrows(report);
    let takes_part =
        |rank: &&RankReport| arrows.iter().any(|(from, to)| *from == rank.rank || *to == rank.rank);
    let mut shown: Vec<&RankReport> = match report.ranks.len() <= PICTURED_MAX {
        true => report.ranks.iter().collect(),
        false => report.ranks.iter().filter(takes_part).take(PICTURED_MAX).collect(),
    };
    if shown.is_empty() {
        shown = report.ranks.iter().take(PICTURED_MAX).collect();
    }
    let circle = CIRCLE_MIN.max(shown.len() as f64 * 2.6 * RADIUS / TAU);
    let lines = heading(report, shown.len());
    let top = LINE * (lines.len() as f64 + 1.5);
    let width = (2.0 * (circle + MARGIN)).max(640.0);
    let (x, y) = (width / 2.0, top + circle + 60.0);
    let height = y + circle + 60.0 + LINE * (KINDS.len() as f64 + 1.0);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <style>{STYLE}</style>\n"
    );
    for (number, line) in lines.iter().enumerate() {
        let weight = if number == 0 { " font-weight=\"bold\"" } else { "" };
        let at = LINE * (number as f64 + 1.5);
        _ = writeln!(text, "<text x=\"16\" y=\"{at:.0}\"{weight}>{}</text>", escaped(line));
    }
    let angle = |index: usize| TAU * index as f64 / shown.len() as f64 - TAU / 4.0;
    let place = |index: usize| (x + circle * angle(index).cos(), y + circle * angle(index).sin());
    let index_of = |rank: u32| shown.iter().position(|one| one.rank == rank);
    for &(from, to) in &arrows {
        if let (Some(start), Some(end)) = (index_of(from), index_of(to)) {
            let classes = match leads(&arrows, to, from) {
                true => ["arrow cycle", "cycletip"],
                false => ["arrow", "tip"],
            };
            text += &arrow(place(start), place(end), classes);
        }
    }
    for (index, rank) in shown.iter().enumerate() {
        text += &circle_of(rank, place(index), angle(index));
    }
    for (number, (class, meaning)) in KINDS.iter().enumerate() {
        let at = height - LINE * (KINDS.len() - number) as f64;
        _ = writeln!(
            text,
            "<circle class=\"rank {class}\" cx=\"26\" cy=\"{:.0}\" r=\"6\"/>\
             <text class=\"soft\" x=\"42\" y=\"{at:.0}\">{meaning}</text>",
            at - 4.0
        );
    }
    text + "</svg>\n"
}

/// Returns the causes and the description of the job, in lines.
fn heading(report: &JobReport, shown: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for cause in &report.causes {
        let mut line = String::new();
        for word in cause.split(' ') {
            if !line.is_empty() && line.chars().count() + word.chars().count() >= LETTERS_MAX {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line += word;
        }
        lines.push(line);
    }
    let JobReport { job, program, seconds, ranks, .. } = report;
    let count = match ranks.len() {
        count if count == shown => format!("{count} ranks"),
        count => format!("{shown} of {count} ranks are shown"),
    };
    lines.push(format!("job {job}: {program}, {count}, for {}", words::seconds(*seconds)));
    lines
}

/// Returns the arrows, each from a waiting rank to the rank that it waits for.
fn arrows(report: &JobReport) -> Vec<(u32, u32)> {
    let of = |rank: &RankReport| {
        let awaited = awaited_by(rank, report.ranks.len());
        let is_clear = awaited.len() <= ARROWS_MAX;
        let from = rank.rank;
        awaited.into_iter().filter(move |_| is_clear).map(move |to| (from, to))
    };
    report.ranks.iter().flat_map(of).collect()
}

/// Whether a path of arrows leads from a rank to another.
fn leads(arrows: &[(u32, u32)], from: u32, to: u32) -> bool {
    let (mut seen, mut next) = (vec![from], vec![from]);
    while let Some(rank) = next.pop() {
        if rank == to {
            return true;
        }
        for &(_, there) in arrows.iter().filter(|(here, _)| *here == rank) {
            if !seen.contains(&there) {
                seen.push(there);
                next.push(there);
            }
        }
    }
    false
}

/// Returns an arrow; the line and its head have these classes.
fn arrow(from: (f64, f64), to: (f64, f64), [line, head]: [&str; 2]) -> String {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx.hypot(dy);
    if length < 1.0 {
        return String::new();
    }
    let (ux, uy) = (dx / length, dy / length);
    // Arrows in opposite directions are drawn beside each other.
    let bend = (length * 0.12).min(26.0);
    let middle = ((from.0 + to.0) / 2.0 - uy * bend, (from.1 + to.1) / 2.0 + ux * bend);
    let toward = |one: (f64, f64), by: f64| {
        let (dx, dy) = (middle.0 - one.0, middle.1 - one.1);
        let length = dx.hypot(dy).max(1.0);
        (one.0 + dx / length * by, one.1 + dy / length * by)
    };
    let (start, end, tip) =
        (toward(from, RADIUS + 1.0), toward(to, RADIUS + 9.0), toward(to, RADIUS + 2.0));
    let (across_x, across_y) = ((tip.1 - end.1) * 0.7, (end.0 - tip.0) * 0.7);
    format!(
        "<path class=\"{line}\" d=\"M{:.1} {:.1}Q{:.1} {:.1} {:.1} {:.1}\"/>\
         <path class=\"{head}\" d=\"M{:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}Z\"/>\n",
        start.0,
        start.1,
        middle.0,
        middle.1,
        end.0,
        end.1,
        tip.0,
        tip.1,
        end.0 + across_x,
        end.1 + across_y,
        end.0 - across_x,
        end.1 - across_y,
    )
}

fn circle_of(rank: &RankReport, (x, y): (f64, f64), angle: f64) -> String {
    let (class, what) = state(rank);
    let side = match angle.cos() {
        ..-0.2 => "end",
        -0.2..0.2 => "middle",
        _ => "start",
    };
    let out = RADIUS + 8.0;
    let (label_x, label_y) = (x + out * angle.cos(), y + (out + 4.0) * angle.sin() + 4.0);
    format!(
        "<circle class=\"rank {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{RADIUS}\"><title>rank {} on {}, \
         process {}: {what}</title></circle>\
         <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
         <text class=\"soft\" font-size=\"11\" x=\"{label_x:.1}\" y=\"{label_y:.1}\" text-anchor=\"{side}\">{}</text>\n",
        rank.rank,
        escaped(&rank.host),
        rank.process,
        y + 4.5,
        rank.rank,
        what,
    )
}

/// Returns the CSS class of a rank, and a short description of its activity.
fn state(rank: &RankReport) -> (&'static str, String) {
    let is_stopped = rank.state.as_ref().is_some_and(|state| state.starts_with("stopped"));
    match (&rank.stage, &rank.answer) {
        (Stage::Ended(_), _) => ("ended", "ended".to_owned()),
        (Stage::Finalized, _) => ("ended", "MPI_Finalize".to_owned()),
        _ if is_stopped => ("silent", "stopped".to_owned()),
        (Stage::BeforeInit, None) => ("works", "before MPI_Init".to_owned()),
        (_, None) => ("silent", "no answer".to_owned()),
        (_, Some(answer)) => match (&answer.calls[..], answer.outside) {
            ([call, ..], _) => {
                let tag = match &call.awaits {
                    Awaited::Message(wait) | Awaited::Taken(wait) => {
                        format!(", {}", words::tag(wait))
                    }
                    _ => String::new(),
                };
                ("waits", escaped(&format!("{}{tag}", words::function(call))))
            }
            ([], Some(Outside::Computes(_))) => ("works", "outside of MPI".to_owned()),
            ([], _) => ("works", "does not wait".to_owned()),
        },
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CommunicatorName, MessageWait, RankAnswer, WaitingCall};

    fn rank(rank: u32, awaits: Option<u32>) -> RankReport {
        let communicator = CommunicatorName { id: 1, name: "a<b".into(), size: 3 };
        let call = |peer| WaitingCall {
            function: Some("MPI_Recv".into()),
            caller: None,
            seconds: 3.0,
            awaits: Awaited::Message(MessageWait {
                communicator: communicator.clone(),
                peer: Some(peer),
                peers: vec![peer],
                tag: Some(7),
                bytes: None,
            }),
        };
        let calls = awaits.map(call).into_iter().collect();
        let (host, stage) = ("n1".to_owned(), Stage::Inside);
        let answer = Some(RankAnswer { calls, ..RankAnswer::default() });
        RankReport { rank, host, process: 9, stage, state: None, system_call: None, answer }
    }

    fn job(ranks: Vec<RankReport>) -> JobReport {
        let causes = vec!["ranks <0> and 1 wait ".repeat(8)];
        JobReport {
            job: 5,
            name: String::new(),
            program: "a&b".into(),
            seconds: 3.0,
            causes,
            ranks,
            spawned: Vec::new(),
        }
    }

    #[test]
    fn each_wait_is_an_arrow_and_those_of_a_cycle_stand_out() {
        let text = picture(&job(vec![
            rank(0, Some(1)),
            rank(1, Some(0)),
            rank(2, Some(0)),
            rank(3, None),
        ]));
        assert_eq!(text.matches("class=\"arrow cycle\"").count(), 2);
        assert_eq!(text.matches("class=\"arrow\"").count(), 1);
        assert_eq!(text.matches("<title>").count(), 4);
        assert!(text.contains("a&amp;b") && text.contains("&lt;0&gt;") && !text.contains("<0>"));
        assert!(text.contains("MPI_Recv, tag 7"));
    }

    #[test]
    fn of_many_ranks_those_that_wait_are_shown() {
        let ranks = (0..200).map(|number| rank(number, (number == 150).then_some(199)));
        let text = picture(&job(ranks.collect()));
        assert!(text.contains("2 of 200 ranks are shown"), "{text}");
        assert!(
            picture(&job((0..100).map(|number| rank(number, None)).collect()))
                .contains("64 of 100")
        );
        assert!(picture(&job(Vec::new())).ends_with("</svg>\n"));
    }
}
