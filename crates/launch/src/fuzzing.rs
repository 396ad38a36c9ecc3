//! The fuzz targets of launchers' answers and variables.

use crate::{environment, mapping, pmi2, reason};

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

/// Reads a launcher's answers: words of PMI-2, and the mapping of processes to machines.
pub fn answers(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for key in pmi2::split(&text).keys() {
        assert!(!key.contains('='));
    }
    const SIZE: u32 = 20;
    if let Ok(Some(machines)) = mapping::machines(Some(text.into_owned()), SIZE) {
        assert_eq!(machines.len(), SIZE as usize);
    }
}

/// Reads launchers' variables, one in each line, and the reason for which a process ends its job.
pub fn launch_environment(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let found = environment::find(|name| {
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        pairs.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
    });
    if let Err(error) = found {
        assert!(!error.to_string().is_empty());
    }
    let shown = reason::decode(&text);
    assert!(shown.chars().all(|letter| letter == '\n' || !letter.is_control()));
    assert_eq!(reason::decode(&reason::encode(&shown)).is_empty(), shown.is_empty());
}

#[cfg(test)]
#[test]
fn the_corpora_are_read() {
    replay::replay("pmi_answers", answers);
    replay::replay("launch_environment", launch_environment);
}
