//! The communication of published benchmarks: how much each rank sends to each other rank, written
//! from their descriptions, not recorded (Bailey et al., The NAS Parallel Benchmarks 2.0,
//! NAS-95-020, 1995; Adams et al., HPGMG; the two-dimensional decompositions of Fourier
//! transforms).

use placement::Matrix;

use super::extents;

/// The benchmarks that exist for this number of ranks.
pub fn matrices(ranks: u32) -> Vec<(&'static str, Matrix)> {
    let mut all = vec![
        ("NAS LU", wavefronts(ranks)),
        ("NAS MG", multigrid(ranks)),
        ("pencils of a transform", pencils(ranks)),
    ];
    if ranks.is_power_of_two() {
        all.push(("NAS CG", conjugate_gradient(ranks)));
    }
    if ranks.isqrt().pow(2) == ranks {
        all.push(("NAS BT", multipartition(ranks)));
    }
    all
}

/// LU: wavefronts through a grid of two dimensions, 5 doubles for each of 102 points in each of 102
/// planes and both sweeps, and the exchange of two layers of faces.
fn wavefronts(ranks: u32) -> Matrix {
    let grid = extents(ranks, 2);
    let (rows, columns) = (u64::from(grid[0]), u64::from(grid[1]));
    let mut matrix = Matrix::new(ranks);
    for rank in 0..ranks {
        let (row, column) = (rank / grid[1], rank % grid[1]);
        let (down, across) = (5 * 8 * 102 * 102 / columns, 5 * 8 * 102 * 102 / rows);
        if row + 1 < grid[0] {
            matrix.add(rank, rank + grid[1], down + 2 * down, 102 + 1);
            matrix.add(rank + grid[1], rank, down + 2 * down, 102 + 1);
        }
        if column + 1 < grid[1] {
            matrix.add(rank, rank + 1, across + 2 * across, 102 + 1);
            matrix.add(rank + 1, rank, across + 2 * across, 102 + 1);
        }
    }
    matrix
}

/// MG: faces of a periodic grid of three dimensions with 256 points in each, on each level half of
/// the level above; on coarse levels every second rank remains in each dimension.
fn multigrid(ranks: u32) -> Matrix {
    let grid = extents(ranks, 3);
    let mut matrix = Matrix::new(ranks);
    let mut points = 256;
    let mut strides = [1; 3];
    while points > 2 {
        for rank in 0..ranks {
            let at = [rank / grid[2] / grid[1], rank / grid[2] % grid[1], rank % grid[2]];
            if at.iter().zip(&strides).any(|(at, stride)| !at.is_multiple_of(*stride)) {
                continue;
            }
            for dimension in 0..3 {
                let face: u64 = (0..3)
                    .filter(|other| *other != dimension)
                    .map(|other| u64::from((points / (grid[other] / strides[other]).max(1)).max(1)))
                    .product();
                let mut next = at;
                next[dimension] = (at[dimension] + strides[dimension]) % grid[dimension];
                let peer = (next[0] * grid[1] + next[1]) * grid[2] + next[2];
                if peer != rank {
                    matrix.add(rank, peer, 8 * face, 1);
                    matrix.add(peer, rank, 8 * face, 1);
                }
            }
        }
        points /= 2;
        for (stride, extent) in strides.iter_mut().zip(&grid) {
            let halved = points < extent / *stride && extent.is_multiple_of(*stride * 2);
            *stride *= if halved { 2 } else { 1 };
        }
    }
    matrix
}

/// A transform of three dimensions in pencils: each row and each column of a grid of ranks
/// exchanges everything with everything.
fn pencils(ranks: u32) -> Matrix {
    let grid = extents(ranks, 2);
    let mut matrix = Matrix::new(ranks);
    for rank in 0..ranks {
        let (row, column) = (rank / grid[1], rank % grid[1]);
        let in_row = (0..grid[1]).map(|other| (row * grid[1] + other, grid[1]));
        let in_column = (0..grid[0]).map(|other| (other * grid[1] + column, grid[0]));
        for (peer, size) in in_row.chain(in_column).filter(|(peer, _)| *peer != rank) {
            matrix.add(rank, peer, 1 << 20 >> size.ilog2(), 1);
        }
    }
    matrix
}

/// CG: sums along the rows of a grid by exchanges with the rank that differs in one bit, and the
/// exchange with the transposed rank; vectors of 75000 doubles.
fn conjugate_gradient(ranks: u32) -> Matrix {
    let columns = 1 << ranks.ilog2().div_ceil(2);
    let rows = ranks / columns;
    let mut matrix = Matrix::new(ranks);
    let bytes = 8 * 75_000 / u64::from(rows);
    for rank in 0..ranks {
        for bit in 0..columns.ilog2() {
            matrix.add(rank, rank ^ (1 << bit), bytes, 1);
        }
        let (row, column) = (rank / columns, rank % columns);
        // With twice as many columns as rows, pairs of columns are transposed together.
        let wide = columns / rows;
        let peer = (column / wide) * columns + row * wide + column % wide;
        if peer != rank {
            matrix.add(rank, peer, bytes, 1);
        }
    }
    matrix
}

/// BT: each rank has the cells of a diagonal, and exchanges faces with six neighbours of a periodic
/// square: two along each axis, two along the diagonal.
fn multipartition(ranks: u32) -> Matrix {
    let side = ranks.isqrt();
    let mut matrix = Matrix::new(ranks);
    for rank in 0..ranks {
        let (row, column) = (rank / side, rank % side);
        for (down, right) in [(0, 1), (1, 0), (1, side - 1)] {
            let peer = (row + down) % side * side + (column + right) % side;
            if peer != rank {
                matrix.add(rank, peer, 5 * 8 * 102 * 102 / u64::from(side), 1);
                matrix.add(peer, rank, 5 * 8 * 102 * 102 / u64::from(side), 1);
            }
        }
    }
    matrix
}
