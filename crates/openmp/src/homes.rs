//! Homes: on a machine with several NUMA nodes, teams are divided among them, unless the user binds
//! threads or processes lend each other cores.
//!
//! A team is a bubble in that of the thread which opened it: the threads of an outermost team are
//! spread over the nodes, and the teams that they open stay on the nodes of their thread. Threads
//! of this library are bound to all cores of their home, so that the kernel balances the load
//! inside; threads of the program keep their affinity, as processes that they start inherit it.

use std::iter;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{OnceLock, PoisonError};

use sys::cores::{self, Cores};
use sys::processors;
use sys::{errno, numa};

use crate::balance::{Balance, NodeDivision};
use crate::borrowing;
use crate::environment;
use crate::places::{self, BindPolicy, Partition};
use crate::team::ThreadTeam;
use crate::thread::Thread;

/// The NUMA nodes with cores that this process may use.
struct HomeNodes {
    /// The kernel's number and the cores of each.
    nodes: Vec<(u32, Vec<usize>)>,
    /// The node of each core, by the core's number.
    of_core: Vec<Option<u32>>,
}

/// Where the threads of a team are at home.
#[derive(Default)]
pub struct TeamHomes {
    /// The home of the thread that opened it.
    within: Partition,
    /// Those of its threads.
    pub of: Vec<Partition>,
    balance: Balance,
}

/// Memory that the program has named, and that it writes.
pub struct NamedMemory {
    addresses: Range<usize>,
    /// The node to which it was moved.
    node: Option<u32>,
}

/// The number of ranges that a thread keeps; the oldest one is dropped for a further one.
const NAMED_MAX: usize = 4096;

impl HomeNodes {
    /// None if there is one node only, or other rules decide where threads run.
    fn find() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<HomeNodes>> = OnceLock::new();
        let find = || {
            let settings = environment::settings();
            let is_free = settings.binds.is_empty() && borrowing::share().is_none();
            Self::of(&cores::allowed(), processors::node_of).filter(|_| is_free)
        };
        FOUND.get_or_init(find).as_ref()
    }

    fn of(allowed: &[usize], node_of: impl Fn(usize) -> Option<u32>) -> Option<Self> {
        let mut nodes: Vec<(u32, Vec<usize>)> = Vec::new();
        let mut of_core = vec![None; allowed.last()? + 1];
        for core in allowed {
            let number = node_of(*core)?;
            let index = nodes.iter().position(|(other, _)| *other == number);
            let index = index.unwrap_or_else(|| {
                nodes.push((number, Vec::new()));
                nodes.len() - 1
            });
            nodes[index].1.push(*core);
            of_core[*core] = Some(index as u32);
        }
        (nodes.len() > 1).then_some(Self { nodes, of_core })
    }

    fn whole(&self) -> Partition {
        Partition { first: 0, length: self.nodes.len() as u32 }
    }

    fn cores(&self, home: Partition) -> impl Iterator<Item = usize> {
        let parts = &self.nodes[home.first as usize..(home.first + home.length) as usize];
        parts.iter().flat_map(|(_, cores)| cores.iter().copied())
    }

    /// The nodes of a home, and that of each thread, which has one node.
    fn division(&self, within: Partition, of: &[Partition]) -> NodeDivision {
        let present = of.iter().map(|home| (home.first - within.first) as usize).collect();
        NodeDivision { sizes: self.sizes(within), present }
    }

    /// How many cores each node of a home has.
    fn sizes(&self, home: Partition) -> Vec<usize> {
        let parts = &self.nodes[home.first as usize..(home.first + home.length) as usize];
        parts.iter().map(|(_, cores)| cores.len()).collect()
    }

    fn home_of(&self, thread: &Thread) -> Partition {
        let home = thread.home.get();
        if home.length > 0 { home } else { self.whole() }
    }
}

/// Gives the threads of a team their homes, before its region begins. Returns whether there are
/// any.
pub fn assign(thread: &Thread, team: &ThreadTeam, threads: u32) -> bool {
    let Some(all) = HomeNodes::find() else { return false };
    if threads == 1 {
        return false;
    }
    let within = all.home_of(thread);
    team.homes.with(|homes| {
        if homes.within != within || homes.of.len() != threads as usize {
            let here = cores::current().and_then(|core| all.of_core.get(core).copied().flatten());
            let here =
                here.filter(|node| (within.first..within.first + within.length).contains(node));
            let place = here.unwrap_or(within.first);
            let of = if threads > within.length {
                let own = (place - within.first) as usize;
                let nodes = by_cores(&all.sizes(within), threads as usize, own).into_iter();
                let home = |node: usize| Partition { first: within.first + node as u32, length: 1 };
                nodes.map(home).collect()
            } else {
                let posts = places::posts(BindPolicy::Spread, threads, place, within);
                posts.into_iter().map(|(_, home)| home).collect()
            };
            *homes = TeamHomes { within, of, balance: Balance::default() };
        }
        if threads > within.length && within.length > 1 {
            let depth = thread.opened.with(|opened| opened.len());
            let TeamHomes { of, balance, .. } = homes;
            balance.region_begins(thread, team, depth, || all.division(within, of));
        }
    });
    true
}

/// Returns the node of each thread of a team that has more threads than there are nodes: each node
/// gets threads in proportion to its cores, whose numbers are `sizes`. Thread 0 is on node `own`.
fn by_cores(sizes: &[usize], threads: usize, own: usize) -> Vec<usize> {
    let nodes = (own..sizes.len()).chain(0..own);
    let owners: Vec<usize> = nodes.flat_map(|node| iter::repeat_n(node, sizes[node])).collect();
    (0..threads).map(|id| owners[id * owners.len() / threads]).collect()
}

/// A region has ended, and all its threads wait: whole teams move to other nodes from the next
/// region on if that balances the load.
pub fn region_ends(thread: &Thread, team: &ThreadTeam) {
    let Some(all) = HomeNodes::find() else { return };
    team.homes.with(|homes| {
        let TeamHomes { within, of, balance } = homes;
        let depth = thread.opened.with(|opened| opened.len()) - 1;
        let moved = balance.region_ends(thread, team, depth, || all.division(*within, of));
        for (home, node) in of.iter_mut().zip(moved.into_iter().flatten()) {
            *home = Partition { first: within.first + node as u32, length: 1 };
        }
    });
}

/// Enters the home that a thread has in a team.
pub fn enter(thread: &Thread, team: &ThreadTeam, id: u32) {
    let Some(all) = HomeNodes::find() else { return };
    let home = team.homes.see(|homes| homes.of[id as usize]);
    thread.home.set(home);
    if id == 0 {
        all.visit(home);
    } else if thread.bound_home.get() != home {
        all.bind(thread, home);
    }
    if home.length == 1 {
        bring(all, team, id, home.first);
    }
}

impl HomeNodes {
    /// Moves the thread that opens a region to its home, if it is elsewhere. It is not bound.
    fn visit(&self, home: Partition) {
        let core = cores::current();
        let is_at_home = |core: usize| self.cores(home).any(|own| own == core);
        if core.is_none_or(is_at_home) {
            return;
        }
        borrowing::change_affinity(|allowed| {
            let inside: Vec<usize> =
                self.cores(home).filter(|core| allowed.contains(core)).collect();
            let (Ok(all), Ok(inside)) = (Cores::of(allowed), Cores::of(&inside)) else { return };
            if inside.bind().is_ok() {
                // It was allowed there before; if the system refuses it now, it stays at home.
                let _ = all.bind();
            }
        });
    }

    /// Binds a thread of this library to its home, unless the program has bound it elsewhere.
    fn bind(&self, thread: &Thread, home: Partition) {
        let before = thread.bound_home.get();
        let expected: Vec<usize> = self.cores(before).collect();
        let mut is_own = before.length == 0;
        borrowing::change_affinity(|allowed| {
            is_own |= allowed.iter().all(|core| expected.contains(core))
                && allowed.len() == expected.len();
            let cores: Vec<usize> = self.cores(home).collect();
            if let Some(cores) = Cores::of(&cores).ok().filter(|_| is_own) {
                // If the system refuses it, the thread stays where it is.
                let _ = cores.bind();
            }
        });
        if is_own {
            thread.bound_home.set(home);
        }
    }
}

/// Moves memory that a thread has named, or a thread of a team that it has opened, to its node. One
/// thread of the team at a time: the system interrupts all cores for it.
fn bring(all: &HomeNodes, team: &ThreadTeam, id: u32, node: u32) {
    if !team.has_named.load(Ordering::Acquire) {
        return;
    }
    let mut named = team.named.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(own) = named.get_mut(id as usize) else { return };
    for range in own.iter_mut().filter(|range| range.node != Some(node)) {
        range.node = Some(node);
        // What the system does not move stays where it is.
        let _ = numa::migrate(range.addresses.clone(), &[all.nodes[node as usize].0]);
    }
}

/// Names memory that the calling thread uses, with the teams that it opens. Memory that it only
/// reads is not moved.
///
/// # Errors
/// `EPERM` outside of regions.
pub fn name(addresses: Range<usize>, is_written: bool) -> Result<(), i32> {
    let thread = Thread::current();
    let (mut team, mut id) = (thread.team.get(), thread.id.get());
    let mut outermost = None;
    while team.level() > 0 {
        let (outer, outer_id, has_homes) =
            team.region.see(|region| (region.outer, region.outer_id, region.has_homes));
        if has_homes {
            outermost = Some((team, id));
        }
        let Some(outer) = outer else { break };
        (team, id) = (outer, outer_id);
    }
    if thread.team.get().level() == 0 {
        return Err(errno::EPERM);
    }
    let (Some((team, id)), Some(all)) = (outermost, HomeNodes::find()) else { return Ok(()) };
    if is_written {
        team.has_named.store(true, Ordering::Release);
    } else if !team.has_named.load(Ordering::Acquire) {
        return Ok(());
    }
    let mut named = team.named.lock().unwrap_or_else(PoisonError::into_inner);
    if named.len() <= id as usize {
        named.resize_with(id as usize + 1, Vec::new);
    }
    let own = &mut named[id as usize];
    own.retain(|range| range.addresses.start != addresses.start);
    if !is_written {
        return Ok(());
    }
    if own.len() >= NAMED_MAX {
        own.remove(0);
    }
    own.push(NamedMemory { addresses, node: None });
    drop(named);
    let home = team.homes.see(|homes| homes.of[id as usize]);
    if home.length == 1 {
        bring(all, team, id, home.first);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_those_cores_that_the_process_may_use() {
        let node_of = |core: usize| Some(core as u32 / 4 * 2);
        let found = HomeNodes::of(&[1, 2, 5, 9], node_of).unwrap();
        assert_eq!(found.nodes, [(0, vec![1, 2]), (2, vec![5]), (4, vec![9])]);
        assert_eq!(found.of_core[9], Some(2));
        let home = Partition { first: 0, length: 2 };
        assert_eq!(found.cores(home).collect::<Vec<_>>(), [1, 2, 5]);
        assert_eq!(found.sizes(found.whole()), [2, 1, 1]);
    }

    #[test]
    fn nodes_get_threads_by_their_cores() {
        let counts = |sizes: &[usize], threads: usize, own: usize| -> Vec<usize> {
            let nodes = by_cores(sizes, threads, own);
            assert_eq!((nodes.len(), nodes[0]), (threads, own));
            let on = |node: usize| nodes.iter().filter(|other| **other == node).count();
            (0..sizes.len()).map(on).collect()
        };
        assert_eq!(counts(&[16, 4], 20, 0), [16, 4]);
        assert_eq!(counts(&[16, 4], 20, 1), [16, 4]);
        assert_eq!(counts(&[16, 4], 40, 0), [32, 8]);
        assert_eq!(counts(&[16, 4], 10, 0), [8, 2]);
        assert_eq!(by_cores(&[2, 2, 2], 5, 1), [1, 1, 2, 2, 0]);
    }

    #[test]
    fn one_node_and_unknown_nodes_are_no_homes() {
        assert!(HomeNodes::of(&[0, 1], |_| Some(0)).is_none());
        assert!(HomeNodes::of(&[0, 1], |core| (core == 0).then_some(0)).is_none());
        assert!(HomeNodes::of(&[], |_| Some(0)).is_none());
    }
}
