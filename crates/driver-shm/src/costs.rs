//! Which of several ways is the fastest, found out by taking them.

/// What each way costs for messages of similar length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WayCosts<const WAYS: usize> {
    /// Picoseconds per byte, where that is known.
    costs: [Option<u64>; WAYS],
    transfers: u64,
}

/// One trial to so many rows.
const TRIAL_SHARE: u64 = 96;

/// One that seems more than twice as slow is tried in one of so many rounds.
const ROUNDS_PER_SLOW_TRIAL: u64 = 4;

impl<const WAYS: usize> Default for WayCosts<WAYS> {
    fn default() -> Self {
        Self { costs: [None; WAYS], transfers: 0 }
    }
}

impl<const WAYS: usize> WayCosts<WAYS> {
    /// Which way the next transfer takes, where `row` in a row take the same, as a way only shows
    /// what it can do when its memory has been used before: first all in turn, then the fastest,
    /// but for a trial now and then.
    pub(crate) fn choose(&mut self, row: u64) -> usize {
        let (turn, ways) = (self.transfers / row, WAYS as u64);
        self.transfers = self.transfers.wrapping_add(1);
        if turn < ways {
            return turn as usize;
        }
        let fastest = self.fastest();
        if !turn.is_multiple_of(TRIAL_SHARE) {
            return fastest;
        }
        // All in turn; those that seem far slower in one round of several.
        let trial = turn / TRIAL_SHARE;
        let (round, way) = (trial / ways, (trial % ways) as usize);
        let far_slower = self.cost(way) / 2 > self.cost(fastest);
        if far_slower && !round.is_multiple_of(ROUNDS_PER_SLOW_TRIAL) { fastest } else { way }
    }

    /// What seems to be the fastest way by now.
    pub(crate) fn fastest(&self) -> usize {
        (0..WAYS).min_by_key(|way| self.cost(*way)).unwrap_or(0)
    }

    /// The same, once the cost of every way is known.
    pub(crate) fn fastest_known(&self) -> Option<usize> {
        self.costs.iter().all(Option::is_some).then(|| self.fastest())
    }

    /// A transfer took so many picoseconds per byte. One that was faster than the others is
    /// believed at once, as nothing makes one too fast; a slower one may have been disturbed, for
    /// far longer than it takes, and moves what is known by a quarter at most.
    pub(crate) fn learn(&mut self, way: usize, cost: u64) {
        self.costs[way] = Some(match self.costs[way] {
            Some(known) if known < cost => known + (cost - known).min(known) / 4,
            _ => cost,
        });
    }

    fn cost(&self, way: usize) -> u64 {
        self.costs[way].unwrap_or(u64::MAX)
    }
}
