//! Formats figures for display.

use crate::{CallSummary, WaitCause};

/// Formats a time.
pub(crate) fn seconds(time: f64) -> String {
    let time = unsigned(time);
    match time {
        ..0.000_999_5 => format!("{:.0} µs", time * 1e6),
        0.000_999_5..0.999_5 => format!("{:.0} ms", time * 1e3),
        0.999_5..9.995 => format!("{time:.2} s"),
        9.995..999.5 => format!("{time:.0} s"),
        999.5..36_000.0 => format!("{:.0} min", time / 60.0),
        _ => format!("{:.1} h", time / 3600.0),
    }
}

/// Formats a time with three digits.
pub(crate) fn fine_seconds(time: f64) -> String {
    let time = unsigned(time);
    let (number, unit) = match time {
        ..0.999_5e-6 => (time * 1e9, "ns"),
        0.999_5e-6..0.999_5e-3 => (time * 1e6, "µs"),
        0.999_5e-3..0.999_5 => (time * 1e3, "ms"),
        _ => (time, "s"),
    };
    let places = match number {
        ..9.995 => 2,
        9.995..99.95 => 1,
        _ => 0,
    };
    format!("{number:.places$} {unit}")
}

/// Returns zero for a negative zero, which is the sum of no numbers, and others as they are.
fn unsigned(number: f64) -> f64 {
    number + 0.0
}

/// Formats a share of a whole, in percent.
pub(crate) fn percent(part: f64, whole: f64) -> String {
    match whole > 0.0 {
        true => format!("{:.0} %", 100.0 * unsigned(part) / whole),
        false => "0 %".to_owned(),
    }
}

/// Formats a number of bytes.
pub(crate) fn bytes(count: u64) -> String {
    match count {
        1 => "1 byte".to_owned(),
        0..=9999 => format!("{count} bytes"),
        10_000..=10_485_759 => format!("{} KiB", count >> 10),
        10_485_760..=10_737_418_239 => format!("{} MiB", count >> 20),
        _ => format!("{} GiB", count >> 30),
    }
}

/// A count, with spaces between groups of three digits.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Formats a function and its caller.
pub(crate) fn place(function: &str, caller: Option<&str>) -> String {
    match caller {
        Some(caller) => format!("{function} in {caller}"),
        None => function.to_owned(),
    }
}

/// Returns what the awaited rank does.
pub(crate) fn cause(cause: WaitCause) -> &'static str {
    match cause {
        WaitCause::LateSender => "sends late",
        WaitCause::LateReceiver => "receives late",
        WaitCause::Members => "comes late",
        WaitCause::Window => "answers late",
        WaitCause::Other => "other",
    }
}

/// Formats ranks by their numbers.
pub(crate) fn ranks(list: &[u32]) -> String {
    base::name_ranks(list, NAMED_MAX)
}

/// The maximum number of ranks that are named individually.
const NAMED_MAX: usize = 6;

/// The header of the table of calls.
pub(crate) const CALL_HEADER: [&str; 7] =
    ["time", "share", "waiting", "calls", "messages", "bytes", "call"];

impl CallSummary {
    /// Returns a row of the table of calls; `total` is the time of all ranks, in seconds.
    pub(crate) fn cells(&self, total: f64) -> [String; 7] {
        [
            seconds(self.seconds),
            percent(self.seconds, total),
            seconds(self.waiting),
            count(self.calls),
            count(self.messages),
            bytes(self.bytes),
            place(&self.function, self.caller.as_deref()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_no_times_has_no_sign() {
        let none = std::iter::empty::<f64>().sum::<f64>();
        assert_eq!(
            [seconds(none), fine_seconds(none), percent(none, 1.0)],
            ["0 µs", "0.00 ns", "0 %"]
        );
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([12e-6, 0.0123, 1.0, 123.4].map(seconds), ["12 µs", "12 ms", "1.00 s", "123 s"]);
        assert_eq!([7, 1234, 1_234_567].map(count), ["7", "1 234", "1 234 567"]);
        assert_eq!([1, 900, 20_480].map(bytes), ["1 byte", "900 bytes", "20 KiB"]);
        let times = [1.5e-7, 12e-6, 0.0123, 1.0, 123.4].map(fine_seconds);
        assert_eq!(times, ["150 ns", "12.0 µs", "12.3 ms", "1.00 s", "123 s"]);
        assert_eq!(percent(1.0, 3.0), "33 %");
        assert_eq!(ranks(&[1, 2, 3]), "ranks 1, 2 and 3");
    }
}
