//! Messages inside this machine by each way of the transport: predicted, and measured with the
//! installed benchmark program.

use std::env;
use std::process::Command;

use base::variables;
use memory_costs::{CostTable, SentBytes};
use runtime::LocalWay;

use crate::prefix;

use super::pair::with_pair;
use super::sampling::median;

/// A message of one length by one way.
pub struct WayCase {
    pub way: LocalWay,
    pub bytes: u64,
    /// The one-way time, in nanoseconds.
    pub predicted_ns: f64,
    pub measured_ns: f64,
}

/// The message lengths, in bytes.
const SIZES: [u64; 14] = [
    64,
    256,
    1 << 10,
    2 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    4 << 20,
];

/// Sends messages of all lengths by all ways between these two cores.
///
/// # Errors
/// The benchmark program is not installed or fails, or the table lacks figures.
pub fn cases(cores: [usize; 2], table: &CostTable) -> Result<Vec<WayCase>, String> {
    let mut ways: Vec<LocalWay> = Vec::new();
    for way in SIZES.iter().flat_map(|bytes| LocalWay::all_of(*bytes)) {
        if !ways.contains(&way) {
            ways.push(way);
        }
    }
    let mut cases = Vec::new();
    for way in ways {
        let sizes: Vec<u64> =
            SIZES.into_iter().filter(|bytes| LocalWay::all_of(*bytes).contains(&way)).collect();
        let before = crossing_ns(cores)?;
        let measured = measure(way, &sizes)?;
        let crossing_ns = (before * crossing_ns(cores)?).sqrt();
        for (bytes, measured_ns) in sizes.into_iter().zip(measured) {
            // The benchmark sends one buffer again and again.
            let message = way.message(bytes, SentBytes::Again);
            let predicted = message.predict(table, crossing_ns);
            let predicted_ns = predicted.ok_or("the table has no measurements: sample again")?;
            cases.push(WayCase { way, bytes, predicted_ns, measured_ns });
        }
    }
    cases.sort_by_key(|case| case.bytes);
    Ok(cases)
}

fn crossing_ns(cores: [usize; 2]) -> Result<f64, String> {
    with_pair(cores, |pair| {
        let times: Result<Vec<f64>, String> = (0..9).map(|_| pair.crossing_ns()).collect();
        times.map(median)
    })
}

/// The median one-way times of messages, in nanoseconds.
fn measure(way: LocalWay, sizes: &[u64]) -> Result<Vec<f64>, String> {
    let own = env::current_exe().map_err(|cause| format!("this program is not known: {cause}"))?;
    let program = prefix::find()?.join("lib/combray/combray-bench");
    let list: Vec<String> = sizes.iter().map(u64::to_string).collect();
    let mut command = Command::new(own);
    command.args(["run", "-n", "2", "--"]).arg(program);
    command.args(["--pin", "--csv", "--sizes", &list.join(","), "pingpong"]);
    let ran = command.env(variables::COPYING, way.name()).output();
    let ran = ran.map_err(|cause| format!("the benchmark program cannot be run: {cause}"))?;
    let reported = String::from_utf8_lossy(&ran.stdout);
    let times: Vec<f64> = reported.lines().filter_map(median_ns).collect();
    match ran.status.success() && times.len() == sizes.len() {
        true => Ok(times),
        false => Err(format!(
            "the benchmark program printed no results: {}",
            String::from_utf8_lossy(&ran.stderr).trim()
        )),
    }
}

/// The median in a line of results.
fn median_ns(line: &str) -> Option<f64> {
    let fields: Vec<&str> = line.split(',').collect();
    let median_us: f64 = fields.get(9)?.parse().ok()?;
    (fields[0] == "pingpong").then_some(median_us * 1000.0)
}

impl WayCase {
    /// The relative error of the prediction.
    pub fn error(&self) -> f64 {
        (self.predicted_ns / self.measured_ns - 1.0).abs()
    }
}

/// The number of pairs of ways, for messages of equal length, whose measured times differ by more
/// than a tenth, and the number of these pairs whose order was predicted correctly.
pub fn ranked(cases: &[WayCase]) -> (usize, usize) {
    let (mut apart, mut right) = (0, 0);
    for (place, one) in cases.iter().enumerate() {
        for other in cases[place + 1..].iter().filter(|other| other.bytes == one.bytes) {
            let ratio = one.measured_ns / other.measured_ns;
            if (1.0 / 1.1..1.1).contains(&ratio) {
                continue;
            }
            apart += 1;
            right += usize::from((one.predicted_ns < other.predicted_ns) == (ratio < 1.0));
        }
    }
    (apart, right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_in_lines() {
        let line = "pingpong,\"\",2,65536,,,400,30,3.500000,3.750000,18724.571,,";
        assert_eq!(median_ns(line), Some(3750.0));
        for other in ["# Combray", "benchmark,variant,processes,bytes", "rate,,2,8,,,1,1,1.0,2.0"] {
            assert_eq!(median_ns(other), None, "{other}");
        }
    }

    #[test]
    fn only_ways_that_differ_are_ranked() {
        let case = |index: usize, predicted_ns, measured_ns| {
            let bytes = 1 << 20;
            let way = LocalWay::all_of(bytes)[index];
            WayCase { way, bytes, predicted_ns, measured_ns }
        };
        let cases = [case(0, 100.0, 100.0), case(1, 90.0, 105.0), case(2, 95.0, 200.0)];
        // The first two are alike. The third is slower than both; one of these differences was
        // predicted.
        assert_eq!(ranked(&cases), (2, 1));
        assert!((cases[2].error() - 0.525).abs() < 1e-9);
    }
}
