//! The part of a machine on which a process runs, as users write it; no I/O.

use std::fmt;

use topology::{CpuSet, Kind, ObjectId, Topology};

use crate::LaunchError;

/// The hardware threads on which a process runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RankSlots {
    /// By the system's numbers, such as `4-5`.
    Threads(CpuSet),
    /// Those of cores, such as `0:2-3` for two cores of the first package.
    Cores(Vec<PackageCores>),
}

/// Cores of a package. Packages of a machine and cores of a package are counted from left to right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageCores {
    package: usize,
    /// `None`: all.
    cores: Option<CpuSet>,
}

impl RankSlots {
    /// Parses `4-5`, `p4,p5`, `1:0-2`, `0:0,1` or `0:*,1:3`; a number without a package belongs to
    /// the package before it. `None`: the text has none of these forms.
    pub fn parse(text: &str) -> Option<Self> {
        if !text.contains(':') {
            // A "p" before a number says that it is the system's, as all of these are.
            let all: Vec<_> =
                text.split(',').map(|one| one.strip_prefix('p').unwrap_or(one)).collect();
            let threads = CpuSet::from_list(&all.join(","))?;
            return (!threads.is_empty()).then_some(Self::Threads(threads));
        }
        let mut packages: Vec<PackageCores> = Vec::new();
        for word in text.split(',') {
            let (package, cores) = match word.split_once(':') {
                Some((package, cores)) => (package.parse().ok()?, cores),
                None => (packages.last()?.package, word),
            };
            let cores = match cores {
                "*" => None,
                list => Some(CpuSet::from_list(list).filter(|cores| !cores.is_empty())?),
            };
            match packages.last_mut().filter(|last| last.package == package) {
                Some(PackageCores { cores: Some(known), .. }) if let Some(more) = &cores => {
                    *known = known.union(more);
                }
                Some(last) => last.cores = None,
                None => packages.push(PackageCores { package, cores }),
            }
        }
        Some(Self::Cores(packages))
    }

    /// Returns the hardware threads of a rank on a machine, which is the whole tree.
    ///
    /// # Errors
    /// The machine lacks the hardware threads, the package or the core.
    pub(crate) fn of_rank(&self, rank: u32, topology: &Topology) -> Result<CpuSet, LaunchError> {
        let threads = self.threads(topology).and_then(|threads| {
            let all = topology.threads();
            let is_there = threads.is_subset(all);
            is_there.then_some(threads).ok_or_else(|| {
                format!("the hardware threads {self}, but this machine allows {all}")
            })
        });
        threads.map_err(|what| LaunchError::new(format!("rank {rank} is to run on {what}")))
    }

    /// Returns the hardware threads on a machine.
    ///
    /// # Errors
    /// The end of a sentence about the process: the machine lacks the package or the core.
    fn threads(&self, topology: &Topology) -> Result<CpuSet, String> {
        let packages = match self {
            Self::Threads(threads) => return Ok(threads.clone()),
            Self::Cores(packages) => packages,
        };
        let mut known = topology.of_kind(Kind::Package);
        if known.is_empty() {
            known.push(topology.root());
        }
        let mut threads = CpuSet::default();
        for PackageCores { package, cores } in packages {
            let holder = *known.get(*package).ok_or_else(|| {
                format!("package {package}, but this machine has {}", known.len())
            })?;
            let inside = topology.of_kind_in(holder, Kind::Core);
            let wanted: Vec<ObjectId> = match cores {
                None => inside,
                Some(cores) => {
                    let core = |number: usize| {
                        inside.get(number).copied().ok_or_else(|| {
                            let count = inside.len();
                            format!("core {number} of package {package}, which has {count} cores")
                        })
                    };
                    cores.iter().map(core).collect::<Result<_, _>>()?
                }
            };
            threads = wanted.iter().fold(threads, |all, id| all.union(&topology[*id].threads));
        }
        Ok(threads)
    }
}

impl fmt::Display for RankSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Threads(threads) => write!(f, "{threads}"),
            Self::Cores(packages) => {
                let one = |one: &PackageCores| match &one.cores {
                    Some(cores) => format!("{}:{cores}", one.package),
                    None => format!("{}:*", one.package),
                };
                f.write_str(&packages.iter().map(one).collect::<Vec<_>>().join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_read_and_written() {
        for (text, written) in [
            ("4-5", "4-5"),
            ("p4,p7", "4,7"),
            ("0:0", "0:0"),
            ("1:0-2", "1:0-2"),
            ("0:0,1", "0:0-1"),
            ("0:0,1:1,3", "0:0,1:1,3"),
            ("1:*", "1:*"),
        ] {
            let slots = RankSlots::parse(text).expect(text);
            assert_eq!(slots.to_string(), written);
            assert_eq!(RankSlots::parse(written), Some(slots), "{text}");
        }
        for text in ["", "x", "0:", ":0", "0,1:2", "0:0:0", "p0:1", "-1:0", "0:*,x"] {
            assert_eq!(RankSlots::parse(text), None, "{text}");
        }
    }

    #[test]
    fn cores_are_counted_inside_their_package() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/machines/two-sockets.xml");
        let topology = Topology::described(file).unwrap();
        let threads = |text| RankSlots::parse(text).unwrap().threads(&topology);
        let packages = topology.of_kind(Kind::Package);
        let cores = topology.of_kind_in(packages[1], Kind::Core);
        assert_eq!(threads("1:0"), Ok(topology[cores[0]].threads.clone()));
        assert_eq!(threads("1:*"), Ok(topology[packages[1]].threads.clone()));
        let both = topology[packages[0]].threads.union(&topology[cores[1]].threads);
        assert_eq!(threads("0:*,1:1"), Ok(both));
        assert!(threads("2:0").unwrap_err().contains("package 2, but this machine has 2"));
        assert!(threads("1:99").unwrap_err().contains("core 99 of package 1, which has"));
    }
}
