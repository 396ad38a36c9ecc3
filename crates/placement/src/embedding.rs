//! Placements of ranks that communicate as a grid on hosts that are a grid: neighbours get
//! neighbouring hosts wherever the extents of both grids have common factors.

use base::{GridDimension, NetworkDistances};

use crate::cost::cost;
use crate::leaves::Placement;
use crate::matrix::Affinity;
use crate::tree::BranchTree;

/// The maximum number of dimensions of the network, and of the ranks.
const DIMENSIONS_MAX: usize = 6;

/// The number of placements that are tried: its minimum and maximum, and between them the number
/// for which all ranks of all placements together are this many.
const EMBEDDINGS_MIN: u32 = 50;
const EMBEDDINGS_MAX: u32 = 16_000;
const TRIED_RANKS_MAX: u32 = 1_000_000;

/// The prime factors of a number of ranks of which all assignments are tried.
const PRIMES_MAX: usize = 9;

/// The strides between partners that are examined, heaviest first.
const STRIDES_MAX: usize = 10;

/// The box of hosts on which ranks can be placed.
struct HostBox {
    /// The extents of the box.
    extents: Vec<u32>,
    /// The leaves of each host of the box, once for each slot.
    places: Vec<Vec<u32>>,
    /// The slots of each host.
    slots: u32,
}

/// Returns the cheapest of the placements that fold each dimension of the ranks along dimensions of
/// the network, or parts of them; `None` if the network or the communication is not a grid, or if
/// ranks and slots are not equally many.
pub(crate) fn embedded(affinity: &Affinity, tree: &BranchTree) -> Option<Placement> {
    let hosts = HostBox::of(affinity.ranks(), tree)?;
    let tries = (TRIED_RANKS_MAX / affinity.ranks().max(1)).clamp(EMBEDDINGS_MIN, EMBEDDINGS_MAX);
    let mut search = Search { affinity, tree, hosts: &hosts, tries: 0, best: None };
    let splittings = splittings(&hosts.extents);
    let grids = grids(affinity);
    for grid in &grids {
        search.tries = tries / grids.len() as u32;
        for splitting in &splittings {
            search.assign(grid, splitting, 0, &mut vec![Vec::new(); grid.len()]);
        }
    }
    search.best.map(|(_, placement)| placement)
}

/// A part of a dimension of the network, as a digit of its coordinate.
#[derive(Clone, Copy, Debug)]
struct Digit {
    dimension: usize,
    /// The number of values.
    base: u32,
    /// The product of the bases of the digits inside it.
    weight: u32,
}

/// The order of the inner digit of a dimension that has two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DigitOrder {
    /// The inner digit runs backwards if the outer one is odd.
    Reflected,
    /// The inner digit always runs forwards.
    Straight,
}

impl DigitOrder {
    /// The part of a coordinate that the inner digit makes up.
    fn inner(self, outer: u32, inner: u32, base: u32) -> u32 {
        match self {
            Self::Reflected if !outer.is_multiple_of(2) => base - 1 - inner,
            Self::Reflected | Self::Straight => inner,
        }
    }
}

/// The ways to write coordinates with one or two digits for each dimension, with few digits first.
fn splittings(extents: &[u32]) -> Vec<Vec<Digit>> {
    let mut all: Vec<Vec<Digit>> = vec![Vec::new()];
    for (dimension, &extent) in extents.iter().enumerate() {
        let whole = Digit { dimension, base: extent, weight: 1 };
        let inner = (2..extent).filter(|weight| extent.is_multiple_of(*weight));
        let two = inner.map(|weight| {
            let outer = Digit { dimension, base: extent / weight, weight };
            vec![outer, Digit { dimension, base: weight, weight: 1 }]
        });
        let ways: Vec<Vec<Digit>> = std::iter::once(vec![whole]).chain(two).collect();
        all = all
            .iter()
            .flat_map(|before| ways.iter().map(|way| [&before[..], way].concat()))
            .collect();
    }
    all.sort_by_key(Vec::len);
    all
}

/// The search among the ways to fold a grid of ranks.
struct Search<'a> {
    affinity: &'a Affinity,
    tree: &'a BranchTree,
    hosts: &'a HostBox,
    /// How many more placements are tried.
    tries: u32,
    best: Option<(u128, Placement)>,
}

impl Search<'_> {
    /// Assigns the digits from `next` on to dimensions of the grid, in every order, and tries the
    /// placements of complete assignments. `folds` has for each dimension of the grid the digits
    /// that it is folded along, outermost first.
    fn assign(
        &mut self,
        grid: &[u32],
        splitting: &[Digit],
        next: usize,
        folds: &mut Vec<Vec<Digit>>,
    ) {
        if self.tries == 0 {
            return;
        }
        let Some(&digit) = splitting.get(next) else {
            let is_split = splitting.iter().any(|digit| digit.weight > 1);
            for order in [DigitOrder::Reflected, DigitOrder::Straight] {
                if order == DigitOrder::Reflected || is_split {
                    placement(grid, self.hosts, folds, order).into_iter().for_each(|placement| {
                        self.consider(placement);
                    });
                }
            }
            return;
        };
        for own in 0..grid.len() {
            for place in 0..=folds[own].len() {
                folds[own].insert(place, digit);
                if grid[own].is_multiple_of(product(&folds[own])) {
                    self.assign(grid, splitting, next + 1, folds);
                }
                folds[own].remove(place);
            }
            // A dimension of one host is the same anywhere.
            if digit.base == 1 {
                return;
            }
        }
    }

    fn consider(&mut self, placement: Placement) {
        self.tries = self.tries.saturating_sub(1);
        let cost = cost(self.affinity, self.tree, &placement);
        if self.best.as_ref().is_none_or(|(best, _)| cost < *best) {
            self.best = Some((cost, placement));
        }
    }
}

impl HostBox {
    /// The box of all hosts that have slots, if the network is a grid, the box has no holes, and
    /// its hosts have equally many slots, one for each rank.
    fn of(ranks: u32, tree: &BranchTree) -> Option<Self> {
        let (NetworkDistances::Grid(dimensions), host_of) = tree.network()? else { return None };
        if dimensions.len() > DIMENSIONS_MAX || tree.slots_in_all() != u64::from(ranks) {
            return None;
        }
        let hosts: u32 = dimensions.iter().map(|dimension| dimension.extent).product();
        let mut all = vec![Vec::new(); hosts as usize];
        for leaf in tree.listed() {
            let slots = std::iter::repeat_n(leaf, tree.slots(leaf) as usize);
            all[host_of[leaf as usize] as usize].extend(slots);
        }
        let used: Vec<Vec<u32>> = (0..hosts)
            .filter(|host| !all[*host as usize].is_empty())
            .map(|host| coordinates(host, dimensions))
            .collect();
        let range = |dimension: usize| {
            let along = || used.iter().map(|point| point[dimension]);
            Some((along().min()?, along().max()?))
        };
        let ranges = (0..dimensions.len()).map(range).collect::<Option<Vec<_>>>()?;
        let extents: Vec<u32> = ranges.iter().map(|(first, last)| last - first + 1).collect();
        let places: Vec<Vec<u32>> =
            all.into_iter().filter(|places: &Vec<u32>| !places.is_empty()).collect();
        let slots = places.first()?.len();
        let is_full = extents.iter().map(|extent| *extent as usize).product::<usize>()
            == places.len()
            && places.iter().all(|one| one.len() == slots);
        is_full.then_some(Self { extents, places, slots: slots as u32 })
    }
}

/// The coordinates of a host.
fn coordinates(host: u32, dimensions: &[GridDimension]) -> Vec<u32> {
    let mut rest = host;
    let mut point: Vec<u32> = dimensions
        .iter()
        .rev()
        .map(|dimension| {
            let at = rest % dimension.extent;
            rest /= dimension.extent;
            at
        })
        .collect();
    point.reverse();
    point
}

/// The grids that the ranks may be, as extents: for each sequence of strides between partners of
/// which each divides the next one, and for the prime factors of the number of ranks, as many
/// algorithms pair ranks by their bits.
fn grids(affinity: &Affinity) -> Vec<Vec<u32>> {
    let ranks = affinity.ranks();
    let mut weights = vec![0_u64; ranks as usize];
    for rank in 0..ranks {
        for &(partner, weight) in affinity.partners(rank) {
            let stride = &mut weights[rank.abs_diff(partner) as usize];
            *stride = stride.saturating_add(weight);
        }
    }
    let mut strides: Vec<u32> = (1..ranks)
        .filter(|&stride| weights[stride as usize] > 0 && ranks.is_multiple_of(stride))
        .collect();
    strides.sort_by_key(|&stride| (std::cmp::Reverse(weights[stride as usize]), stride));
    strides.truncate(STRIDES_MAX);
    strides.sort_unstable();
    let mut chains: Vec<Vec<u32>> = vec![vec![1]];
    for stride in strides.into_iter().filter(|&stride| stride > 1) {
        let longer: Vec<Vec<u32>> = chains
            .iter()
            .filter(|chain| chain.len() < DIMENSIONS_MAX)
            .filter(|chain| chain.last().is_some_and(|last| stride.is_multiple_of(*last)))
            .map(|chain| chain.iter().copied().chain([stride]).collect())
            .collect();
        chains.extend(longer);
    }
    // Long chains first: they explain most partners.
    chains.sort_by_key(|chain| std::cmp::Reverse(chain.len()));
    let extents = |chain: Vec<u32>| {
        let ends = chain.iter().skip(1).copied().chain([ranks]);
        let mut extents: Vec<u32> = chain.iter().zip(ends).map(|(one, end)| end / one).collect();
        extents.reverse();
        extents
    };
    let mut grids: Vec<Vec<u32>> = chains.into_iter().map(extents).collect();
    let primes = prime_factors(ranks);
    if primes.len() <= PRIMES_MAX && !grids.contains(&primes) {
        grids.push(primes);
    }
    grids
}

fn prime_factors(number: u32) -> Vec<u32> {
    let (mut rest, mut factor) = (number, 2);
    let mut factors = Vec::new();
    while rest > 1 {
        while rest.is_multiple_of(factor) {
            factors.push(factor);
            rest /= factor;
        }
        factor = if factor * factor > rest { rest.max(2) } else { factor + 1 };
    }
    factors
}

/// The number of hosts along these digits together.
fn product(digits: &[Digit]) -> u32 {
    digits.iter().map(|digit| digit.base).product()
}

/// The placement of a grid of which each dimension is folded along some digits; each host gets a
/// block of neighbouring ranks. `None` if blocks and slots are not equally large.
fn placement(
    grid: &[u32],
    hosts: &HostBox,
    folds: &[Vec<Digit>],
    order: DigitOrder,
) -> Option<Placement> {
    let blocks: Vec<u32> =
        grid.iter().zip(folds).map(|(extent, own)| extent / product(own)).collect();
    if blocks.iter().product::<u32>() != hosts.slots {
        return None;
    }
    let dimensions: Vec<GridDimension> =
        grid.iter().map(|&extent| GridDimension { extent, is_periodic: false, step: 1 }).collect();
    let leaf = |rank: u32| {
        let point = coordinates(rank, &dimensions);
        let mut values = vec![[None; 2]; hosts.extents.len()];
        let mut slot = 0;
        for ((at, block), own) in point.iter().zip(&blocks).zip(folds) {
            fold(at / block, own, &mut values);
            slot = slot * block + at % block;
        }
        let host = hosts.extents.iter().zip(&values).fold(0, |host, (extent, digits)| {
            let at = match *digits {
                [Some((inner, _)), Some((outer, weight))] => {
                    outer * weight + order.inner(outer, inner, weight)
                }
                [Some(inner), None] => inner.0,
                _ => 0,
            };
            host * extent + at
        });
        hosts.places[host as usize][slot as usize]
    };
    Some(Placement::new((0..grid.iter().product()).map(leaf).collect()))
}

/// Writes a coordinate as digits, outermost first: for each dimension the value and weight of the
/// inner digit, then of the outer one. A digit runs backwards wherever the digits before it are
/// together odd, so that consecutive coordinates differ by one step in one digit.
fn fold(coordinate: u32, digits: &[Digit], values: &mut [[Option<(u32, u32)>; 2]]) {
    let mut rest = coordinate;
    for digit in digits.iter().rev() {
        let (above, value) = (rest / digit.base, rest % digit.base);
        let value = if above.is_multiple_of(2) { value } else { digit.base - 1 - value };
        let place = usize::from(digit.weight > 1);
        values[digit.dimension][place] = Some((value, digit.weight));
        rest = above;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Weighing;
    use crate::patterns::{Edges, stencil};
    use crate::tree::Branch;

    /// The least cost of an embedding of a grid in a torus whose hosts have this many slots, and
    /// the sum of the weights between neighbours.
    fn least(grid: &[u32], edges: Edges, torus: &[u32], slots: u32) -> (Option<u128>, u128) {
        let dimension = |&extent: &u32| GridDimension { extent, is_periodic: true, step: 1 };
        let distances = NetworkDistances::Grid(torus.iter().map(dimension).collect());
        let machines = vec![Branch::leaf(slots); distances.hosts()];
        let tree = BranchTree::over_network(&machines, distances, 1);
        let affinity = stencil(grid, edges, 1).affinity(Weighing::Bytes);
        let weight = |rank| affinity.partners(rank).iter().map(|one| u128::from(one.1)).sum();
        let twice: u128 = (0..affinity.ranks()).map(|rank| -> u128 { weight(rank) }).sum();
        let least = embedded(&affinity, &tree);
        (least.map(|placement| cost(&affinity, &tree, &placement)), twice / 2)
    }

    #[test]
    fn neighbours_are_neighbours() {
        for (grid, edges, torus) in [
            (&[4, 4, 4][..], Edges::Periodic, &[4, 4, 4][..]),
            (&[4, 2, 8], Edges::Periodic, &[8, 4, 2]),
            (&[16, 4], Edges::Periodic, &[4, 4, 4]),
            (&[64], Edges::Periodic, &[4, 4, 4]),
            (&[60], Edges::Periodic, &[3, 5, 4]),
            (&[9, 3], Edges::Open, &[3, 3, 3]),
            (&[6, 5], Edges::Open, &[5, 3, 2]),
            (&[8, 8], Edges::Periodic, &[4, 4, 4]),
            (&[2, 2, 2, 2, 2, 2], Edges::Open, &[4, 4, 4]),
            (&[4, 8, 6], Edges::Periodic, &[8, 6, 4]),
            (&[24, 8], Edges::Periodic, &[8, 6, 4]),
            (&[4, 48], Edges::Periodic, &[8, 6, 4]),
            (&[192], Edges::Periodic, &[8, 6, 4]),
            (&[64, 8], Edges::Periodic, &[8, 8, 8]),
        ] {
            let (cost, weights) = least(grid, edges, torus, 1);
            assert_eq!(cost, Some(weights), "{grid:?} on {torus:?}");
        }
    }

    #[test]
    fn numbers_have_prime_factors() {
        for number in 1..400 {
            let factors = prime_factors(number);
            assert_eq!(factors.iter().product::<u32>(), number);
            let is_prime = |one: &u32| (2..*one).all(|other| !one.is_multiple_of(other));
            assert!(factors.iter().all(is_prime), "{number}: {factors:?}");
        }
    }

    #[test]
    fn hosts_get_blocks() {
        // Each host has a block of 2 x 2 x 1 ranks: the faces between blocks have 4 * 8 * 8 pairs
        // in two dimensions and 8 * 8 * 8 in the third.
        let (cost, _) = least(&[8, 8, 4], Edges::Periodic, &[4, 4, 4], 4);
        assert_eq!(cost, Some(2 * (4 * 8 * 4 + 4 * 8 * 4 + 4 * 8 * 8)));
    }

    #[test]
    fn other_communication_has_no_embedding() {
        assert_eq!(least(&[7, 9], Edges::Open, &[8, 8], 1).0, None);
    }
}
