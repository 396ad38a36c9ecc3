//! The time in the phases that the program names.

use profiles::PhaseTotals;

use super::seconds_of_ticks;

/// The phases of a process. The program is in one of them at most.
#[derive(Debug, Default)]
pub(super) struct PhaseTimes {
    all: Vec<PhaseSum>,
    /// The phase that the program is in.
    open: Option<OpenPhase>,
}

/// The phase that the program is in.
#[derive(Clone, Copy, Debug)]
struct OpenPhase {
    index: usize,
    /// When it began, in ticks.
    begun: u64,
    /// The energy that the machine had used by then.
    joules: Option<f64>,
}

#[derive(Debug)]
struct PhaseSum {
    name: String,
    times: u64,
    ticks: u64,
    joules: Option<f64>,
}

/// The maximum number of phases that are distinguished. Later ones count as one.
const PHASES_MAX: usize = 256;

impl PhaseTimes {
    /// Ends the present phase and begins another one; an empty name begins none. `now` is in ticks,
    /// `joules` the energy that the machine has used until now.
    pub(super) fn begin(&mut self, name: &str, now: u64, joules: Option<f64>) {
        if let Some(open) = self.open.take() {
            let phase = &mut self.all[open.index];
            phase.ticks += open.ticks(now);
            phase.joules = added(phase.joules, open.joules(joules));
        }
        if name.is_empty() {
            return;
        }
        let known = |all: &[PhaseSum], name| all.iter().position(|phase| phase.name == name);
        let index = known(&self.all, name).unwrap_or_else(|| {
            let name = if self.all.len() < PHASES_MAX { name } else { "(other)" };
            known(&self.all, name).unwrap_or_else(|| {
                let name = name.to_owned();
                self.all.push(PhaseSum { name, times: 0, ticks: 0, joules: None });
                self.all.len() - 1
            })
        });
        self.all[index].times += 1;
        self.open = Some(OpenPhase { index, begun: now, joules });
    }

    /// Returns the totals of all phases; a phase that has not ended lasts until `now`, in ticks,
    /// when the machine has used `joules`.
    pub(super) fn totals(
        &self,
        now: u64,
        ns_per_tick: f64,
        joules: Option<f64>,
    ) -> Vec<PhaseTotals> {
        let total = |(index, phase): (usize, &PhaseSum)| {
            let open = self.open.filter(|open| open.index == index);
            let ticks = phase.ticks + open.map_or(0, |open| open.ticks(now));
            let joules = open.and_then(|open| open.joules(joules));
            PhaseTotals {
                name: phase.name.clone(),
                times: phase.times,
                seconds: seconds_of_ticks(ticks, ns_per_tick),
                machine_joules: added(phase.joules, joules),
            }
        };
        self.all.iter().enumerate().map(total).collect()
    }
}

impl OpenPhase {
    fn ticks(self, now: u64) -> u64 {
        now.saturating_sub(self.begun)
    }

    fn joules(self, now: Option<f64>) -> Option<f64> {
        Some(now? - self.joules?)
    }
}

/// Returns the sum of what is known.
fn added(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one + other),
        _ => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_added_up_by_name() {
        let mut phases = PhaseTimes::default();
        for (name, now) in [("a", 1000), ("b", 3000), ("a", 3500), ("", 4500), ("b", 6000)] {
            phases.begin(name, now, Some(now as f64 / 10.0));
        }
        let joules: Vec<_> = phases
            .totals(9000, 1e6, Some(900.0))
            .iter()
            .map(|phase| phase.machine_joules)
            .collect();
        assert_eq!(joules, [Some(300.0), Some(350.0)]);
        let totals = phases.totals(9000, 1e6, None);
        let expected = [("a", 2, 3.0), ("b", 2, 3.5)];
        let found: Vec<_> = totals.iter().map(|p| (&*p.name, p.times, p.seconds)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_number_of_phases_is_bounded() {
        let mut phases = PhaseTimes::default();
        for number in 0..3 * PHASES_MAX as u64 {
            phases.begin(&format!("step {number}"), number, None);
        }
        let totals = phases.totals(3 * PHASES_MAX as u64, 1.0, None);
        assert_eq!(totals.len(), PHASES_MAX + 1);
        assert_eq!(totals[PHASES_MAX].times, 2 * PHASES_MAX as u64);
    }
}
