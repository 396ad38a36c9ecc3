//! A picture of a table: bandwidth by block size, with one line for each condition.

use std::fmt::Write;

use memory_costs::{AccessCondition, CostTable, Distance, LineState, MemoryOperation, Met};

use super::size;
use crate::raster::escaped;

/// The area of the diagram of one distance, and of its legend, in points.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 380.0;
const MARGIN: f64 = 60.0;
const LEGEND: f64 = 230.0;

/// The axes: sizes in bytes and bandwidths in GB/s, as powers of two.
const SIZES: (u32, u32) = (10, 24);
const RATES: (u32, u32) = (1, 8);

/// Draws the table, with one diagram for each distance.
pub fn svg(title: &str, table: &CostTable) -> String {
    let field_height = HEIGHT + 2.0 * MARGIN;
    let (width, height) =
        (WIDTH + MARGIN + LEGEND, field_height * table.distances.len().max(1) as f64);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (number, distance) in (0_u32..).zip(&table.distances) {
        let top = MARGIN + f64::from(number) * field_height;
        _ = writeln!(
            text,
            "<text x=\"{MARGIN}\" y=\"{}\" font-size=\"14\">{}: a line crosses in {:.0} ns</text>",
            top - 12.0,
            escaped(title),
            distance.crossing_ns
        );
        text += &field(distance, top);
    }
    text + "</svg>\n"
}

fn field(distance: &Distance, top: f64) -> String {
    let x = |bytes: f64| {
        let part = (bytes.log2() - f64::from(SIZES.0)) / f64::from(SIZES.1 - SIZES.0);
        MARGIN + part.clamp(0.0, 1.0) * WIDTH
    };
    let y = |rate: f64| {
        let part = (rate.log2() - f64::from(RATES.0)) / f64::from(RATES.1 - RATES.0);
        top + HEIGHT - part.clamp(0.0, 1.0) * HEIGHT
    };
    let mut text = String::new();
    for exponent in (SIZES.0..=SIZES.1).step_by(2) {
        let (at, bottom) = (x(f64::from(1 << exponent)), top + HEIGHT);
        _ = writeln!(
            text,
            "<path d=\"M{at:.1} {top:.1}V{bottom:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            size(1 << exponent)
        );
    }
    for exponent in RATES.0..=RATES.1 {
        let at = y(f64::from(1 << exponent));
        _ = writeln!(
            text,
            "<path d=\"M{MARGIN} {at:.1}h{WIDTH}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{} GB/s</text>",
            MARGIN - 6.0,
            at + 4.0,
            1 << exponent
        );
    }
    for (line, (condition, curve)) in (0_u32..).zip(&distance.curves) {
        let style = style(condition);
        let points = curve
            .points()
            .iter()
            .map(|&(bytes, ns)| format!("{:.1},{:.1} ", x(bytes as f64), y(bytes as f64 / ns)));
        let (left, at) = (MARGIN + WIDTH + 12.0, top + 10.0 + 20.0 * f64::from(line));
        _ = writeln!(
            text,
            "<polyline fill=\"none\" stroke-width=\"1.5\" {style} points=\"{}\"/>\n\
             <path d=\"M{left} {at:.1}h24\" stroke-width=\"1.5\" {style}/>\
             <text x=\"{}\" y=\"{:.1}\">{condition}</text>",
            points.collect::<String>().trim_end(),
            left + 30.0,
            at + 4.0
        );
    }
    text
}

/// The color shows the state that an access finds, and the dashes show the operation.
fn style(condition: &AccessCondition) -> String {
    let color = match condition.met {
        Met::Own(LineState::Modified) => "#1b7837",
        Met::Own(LineState::Exclusive) => "#7fbf7b",
        Met::Own(LineState::Shared) => "#2166ac",
        Met::Other(LineState::Modified) => "#b2182b",
        Met::Other(LineState::Exclusive | LineState::Shared) => "#ef8a62",
        Met::Memory => "#444444",
    };
    let dashes = match condition.operation {
        MemoryOperation::Load => "none",
        MemoryOperation::Store => "6 3",
        MemoryOperation::StorePast => "2 2",
    };
    format!("stroke=\"{color}\" stroke-dasharray=\"{dashes}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    use memory_costs::{CONDITIONS, Curve};

    #[test]
    fn every_condition_has_its_line_inside_the_field() {
        let mut table = CostTable::default();
        let curve = Curve::new([(1 << 10, 10.0), (1 << 30, 1e6)]);
        let curves = CONDITIONS.map(|condition| (condition, curve.clone())).into();
        table.learn(Distance { crossing_ns: 50.0, curves, ..Distance::default() });
        let drawn = svg("one & <two>", &table);
        assert!(drawn.contains("one &amp; &lt;two&gt;: a line crosses in 50 ns"), "{drawn}");
        assert_eq!(drawn.matches("<polyline").count(), CONDITIONS.len());
        assert!(CONDITIONS.iter().all(|one| drawn.contains(&format!(">{one}</text>"))));
        // 1 KiB in 10 ns is 102 GB/s; 1 GiB is at the right edge.
        assert!(drawn.contains("points=\"60.0,"), "{drawn}");
        assert!(drawn.contains(" 620.0,60.0\""), "{drawn}");
    }
}
