//! Determines the cpusets of the processes of this machine.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;

use base::variables;
use lending::LendingBoard;
use sys::cores;
use sys::mapping::create_memory_file;
use sys::process::ProcessBinding;
use topology::{CpuSet, Hwloc, Kind, Scope, Topology, TopologyError, parts_to_text};

use super::LaunchError;
use crate::binding::{self, Bind, Cpuset, Needs, Policy};
use crate::protocol::Start;

/// Where each process runs.
pub(super) struct CpusetAssignment {
    /// The machine, if its topology had to be read.
    topology: Option<Topology>,
    /// The cpusets by local rank; none: nothing is bound.
    cpusets: Vec<Cpuset>,
    /// The parts of the machine in which they are, for the processes.
    parts: String,
    /// The number of cores that all processes use together although none is bound.
    shared_cores: Option<usize>,
    /// hwloc's description of the machine, for processes that need it.
    description: Option<File>,
    /// Whether these cpusets are the default, so that processes start even if they cannot be bound.
    is_default: bool,
    /// The number of each process's GPU, if they are placed near GPUs.
    gpus: Option<Vec<usize>>,
    shows_own_gpu: bool,
    /// A note for the user.
    note: Option<String>,
}

impl CpusetAssignment {
    /// Plans the cpusets of the processes to be started.
    ///
    /// # Errors
    /// This machine cannot provide what the user requested.
    pub(super) fn of(start: &Start) -> Result<Self, LaunchError> {
        let free = Self {
            topology: None,
            cpusets: Vec::new(),
            parts: String::new(),
            shared_cores: None,
            description: None,
            is_default: true,
            gpus: None,
            shows_own_gpu: false,
            note: None,
        };
        let Start { policy, slots: wanted, .. } = start;
        let processes = start.ranks.len();
        policy.check_oversubscription(processes, cores::usable()).map_err(LaunchError::new)?;
        // Permission to share slots requests no place.
        let Policy { oversubscription, overload, .. } = *policy;
        let usual = Policy { oversubscription, overload, ..Policy::default() };
        let is_default = *policy == usual && wanted.iter().all(Option::is_none);
        // A single process, and processes that outnumber the cores, use all cores that there are.
        let is_all = is_default && (processes < 2 || processes > cores::allowed().len());
        let is_free = policy.bind == Bind::Nothing && wanted.iter().all(Option::is_none);
        let names_gpus = policy.names_gpus();
        if (is_all || is_free && !names_gpus) && !start.reports_bindings {
            // Processes that outnumber the cores have no more than these, even if the user binds
            // them.
            return Ok(Self { shared_cores: is_all.then(cores::usable), ..free });
        }
        let has_others = start.size as usize > processes;
        if !is_free && let Err(cause) = cores::check_binding() {
            let sentence = format!("processes cannot be bound to cores: {cause}");
            if !is_default {
                return Err(LaunchError::new(sentence));
            }
            let note = format!("{sentence}. They start unbound, as with --bind-to none");
            return Ok(Self { note: Some(note), ..free });
        }
        // In jobs of several machines, the processes need interfaces.
        let wants_network = policy.needs.as_ref().is_some_and(Needs::names_network);
        let scope =
            if wants_network || names_gpus || has_others { Scope::Devices } else { Scope::Cores };
        let (topology, description) = match look(scope) {
            Ok(found) => found,
            // The user requested nothing that needs hwloc.
            Err(TopologyError::Missing { .. }) if is_default => return Ok(free),
            Err(error) => return Err(LaunchError::new(error.to_string())),
        };
        let ranks: Vec<u32> = start.ranks.iter().map(|(rank, _)| *rank).collect();
        let cpusets = binding::plan(&topology, topology.root(), &ranks, policy);
        let mut cpusets = cpusets.map_err(LaunchError::new)?;
        for ((cpuset, wanted), rank) in cpusets.iter_mut().zip(wanted).zip(&ranks) {
            if let Some(slots) = wanted {
                *cpuset = Some(slots.of_rank(*rank, &topology)?);
            }
        }
        let parts = parts_to_text(&binding::parts(&topology, &cpusets));
        // If it cannot be kept, processes that need it read the topology themselves.
        let description = keep(&description).ok();
        let gpus = policy.gpus_of(processes, topology.near_gpus(topology.root()).len());
        let (topology, shows_own_gpu) = (Some(topology), policy.shows_own_gpu);
        let placed = Self { topology, cpusets, parts, description, is_default, ..free };
        Ok(Self { gpus, shows_own_gpu, ..placed })
    }

    /// Returns a note for the user on how processes are bound here.
    pub(super) fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Returns where a process runs.
    pub(super) fn process_binding(&self, local_rank: usize) -> ProcessBinding {
        let cores: Vec<usize> =
            self.cpuset(local_rank).map_or_else(Vec::new, |all| all.iter().collect());
        match cores.is_empty() {
            true => ProcessBinding::Free,
            false if self.is_default => ProcessBinding::Preferred(cores),
            false => ProcessBinding::Required(cores),
        }
    }

    /// Describes to users where a process runs.
    pub(super) fn describe(&self, local_rank: usize) -> String {
        match &self.topology {
            Some(topology) => {
                let cpuset = self.cpusets.get(local_rank).unwrap_or(&None);
                binding::describe(topology, topology.root(), cpuset)
            }
            None if self.note.is_some() => "not bound".to_owned(),
            None => format!("not bound, because {} cannot be loaded", topology::LIBRARY),
        }
    }

    /// Returns the variables of a process: the number of cores that all processes of this machine
    /// have together, if it is known, which a bound process cannot find out. Those of a bound
    /// process also hold in which parts of the machine each process runs; and, unless the user has
    /// chosen them, its cores in OpenMP's form, so that its threads stay there, and the number of
    /// threads in the pools of libraries. `own` are the variables that are set for it.
    pub(super) fn variables(
        &self,
        local_rank: usize,
        own: &[(OsString, OsString)],
        own_cores: OwnCores,
    ) -> Vec<(&'static str, String)> {
        let Some(inside) = self.cores_of(local_rank) else {
            let shared = self.shared_cores.map(|cores| (variables::CORES, cores.to_string()));
            return shared.into_iter().collect();
        };
        let mut variables = vec![(variables::CORES, cores::usable().to_string())];
        variables.push((variables::PARTS, self.parts.clone()));
        if let Some(file) = &self.description {
            let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
            variables.push((variables::TOPOLOGY, path));
        }
        if own_cores == OwnCores::Only && !OF_OPENMP.iter().any(|name| is_set(name, own)) {
            let place = |threads: CpuSet| {
                let numbers: Vec<String> =
                    threads.iter().map(|number| number.to_string()).collect();
                format!("{{{}}}", numbers.join(","))
            };
            let places = inside.into_iter().map(place).collect::<Vec<_>>();
            variables.push((OF_OPENMP[0], places.join(",")));
        }
        variables.extend(self.pools(local_rank, own, own_cores));
        variables
    }

    /// Returns the variables that tell a process near which GPU it is placed, and, if the user
    /// wants that, let it see only this one.
    pub(super) fn gpu(&self, local_rank: usize) -> Vec<(&'static str, String)> {
        let number = self.gpus.as_ref().and_then(|gpus| gpus.get(local_rank));
        let Some(number) = number.map(ToString::to_string) else { return Vec::new() };
        let mut variables = vec![(variables::LOCAL_GPU, number.clone())];
        if self.shows_own_gpu {
            // Otherwise CUDA numbers the fastest device first.
            variables.push(("CUDA_DEVICE_ORDER", "PCI_BUS_ID".to_owned()));
            variables.push(("CUDA_VISIBLE_DEVICES", number.clone()));
            variables.push(("ROCR_VISIBLE_DEVICES", number));
        }
        variables
    }

    /// Returns the variables for the pools of threads of a process, as far as they are not set.
    pub(super) fn pools(
        &self,
        local_rank: usize,
        own: &[(OsString, OsString)],
        own_cores: OwnCores,
    ) -> Vec<(&'static str, String)> {
        let count = self.cores_of(local_rank).map_or(0, |inside| inside.len());
        // The other libraries use the first variable if theirs is not set.
        if count == 0 || is_set(POOLS[0], own) {
            return Vec::new();
        }
        // A control group may grant less processor time than the cores have.
        let count = count.min(cores::usable()).to_string();
        let first = usize::from(own_cores == OwnCores::AndLentOnes);
        let unset = POOLS[first..].iter().filter(|name| !is_set(name, own));
        unset.map(|name| (*name, count.clone())).collect()
    }

    /// Returns the cores on which a bound process runs, each as the hardware threads that it has
    /// there.
    fn cores_of(&self, local_rank: usize) -> Option<Vec<CpuSet>> {
        let (topology, threads) = (self.topology.as_ref()?, self.cpuset(local_rank)?);
        let cores = topology.of_kind(Kind::Core);
        let inside = cores.iter().map(|id| topology[*id].threads.intersection(threads));
        Some(inside.filter(|threads| !threads.is_empty()).collect())
    }

    /// Whether each of so many processes is bound, to cores that no other one has.
    pub(super) fn are_disjoint(&self, processes: usize) -> bool {
        let mut taken = CpuSet::default();
        (0..processes).all(|local_rank| {
            let Some(cpuset) = self.cpuset(local_rank) else { return false };
            let is_free = taken.intersection(cpuset).is_empty();
            taken = taken.union(cpuset);
            is_free
        })
    }

    fn cpuset(&self, local_rank: usize) -> Option<&CpuSet> {
        self.cpusets.get(local_rank)?.as_ref()
    }
}

/// Reads the topology of this machine as far as this process may use it, and hwloc's description of
/// the whole machine, to this extent.
fn look(scope: Scope) -> Result<(Topology, String), TopologyError> {
    let text = Hwloc::load()?.this_machine(scope)?;
    let allowed = cores::allowed().into_iter().collect();
    Ok((Topology::from_xml(&text)?.restricted(&allowed)?, text))
}

/// Keeps a text where the processes of this machine can read it as long as this process lives.
fn keep(text: &str) -> io::Result<File> {
    let mut file = create_memory_file(c"combray-topology", text.len())?;
    file.write_all(text.as_bytes())?;
    Ok(file)
}

/// Whether the user has set a variable, for all processes or for one with the variables `own`.
fn is_set(name: &str, own: &[(OsString, OsString)]) -> bool {
    std::env::var_os(name).is_some() || own.iter().any(|(known, _)| known == OsStr::new(name))
}

/// Which cores the threads of a process may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnCores {
    /// Its own.
    Only,
    /// Its own, and those that other processes lend.
    AndLentOnes,
}

impl OwnCores {
    /// Those of a process with this board.
    pub(super) fn of(board: Option<&LendingBoard>) -> Self {
        if board.is_some() { Self::AndLentOnes } else { Self::Only }
    }
}

/// Variables that set the number of threads in the pools of libraries: of OpenMP, OpenBLAS, MKL,
/// BLIS and NumExpr.
const POOLS: [&str; 5] = [
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
];

/// Variables with which a user configures where OpenMP's threads run.
const OF_OPENMP: [&str; 4] = ["OMP_PLACES", "OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"];
