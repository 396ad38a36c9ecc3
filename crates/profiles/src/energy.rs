//! The energy of ranks and phases. The counters belong to machines: what a machine used is divided
//! among its ranks by their processor time.

use std::collections::BTreeMap;

use crate::words::{percent, seconds};
use crate::{JobProfile, RankProfile};

/// The maximum number of rows of each table.
const ROWS_MAX: usize = 16;

pub(crate) const RANKS_TITLE: &str =
    "Energy by rank (that of the processors and memory of its machine, by processor time)";
pub(crate) const RANKS_HEADER: [&str; 5] = ["rank", "energy", "power", "on a core", "machine"];
pub(crate) const PHASES_TITLE: &str = "Energy by phase";
pub(crate) const PHASES_HEADER: [&str; 4] = ["energy", "share", "power", "phase"];

impl RankProfile {
    /// The processor time of the rank with that of its helper, in seconds.
    fn all_processor_seconds(&self) -> f64 {
        self.processor_seconds + self.helper_seconds
    }
}

impl JobProfile {
    /// Returns the energy of each rank in joules; `None` for ranks whose machines report none.
    pub fn rank_joules(&self) -> Vec<Option<f64>> {
        let joules = |rank: &RankProfile, share: f64| Some(rank.machine_joules? * share);
        self.ranks
            .iter()
            .zip(self.machine_shares())
            .map(|(rank, share)| joules(rank, share))
            .collect()
    }

    /// Returns the part of its machine's processor time that each rank used, of the time of all
    /// ranks there.
    fn machine_shares(&self) -> Vec<f64> {
        let mut machines: BTreeMap<&str, (f64, u32)> = BTreeMap::new();
        for rank in &self.ranks {
            let (time, count) = machines.entry(&rank.host).or_default();
            *time += rank.all_processor_seconds();
            *count += 1;
        }
        let share = |rank: &RankProfile| match machines[rank.host.as_str()] {
            (time, _) if time > 0.0 => rank.all_processor_seconds() / time,
            (_, count) => 1.0 / f64::from(count),
        };
        self.ranks.iter().map(share).collect()
    }
}

/// The rows of the table of ranks, those with the most energy first; empty without counters.
pub(crate) fn ranks(profile: &JobProfile) -> Vec<Vec<String>> {
    let joules = profile.rank_joules();
    let known = profile.ranks.iter().zip(joules).filter_map(|(rank, joules)| Some((rank, joules?)));
    let mut known: Vec<(&RankProfile, f64)> = known.collect();
    known.sort_by(|one, other| other.1.total_cmp(&one.1));
    let row = |(rank, joules): (&RankProfile, f64)| {
        vec![
            rank.rank.to_string(),
            energy(joules),
            power(joules, rank.seconds),
            percent(rank.all_processor_seconds(), rank.seconds),
            rank.host.clone(),
        ]
    };
    known.into_iter().take(ROWS_MAX).map(row).collect()
}

/// The rows of the table of phases, those with the most energy first; empty without counters or
/// phases.
pub(crate) fn phases(profile: &JobProfile) -> Vec<Vec<String>> {
    let all: f64 = profile.rank_joules().into_iter().flatten().sum();
    let mut phases: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (rank, share) in profile.ranks.iter().zip(profile.machine_shares()) {
        for phase in &rank.phases {
            let Some(joules) = phase.machine_joules else { continue };
            let (sum, longest) = phases.entry(&phase.name).or_default();
            *sum += joules * share;
            *longest = longest.max(phase.seconds);
        }
    }
    let mut phases: Vec<_> = phases.into_iter().collect();
    phases.sort_by(|one, other| other.1.0.total_cmp(&one.1.0));
    let row = |(name, (joules, longest)): (&str, (f64, f64))| {
        vec![energy(joules), percent(joules, all), power(joules, longest), name.to_owned()]
    };
    phases.into_iter().take(ROWS_MAX).map(row).collect()
}

/// The energy of the job in a sentence; empty without counters.
pub(crate) fn sentence(profile: &JobProfile) -> String {
    let known: Vec<f64> = profile.rank_joules().into_iter().flatten().collect();
    if known.is_empty() {
        return String::new();
    }
    let joules: f64 = known.iter().sum();
    let (energy, power, time) =
        (energy(joules), power(joules, profile.seconds), seconds(profile.seconds));
    format!("energy of processors and memory: {energy} in {time}, {power} on average\n")
}

/// Formats an energy.
fn energy(joules: f64) -> String {
    match joules {
        ..0.995 => format!("{:.0} mJ", joules * 1e3),
        0.995..99.95 => format!("{joules:.1} J"),
        99.95..9999.5 => format!("{joules:.0} J"),
        _ => format!("{:.1} kJ", joules / 1e3),
    }
}

fn power(joules: f64, time: f64) -> String {
    if time > 0.0 { format!("{:.1} W", joules / time) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::PhaseTotals;

    /// Ranks 0 and 1 on a machine that used 120 J in 10 s, of which rank 1 waited most; rank 2 on
    /// one without counters.
    fn job() -> JobProfile {
        let rank = |rank: u32, host: &str, processor_seconds: f64, machine_joules: Option<f64>| {
            let phase = PhaseTotals {
                name: "solve".to_owned(),
                times: 1,
                seconds: 5.0,
                machine_joules: machine_joules.map(|joules| joules / 2.0),
            };
            RankProfile {
                rank,
                host: host.to_owned(),
                seconds: 10.0,
                processor_seconds,
                helper_seconds: 1.0,
                machine_joules,
                phases: vec![phase],
                ..RankProfile::default()
            }
        };
        let joules = Some(120.0);
        let ranks =
            vec![rank(0, "a", 8.0, joules), rank(1, "a", 2.0, joules), rank(2, "b", 9.0, None)];
        JobProfile::of("./model".to_owned(), ranks)
    }

    #[test]
    fn energy_of_a_machine_is_divided_by_processor_time() {
        let job = job();
        assert_eq!(job.rank_joules(), [Some(90.0), Some(30.0), None]);
        let rows = ranks(&job);
        assert_eq!(rows[0], ["0", "90.0 J", "9.0 W", "90 %", "a"]);
        assert_eq!(rows.len(), 2, "rank 2 has no counters");
        assert_eq!(phases(&job), [["60.0 J", "50 %", "12.0 W", "solve"]]);
        let page = job.page();
        assert!(page.contains("memory: 120 J in 10 s, 12.0 W on average\n"), "{page}");
        assert!(page.contains(RANKS_TITLE) && page.contains(PHASES_TITLE), "{page}");
        assert!(job.to_html().contains("90.0 J"));
    }

    #[test]
    fn ranks_without_processor_time_have_equal_shares() {
        let mut job = job();
        for rank in &mut job.ranks {
            (rank.processor_seconds, rank.helper_seconds) = (0.0, 0.0);
        }
        assert_eq!(job.rank_joules(), [Some(60.0), Some(60.0), None]);
    }

    #[test]
    fn without_counters_no_energy_is_mentioned() {
        let mut job = job();
        job.ranks.iter_mut().for_each(|rank| {
            rank.machine_joules = None;
            rank.phases.iter_mut().for_each(|phase| phase.machine_joules = None);
        });
        assert!(!job.page().to_lowercase().contains("energy"), "{}", job.page());
        assert!(!job.to_html().contains("Energy"));
    }
}
