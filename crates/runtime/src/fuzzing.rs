//! The fuzz targets of the runtime.

use std::path::Path;

use collectives::{InputPlace, Member, Operands, Situation};
use engine::model::RailModel;

use crate::configuration::Configuration;
use crate::guidance::{self, JobSettings};
use crate::samples::Samples;

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

/// Parses any bytes as a file of samples. The result must be figures that can be used, or a
/// sentence that says what is wrong.
pub fn samples(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let samples = match Samples::parse(&text, Path::new("samples.json")) {
        Ok(samples) => samples,
        Err(sentence) => return assert!(!sentence.is_empty()),
    };
    let costs = samples.collective_costs();
    for figures in samples.rails.into_values() {
        let mut model = RailModel::from_figures(figures.seen_from(21, 0.5));
        for bytes in [0, 1 << 10, 1 << 30] {
            model.note(bytes, model.transfer_ns(bytes) + model.latency_ns());
            assert!(model.bytes_per_us() > 0);
        }
    }
    let situation = Situation { costs, ..Situation::plain(6) };
    let member = Member { rank: 1, size: 6, situation: &situation };
    let operands = Operands { count: 1 << 20, element_bytes: 8, commutative: true };
    collectives::allreduce(member, operands, InputPlace::InPlace);
    if let Some(memory) = samples.memory {
        for distance in &memory.table.distances {
            for curve in distance.curves.values().chain([&memory.table.copy]) {
                let known = [1, 1 << 20, u64::MAX].map(|bytes| curve.at(bytes));
                assert!(known.into_iter().flatten().all(|ns| ns.is_finite() && ns >= 0.0));
            }
        }
    }
}

/// Parses any bytes as the environment, one variable per line, and as the settings that process 0
/// publishes. Each complaint must be a sentence.
pub fn variables(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let (configuration, warnings) = Configuration::from_variables(
        pairs.clone().map(|(name, value)| (name.into(), value.into())),
    );
    assert!(warnings.iter().all(|sentence| !sentence.is_empty()));
    assert!(!configuration.strategy().is_empty());
    for (_, value) in pairs {
        let (_, warnings) = guidance::preferences(value);
        assert!(warnings.iter().all(|sentence| !sentence.is_empty()));
        let _ = driver::NetworkSelection::parse(value);
        let _ = topology::parts_from_text(value);
        let _ = base::variables::host_timeout(value);
        if let Some(settings) = JobSettings::from_text(value) {
            assert!(JobSettings::from_text(&settings.to_text()).is_some());
        }
    }
}

#[cfg(test)]
#[test]
fn the_corpora_are_read() {
    replay::replay("samples", samples);
    replay::replay("variables", variables);
}
