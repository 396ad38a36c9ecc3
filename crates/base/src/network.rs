//! The distances between the hosts of a network.

/// How far the hosts of a network are from each other. Hosts are given by their indices, distances
/// in the unit of the description, usually links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkDistances {
    /// The hosts are the points of a grid, each linked with its neighbours. The last dimension
    /// varies fastest.
    Grid(Vec<GridDimension>),
    /// The hosts are attached to switches.
    Attached {
        /// For each host, the index of its switch and the distance to it.
        hosts: Vec<(u32, u32)>,
        /// The distances between switches, row by row; as many rows as columns.
        between: Vec<u32>,
    },
}

/// A dimension of a grid of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GridDimension {
    /// The number of hosts; at least one.
    pub extent: u32,
    /// Whether the first and the last host are linked.
    pub is_periodic: bool,
    /// The distance between neighbours.
    pub step: u32,
}

impl GridDimension {
    /// The distance between two coordinates.
    fn between(&self, a: u32, b: u32) -> u64 {
        let straight = a.abs_diff(b);
        let steps = if self.is_periodic { straight.min(self.extent - straight) } else { straight };
        u64::from(steps) * u64::from(self.step)
    }
}

impl NetworkDistances {
    /// The number of hosts.
    pub fn hosts(&self) -> usize {
        match self {
            Self::Grid(dimensions) => dimensions.iter().map(|one| one.extent as usize).product(),
            Self::Attached { hosts, .. } => hosts.len(),
        }
    }

    /// The distance between two hosts; 0 for a host and itself.
    pub fn between(&self, a: u32, b: u32) -> u64 {
        if a == b {
            return 0;
        }
        match self {
            Self::Grid(dimensions) => {
                let (mut a, mut b, mut all) = (a, b, 0);
                for dimension in dimensions.iter().rev() {
                    let extent = dimension.extent;
                    all += dimension.between(a % extent, b % extent);
                    (a, b) = (a / extent, b / extent);
                }
                all
            }
            Self::Attached { hosts, between } => {
                let ((one, up), (other, down)) = (hosts[a as usize], hosts[b as usize]);
                let columns = between.len().isqrt();
                let across = between[one as usize * columns + other as usize];
                u64::from(up) + u64::from(across) + u64::from(down)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_closed_and_a_line_is_not() {
        let dimension = |extent, is_periodic, step| GridDimension { extent, is_periodic, step };
        let grid = NetworkDistances::Grid(vec![dimension(3, false, 5), dimension(4, true, 1)]);
        assert_eq!(grid.hosts(), 12);
        assert_eq!(grid.between(0, 3), 1);
        assert_eq!(grid.between(0, 2), 2);
        assert_eq!(grid.between(1, 9), 10);
        assert_eq!(grid.between(3, 8), 11);
        assert_eq!(grid.between(7, 7), 0);
    }

    #[test]
    fn hosts_of_one_switch_meet_at_it() {
        let attached = NetworkDistances::Attached {
            hosts: vec![(0, 1), (0, 1), (1, 2)],
            between: vec![0, 4, 4, 0],
        };
        assert_eq!(attached.hosts(), 3);
        assert_eq!(attached.between(0, 1), 2);
        assert_eq!(attached.between(1, 2), 7);
        assert_eq!(attached.between(2, 2), 0);
    }
}
