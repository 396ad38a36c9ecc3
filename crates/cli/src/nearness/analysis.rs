//! What a matrix of measurements says: levels of distance, the ratio of far and near, and the cost
//! of a hop.

use serde::Serialize;

/// Measurements by the node of the process, then by the node of the memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeMatrix {
    /// What was measured.
    pub subject: &'static str,
    /// The unit of the values.
    pub unit: &'static str,
    /// Whether smaller values are better: times, not bandwidths.
    pub is_time: bool,
    /// The nodes of the processes, and those of the memory.
    pub processes: Vec<u32>,
    pub memories: Vec<u32>,
    /// The values; `None`: not possible here.
    pub values: Vec<Vec<Option<f64>>>,
}

/// What distance costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LevelSpread {
    /// The median of the nearest level, and of the farthest.
    pub near: f64,
    pub far: f64,
    /// How many times worse the farthest level is.
    pub ratio: f64,
    /// The median of each level, the nearest first.
    pub levels: Vec<f64>,
    /// By how much a value grows from one level to the next, on average.
    pub hop: f64,
}

/// Values that differ by less than this factor are at one level.
const SAME_LEVEL: f64 = 1.1;

impl NodeMatrix {
    /// Makes a matrix without values.
    pub fn new(
        (subject, unit): (&'static str, &'static str),
        is_time: bool,
        (processes, memories): (&[u32], &[u32]),
    ) -> Self {
        let values = vec![vec![None; memories.len()]; processes.len()];
        let (processes, memories) = (processes.to_vec(), memories.to_vec());
        Self { subject, unit, is_time, processes, memories, values }
    }

    /// Returns what distance costs; `None` without values. Levels follow from the values, not from
    /// what the firmware reports: values of one level are within a tenth of the best one.
    pub fn spread(&self) -> Option<LevelSpread> {
        let mut values: Vec<f64> = self.values.iter().flatten().flatten().copied().collect();
        values.sort_by(f64::total_cmp);
        if !self.is_time {
            values.reverse();
        }
        let mut groups: Vec<Vec<f64>> = Vec::new();
        for value in values {
            match groups.last_mut() {
                Some(group) if self.factor(group[0], value) < SAME_LEVEL => group.push(value),
                _ => groups.push(vec![value]),
            }
        }
        let levels: Vec<f64> = groups.iter().map(|group| group[group.len() / 2]).collect();
        let (near, far) = (*levels.first()?, *levels.last()?);
        let steps = levels.len().saturating_sub(1).max(1) as f64;
        Some(LevelSpread {
            near,
            far,
            ratio: self.factor(near, far),
            hop: (far - near) / steps,
            levels,
        })
    }

    /// How many times worse the second value is.
    fn factor(&self, better: f64, worse: f64) -> f64 {
        if self.is_time { worse / better } else { better / worse }
    }
}

impl LevelSpread {
    /// Whether distance does not matter.
    pub fn is_uniform(&self) -> bool {
        self.levels.len() == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(is_time: bool, values: &[[f64; 4]]) -> NodeMatrix {
        let nodes = [0, 1, 2, 3];
        let mut matrix = NodeMatrix::new(("load", "ns"), is_time, (&nodes[..values.len()], &nodes));
        for (row, values) in matrix.values.iter_mut().zip(values) {
            row.copy_from_slice(&values.map(Some));
        }
        matrix
    }

    #[test]
    fn levels_and_hops_follow_from_the_values() {
        let found = matrix(true, &[[90.0, 130.0, 171.0, 210.0], [131.0, 92.0, 209.0, 169.0]]);
        let spread = found.spread().unwrap();
        assert_eq!(spread.levels, [92.0, 131.0, 171.0, 210.0]);
        assert!(
            (spread.hop - 39.3).abs() < 0.1 && (spread.ratio - 2.28).abs() < 0.01,
            "{spread:?}"
        );
        assert!(!spread.is_uniform());
    }

    #[test]
    fn of_bandwidths_the_highest_is_near() {
        let spread = matrix(false, &[[10.0, 5.0, 9.8, 5.1]]).spread().unwrap();
        assert_eq!((spread.levels.len(), spread.ratio), (2, 9.8 / 5.0));
    }

    /// Noise of a few percent on a uniform machine is not taken for distance, and a difference of a
    /// quarter is found whatever the noise.
    #[test]
    fn noise_makes_no_levels() {
        let mut state = 1_u64;
        let mut noise = || {
            // Knuth's generator.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            0.04 * (state >> 33) as f64 / f64::from(1_u32 << 31)
        };
        for round in 0..200 {
            let is_time = round % 2 == 0;
            let mut rows = |far: f64| -> Vec<[f64; 4]> {
                let mut value = |row: usize, column: usize| {
                    let base = if row == column { 100.0 } else { far };
                    base * (1.0 + noise())
                };
                (0..4).map(|row| [0, 1, 2, 3].map(|column| value(row, column))).collect()
            };
            assert!(matrix(is_time, &rows(100.0)).spread().unwrap().is_uniform());
            let far = if is_time { 125.0 } else { 80.0 };
            let spread = matrix(is_time, &rows(far)).spread().unwrap();
            assert_eq!(spread.levels.len(), 2);
            assert!((spread.ratio - 1.25).abs() < 0.06, "{spread:?}");
        }
    }
}
