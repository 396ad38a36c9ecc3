//! The communication matrices of the programs in `examples/`, computed from the library's own
//! schedules between machines.

use collectives::{InputPlace, Member, Operands, ProcessLayout, Schedule, Situation, Transfer};
use placement::{Matrix, patterns};

/// `asp.c`: broadcasts of rows of 2048 distances, from each process in turn, or from 256 of them.
pub fn asp(ranks: u32) -> Matrix {
    let mut matrix = Matrix::new(ranks);
    let roots = ranks.min(256);
    let situation = Situation { layout: ProcessLayout::apart(ranks), ..Situation::plain(ranks) };
    for root in (0..roots).map(|number| number * (ranks / roots)) {
        add(&mut matrix, &situation, |member| collectives::bcast(member, root, 2048 * 4), 1);
    }
    matrix
}

/// `poisson3d.c` with 32 points in each direction on each process. In each step it exchanges faces
/// of doubles with the neighbours and calls an allreduce of one double.
pub fn poisson3d(extents: &[u32]) -> Matrix {
    let mut matrix = patterns::stencil(extents, patterns::Edges::Open, 32 * 32 * 8);
    let ranks = matrix.ranks();
    let situation = Situation { layout: ProcessLayout::apart(ranks), ..Situation::plain(ranks) };
    let one = Operands { count: 1, element_bytes: 8, commutative: true };
    add(
        &mut matrix,
        &situation,
        |member| collectives::allreduce(member, one, InputPlace::SendBuffer),
        8,
    );
    matrix
}

/// Adds the amounts that all members send in an operation with blocks of `block_bytes`.
fn add(
    matrix: &mut Matrix,
    situation: &Situation,
    schedule: impl Fn(Member) -> Schedule,
    block_bytes: u64,
) {
    let size = matrix.ranks();
    for rank in 0..size {
        for round in schedule(Member { rank, size, situation }).rounds() {
            for transfer in round.transfers {
                if let Transfer::Send { peer, from } = transfer {
                    matrix.add(rank, *peer, from.count as u64 * block_bytes, 1);
                }
            }
        }
    }
}
