//! The settings that process 0 publishes, so that all processes act alike: how to execute
//! collective operations (costs of steps, and preferences of the user), whether messages are
//! recorded, and whether time is accounted for.

use base::variables;
use collectives::{Algorithm, AlgorithmPreferences, CollectiveOperation, Costs};
use sys::environment;

use crate::configuration::{self, distance};

/// The settings that all processes of a job follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobSettings {
    /// The costs of the steps of collective operations.
    pub costs: Costs,
    /// The algorithms that the user prefers.
    pub preferences: AlgorithmPreferences,
    /// Whether all processes record how much they send to each peer.
    pub records: bool,
    /// Whether all processes record where their time goes.
    pub profiles: bool,
    /// Whether all processes record when they did what.
    pub traces: bool,
}

impl JobSettings {
    /// Returns the settings of this process, from the costs of its machine and from the
    /// environment; and a sentence for each value that was not understood.
    pub fn of_environment(costs: Costs) -> (Self, Vec<String>) {
        let wanted = environment::text(variables::COLLECTIVES).unwrap_or_default();
        let (preferences, warnings) = preferences(&wanted);
        let records = configuration::record().is_some();
        let profiles = configuration::profile().is_some();
        let traces = configuration::trace().is_some();
        (Self { costs, preferences, records, profiles, traces }, warnings)
    }

    /// Returns the text that is published.
    pub(crate) fn to_text(self) -> String {
        let all = self.costs.numbers().into_iter().chain(self.preferences.numbers());
        let all = [self.records, self.profiles, self.traces].map(u64::from).into_iter().chain(all);
        all.map(|number| number.to_string()).collect::<Vec<_>>().join(":")
    }

    /// Returns the settings of a published text; none if it is malformed.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let numbers: Option<Vec<u64>> = text.split(':').map(|word| word.parse().ok()).collect();
        let numbers = numbers?;
        let (&[records, profiles, traces], numbers) = numbers.split_first_chunk()?;
        let (costs, wanted) = numbers.split_at_checked(Costs::default().numbers().len())?;
        let costs = Costs::from_numbers(costs)?;
        let preferences = AlgorithmPreferences::from_numbers(wanted)?;
        let [records, profiles, traces] = [records, profiles, traces].map(|number| number != 0);
        Some(Self { costs, preferences, records, profiles, traces })
    }
}

/// Returns the algorithms that a text like `allreduce:ring,bcast:binomial` names; and a sentence
/// for each word that was not understood and is ignored.
pub fn preferences(text: &str) -> (AlgorithmPreferences, Vec<String>) {
    let mut preferences = AlgorithmPreferences::default();
    let mut warnings = Vec::new();
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        if let Err(warning) = note(&mut preferences, word) {
            warnings.push(format!("{}: {warning}; ignored", variables::COLLECTIVES));
        }
    }
    (preferences, warnings)
}

fn note(preferences: &mut AlgorithmPreferences, word: &str) -> Result<(), String> {
    let (operation, algorithm) = word.split_once(':').ok_or_else(|| {
        format!("\"{word}\" does not have the form operation:algorithm, like bcast:binomial")
    })?;
    let known = CollectiveOperation::ALL.into_iter().find(|one| one.name() == operation);
    let known = known.ok_or_else(|| {
        let nearest = nearest(CollectiveOperation::ALL.map(CollectiveOperation::name), operation);
        format!("{operation} is not an operation with several algorithms; did you mean {nearest}?")
    })?;
    let wanted = known.algorithms().find(|one| one.name() == algorithm).ok_or_else(|| {
        let names: Vec<&str> = known.algorithms().map(Algorithm::name).collect();
        let (nearest, all) = (nearest(names.iter().copied(), algorithm), names.join(", "));
        format!(
            "{algorithm} is not an algorithm of {operation}, which has {all}; did you mean \
             {nearest}?"
        )
    })?;
    preferences.want(known, wanted);
    Ok(())
}

fn nearest(names: impl IntoIterator<Item = &'static str>, given: &str) -> &'static str {
    names.into_iter().min_by_key(|name| distance(name, given)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_process_tells_another_understands() {
        let (preferences, warnings) = preferences("allreduce:star, bcast:binomial,");
        assert!(warnings.is_empty(), "{warnings:?}");
        let costs = Costs { turn_ns: 3, ..Costs::default() };
        let (records, profiles, traces) = (true, false, true);
        let reported = JobSettings { costs, preferences, records, profiles, traces };
        assert_eq!(JobSettings::from_text(&reported.to_text()), Some(reported));
        for nonsense in ["", "1:2", "x", &reported.to_text().replace(':', "::")] {
            assert_eq!(JobSettings::from_text(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn unknown_names_are_reported_with_the_nearest() {
        let warning = |text: &str| preferences(text).1.pop().unwrap_or_default();
        assert!(warning("allreduse:star").contains("did you mean allreduce?"));
        assert!(warning("bcast:binomail").contains("did you mean binomial?"));
        assert!(warning("bcast").contains("operation:algorithm"));
        let (wanted, warnings) = preferences("magic:star,bcast:star");
        assert_eq!(warnings.len(), 1);
        assert_eq!(wanted, preferences("bcast:star").0);
    }
}
