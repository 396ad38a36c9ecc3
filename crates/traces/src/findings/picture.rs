//! The timeline of all ranks as a picture: when each one computed, communicated and waited, and the
//! critical path.

use std::fmt::Write;

use super::critical_path::{Activities, PathStep};
use super::{RankSummary, seconds};
use crate::alignment::AlignedTrace;

/// The width of the timeline, in points and in columns of equal time.
const COLUMNS: usize = 1000;

/// The height of a rank.
const ROW: usize = 22;

/// The maximum number of ranks in the picture: the first ones.
const RANKS_MAX: usize = 256;

/// The shares in a column are drawn in so many steps, so that equal neighbours become one shape.
const STEPS: u64 = 8;

const LEFT: usize = 80;
const TOP: usize = 64;
const BOTTOM: usize = 40;

const STYLE: &str = "\
svg{color-scheme:light dark;background:#fff}text{fill:#1b1f24}.soft{fill:#667}\
.computing{fill:#3a7d44}.communicating{fill:#2f6db5}.waiting{fill:#d9822b}\
.path{stroke:#1b1f24;fill:none;stroke-width:1}.axis{stroke:#889}\
@media(prefers-color-scheme:dark){svg{background:#14171b}text{fill:#e4e7eb}.soft{fill:#9aa3ad}\
.computing{fill:#5fb06c}.communicating{fill:#6aa5e8}.waiting{fill:#e8a25a}.path{stroke:#e4e7eb}}";

/// The CSS classes of what ranks do, in the order from the bottom of a row to its top.
const KINDS: [&str; 3] = ["computing", "communicating", "waiting"];

/// How the time of a column is divided among [`KINDS`], in nanoseconds.
type Column = [u64; 3];

/// Returns the picture, an SVG in light or dark colours, according to the reader's settings.
pub(super) fn svg(
    traces: &[AlignedTrace],
    summaries: &[RankSummary],
    path: &[PathStep],
    (begun, ended): (u64, u64),
) -> String {
    let shown = traces.len().min(RANKS_MAX);
    let (width, height) = (LEFT + COLUMNS + 40, TOP + shown * ROW + BOTTOM);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <style>{STYLE}</style>\n"
    );
    legend(&mut text, shown, traces.len());
    for (row, (trace, summary)) in traces.iter().zip(summaries).take(shown).enumerate() {
        let top = TOP + row * ROW;
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">rank {}</text>",
            LEFT - 8,
            top + ROW - 7,
            trace.rank
        );
        draw(&mut text, &columns(trace, summary, (begun, ended)), top);
    }
    axis(&mut text, ended - begun, TOP + shown * ROW);
    path_line(&mut text, path, shown, (begun, ended));
    text + "</svg>\n"
}

fn legend(text: &mut String, shown: usize, all: usize) {
    let mut x = LEFT;
    for kind in KINDS {
        let _ =
            write!(text, "<rect class=\"{kind}\" x=\"{x}\" y=\"18\" width=\"12\" height=\"12\"/>");
        let _ = writeln!(text, "<text x=\"{}\" y=\"29\">{kind}</text>", x + 18);
        x += 150;
    }
    let _ = write!(text, "<path class=\"path\" d=\"M{x} 24h20\"/>");
    let _ = writeln!(text, "<text x=\"{}\" y=\"29\">critical path</text>", x + 28);
    if shown < all {
        let _ = writeln!(
            text,
            "<text class=\"soft\" x=\"{LEFT}\" y=\"50\">the first {shown} of {all} ranks</text>"
        );
    }
}

/// Draws a row: runs of columns that look alike are one shape for each kind.
fn draw(text: &mut String, columns: &[Column], top: usize) {
    let quantized: Vec<Column> = columns.iter().map(|column| in_steps(*column)).collect();
    let mut x = 0;
    for run in quantized.chunk_by(|one, other| one == other) {
        let mut bottom = top + ROW - 2;
        let height = |steps: u64| steps as usize * (ROW - 4) / STEPS as usize;
        for (kind, steps) in KINDS.iter().zip(run[0]).filter(|(_, steps)| *steps > 0) {
            let height = height(steps);
            let (left, width) = (LEFT + x, run.len());
            bottom -= height;
            let _ = writeln!(
                text,
                "<rect class=\"{kind}\" x=\"{left}\" y=\"{bottom}\" width=\"{width}\" \
                 height=\"{height}\"/>"
            );
        }
        x += run.len();
    }
}

/// Rounds the shares to steps, of which a column has [`STEPS`].
fn in_steps(column: Column) -> Column {
    let all: u128 = column.iter().map(|ns| u128::from(*ns)).sum();
    if all == 0 {
        return [0; 3];
    }
    let [_, communicating, waiting] =
        column.map(|ns| ((u128::from(ns) * u128::from(STEPS) + all / 2) / all) as u64);
    let waiting = waiting.min(STEPS);
    let communicating = communicating.min(STEPS - waiting);
    [STEPS - waiting - communicating, communicating, waiting]
}

/// Divides the time of a rank into columns.
fn columns(trace: &AlignedTrace, summary: &RankSummary, (begun, ended): (u64, u64)) -> Vec<Column> {
    let mut columns = vec![Column::default(); COLUMNS];
    let mut add = |kind: usize, start: u64, end: u64| {
        spread((begun, ended), (start, end), |column, ns| {
            let sum = &mut columns[column][kind];
            *sum = sum.saturating_add(ns);
        });
    };
    let mut outside_since = begun;
    for (start, end, _) in Activities::of(trace).calls {
        add(0, outside_since, start);
        add(1, start, end.min(ended));
        outside_since = end.min(ended);
    }
    add(0, outside_since, ended);
    for wait in &summary.waits {
        add(2, wait.begun, wait.ended);
    }
    // Waits are inside calls.
    for [_, communicating, waiting] in &mut columns {
        *communicating = communicating.saturating_sub(*waiting);
    }
    columns
}

/// Divides a part of the whole time among the columns.
fn spread((begun, ended): (u64, u64), (start, end): (u64, u64), mut add: impl FnMut(usize, u64)) {
    let (start, end) = (start.clamp(begun, ended), end.clamp(begun, ended));
    let whole = u128::from(ended - begun).max(1);
    let border = |column: usize| begun + (whole * column as u128 / COLUMNS as u128) as u64;
    let first = (u128::from(start - begun) * COLUMNS as u128 / whole) as usize;
    for column in first..COLUMNS {
        let (left, right) = (border(column), border(column + 1));
        if left >= end {
            break;
        }
        add(column, right.min(end).saturating_sub(left.max(start)));
    }
}

fn axis(text: &mut String, lasted: u64, top: usize) {
    let (y, label) = (top + 4, top + 22);
    let _ = writeln!(text, "<path class=\"axis\" d=\"M{LEFT} {y}h{COLUMNS}\"/>");
    for tenth in (0..=10).step_by(2) {
        let x = LEFT + COLUMNS * tenth / 10;
        let at = seconds(lasted) * tenth as f64 / 10.0;
        let _ = writeln!(
            text,
            "<text class=\"soft\" x=\"{x}\" y=\"{label}\" text-anchor=\"middle\">{}</text>",
            super::page::time(at)
        );
    }
}

/// Draws the critical path as one line from row to row.
fn path_line(text: &mut String, path: &[PathStep], shown: usize, (begun, ended): (u64, u64)) {
    let whole = (ended - begun).max(1) as f64;
    let x = |time: u64| LEFT as f64 + time.saturating_sub(begun) as f64 / whole * COLUMNS as f64;
    let mut line = String::new();
    for step in path.iter().rev().filter(|step| step.index < shown) {
        let y = TOP + step.index * ROW + ROW / 2;
        let command = if line.is_empty() { 'M' } else { 'L' };
        let _ = write!(line, "{command}{:.1} {y}H{:.1}", x(step.begun), x(step.ended));
    }
    if !line.is_empty() {
        let _ = writeln!(text, "<path class=\"path\" d=\"{line}\"/>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_divided_among_columns_without_loss() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..1000 {
            let begun = random.u64(0..1000);
            let ended = begun + random.u64(0..100_000);
            let start = random.u64(begun..=ended);
            let end = random.u64(start..=ended);
            let mut total = 0;
            spread((begun, ended), (start, end), |_, ns| total += ns);
            assert_eq!(total, end - start, "{begun} {ended} {start} {end}");
        }
    }

    #[test]
    fn a_column_is_filled() {
        let mut random = fastrand::Rng::with_seed(2);
        for _ in 0..1000 {
            let column = [0, 0, 0].map(|_: u64| random.u64(0..1000));
            let steps = in_steps(column);
            let expected = if column == [0; 3] { 0 } else { STEPS };
            assert_eq!(steps.iter().sum::<u64>(), expected, "{column:?}");
        }
    }
}
