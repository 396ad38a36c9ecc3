//! What the steps of collective operations cost on the machines of a job.

use serde::{Deserialize, Serialize};

use crate::width::Width;

/// The table of [`Costs`]: each with what it is by default.
macro_rules! costs {
    ($($(#[$doc:meta])* $name:ident: $default:literal,)*) => {
        /// Times of single steps, from which the time of an algorithm is predicted.
        ///
        /// `combray sample` measures those inside a machine; the others, and all where nothing was
        /// measured, are [`Costs::default`]: a server of these years, 10 gigabits per second
        /// between machines. All members of a communicator must use the same.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Costs {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// How many times there are in [`Costs`].
        const COUNT: usize = [$($default),*].len();

        impl Default for Costs {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl Costs {
            /// All times in the order of the fields, as one process tells them to others.
            pub fn numbers(&self) -> [u64; COUNT] {
                [$(self.$name,)*]
            }

            /// The costs that another process told; none if these are not so many numbers, or
            /// absurd ones.
            pub fn from_numbers(numbers: &[u64]) -> Option<Self> {
                let [$($name,)*] = *numbers.first_chunk::<COUNT>()?;
                let costs = Self { $($name,)* };
                (numbers.len() == COUNT && costs.are_plausible()).then_some(costs)
            }
        }
    };
}

costs! {
    /// What a message inside a machine costs the processor of each of its ends, in nanoseconds.
    packet_ns: 50,
    /// How long such a message is on its way between the two, in nanoseconds.
    latency_ns: 80,
    /// From a flag's raising in shared memory until another process has seen it, in nanoseconds.
    flag_ns: 60,
    /// A turn on a core where processes outnumber cores: from one process to the next, in
    /// nanoseconds.
    turn_ns: 700,
    /// Copying memory through packets, in picoseconds per byte.
    copy_ps: 100,
    /// Beginning to read a slot of a board that is not a small one, in nanoseconds.
    slot_ns: 500,
    /// Copying into a slot of a board, or out of it, in picoseconds per byte.
    slot_ps: 42,
    /// A single copy out of another process's memory, besides its bytes: asking the kernel, and
    /// the messages that announce it and tell its end; in nanoseconds.
    fetch_ns: 1800,
    /// The bytes of a single copy, in picoseconds per byte.
    fetch_ps: 76,
    /// The bytes of a large message that both ends copy at the same time, each on a core of its
    /// own, in picoseconds per byte.
    pipe_ps: 38,
    /// Combining two operands, in picoseconds per byte of one of them.
    reduce_ps: 100,
    /// How much longer a cache line takes to a core that shares no cache, in nanoseconds.
    cache_line_ns: 50,
    /// What the cores of one shared cache send to others or receive from them, in picoseconds per
    /// byte.
    cache_ps: 20,
    /// The same of another NUMA node.
    numa_line_ns: 60,
    /// The same of the cores of a NUMA node.
    numa_ps: 15,
    /// The same of another package.
    package_line_ns: 120,
    /// The same of the cores of a package.
    package_ps: 20,
    /// What a message between machines costs the processor of each of its ends, in nanoseconds.
    far_packet_ns: 2500,
    /// How long such a message is on its way, in nanoseconds.
    far_latency_ns: 10_000,
    /// What a machine sends to others or receives from them, in picoseconds per byte.
    far_ps: 800,
}

/// What crossing from one part of a machine to another costs, besides what every message does.
#[derive(Clone, Copy, Debug)]
pub struct Crossing {
    /// How much longer a cache line takes, in nanoseconds.
    pub line_ns: u64,
    /// What all cores of a part send or receive together, in picoseconds per byte.
    pub part_ps: u64,
}

/// Below this each time must be: a second, or a thousand seconds for a gigabyte.
const PLAUSIBLE_MAX: u64 = 1_000_000_000;

impl Costs {
    /// These costs inside a machine, and those of `other` between machines.
    pub fn with_far_of(self, other: Self) -> Self {
        let Self { far_packet_ns, far_latency_ns, far_ps, .. } = other;
        Self { far_packet_ns, far_latency_ns, far_ps, ..self }
    }

    /// What it costs to cross from one part of a machine to another of this kind.
    pub fn crossing(&self, width: Width) -> Crossing {
        let (line_ns, part_ps) = match width {
            Width::Cache => (self.cache_line_ns, self.cache_ps),
            Width::NumaNode => (self.numa_line_ns, self.numa_ps),
            Width::Package => (self.package_line_ns, self.package_ps),
        };
        Crossing { line_ns, part_ps }
    }

    /// Whether costs that came from outside can be worked with.
    pub fn are_plausible(&self) -> bool {
        self.numbers().iter().all(|time| *time <= PLAUSIBLE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_tell_all_costs() {
        let numbers: Vec<u64> = (1..=COUNT as u64).collect();
        let costs = Costs::from_numbers(&numbers).unwrap();
        assert_eq!(costs.numbers().as_slice(), numbers);
        assert_eq!(Costs::from_numbers(&numbers[1..]), None);
        assert_eq!(Costs::from_numbers(&[numbers.as_slice(), &[1]].concat()), None);
        assert_eq!(Costs::from_numbers(&[u64::MAX; COUNT]), None);
    }
}
