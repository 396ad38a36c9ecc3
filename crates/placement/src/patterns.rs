//! Matrices of well-known communication patterns, for tests and comparisons.

use fastrand::Rng;

use crate::matrix::Matrix;

/// Whether the first and the last rank of each dimension of a grid are neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edges {
    /// They are not neighbours.
    Open,
    /// They are neighbours.
    Periodic,
}

/// A grid in which each rank sends `bytes` to its neighbours in each dimension; the last dimension
/// varies fastest, as in `MPI_Cart_create`.
pub fn stencil(extents: &[u32], edges: Edges, bytes: u64) -> Matrix {
    let ranks = extents.iter().product();
    let mut matrix = Matrix::new(ranks);
    for rank in 0..ranks {
        let mut stride = 1;
        for &extent in extents.iter().rev() {
            let at = rank / stride % extent;
            let base = rank - at * stride;
            if at + 1 < extent || (edges == Edges::Periodic && extent > 1) {
                let next = base + (at + 1) % extent * stride;
                matrix.add(rank, next, bytes, 1);
                matrix.add(next, rank, bytes, 1);
            }
            stride *= extent;
        }
    }
    matrix
}

/// The partners in a fast Fourier transform: ranks whose numbers differ in one bit.
pub fn butterfly(ranks: u32, bytes: u64) -> Matrix {
    let mut matrix = Matrix::new(ranks);
    for rank in 0..ranks {
        let partners = (0..ranks.ilog2()).map(|bit| rank ^ (1 << bit));
        for partner in partners.filter(|&partner| partner < ranks) {
            matrix.add(rank, partner, bytes, 1);
        }
    }
    matrix
}

/// Each rank sends 1 to 1000 bytes to `partners` other ranks, drawn from the seed.
pub fn random(ranks: u32, partners: u32, seed: u64) -> Matrix {
    let mut rng = Rng::with_seed(seed);
    let mut matrix = Matrix::new(ranks);
    for rank in 0..ranks {
        for _ in 0..partners {
            let partner = rng.u32(0..ranks);
            if partner != rank {
                matrix.add(rank, partner, rng.u64(1..=1000), 1);
            }
        }
    }
    matrix
}

/// Broadcasts of `bytes` along binomial trees, `rounds` in all, with roots spread evenly over the
/// ranks.
pub fn broadcasts(ranks: u32, rounds: u32, bytes: u64) -> Matrix {
    let mut matrix = Matrix::new(ranks);
    for round in 0..rounds {
        let root = (u64::from(round) * u64::from(ranks) / u64::from(rounds)) as u32;
        for relative in 1..ranks {
            // A rank receives from the rank without its highest bit.
            let from = relative ^ (1 << relative.ilog2());
            matrix.add((root + from) % ranks, (root + relative) % ranks, bytes, 1);
        }
    }
    matrix
}
