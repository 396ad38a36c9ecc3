//! How fast datatypes are packed, beside loops written by hand for the same layout, which know
//! the block's size, but not the stride, when they are compiled. (The loop over structs knows
//! everything.)
//!
//! Run with `cargo run --release -p datatype --example pack_speed`. Times are the best of many
//! rounds, in nanoseconds per block.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use datatype::{Datatype, Predefined, StructBlock};
use memory::{Buffer, Scratch};

const BLOCKS: usize = 4096;
const ROUNDS: usize = 300;

fn main() {
    println!("{:<34} {:>8} {:>8} {:>8} {:>7}", "ns per block", "pack", "unpack", "loop", "ratio");
    vector_of::<1>();
    vector_of::<2>();
    vector_of::<4>();
    vector_of::<8>();
    vector_of::<12>();
    vector_of::<16>();
    vector_of::<24>();
    vector_of::<40>();
    vector_of::<64>();
    vector_of::<256>();
    vector_of::<1024>();
    indexed_of::<4>();
    indexed_of::<8>();
    indexed_of::<16>();
    indexed_of::<64>();
    particles();
}

/// Blocks of `N` bytes at a distance of twice as much.
fn vector_of<const N: usize>() {
    let byte = Datatype::named(Predefined::Byte);
    let datatype = Datatype::vector(BLOCKS as i64, N as i64, 2 * N as i64, byte).unwrap();
    let source = vec![1_u8; BLOCKS * 2 * N];
    let stride = black_box(2 * N);
    let by_hand = |out: &mut [u8]| {
        for (out, block) in out.chunks_exact_mut(N).zip(source.chunks_exact(stride)) {
            out[..N].copy_from_slice(&block[..N]);
        }
    };
    report(&format!("vector, blocks of {N}"), &datatype, 1, BLOCKS, by_hand);
}

/// Blocks of `N` bytes at places in no order.
fn indexed_of<const N: usize>() {
    let byte = Datatype::named(Predefined::Byte);
    let places: Vec<i64> = (0..BLOCKS).map(|i| (i * 1031 % BLOCKS * 2 * N) as i64).collect();
    let datatype = Datatype::hindexed_block(N as i64, places.clone(), byte).unwrap();
    let source = vec![1_u8; BLOCKS * 2 * N];
    let by_hand = |out: &mut [u8]| {
        for (out, place) in out.chunks_exact_mut(N).zip(&places) {
            out[..N].copy_from_slice(&source[*place as usize..][..N]);
        }
    };
    report(&format!("indexed, blocks of {N}"), &datatype, 1, BLOCKS, by_hand);
}

/// Many small structs with gaps: an int, three doubles, a short.
fn particles() {
    let block = |length, displacement, named| StructBlock {
        length,
        displacement,
        of: Arc::clone(Datatype::named(named)),
    };
    let particle = Datatype::structure(vec![
        block(1, 0, Predefined::Int),
        block(3, 8, Predefined::Double),
        block(1, 32, Predefined::Short),
    ]);
    let source = vec![1_u8; BLOCKS * 40];
    let by_hand = |out: &mut [u8]| {
        for (out, one) in out.chunks_exact_mut(30).zip(source.chunks_exact(40)) {
            out[..4].copy_from_slice(&one[..4]);
            out[4..28].copy_from_slice(&one[8..32]);
            out[28..].copy_from_slice(&one[32..34]);
        }
    };
    report("structs of 4, 24 and 2", &particle.unwrap(), BLOCKS, 3 * BLOCKS, by_hand);
}

fn report(
    name: &str,
    datatype: &Datatype,
    count: usize,
    blocks: usize,
    by_hand: impl Fn(&mut [u8]),
) {
    let (_, high) = datatype.data_bounds(count).unwrap();
    let scratch = Arc::new(Scratch::zeroed(high as usize));
    let layout = datatype.layout(count).expect("the datatype has gaps");
    let buffer = Buffer::laid_out_in_scratch(&scratch, 0, layout, count);
    let mut packed = vec![0_u8; buffer.len()];
    let pack = best(blocks, || buffer.read(0, black_box(&mut packed)));
    let unpack = best(blocks, || buffer.write(0, black_box(&packed)));
    let plain = best(blocks, || by_hand(black_box(&mut packed)));
    let ratio = pack / plain;
    println!("{name:<34} {pack:>8.2} {unpack:>8.2} {plain:>8.2} {ratio:>7.2}");
}

fn best(blocks: usize, mut run: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        run();
        best = best.min(begin.elapsed().as_nanos() as f64);
    }
    best / blocks as f64
}
