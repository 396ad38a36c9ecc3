//! The elements of test programs, and some programs.

use bubbles::Relation;
use fastrand::Rng;

/// A program: its bubbles, and the threads in them, each with its script.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The parent of each bubble (an earlier bubble, or none), and its relation.
    pub bubbles: Vec<(Option<usize>, Relation)>,
    pub threads: Vec<Script>,
}

/// The steps of a thread. After each step it reaches a scheduling point.
#[derive(Clone, Debug, Default)]
pub struct Script {
    pub bubble: usize,
    pub steps: Vec<Step>,
    /// The NUMA node of the thread's memory, and its bytes there.
    pub memory: Option<(u32, u64)>,
    pub communicates: bool,
    /// Whether another thread starts this thread.
    pub is_started: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Computes for this long.
    Compute(u64),
    /// Waits until all threads of its bubble have reached this barrier.
    Barrier,
    /// Waits this long for an external event.
    Sleep(u64),
    /// Starts this thread.
    Start(usize),
}

impl Program {
    fn bubble(&mut self, above: Option<usize>, relation: Relation) -> usize {
        self.bubbles.push((above, relation));
        self.bubbles.len() - 1
    }

    fn thread(&mut self, bubble: usize, steps: Vec<Step>) -> usize {
        self.threads.push(Script { bubble, steps, ..Script::default() });
        self.threads.len() - 1
    }

    /// Zones of uneven size, each with a team that shares memory and uses barriers, like solvers on
    /// several grids: 16 × 8 is a column of the table of nested teams.
    pub fn zones(outer: usize, inner: usize, nodes: u32) -> Self {
        let mut program = Self::default();
        let all = program.bubble(None, Relation::Unrelated);
        for zone in 0..outer {
            let team = program.bubble(Some(all), Relation::SharesMemory);
            // The largest zone is about twenty times the smallest, as in the original.
            let size = 1_000_000.0 * 20f64.powf(zone as f64 / outer as f64) / inner as f64;
            for _ in 0..inner {
                let step = [Step::Compute(size as u64), Step::Barrier];
                let thread = program.thread(team, step.repeat(STEPS));
                program.threads[thread].memory = Some((zone as u32 % nodes, 64 << 20));
            }
        }
        program
    }

    /// Jobs whose threads compute a little between barriers.
    pub fn gangs(jobs: usize, width: usize) -> Self {
        let mut program = Self::default();
        let all = program.bubble(None, Relation::Unrelated);
        for _ in 0..jobs {
            let job = program.bubble(Some(all), Relation::WaitsTogether);
            for _ in 0..width {
                let step = [Step::Compute(50_000), Step::Barrier];
                program.thread(job, step.repeat(20 * STEPS));
            }
        }
        program
    }

    /// Uneven divide and conquer: each thread starts two threads in a bubble of their own.
    pub fn divide(depth: usize, rng: &mut Rng) -> Self {
        let mut program = Self::default();
        let all = program.bubble(None, Relation::SharesMemory);
        let first = program.thread(all, Vec::new());
        program.divide_below(all, first, depth, rng);
        program
    }

    fn divide_below(&mut self, bubble: usize, thread: usize, depth: usize, rng: &mut Rng) {
        self.threads[thread].steps.push(Step::Compute(rng.u64(10_000..200_000)));
        if depth == 0 || depth < 8 && rng.u32(0..5) == 0 {
            return self.threads[thread].steps.push(Step::Compute(1_000_000));
        }
        let pair = self.bubble(Some(bubble), Relation::SharesMemory);
        for _ in 0..2 {
            let child = self.thread(pair, Vec::new());
            self.threads[child].is_started = true;
            self.threads[thread].steps.push(Step::Start(child));
            self.divide_below(pair, child, depth - 1, rng);
        }
    }

    /// A random program.
    pub fn random(nodes: u32, rng: &mut Rng) -> Self {
        let mut program = Self::default();
        program.bubble(None, Relation::Unrelated);
        for _ in 0..rng.usize(0..12) {
            let relations = [Relation::Unrelated, Relation::SharesMemory, Relation::WaitsTogether];
            let above = rng.usize(0..program.bubbles.len());
            program.bubble(Some(above), relations[rng.usize(0..3)]);
        }
        for bubble in 0..program.bubbles.len() {
            let barriers = rng.bool().then(|| rng.usize(1..5));
            for _ in 0..rng.usize(0..10) {
                let starter = rng.usize(0..=program.threads.len());
                let mut steps = random_steps(barriers.unwrap_or_else(|| rng.usize(0..5)), rng);
                if barriers.is_none() {
                    steps.retain(|step| !matches!(step, Step::Barrier));
                }
                let thread = program.thread(bubble, steps);
                let script = &mut program.threads[thread];
                script.memory = rng.bool().then(|| (rng.u32(0..nodes), 1 << rng.u32(10..30)));
                script.communicates = rng.u32(0..8) == 0;
                // Threads that take part in barriers exist from the beginning.
                if starter < thread && barriers.is_none() && rng.bool() {
                    script.is_started = true;
                    let steps = &mut program.threads[starter].steps;
                    steps.insert(rng.usize(0..=steps.len()), Step::Start(thread));
                }
            }
        }
        program
    }

    /// The total computing time of all threads.
    pub fn work(&self) -> u64 {
        (0..self.threads.len()).map(|thread| self.work_of(thread)).sum()
    }

    /// The computing time of a thread.
    pub fn work_of(&self, thread: usize) -> u64 {
        let time = |step: &Step| if let Step::Compute(time) = step { *time } else { 0 };
        self.threads[thread].steps.iter().map(time).sum()
    }
}

fn random_steps(count: usize, rng: &mut Rng) -> Vec<Step> {
    let mut steps = Vec::new();
    for _ in 0..count {
        steps.push(Step::Compute(rng.u64(1..1_000_000)));
        if rng.u32(0..4) == 0 {
            steps.push(Step::Sleep(rng.u64(1..500_000)));
        }
        steps.push(Step::Barrier);
    }
    steps
}

const STEPS: usize = 5;
