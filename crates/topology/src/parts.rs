//! The parts of a machine in which a process runs, as far as they affect its distance to other
//! processes.

use std::fmt;
use std::str::FromStr;

use crate::{CpuSet, Kind, ObjectId, Topology};

/// The parts that contain a process, by their logical numbers; 0 if the machine has no such part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Parts {
    /// The processor package.
    pub package: u32,
    /// The NUMA node.
    pub numa_node: u32,
    /// The outermost cache that several cores share.
    pub cache: u32,
}

impl Parts {
    /// The numbers, outermost part first.
    pub fn path(self) -> [u32; 3] {
        [self.package, self.numa_node, self.cache]
    }
}

impl Topology {
    /// The parts of one machine in which most of these hardware threads are. On a tie, the first
    /// part.
    pub fn parts(&self, machine: ObjectId, threads: &CpuSet) -> Parts {
        let holding = |kind: Kind| {
            let all = self.of_kind_in(machine, kind).into_iter();
            let count = |id: &ObjectId| self[*id].threads.intersection(threads).len();
            // `max_by_key` returns the last maximum; in reverse order that is the first part.
            let most = all.rev().max_by_key(count);
            most.map_or(0, |id| self[id].logical as u32)
        };
        Parts {
            package: holding(Kind::Package),
            numa_node: holding(Kind::NumaNode),
            cache: self.shared_cache(machine).map_or(0, holding),
        }
    }

    /// Returns the kind of the outermost caches that several cores share.
    pub fn shared_cache(&self, machine: ObjectId) -> Option<Kind> {
        let is_shared = |id: &ObjectId| self.of_kind_in(*id, Kind::Core).len() > 1;
        let outermost_first = (1..=CACHE_LEVEL_MAX).rev().map(Kind::Cache);
        outermost_first
            .into_iter()
            .find(|kind| self.of_kind_in(machine, *kind).iter().any(is_shared))
    }
}

/// Encodes the parts of several processes, in order, as text: `0.0.0*4,0.1.1*4`.
pub fn parts_to_text(parts: &[Parts]) -> String {
    let alike = parts.chunk_by(|one, next| one == next);
    let words = alike.map(|run| match run.len() {
        1 => run[0].to_string(),
        count => format!("{}*{count}", run[0]),
    });
    words.collect::<Vec<_>>().join(",")
}

/// Decodes a text of [`parts_to_text`].
///
/// # Errors
/// The text is malformed, or lists more processes than any machine has.
pub fn parts_from_text(text: &str) -> Result<Vec<Parts>, NoParts> {
    let mut all = Vec::new();
    for word in text.split(',') {
        let (parts, count) = word.split_once('*').unwrap_or((word, "1"));
        let count: usize = count.parse().map_err(|_| NoParts)?;
        if count > PROCESSES_MAX - all.len() {
            return Err(NoParts);
        }
        all.extend(std::iter::repeat_n(parts.parse::<Parts>()?, count));
    }
    Ok(all)
}

/// The maximum number of processes of a job on one machine.
const PROCESSES_MAX: usize = 1 << 16;

/// The highest level of caches.
const CACHE_LEVEL_MAX: u8 = 5;

impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.package, self.numa_node, self.cache)
    }
}

/// The text does not consist of three numbers separated by dots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoParts;

impl FromStr for Parts {
    type Err = NoParts;

    fn from_str(text: &str) -> Result<Self, NoParts> {
        let mut numbers = text.split('.').map(|number| number.parse().map_err(|_| NoParts));
        let mut next = || numbers.next().unwrap_or(Err(NoParts));
        let parts = Self { package: next()?, numa_node: next()?, cache: next()? };
        if numbers.next().is_none() { Ok(parts) } else { Err(NoParts) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_shown_as_texts() {
        let parts = Parts { package: 1, numa_node: 2, cache: 30 };
        assert_eq!(parts.to_string().parse(), Ok(parts));
        for nonsense in ["", "1.2", "1.2.3.4", "1.2.x", "1.2.-3"] {
            assert_eq!(nonsense.parse::<Parts>(), Err(NoParts), "{nonsense}");
        }
        let all = [parts, Parts::default(), Parts::default(), parts];
        assert_eq!(parts_to_text(&all), "1.2.30,0.0.0*2,1.2.30");
        assert_eq!(parts_from_text(&parts_to_text(&all)), Ok(all.to_vec()));
        for nonsense in ["", "1.2.3*", "1.2.3*x", "1.2.3,", "1.2.3*99999999", "1.2.3*-1"] {
            assert_eq!(parts_from_text(nonsense), Err(NoParts), "{nonsense}");
        }
    }
}
