//! The time in the phases that the program names.

use profiles::PhaseTotals;

use super::seconds_of_ticks;

/// The phases of a process. The program is in one of them at most.
#[derive(Debug, Default)]
pub(super) struct PhaseTimes {
    all: Vec<PhaseSum>,
    /// The index of the phase that the program is in, and when it began, in ticks.
    open: Option<(usize, u64)>,
}

#[derive(Debug)]
struct PhaseSum {
    name: String,
    times: u64,
    ticks: u64,
}

/// The maximum number of phases that are distinguished. Later ones count as one.
const PHASES_MAX: usize = 256;

impl PhaseTimes {
    /// Ends the present phase and begins another one; an empty name begins none. `now` is in ticks.
    pub(super) fn begin(&mut self, name: &str, now: u64) {
        if let Some((index, begun)) = self.open.take() {
            self.all[index].ticks += now.saturating_sub(begun);
        }
        if name.is_empty() {
            return;
        }
        let known = |all: &[PhaseSum], name| all.iter().position(|phase| phase.name == name);
        let index = known(&self.all, name).unwrap_or_else(|| {
            let name = if self.all.len() < PHASES_MAX { name } else { "(other)" };
            known(&self.all, name).unwrap_or_else(|| {
                self.all.push(PhaseSum { name: name.to_owned(), times: 0, ticks: 0 });
                self.all.len() - 1
            })
        });
        self.all[index].times += 1;
        self.open = Some((index, now));
    }

    /// Returns the totals of all phases; a phase that has not ended lasts until `now`, in ticks.
    pub(super) fn totals(&self, now: u64, ns_per_tick: f64) -> Vec<PhaseTotals> {
        let total = |(index, phase): (usize, &PhaseSum)| {
            let open = self.open.filter(|(one, _)| *one == index);
            let ticks = phase.ticks + open.map_or(0, |(_, begun)| now.saturating_sub(begun));
            PhaseTotals {
                name: phase.name.clone(),
                times: phase.times,
                seconds: seconds_of_ticks(ticks, ns_per_tick),
            }
        };
        self.all.iter().enumerate().map(total).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_added_up_by_name() {
        let mut phases = PhaseTimes::default();
        for (name, now) in [("a", 1000), ("b", 3000), ("a", 3500), ("", 4500), ("b", 6000)] {
            phases.begin(name, now);
        }
        let totals = phases.totals(9000, 1e6);
        let expected = [("a", 2, 3.0), ("b", 2, 3.5)];
        let found: Vec<_> = totals.iter().map(|p| (&*p.name, p.times, p.seconds)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_number_of_phases_is_bounded() {
        let mut phases = PhaseTimes::default();
        for number in 0..3 * PHASES_MAX as u64 {
            phases.begin(&format!("step {number}"), number);
        }
        let totals = phases.totals(3 * PHASES_MAX as u64, 1.0);
        assert_eq!(totals.len(), PHASES_MAX + 1);
        assert_eq!(totals[PHASES_MAX].times, 2 * PHASES_MAX as u64);
    }
}
