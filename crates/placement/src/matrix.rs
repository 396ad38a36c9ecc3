//! How much ranks send to each other.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The amount that one rank sent to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// The number of bytes.
    pub bytes: u64,
    /// The number of messages.
    pub messages: u64,
}

/// The quantity by which pairs of ranks are weighted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weighing {
    /// Bytes.
    #[default]
    Bytes,
    /// Messages, whatever their length.
    Messages,
}

/// The amount that each rank sent to each other rank, as a sparse matrix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matrix {
    ranks: u32,
    /// The amounts by sender and receiver.
    amounts: BTreeMap<(u32, u32), Amount>,
}

/// The first line of a matrix as text.
const HEAD: &str = "# Combray: communication matrix";

/// The maximum number of ranks; a larger number is a typing error.
const RANKS_MAX: u32 = 1 << 20;

impl Matrix {
    /// An empty matrix of this many ranks.
    pub fn new(ranks: u32) -> Self {
        Self { ranks, amounts: BTreeMap::new() }
    }

    /// The number of ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Adds to the amount that `from` sent to `to`. Both must be below the number of ranks.
    pub fn add(&mut self, from: u32, to: u32, bytes: u64, messages: u64) {
        assert!(
            from < self.ranks && to < self.ranks,
            "{from} and {to} are of {} ranks",
            self.ranks
        );
        let amount = self.amounts.entry((from, to)).or_default();
        amount.bytes = amount.bytes.saturating_add(bytes);
        amount.messages = amount.messages.saturating_add(messages);
    }

    /// All amounts with their senders and receivers, in order.
    pub fn amounts(&self) -> impl Iterator<Item = (u32, u32, Amount)> + '_ {
        self.amounts.iter().map(|(&(from, to), &amount)| (from, to, amount))
    }

    /// Formats the matrix as text: a header line, the number of ranks, then one line for each pair
    /// that communicated with sender, receiver, bytes, and messages.
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEAD}\nranks {}\n", self.ranks);
        for (from, to, amount) in self.amounts() {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{from} {to} {} {}", amount.bytes, amount.messages);
        }
        text
    }

    /// Parses such a text; a `#` begins a comment.
    ///
    /// # Errors
    /// A message for the user that names the line.
    pub fn from_text(text: &str) -> Result<Self, String> {
        let mut matrix: Option<Self> = None;
        for (number, line) in (1..).zip(text.lines()) {
            let words: Vec<&str> =
                line.split('#').next().unwrap_or_default().split_whitespace().collect();
            match (&mut matrix, &words[..]) {
                (_, []) => {}
                (None, ["ranks", count]) => {
                    let count = count.parse().ok().filter(|count| (1..=RANKS_MAX).contains(count));
                    let count = count.ok_or_else(|| {
                        format!(
                            "line {number}: a number of ranks from 1 to {RANKS_MAX} is required"
                        )
                    })?;
                    matrix = Some(Self::new(count));
                }
                (None, _) => {
                    return Err(format!("line {number}: \"ranks N\" must come first, for N ranks"));
                }
                (Some(matrix), words) => matrix.read_line(number, words)?,
            }
        }
        matrix.ok_or_else(|| "it is empty: \"ranks N\" must come first".to_owned())
    }

    fn read_line(&mut self, number: usize, words: &[&str]) -> Result<(), String> {
        let numbers: Option<Vec<u64>> = words.iter().map(|word| word.parse().ok()).collect();
        let Some([from, to, bytes, messages]) = numbers.as_deref() else {
            return Err(format!(
                "line {number}: four numbers are required: sender, receiver, bytes, messages"
            ));
        };
        let rank = |rank: u64| u32::try_from(rank).ok().filter(|rank| *rank < self.ranks);
        let (Some(from), Some(to)) = (rank(*from), rank(*to)) else {
            return Err(format!("line {number}: ranks must be below {}", self.ranks));
        };
        self.add(from, to, *bytes, *messages);
        Ok(())
    }

    /// The weights between pairs of ranks, with both directions added up.
    pub fn affinity(&self, weighing: Weighing) -> Affinity {
        let weights = self.amounts().map(|(from, to, amount)| {
            let weight = match weighing {
                Weighing::Bytes => amount.bytes,
                Weighing::Messages => amount.messages,
            };
            (from, to, weight)
        });
        Affinity::new(self.ranks, weights)
    }
}

/// The weights between pairs of ranks. Messages of a rank to itself do not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affinity {
    /// The index of each rank's first partner, and the end of the last rank's partners.
    starts: Vec<u32>,
    /// Partners with weights, rank by rank; each pair is stored twice.
    partners: Vec<(u32, u64)>,
}

impl Affinity {
    /// Creates the affinity of this many ranks with these weights between pairs. Weights of a pair
    /// are added up, in any order and direction. Each rank must be below `ranks`.
    pub fn new(ranks: u32, weights: impl Iterator<Item = (u32, u32, u64)>) -> Self {
        let mut pairs: Vec<(u32, u32, u64)> = Vec::new();
        for (a, b, weight) in weights.filter(|&(a, b, weight)| a != b && weight > 0) {
            assert!(a < ranks && b < ranks, "{a} and {b} are of {ranks} ranks");
            pairs.extend([(a, b, weight), (b, a, weight)]);
        }
        pairs.sort_unstable();
        let mut starts = vec![0; ranks as usize + 1];
        let mut partners: Vec<(u32, u64)> = Vec::new();
        for run in pairs.chunk_by(|one, next| (one.0, one.1) == (next.0, next.1)) {
            let weight = run.iter().fold(0, |sum: u64, pair| sum.saturating_add(pair.2));
            partners.push((run[0].1, weight));
            starts[run[0].0 as usize + 1] = partners.len() as u32;
        }
        for index in 1..starts.len() {
            starts[index] = starts[index].max(starts[index - 1]);
        }
        Self { starts, partners }
    }

    /// The number of ranks.
    pub fn ranks(&self) -> u32 {
        self.starts.len() as u32 - 1
    }

    /// The partners of a rank with weights, in order.
    pub fn partners(&self, rank: u32) -> &[(u32, u64)] {
        let rank = rank as usize;
        &self.partners[self.starts[rank] as usize..self.starts[rank + 1] as usize]
    }

    /// Scales the weights down so that the sum of all, each `factor` times, is far below the limit
    /// of 63 bits. The smallest weights do not become zero.
    pub(crate) fn bounded(&self, factor: u64) -> Self {
        let sum: u128 = self.partners.iter().map(|partner| u128::from(partner.1)).sum();
        let all = sum * u128::from(factor.max(1));
        let shift = (128 - all.leading_zeros()).saturating_sub(60);
        let partners = self.partners.iter();
        let partners = partners.map(|&(partner, weight)| (partner, (weight >> shift).max(1)));
        Self { starts: self.starts.clone(), partners: partners.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_they_are_written() {
        let mut matrix = Matrix::new(3);
        matrix.add(0, 1, 100, 2);
        matrix.add(2, 0, 7, 1);
        matrix.add(0, 1, 1, 1);
        assert_eq!(Matrix::from_text(&matrix.to_text()), Ok(matrix.clone()));
        assert_eq!(matrix.to_text().lines().nth(2), Some("0 1 101 3"));
        let fault = |text: &str| Matrix::from_text(text).unwrap_err();
        assert!(fault("").contains("empty"));
        assert!(fault("# x\n0 1 2 3").contains("line 2: \"ranks N\""));
        assert!(fault("ranks 0").contains("from 1"));
        assert!(fault("ranks 2\n0 2 1 1").contains("line 2: ranks must be below 2"));
        assert!(fault("ranks 2\n0 1 1").contains("four numbers"));
        assert!(fault("ranks 2\n0 1 -1 1").contains("four numbers"));
    }

    #[test]
    fn directions_are_added_up() {
        let mut matrix = Matrix::new(4);
        for (from, to, bytes) in [(0, 1, 5), (1, 0, 6), (3, 3, 9), (3, 0, 1), (1, 2, 0)] {
            matrix.add(from, to, bytes, 1);
        }
        let affinity = matrix.affinity(Weighing::Bytes);
        assert_eq!(affinity.partners(0), [(1, 11), (3, 1)]);
        assert_eq!(affinity.partners(2), []);
        assert_eq!(matrix.affinity(Weighing::Messages).partners(1), [(0, 2), (2, 1)]);
    }

    #[test]
    fn weights_are_kept_within_bounds() {
        let huge = Affinity::new(3, [(0, 1, u64::MAX), (1, 2, 1)].into_iter());
        let bounded = huge.bounded(10);
        let sum: u128 = bounded.partners.iter().map(|partner| u128::from(partner.1)).sum();
        assert!(sum * 10 < 1 << 62);
        assert_eq!(bounded.partners(2), [(1, 1)]);
    }
}
