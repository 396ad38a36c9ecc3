//! The costs of the steps of collective operations on the machines of a job.

use serde::{Deserialize, Serialize};

use crate::width::Width;

/// Makes the table of [`Costs`]: each with its default.
macro_rules! costs {
    ($($(#[$doc:meta])* $name:ident: $default:literal,)*) => {
        /// The times of single steps, from which the time of an algorithm is predicted.
        ///
        /// `combray sample` measures the times inside a machine, and the costs of its memory
        /// predict those of data. The times between machines, and all times without a measurement,
        /// have the values of [`Costs::default`]: a contemporary server, and 10 gigabits per second
        /// between machines. All members of a communicator must use equal costs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Costs {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The number of times in [`Costs`].
        const COUNT: usize = [$($default),*].len();

        impl Default for Costs {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl Costs {
            /// Returns all times in the order of the fields, to send them to other processes.
            pub fn numbers(&self) -> [u64; COUNT] {
                [$(self.$name,)*]
            }

            /// Makes the costs from numbers that another process sent; `None` if their number is
            /// wrong, or they are implausible.
            pub fn from_numbers(numbers: &[u64]) -> Option<Self> {
                let [$($name,)*] = *numbers.first_chunk::<COUNT>()?;
                let costs = Self { $($name,)* };
                (numbers.len() == COUNT && costs.are_plausible()).then_some(costs)
            }
        }
    };
}

costs! {
    /// The time that a message inside a machine costs the processor of each of its ends, in
    /// nanoseconds.
    packet_ns: 50,
    /// The latency of a message inside a machine, in nanoseconds.
    latency_ns: 80,
    /// The time from raising a flag in shared memory until another process has seen it, in
    /// nanoseconds.
    flag_ns: 60,
    /// The time of a turn on a core where processes outnumber cores: the switch from one process to
    /// the next, in nanoseconds.
    turn_ns: 700,
    /// Copying memory through packets, in picoseconds per byte.
    copy_ps: 100,
    /// The time to begin reading a board slot that is not a small one, in nanoseconds.
    slot_ns: 500,
    /// Copying into a slot of a board, or from it, if the other process uses another core, in
    /// picoseconds per byte.
    slot_ps: 42,
    /// That copy if both processes take turns on one core, in picoseconds per byte.
    own_slot_ps: 42,
    /// A single copy from another process's memory, without its bytes, in nanoseconds.
    fetch_ns: 1800,
    /// The bytes of a single copy, in picoseconds per byte.
    fetch_ps: 76,
    /// The messages that announce a large message and report its end, and the first step of its
    /// copy, in nanoseconds.
    announced_ns: 1800,
    /// The bytes of a large message that both ends copy at the same time, each on a core of its
    /// own, in picoseconds per byte.
    pipe_ps: 38,
    /// Combining two operands, in picoseconds per byte of one of them.
    reduce_ps: 100,
    /// The additional time to move a cache line to a core that shares no cache, in nanoseconds.
    cache_line_ns: 50,
    /// The traffic of the cores of one shared cache with other caches, in picoseconds per byte.
    cache_ps: 20,
    /// The additional time to move a cache line to another NUMA node, in nanoseconds.
    numa_line_ns: 60,
    /// The traffic of the cores of one NUMA node with other nodes, in picoseconds per byte.
    numa_ps: 15,
    /// The additional time to move a cache line to another package, in nanoseconds.
    package_line_ns: 120,
    /// The traffic of the cores of one package with other packages, in picoseconds per byte.
    package_ps: 20,
    /// The time that a message between machines costs the processor of each of its ends, in
    /// nanoseconds.
    far_packet_ns: 2500,
    /// The latency of a message between machines, in nanoseconds.
    far_latency_ns: 10_000,
    /// The traffic of a machine with other machines, in picoseconds per byte.
    far_ps: 800,
}

/// The cost of crossing from one part of a machine to another, in addition to the cost of every
/// message.
#[derive(Clone, Copy, Debug)]
pub struct Crossing {
    /// The additional time for a cache line, in nanoseconds.
    pub line_ns: u64,
    /// The total traffic of all cores of a part, in picoseconds per byte.
    pub part_ps: u64,
}

/// The upper bound of a plausible time: a second, or a thousand seconds for a gigabyte.
const PLAUSIBLE_MAX: u64 = 1_000_000_000;

impl Costs {
    /// Returns these costs inside a machine, with the costs of `other` between machines.
    pub fn with_far_of(self, other: Self) -> Self {
        let Self { far_packet_ns, far_latency_ns, far_ps, .. } = other;
        Self { far_packet_ns, far_latency_ns, far_ps, ..self }
    }

    /// Returns the cost of crossing from one part of a machine to another part of width `width`.
    pub fn crossing(&self, width: Width) -> Crossing {
        let (line_ns, part_ps) = match width {
            Width::Cache => (self.cache_line_ns, self.cache_ps),
            Width::NumaNode => (self.numa_line_ns, self.numa_ps),
            Width::Package => (self.package_line_ns, self.package_ps),
        };
        Crossing { line_ns, part_ps }
    }

    /// Whether costs from an external source are usable.
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
