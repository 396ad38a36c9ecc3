//! Measures packing and unpacking of datatypes, beside handwritten loops for the layout. At compile
//! time the loops know the length of the blocks, but not the stride. (The loop over structs knows
//! both.)
//!
//! Run it with `cargo bench -p datatype --bench packing`. Datatype and loop take turns; times are
//! the best of many rounds, in nanoseconds per block, and the ratio is that of the datatype to the
//! loop.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use datatype::{ArrayOrder, Datatype, Predefined, StructBlock, SubarrayDimension};
use memory::Buffer;

const BLOCKS: usize = 2048;
const ROUNDS: usize = 1500;

/// A layout, and the loops that a program would use for it.
struct Case<'a> {
    name: String,
    datatype: Arc<Datatype>,
    count: usize,
    blocks: usize,
    /// The number of bytes of memory that the loops process, gaps at the end included.
    span: usize,
    pack: &'a (dyn Fn(&[u8], &mut [u8]) + Sync),
    unpack: &'a (dyn Fn(&[u8], &mut [u8]) + Sync),
}

fn main() {
    println!(
        "{:<32} {:>8} {:>8} {:>6}   {:>8} {:>8} {:>6}",
        "ns per block", "pack", "by hand", "ratio", "unpack", "by hand", "ratio"
    );
    vector_of::<1>(2);
    vector_of::<2>(2);
    vector_of::<4>(2);
    vector_of::<8>(2);
    vector_of::<12>(2);
    vector_of::<16>(2);
    vector_of::<24>(2);
    vector_of::<32>(2);
    vector_of::<40>(2);
    vector_of::<64>(2);
    vector_of::<128>(2);
    vector_of::<256>(2);
    vector_of::<1024>(2);
    vector_of::<4>(3);
    vector_of::<8>(256);
    box_of(64, 8);
    box_of(32, 2);
    box_of(40, 1);
    indexed_of::<1>();
    indexed_of::<2>();
    indexed_of::<4>();
    indexed_of::<8>();
    indexed_of::<16>();
    indexed_of::<64>();
    uneven();
    particles();
}

fn copy<const N: usize>(from: &[u8], to: &mut [u8]) {
    to[..N].copy_from_slice(&from[..N]);
}

/// Blocks of `N` bytes at a distance of `stride` blocks.
fn vector_of<const N: usize>(stride: usize) {
    let byte = Datatype::named(Predefined::Byte);
    let datatype = Datatype::vector(BLOCKS as i64, N as i64, (stride * N) as i64, byte).unwrap();
    let distance = black_box(stride * N);
    report(Case {
        name: format!("vector, blocks of {N}, stride {stride}"),
        datatype,
        count: 1,
        blocks: BLOCKS,
        span: BLOCKS * distance,
        pack: &|from, out| {
            let blocks = from.chunks_exact(distance);
            out.chunks_exact_mut(N).zip(blocks).for_each(|(out, from)| copy::<N>(from, out));
        },
        unpack: &|data, to| {
            let blocks = to.chunks_exact_mut(distance);
            data.chunks_exact(N).zip(blocks).for_each(|(data, to)| copy::<N>(data, to));
        },
    });
}

/// `across` doubles in a row, 16 rows in a plane, 16 planes: part of an array that is `times` as
/// large in each dimension.
fn box_of(across: usize, times: usize) {
    const ROWS: usize = 16;
    let part = |subsize: usize| SubarrayDimension {
        size: (times * subsize) as i64,
        subsize: subsize as i64,
        start: 0,
    };
    let double = Datatype::named(Predefined::Double);
    let across = if times == 1 { across / 40 } else { across };
    let innermost = SubarrayDimension { size: 80, subsize: across as i64, start: 0 };
    let innermost = if times == 1 { innermost } else { part(across) };
    let dimensions = vec![part(ROWS), part(ROWS), innermost];
    let row = black_box(innermost.size as usize * 8);
    let plane = black_box(row * ROWS * times);
    let bytes = black_box(across * 8);
    let datatype = Datatype::subarray(dimensions, ArrayOrder::C, double).unwrap();
    report(Case {
        name: format!("3D subarray, rows of {bytes}"),
        datatype,
        count: 1,
        blocks: ROWS * ROWS,
        span: ROWS * plane,
        pack: &|from, out| {
            for (out, plane) in out.chunks_exact_mut(bytes * ROWS).zip(from.chunks_exact(plane)) {
                for (out, row) in out.chunks_exact_mut(bytes).zip(plane.chunks_exact(row)) {
                    match bytes {
                        8 => copy::<8>(row, out),
                        _ => out.copy_from_slice(&row[..bytes]),
                    }
                }
            }
        },
        unpack: &|data, to| {
            for (data, plane) in data.chunks_exact(bytes * ROWS).zip(to.chunks_exact_mut(plane)) {
                for (data, row) in data.chunks_exact(bytes).zip(plane.chunks_exact_mut(row)) {
                    match bytes {
                        8 => copy::<8>(data, row),
                        _ => row[..bytes].copy_from_slice(data),
                    }
                }
            }
        },
    });
}

/// Blocks of `N` bytes at random places.
fn indexed_of<const N: usize>() {
    let byte = Datatype::named(Predefined::Byte);
    let places: Vec<i64> = (0..BLOCKS).map(|i| (i * 1031 % BLOCKS * 2 * N) as i64).collect();
    report(Case {
        name: format!("indexed, blocks of {N}"),
        datatype: Datatype::hindexed_block(N as i64, places.clone(), byte).unwrap(),
        count: 1,
        blocks: BLOCKS,
        span: BLOCKS * 2 * N,
        pack: &|from, out| {
            for (out, place) in out.chunks_exact_mut(N).zip(&places) {
                copy::<N>(&from[*place as usize..], out);
            }
        },
        unpack: &|data, to| {
            for (data, place) in data.chunks_exact(N).zip(&places) {
                copy::<N>(data, &mut to[*place as usize..]);
            }
        },
    });
}

/// Blocks of 8 to 64 bytes with gaps.
fn uneven() {
    let double = Datatype::named(Predefined::Double);
    let lengths: Vec<i64> = (0..BLOCKS as i64).map(|i| 1 + i * 5 % 8).collect();
    let places: Vec<i64> = (0..BLOCKS as i64).map(|i| i * 9).collect();
    report(Case {
        name: "indexed, blocks of 8 to 64".into(),
        datatype: Datatype::indexed(lengths.clone(), places.clone(), double).unwrap(),
        count: 1,
        blocks: BLOCKS,
        span: BLOCKS * 72,
        pack: &|from, out| {
            let mut rest = out;
            for (length, place) in lengths.iter().zip(&places) {
                let (out, after) = rest.split_at_mut(*length as usize * 8);
                out.copy_from_slice(&from[*place as usize * 8..][..*length as usize * 8]);
                rest = after;
            }
        },
        unpack: &|data, to| {
            let mut rest = data;
            for (length, place) in lengths.iter().zip(&places) {
                let (data, after) = rest.split_at(*length as usize * 8);
                to[*place as usize * 8..][..*length as usize * 8].copy_from_slice(data);
                rest = after;
            }
        },
    });
}

/// Many small structs with gaps: an int, three doubles, a short.
fn particles() {
    let block = |length, displacement, named| StructBlock {
        length,
        displacement,
        of: Datatype::named(named).borrowed(),
    };
    let particle = Datatype::structure(vec![
        block(1, 0, Predefined::Int),
        block(3, 8, Predefined::Double),
        block(1, 32, Predefined::Short),
    ]);
    report(Case {
        name: "structs of 4, 24 and 2".into(),
        datatype: particle.unwrap(),
        count: BLOCKS,
        blocks: 3 * BLOCKS,
        span: BLOCKS * 40,
        pack: &|from, out| {
            for (out, one) in out.chunks_exact_mut(30).zip(from.chunks_exact(40)) {
                copy::<4>(one, out);
                copy::<24>(&one[8..], &mut out[4..]);
                copy::<2>(&one[32..], &mut out[28..]);
            }
        },
        unpack: &|data, to| {
            for (data, one) in data.chunks_exact(30).zip(to.chunks_exact_mut(40)) {
                copy::<4>(data, one);
                copy::<24>(&data[4..], &mut one[8..]);
                copy::<2>(&data[28..], &mut one[32..]);
            }
        },
    });
}

fn report(case: Case<'_>) {
    let whole = Buffer::zeroed(case.span);
    let layout = case.datatype.layout(case.count).expect("the datatype has gaps");
    let buffer = whole.laid_out_part(0, layout, case.count);
    let mut packed = vec![1_u8; buffer.len()];
    let mut best = [f64::INFINITY; 4];
    let time = |best: &mut f64, run: &mut dyn FnMut()| {
        let begin = Instant::now();
        run();
        *best = best.min(begin.elapsed().as_nanos() as f64 / case.blocks as f64);
    };
    for _ in 0..ROUNDS.min(100_000_000 / case.span) {
        time(&mut best[0], &mut || buffer.read(0, black_box(&mut packed)));
        whole.lend(&[], 0, case.span, |memory| {
            time(&mut best[1], &mut || (case.pack)(black_box(&memory[0]), black_box(&mut packed)));
        });
        time(&mut best[2], &mut || buffer.write(0, black_box(&packed)));
        whole.lend_mut(0, case.span, |memory| {
            time(&mut best[3], &mut || {
                (case.unpack)(black_box(&packed), black_box(&mut memory[0]))
            });
        });
    }
    let [pack, pack_by_hand, unpack, unpack_by_hand] = best;
    let (pack_ratio, unpack_ratio) = (pack / pack_by_hand, unpack / unpack_by_hand);
    println!(
        "{:<32} {pack:>8.2} {pack_by_hand:>8.2} {pack_ratio:>6.2}   {unpack:>8.2} \
         {unpack_by_hand:>8.2} {unpack_ratio:>6.2}",
        case.name
    );
}
