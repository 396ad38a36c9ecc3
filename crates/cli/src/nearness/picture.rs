//! What was found, as a picture: for each subject a field of squares, by the nodes of the process
//! and of the memory, and bars of near and far.

use std::fmt::Write;

use super::Nearness;
use super::analysis::NodeMatrix;
use super::report::{number, sentence};
use crate::raster::escaped;

const WIDTH: f64 = 760.0;
const MARGIN: f64 = 24.0;
/// The side of a square.
const SQUARE: f64 = 44.0;
/// The place of the bars.
const BARS: f64 = 420.0;
const BAR_WIDTH: f64 = 240.0;

/// Returns the picture.
pub fn svg(found: &Nearness) -> String {
    let mut content = String::new();
    let mut top = MARGIN;
    _ = writeln!(
        content,
        "<text x=\"{MARGIN}\" y=\"{top}\" font-size=\"15\">{}: near and far</text>",
        escaped(&found.host)
    );
    top += 20.0;
    let memory = found.memory.iter().map(|matrix| ("memory".to_owned(), matrix));
    let rails = found.rails.iter().flat_map(|rail| {
        let place = rail.node.map_or_else(String::new, |node| format!(" (node {node})"));
        rail.measured.iter().map(move |matrix| (format!("{}{place}", rail.name), matrix))
    });
    for (group, matrix) in memory.chain(rails) {
        content += &field(&group, matrix, &mut top);
    }
    let height = top + MARGIN;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{content}</svg>\n"
    )
}

/// Draws a matrix below `top`, which moves to its end.
fn field(group: &str, matrix: &NodeMatrix, top: &mut f64) -> String {
    let Some(spread) = matrix.spread() else { return String::new() };
    let mut text = String::new();
    *top += 16.0;
    let (near, far) = (spread.levels[0], spread.far);
    _ = writeln!(
        text,
        "<text x=\"{MARGIN}\" y=\"{top}\">{}: {}, {}: {}</text>",
        escaped(group),
        matrix.subject,
        matrix.unit,
        sentence(matrix, &spread)
    );
    *top += 8.0;
    for (row, (process, values)) in matrix.processes.iter().zip(&matrix.values).enumerate() {
        let y = *top + SQUARE * row as f64;
        _ = writeln!(
            text,
            "<text x=\"{MARGIN}\" y=\"{:.0}\" fill=\"#555\">node {process}</text>",
            y + SQUARE / 2.0 + 4.0
        );
        for (column, value) in values.iter().enumerate() {
            let Some(value) = value else { continue };
            let x = MARGIN + 60.0 + SQUARE * column as f64;
            let share = match (far - near).abs() > 0.0 && !spread.is_uniform() {
                true => ((value - near) / (far - near)).clamp(0.0, 1.0),
                false => 0.0,
            };
            _ = writeln!(
                text,
                "<rect x=\"{x:.0}\" y=\"{y:.0}\" width=\"{:.0}\" height=\"{:.0}\" fill=\"{}\"/>\
                 <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
                SQUARE - 2.0,
                SQUARE - 2.0,
                color(share),
                x + SQUARE / 2.0,
                y + SQUARE / 2.0 + 4.0,
                number(*value)
            );
        }
    }
    let most = spread.levels.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    for (level, value) in spread.levels.iter().enumerate() {
        let y = *top + 14.0 * level as f64;
        let share = match spread.levels.len() {
            1 => 0.0,
            count => level as f64 / (count - 1) as f64,
        };
        let width = BAR_WIDTH * value / most;
        _ = writeln!(
            text,
            "<rect x=\"{BARS}\" y=\"{y:.0}\" width=\"{width:.0}\" height=\"11\" fill=\"{}\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\">{}</text>",
            color(share),
            BARS + width + 6.0,
            y + 10.0,
            number(*value)
        );
    }
    let bars = 14.0 * spread.levels.len() as f64;
    *top += (SQUARE * matrix.processes.len() as f64).max(bars) + 10.0;
    text
}

/// From green, near, to red, far.
fn color(share: f64) -> String {
    let mix = |from: f64, to: f64| (from + share * (to - from)).round() as u32;
    format!("#{:02x}{:02x}{:02x}", mix(168.0, 240.0), mix(216.0, 150.0), mix(176.0, 130.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_its_square_and_every_level_its_bar() {
        let mut matrix = NodeMatrix::new(("read", "GB/s"), false, (&[0, 1], &[0, 1]));
        matrix.values = vec![vec![Some(12.0), Some(6.0)], vec![Some(6.0), None]];
        let found = Nearness {
            host: "a<b".into(),
            nodes: vec![0, 1],
            distances: vec![vec![10, 20], vec![20, 10]],
            memory: vec![matrix],
            rails: Vec::new(),
            decisions: Vec::new(),
        };
        let drawn = svg(&found);
        assert!(drawn.contains("a&lt;b: near and far"), "{drawn}");
        assert_eq!(drawn.matches("<rect x=").count(), 3 + 2, "{drawn}");
        assert!(drawn.contains(&color(0.0)) && drawn.contains(&color(1.0)), "{drawn}");
    }
}
