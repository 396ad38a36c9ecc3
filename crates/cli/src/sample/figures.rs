//! Computes the figures of a rail from the results of benchmarks.

use engine::model::RailFigures;
use serde::Deserialize;

/// The benchmarks: name, sizes, window. They cover the sizes of all classes of the model.
pub const BENCHMARKS: [[&str; 3]; 3] =
    [["pingpong", "8", "1"], ["rate", "8,1K,8K", "64"], ["rate", "64K,512K,4M", "8"]];

/// A size of each of the model's classes, in bytes.
const SIZES: [u64; 5] = [1 << 10, 1 << 13, 1 << 16, 1 << 19, 1 << 22];

/// For messages up to this many bytes, the packet overhead hides the bandwidth of the rail.
const SHORT_BYTES_MAX: u64 = 1 << 13;

/// A line of results.
#[derive(Debug, Deserialize)]
pub struct ResultLine {
    benchmark: String,
    bytes: u64,
    /// The number of messages that are in flight at the same time.
    value: Option<u64>,
    /// The best batch: what the rail can do without the load of other processes.
    pub min_us: f64,
}

/// The output of benchmarks.
#[derive(Debug)]
pub struct Results {
    lines: Vec<ResultLine>,
}

impl Results {
    /// Parses the results among these lines, each one JSON object.
    pub fn of(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        Self { lines: lines.filter(|line: &ResultLine| line.min_us > 0.0).collect() }
    }

    /// The result of a benchmark with messages of this many bytes.
    ///
    /// # Errors
    /// The result is missing.
    pub fn line(&self, benchmark: &str, bytes: u64) -> Result<&ResultLine, String> {
        let mut lines = self.lines.iter();
        let found = lines.find(|line| line.benchmark == benchmark && line.bytes == bytes);
        found.ok_or_else(|| format!("there is no result of {benchmark} with {bytes} bytes"))
    }
}

/// Computes the figures of the rail with these results.
///
/// # Errors
/// The result is missing, or is no valid time; the message names it.
pub fn from_results(results: &Results, copied_bytes_per_us: u64) -> Result<RailFigures, String> {
    let one_way_us = results.line("pingpong", 8)?.min_us;
    // A window of messages, and an answer that costs two more one-way times.
    let each_us = |bytes: u64| -> Result<f64, String> {
        let line = results.line("rate", bytes)?;
        let messages = line.value.unwrap_or(1).max(1) as f64;
        Ok((line.min_us - 2.0 * one_way_us).max(line.min_us / 10.0) / messages)
    };
    // Both ends pay for the packet.
    let packet_us = each_us(8)?.min(one_way_us / 2.0);
    let mut rates = [0.0; SIZES.len()];
    for (rate, &bytes) in rates.iter_mut().zip(&SIZES).rev() {
        *rate = bytes as f64 / each_us(bytes)?;
    }
    let best = rates.iter().copied().fold(0.0, f64::max);
    for (rate, &bytes) in rates.iter_mut().zip(&SIZES) {
        // For several short messages, the time beyond the packet overhead is the time of the rail.
        if bytes <= SHORT_BYTES_MAX {
            let left_us = (bytes as f64 / *rate - packet_us).max(bytes as f64 / best);
            *rate = bytes as f64 / left_us;
        }
    }
    let figures = RailFigures {
        packet_ns: nanoseconds(packet_us),
        latency_ns: nanoseconds((one_way_us - 2.0 * packet_us).max(one_way_us / 4.0)),
        gap_ns: 0,
        bytes_per_us: rates.map(|rate| rate.max(1.0) as u64),
        copied_bytes_per_us,
    };
    match figures.are_plausible() {
        true => Ok(figures),
        false => Err(format!(
            "the measured figures are not plausible: {} ns for each packet, {} ns on the way, {} \
             bytes in a microsecond at most",
            figures.packet_ns,
            figures.latency_ns,
            figures.bytes_per_us.iter().max().unwrap_or(&0)
        )),
    }
}

pub fn nanoseconds(microseconds: f64) -> u64 {
    (microseconds * 1000.0).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of a rail with 10 us from end to end, of which a packet costs 2 us at each end,
    /// and with 100 bytes per microsecond.
    fn results() -> String {
        let mut text = "{\"record\":\"header\",\"program\":\"x\"}\nnoise\n".to_owned();
        let mut add = |benchmark: &str, bytes: u64, window: u64, us: f64| {
            text += &format!(
                "{{\"record\":\"result\",\"benchmark\":\"{benchmark}\",\"bytes\":{bytes},\
                 \"value\":{window},\"min_us\":{us}}}\n"
            );
        };
        add("pingpong", 8, 1, 10.0);
        for (bytes, window) in
            [(8, 64), (1024, 64), (8192, 64), (65_536, 8), (1 << 19, 8), (1 << 22, 8)]
        {
            let each = 2.0 + if bytes > 8 { bytes as f64 / 100.0 } else { 0.0 };
            add("rate", bytes, window, 20.0 + window as f64 * each);
        }
        text
    }

    #[test]
    fn figures_follow_from_results() {
        let figures = from_results(&Results::of(&results()), 7000).unwrap();
        assert_eq!((figures.packet_ns, figures.latency_ns), (2000, 6000));
        for rate in figures.bytes_per_us {
            assert!((98..=100).contains(&rate), "{figures:?}");
        }
        assert_eq!(figures.copied_bytes_per_us, 7000);
    }

    #[test]
    fn what_is_missing_is_named() {
        let cut = results().lines().take(6).collect::<Vec<_>>().join("\n");
        let what = from_results(&Results::of(&cut), 7000).unwrap_err();
        assert!(what.contains("rate with 4194304 bytes"), "{what}");
    }

    #[test]
    fn the_benchmarks_give_all_that_is_needed() {
        let sizes = BENCHMARKS.map(|[_, sizes, _]| sizes).join(",");
        for size in ["8", "1K", "8K", "64K", "512K", "4M"] {
            assert!(sizes.split(',').any(|given| given == size), "{size}");
        }
    }
}
