//! Kernels whose time is predicted from their memory accesses, and measured.

use memory::accesses::{self, Line};
use memory_costs::{
    Access, BlockNumber, BlockStates, CostTable, Kernel, KernelPhase, LineState, Loop,
    MemoryOperation, Met, ThreadNumber, predict,
};

use super::pair::{ONE, PairBlocks, ThreadPair};
use super::sampling::{median, prepare};

/// A kernel that was predicted and measured.
pub struct Case {
    /// The name of the kernel.
    pub name: &'static str,
    /// Which thread wrote the blocks before the kernel ran.
    pub before: Before,
    /// The size of all blocks together.
    pub bytes: u64,
    /// The predicted time, in nanoseconds.
    pub predicted_ns: f64,
    /// The measured time in nanoseconds, the median of several runs.
    pub measured_ns: f64,
    /// The part of the time that is computation, without waiting for memory.
    pub computing_ns: f64,
}

/// Which thread wrote the blocks before a kernel runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// The thread that runs the kernel.
    Own,
    /// The other thread.
    Other,
}

impl Case {
    /// The relative error of the prediction.
    pub fn error(&self) -> f64 {
        (self.predicted_ns / self.measured_ns - 1.0).abs()
    }

    /// Whether the prediction is bound by accesses rather than computation.
    pub fn depends_on_memory(&self) -> bool {
        self.predicted_ns > self.computing_ns * 1.001
    }
}

/// A kernel with its description.
struct Subject {
    name: &'static str,
    /// The length of each block, as a multiple of the size.
    blocks: &'static [u64],
    /// Whether each block is read, and whether it is written.
    uses: &'static [(bool, bool)],
    /// The number of passes over all blocks, for a size in bytes.
    passes: fn(u64) -> u64,
    run: fn(&mut PairBlocks),
}

const SUBJECTS: [Subject; 6] = [
    Subject {
        name: "copy",
        blocks: &[1, 1],
        uses: &[(true, false), (false, true)],
        passes: |_| 1,
        run: copy,
    },
    Subject {
        name: "dot product",
        blocks: &[1, 1],
        uses: &[(true, false), (true, false)],
        passes: |_| 1,
        run: dot,
    },
    Subject {
        name: "DAXPY",
        blocks: &[1, 1],
        uses: &[(true, false), (true, true)],
        passes: |_| 1,
        run: daxpy,
    },
    Subject {
        name: "stencil",
        blocks: &[1, 1],
        uses: &[(true, false), (false, true)],
        passes: |_| 1,
        run: stencil,
    },
    Subject {
        name: "sparse matrix",
        blocks: &[ROW_ENTRIES, ROW_ENTRIES, 1, 1],
        uses: &[(true, false), (true, false), (true, false), (false, true)],
        passes: |_| 1,
        run: sparse,
    },
    Subject {
        name: "FFT",
        blocks: &[1, 1],
        uses: &[(true, true), (true, true)],
        passes: |bytes| u64::from((bytes / 8).ilog2()),
        run: transform,
    },
];

/// The number of entries in a row of the sparse matrix.
const ROW_ENTRIES: u64 = 5;

/// The block sizes in bytes, as powers of two.
const SIZES: [u32; 6] = [12, 14, 16, 18, 20, 22];

/// The size at which the computing time is measured, in bytes: all blocks fit into the L1 cache.
const COMPUTING_BYTES: u64 = 2 << 10;

/// The number of runs that are timed together, because a single run is too short for the clock.
const COMPUTING_RUNS: u32 = 100;

/// The number of timed runs.
const RUNS: usize = 9;

/// Runs and predicts all kernels.
///
/// # Errors
/// The cores are too busy, or `table` has no measurements.
pub fn cases(pair: &ThreadPair<'_>, table: &CostTable) -> Result<Vec<Case>, String> {
    let mut cases = Vec::new();
    for subject in &SUBJECTS {
        let steps = |bytes| (bytes * (subject.passes)(bytes)) as f64;
        let computing = computing_ns(pair, subject) / steps(COMPUTING_BYTES);
        for before in [Before::Own, Before::Other] {
            for bytes in SIZES.map(|exponent| 1 << exponent) {
                let (measured_ns, crossing_ns) = measure(pair, subject, bytes, before)?;
                let computing_ns = computing * steps(bytes);
                let predicted = subject.predict(bytes, before, computing_ns, table, crossing_ns);
                let predicted_ns =
                    predicted.ok_or("the table has no measurements: sample again")?;
                let bytes = bytes * subject.blocks.iter().sum::<u64>();
                let name = subject.name;
                let case = Case { name, before, bytes, predicted_ns, measured_ns, computing_ns };
                cases.push(case);
            }
        }
    }
    Ok(cases)
}

/// The computing time in nanoseconds of a kernel whose blocks of [`COMPUTING_BYTES`] are all in the
/// L1 cache.
fn computing_ns(pair: &ThreadPair<'_>, subject: &Subject) -> f64 {
    give_blocks(pair, subject, COMPUTING_BYTES);
    let all_runs = |blocks: &mut PairBlocks| {
        for _ in 0..COMPUTING_RUNS {
            blocks.iter_mut().for_each(|block| accesses::store(block, ONE));
        }
    };
    let storing = median((0..RUNS).map(|_| pair.time(&mut |blocks| all_runs(blocks))).collect());
    let both = (0..RUNS).map(|_| {
        pair.time(&mut |blocks| {
            for _ in 0..COMPUTING_RUNS {
                blocks.iter_mut().for_each(|block| accesses::store(block, ONE));
                (subject.run)(blocks);
            }
        })
    });
    ((median(both.collect()) - storing) / f64::from(COMPUTING_RUNS)).max(0.0)
}

fn give_blocks(pair: &ThreadPair<'_>, subject: &Subject, bytes: u64) {
    let lines = |times: &u64| vec![Line::default(); (bytes * times) as usize / size_of::<Line>()];
    *pair.blocks() = subject.blocks.iter().map(lines).collect();
}

/// The time of a kernel, and the crossing time of the cores, both in nanoseconds.
fn measure(
    pair: &ThreadPair<'_>,
    subject: &Subject,
    bytes: u64,
    before: Before,
) -> Result<(f64, f64), String> {
    give_blocks(pair, subject, bytes);
    let (mut times, mut crossings) = (Vec::new(), Vec::new());
    for run in 0..=RUNS {
        let met = match before {
            Before::Own => Met::Own(LineState::Modified),
            Before::Other => Met::Other(LineState::Modified),
        };
        for block in 0..subject.blocks.len() {
            prepare(pair, met, block)?;
        }
        crossings.push(pair.crossing_ns()?);
        let time = pair.time(&mut |blocks| {
            (subject.run)(blocks);
            // Waits until the other cores can see the stores of the kernel.
            accesses::store(&mut [], 0);
        });
        // The first run is excluded, because its code is not cached.
        if run > 0 {
            times.push(time);
        }
    }
    Ok((median(times), median(crossings)))
}

impl Subject {
    fn predict(
        &self,
        bytes: u64,
        before: Before,
        computing_ns: f64,
        table: &CostTable,
        crossing_ns: f64,
    ) -> Option<f64> {
        let own = ThreadNumber(0);
        let writer = if before == Before::Own { own } else { ThreadNumber(1) };
        let (mut states, mut accesses) = (BlockStates::default(), Vec::new());
        for (number, (times, (is_read, is_written))) in (0..).zip(self.blocks.iter().zip(self.uses))
        {
            let block = BlockNumber(number);
            states.access(block, writer, MemoryOperation::Store);
            accesses.extend(is_read.then(|| Access::load(block, bytes * times)));
            accesses.extend(is_written.then(|| Access::store(block, bytes * times)));
        }
        let passes = (self.passes)(bytes);
        let computing_ns = computing_ns / passes as f64;
        let pass = KernelPhase::Together(vec![Loop { thread: own, accesses, computing_ns }]);
        let kernel = Kernel { phases: vec![pass; passes as usize] };
        predict(&kernel, &mut states, table, crossing_ns)
    }
}

fn number(word: u64) -> f64 {
    f64::from_bits(word)
}

fn copy(blocks: &mut PairBlocks) {
    let (from, into) = blocks.split_at_mut(1);
    into[0].copy_from_slice(&from[0]);
}

fn dot(blocks: &mut PairBlocks) {
    let mut sums = [0.0; 8];
    for (x, y) in blocks[0].iter().zip(&blocks[1]) {
        for ((sum, x), y) in sums.iter_mut().zip(x.0).zip(y.0) {
            *sum += number(x) * number(y);
        }
    }
    std::hint::black_box(sums);
}

fn daxpy(blocks: &mut PairBlocks) {
    let (x, y) = blocks.split_at_mut(1);
    for (x, y) in x[0].iter().zip(&mut y[0]) {
        for (x, y) in x.0.iter().zip(&mut y.0) {
            *y = (number(*y) + 3.0 * number(*x)).to_bits();
        }
    }
}

/// Stencil: each number becomes the sum of three neighbours.
fn stencil(blocks: &mut PairBlocks) {
    let (x, y) = blocks.split_at_mut(1);
    for (x, y) in x[0].windows(3).zip(&mut y[0]) {
        let [before, here, after] = [x[0].0, x[1].0, x[2].0];
        for i in 0..8 {
            let left = if i == 0 { before[7] } else { here[i - 1] };
            let right = if i == 7 { after[0] } else { here[i + 1] };
            y.0[i] = (number(left) + number(here[i]) + number(right)).to_bits();
        }
    }
}

/// A sparse matrix in compressed rows, times a vector: entries, columns, vector, result. The
/// columns are near the diagonal; they follow from the row and the content of the block.
fn sparse(blocks: &mut PairBlocks) {
    let (given, result) = blocks.split_at_mut(3);
    let [entries, columns, vector] = given else { return };
    let rows = vector.len() * 8;
    let word = |block: &[Line], at: usize| block[at / 8].0[at % 8];
    for (line, sums) in result[0].iter_mut().enumerate() {
        for (place, sum) in sums.0.iter_mut().enumerate() {
            let row = line * 8 + place;
            let mut total = 0.0;
            for entry in row * ROW_ENTRIES as usize..(row + 1) * ROW_ENTRIES as usize {
                let column = (row + word(columns, entry) as usize % 8) % rows;
                total += number(word(entries, entry)) * number(word(vector, column));
            }
            *sum = total.to_bits();
        }
    }
}

/// A transform with as many passes as there are powers of two, on real parts and imaginary parts.
fn transform(blocks: &mut PairBlocks) {
    let (real, imaginary) = blocks.split_at_mut(1);
    let (real, imaginary) = (&mut real[0], &mut imaginary[0]);
    let passes = (real.len() * 8).ilog2();
    for pass in 0..passes {
        let factor = 1.0 / f64::from(pass + 1);
        // The partners of the first passes, which a real transform would have in one cache line,
        // are in neighbouring lines here; in later passes they are farther apart.
        let distance = 1_usize << pass.saturating_sub(3);
        let mut first = 0;
        while first + distance < real.len() {
            for line in first..first + distance {
                for place in 0..8 {
                    let other = line + distance;
                    let (a, b) = (number(real[line].0[place]), number(real[other].0[place]));
                    let (c, d) =
                        (number(imaginary[line].0[place]), number(imaginary[other].0[place]));
                    let (rotated_real, rotated_imaginary) = (b * factor - d, d * factor + b);
                    real[line].0[place] = (a + rotated_real).to_bits();
                    real[other].0[place] = (a - rotated_real).to_bits();
                    imaginary[line].0[place] = (c + rotated_imaginary).to_bits();
                    imaginary[other].0[place] = (c - rotated_imaginary).to_bits();
                }
            }
            first += 2 * distance;
        }
    }
}
