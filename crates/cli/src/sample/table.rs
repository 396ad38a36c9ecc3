//! The display of the figures: a table, and a plot.

use std::collections::BTreeMap;
use std::fmt::Write;

use engine::model::RailFigures;

const CLASSES: [&str; 5] = ["1 KiB", "8 KiB", "64 KiB", "512 KiB", "more"];

/// The longest bar of the plot, in characters.
const BAR: f64 = 50.0;

/// The figures of a host's rails.
pub fn table(host: &str, rails: &BTreeMap<String, RailFigures>) -> String {
    let mut text = format!("\n{host}\n{:16}{:>12}{:>12}", "rail", "packet", "latency");
    for class in CLASSES {
        _ = write!(text, "{class:>9}");
    }
    text += "   (MB/s by size)\n";
    for (name, figures) in rails {
        let (packet, latency) = (us(figures.packet_ns), us(figures.latency_ns));
        _ = write!(text, "{name:16}{packet:>9.2} us{latency:>9.2} us");
        for rate in figures.bytes_per_us {
            _ = write!(text, "{rate:>9}");
        }
        text.push('\n');
    }
    if let Some(figures) = rails.values().next() {
        _ = writeln!(text, "copying memory: {} MB/s", figures.copied_bytes_per_us);
    }
    text.push('\n');
    let rates = rails.values().flat_map(|figures| figures.bytes_per_us);
    let most = rates.max().unwrap_or(1).max(1) as f64;
    for (name, figures) in rails {
        for (class, rate) in CLASSES.iter().zip(figures.bytes_per_us) {
            let length = (rate as f64 / most * BAR).ceil().max(1.0) as usize;
            _ = writeln!(
                text,
                "{name:16}{class:>8} |{:bar$} {rate}",
                "#".repeat(length),
                bar = BAR as usize
            );
        }
    }
    text
}

fn us(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rail_has_its_line_and_its_bars() {
        let figures = |rate| RailFigures {
            packet_ns: 2500,
            latency_ns: 9000,
            gap_ns: 0,
            bytes_per_us: [rate; 5],
            copied_bytes_per_us: 7000,
        };
        let rails = [("tcp:eth0".to_owned(), figures(118)), ("tcp:eth1".to_owned(), figures(59))];
        let text = table("one", &rails.into());
        assert!(text.contains("tcp:eth0             2.50 us     9.00 us      118"), "{text}");
        let bars: Vec<_> = text.lines().map(|line| line.matches('#').count()).collect();
        assert_eq!(bars.iter().filter(|bar| **bar == 50).count(), 5, "{text}");
        assert_eq!(bars.iter().filter(|bar| **bar == 25).count(), 5, "{text}");
    }
}
