//! Finds the fastest of several ways by timing transfers.

/// The cost of each way, for messages of similar length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WayCosts<const WAYS: usize> {
    /// The measured costs in picoseconds per byte.
    costs: [Option<u64>; WAYS],
    /// The predicted costs, and whether a prediction was requested.
    expected: Option<[u64; WAYS]>,
    asked: bool,
    transfers: u64,
    /// The current row of transfers, and the way that is tried in it, if any.
    row: u64,
    trial: Option<usize>,
    /// The way that was the fastest until its cost rose. It is tried in the next row, because what
    /// raised the cost may be over.
    former: Option<usize>,
    /// How many excursions there were, the way of the current one, and its remaining transfers.
    excursions: u64,
    excursion: Option<usize>,
    excursion_left: u64,
}

/// One row in this many is a trial.
const TRIAL_SHARE: u64 = 96;

/// A way that seems more than twice as slow is tried in one of this many rounds.
const ROUNDS_PER_SLOW_TRIAL: u64 = 4;

/// This many rows pass before a way is first tried that is predicted to take twice as long as the
/// fastest.
const TURNS_BEFORE_SLOW: u64 = 16;

/// So many rows lie between the first trials of two such ways. With more, all of them take longer
/// than 100 ms to be tried with messages of 8 MiB.
const TURNS_BETWEEN_SLOW: u64 = 8;

impl<const WAYS: usize> Default for WayCosts<WAYS> {
    fn default() -> Self {
        Self {
            costs: [None; WAYS],
            expected: None,
            asked: false,
            transfers: 0,
            row: u64::MAX,
            trial: None,
            former: None,
            excursions: 0,
            excursion: None,
            excursion_left: 0,
        }
    }
}

impl<const WAYS: usize> WayCosts<WAYS> {
    /// Sets the predicted costs, in picoseconds per byte, which apply until the ways have been
    /// timed. `costs` is called once.
    #[inline]
    pub(crate) fn expect(&mut self, costs: impl FnOnce() -> Option<[u64; WAYS]>) {
        if !self.asked {
            (self.asked, self.expected) = (true, costs());
        }
    }

    /// Returns the way of the next transfer. `row` transfers in a row take one way, as a way
    /// reaches its speed only when its memory has been used before. At first all ways are tried in
    /// turn, or, with predictions, the one predicted to be fastest, and the others soon after. Then
    /// the fastest is used, with a trial of another from time to time: after 4, 16, 64 rows and so
    /// on, once in [`TRIAL_SHARE`] rows, and if the cost of the fastest has risen above that of
    /// another. Only ways that are `usable` now are returned.
    pub(crate) fn choose(&mut self, row: u64, usable: [bool; WAYS]) -> Option<usize> {
        if self.excursion_left > 0 {
            self.excursion_left -= 1;
            return self.excursion.filter(|way| usable[*way]).or_else(|| self.fastest_of(usable));
        }
        let turn = self.transfers / row;
        self.transfers = self.transfers.wrapping_add(1);
        if turn != self.row {
            let former = self.former.take().filter(|way| usable[*way]);
            (self.row, self.trial) = (turn, former.or_else(|| self.trial_of(turn, usable)));
        }
        self.trial.filter(|way| usable[*way]).or_else(|| self.fastest_of(usable))
    }

    /// Whether the transfer chosen last is in the second half of a trial, so that the memory of its
    /// way has been used just before.
    pub(crate) fn is_warm_trial(&self, row: u64) -> bool {
        self.trial.is_some() && self.transfers.wrapping_sub(1) % row >= row / 2
    }

    /// Returns the way that is tried in a row, whatever it costs.
    fn trial_of(&self, turn: u64, usable: [bool; WAYS]) -> Option<usize> {
        let fastest = self.fastest_of(usable)?;
        if self.expected.is_none() && turn < WAYS as u64 {
            return Some(turn as usize);
        }
        let is_slow_turn = turn >= TURNS_BEFORE_SLOW && turn.is_multiple_of(TURNS_BETWEEN_SLOW);
        if (turn.is_power_of_two() || is_slow_turn)
            && let Some(untried) = self.untried(turn, fastest, usable)
        {
            return Some(untried);
        }
        let trial = match turn.checked_ilog2() {
            None | Some(0) => return None,
            // 4, 16, 64 and so on.
            Some(log2) if turn.is_power_of_two() && log2.is_multiple_of(2) => u64::from(log2 / 2),
            _ if turn.is_multiple_of(TRIAL_SHARE) => turn / TRIAL_SHARE,
            _ => return None,
        };
        self.other_in_turn(trial, fastest, usable)
    }

    /// Returns the way of a trial among those that are not the fastest, which take turns. A way
    /// that seems far slower is tried in few rounds.
    fn other_in_turn(&self, trial: u64, fastest: usize, usable: [bool; WAYS]) -> Option<usize> {
        let mut others = (0..WAYS).filter(|way| usable[*way] && *way != fastest);
        let count = others.clone().count() as u64;
        let round = trial.checked_div(count)?;
        let way = others.nth((trial % count) as usize)?;
        let far_slower = self.cost(way) / 2 > self.cost(fastest);
        (!far_slower || round % ROUNDS_PER_SLOW_TRIAL == ROUNDS_PER_SLOW_TRIAL - 1).then_some(way)
    }

    /// Uses the next `transfers` transfers for a trial, because they are a trial themselves:
    /// another process compares what they cost with a way of its own, and comes back rarely. Every
    /// second time they take the fastest way.
    pub(crate) fn make_excursion(&mut self, transfers: u64) {
        self.excursions += 1;
        let (usable, fastest) = ([true; WAYS], self.fastest());
        self.excursion = if self.excursions.is_multiple_of(2) {
            None
        } else {
            let trial = self.excursions / 2;
            let untried = self.untried(trial, fastest, usable);
            untried.or_else(|| self.other_in_turn(trial, fastest, usable))
        };
        self.excursion_left = transfers;
    }

    /// Returns the way that is predicted to cost least among those not timed. A way that is
    /// predicted to take twice as long as the fastest is deferred.
    fn untried(&self, turn: u64, fastest: usize, usable: [bool; WAYS]) -> Option<usize> {
        let untried = (0..WAYS).filter(|way| usable[*way] && self.costs[*way].is_none());
        let least = untried.min_by_key(|way| self.cost(*way))?;
        let far_slower = self.cost(least) / 2 > self.cost(fastest);
        (!far_slower || turn >= TURNS_BEFORE_SLOW).then_some(least)
    }

    /// Returns the fastest way by what is known.
    pub(crate) fn fastest(&self) -> usize {
        self.fastest_of([true; WAYS]).unwrap_or(0)
    }

    fn fastest_of(&self, usable: [bool; WAYS]) -> Option<usize> {
        (0..WAYS).filter(|way| usable[*way]).min_by_key(|way| self.cost(*way))
    }

    /// Returns the fastest of the usable ways once the cost of each of them is measured or
    /// predicted.
    pub(crate) fn fastest_known(&self, usable: [bool; WAYS]) -> Option<usize> {
        let mut all = (0..WAYS).filter(|way| usable[*way]);
        let is_known = self.expected.is_some() || all.all(|way| self.costs[way].is_some());
        if is_known { self.fastest_of(usable) } else { None }
    }

    /// Whether a way is usable, and known to take at most a quarter longer than the fastest.
    pub(crate) fn is_about_fastest(&self, way: usize, usable: [bool; WAYS]) -> bool {
        let most = self.fastest_known(usable).map(|fastest| self.cost(fastest) / 4 * 5);
        usable[way] && most.is_some_and(|most| self.cost(way) <= most)
    }

    /// Records that a transfer took `cost` picoseconds per byte. A lower cost than before replaces
    /// the old one at once, as no disturbance makes a transfer faster. A higher cost may come from
    /// a disturbance far longer than the transfer, so it raises the recorded cost by a quarter at
    /// most.
    pub(crate) fn learn(&mut self, way: usize, cost: u64) {
        let fastest = self.fastest();
        self.costs[way] = Some(match self.costs[way] {
            Some(known) if known < cost => known + (cost - known).min(known) / 4,
            _ => cost,
        });
        if way == fastest && self.fastest() != way {
            self.former = Some(way);
        }
    }

    /// Returns the measured cost of a way.
    #[cfg(test)]
    pub(crate) fn measured(&self, way: usize) -> Option<u64> {
        self.costs[way]
    }

    fn cost(&self, way: usize) -> u64 {
        let expected = || self.expected.map_or(u64::MAX, |expected| expected[way]);
        self.costs[way].unwrap_or_else(expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs transfers whose ways cost `real`. Returns how often each was taken.
    fn run<const WAYS: usize>(
        costs: &mut WayCosts<WAYS>,
        transfers: u64,
        real: [u64; WAYS],
    ) -> [u64; WAYS] {
        let mut taken = [0; WAYS];
        for _ in 0..transfers {
            let way = costs.choose(4, [true; WAYS]).unwrap();
            costs.learn(way, real[way]);
            taken[way] += 1;
        }
        taken
    }

    fn expecting<const WAYS: usize>(expected: [u64; WAYS]) -> WayCosts<WAYS> {
        let mut costs = WayCosts::default();
        costs.expect(|| Some(expected));
        costs
    }

    #[test]
    fn what_is_expected_to_be_fastest_goes_first_and_the_others_are_tried_soon() {
        let mut costs = expecting([300, 100, 110, 500]);
        assert_eq!(run(&mut costs, 4, [300, 100, 110, 500]), [0, 4, 0, 0]);
        // The way predicted next is tried immediately, those predicted to be far slower later.
        assert_eq!(run(&mut costs, 4 * 15, [300, 100, 110, 500]), [0, 52, 8, 0]);
        assert_eq!(run(&mut costs, 4 * 32, [300, 100, 110, 500]), [4, 120, 0, 4]);
    }

    #[test]
    fn figures_of_another_machine_are_soon_corrected() {
        // The fastest way was predicted to be by far the slowest, and the other way round.
        let (expected, real) = ([900, 100, 300, 400, 5000], [300, 2000, 900, 700, 100]);
        let mut costs = expecting(expected);
        let first = run(&mut costs, 4 * 256, real);
        assert!(first[4] > 4 * 120, "{first:?}");
        // From then on, costs are as with correct predictions.
        let spent = |costs: &mut WayCosts<5>| {
            let taken = run(costs, 20_000, real);
            taken.iter().zip(real).map(|(times, cost)| times * cost).sum::<u64>()
        };
        let mut right = expecting(real);
        run(&mut right, 4 * 256, real);
        let (wrong, right) = (spent(&mut costs), spent(&mut right));
        assert!(wrong * 100 <= right * 102, "{wrong} and {right}");
    }

    #[test]
    fn without_expectations_all_take_turns_first() {
        let mut costs = WayCosts::default();
        assert_eq!(run(&mut costs, 12, [30, 10, 20]), [4, 4, 4]);
        assert_eq!(costs.fastest_known([true; 3]), Some(1));
        assert_eq!(expecting([30, 10, 20]).fastest_known([true; 3]), Some(1));
        assert_eq!(WayCosts::<3>::default().fastest_known([true; 3]), None);
    }

    #[test]
    fn what_is_not_usable_is_not_chosen() {
        let mut costs = WayCosts::default();
        for turn in 0..10_000 {
            let usable = [turn % 3 != 0, turn % 2 == 0, turn % 5 != 0];
            let way = costs.choose(4, usable);
            assert_eq!(way.is_some(), usable.contains(&true));
            if let Some(way) = way {
                assert!(usable[way]);
                costs.learn(way, [30, 10, 20][way]);
            }
        }
        assert_eq!(costs.fastest_known([true, false, true]), Some(2));
        assert_eq!(costs.fastest_known([false; 3]), None);
    }
}
