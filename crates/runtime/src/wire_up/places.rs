//! Where the processes of the job run: what each of them publishes, and the map that follows.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;

use launch::{Job, JoinError};
use topology::{CpuSet, JobMap, Parts};

use crate::{parts, rail_localities};

/// The key under which each process publishes where it runs: on which cores of which machine.
pub(super) const PLACE_KEY: &str = "combray-place";

/// The key under which, in large jobs, the lowest rank of each machine publishes how many cores the
/// processes of its machine can use together.
const CORES_KEY: &str = "combray-cores";

/// The longest list of cores that a process publishes, in bytes. Launchers accept values of about a
/// kilobyte.
const CORES_TEXT_MAX: usize = 500;

/// What a process publishes about where it runs.
pub(super) struct PlaceOf {
    /// The cores on which it may run, by the kernel's numbers. Empty: unknown.
    pub cores: CpuSet,
    /// The number of cores that it can use at the same time.
    pub usable: usize,
    /// The number of cores that all processes of its machine can use, if the launcher sent it.
    pub together: Option<usize>,
    /// The parts of its machine in which it runs, if known.
    pub parts: Option<Parts>,
    /// Its distance from the nearest interface, if that is known and matters.
    pub distance: Option<u32>,
    /// The switches above its machine, outermost first.
    pub switches: Vec<String>,
}

impl fmt::Display for PlaceOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cores, usable, together, parts, distance, switches } = self;
        let mut listed = cores.to_string();
        if listed.len() > CORES_TEXT_MAX {
            // All cores between the first and the last; `usable` still limits their number.
            let last = cores.iter().last().unwrap_or_default();
            listed = format!("{}-{last}", cores.first().unwrap_or_default());
        }
        let together = together.map(|cores| cores.to_string()).unwrap_or_default();
        let parts = parts.map(|parts| parts.to_string()).unwrap_or_default();
        let distance = distance.map(|distance| distance.to_string()).unwrap_or_default();
        write!(f, "{listed}:{usable}:{together}:{parts}:{distance}:{}", switches.join("."))
    }
}

impl PlaceOf {
    /// Reads what [`Display`](fmt::Display) wrote; what cannot be read counts as unknown.
    fn read(place: &str) -> Self {
        let mut fields = place.split('@').next().unwrap_or_default().split(':');
        let cores = fields.next().and_then(CpuSet::from_list).unwrap_or_default();
        let mut number = || fields.next().and_then(|number| number.parse().ok());
        let usable = number().unwrap_or(cores.len());
        let together = number();
        let parts = fields.next().and_then(|parts| parts.parse().ok());
        let distance = fields.next().and_then(|distance| distance.parse().ok());
        let switches = fields.next().filter(|names| !names.is_empty());
        let switches = switches.map(|names| names.split('.').map(str::to_owned).collect());
        let switches = switches.unwrap_or_default();
        Self { cores, usable, together, parts, distance, switches }
    }
}

/// Returns how many cores processes of one machine can use together, which are at these places.
fn cores_together<'a>(places: impl Iterator<Item = &'a PlaceOf> + Clone) -> u32 {
    // A launcher that bound them provides the number.
    if let Some(together) = places.clone().filter_map(|place| place.together).max() {
        return together as u32;
    }
    let is_limited = |place: &&PlaceOf| place.usable < place.cores.len();
    let limit = places.clone().filter(is_limited).map(|place| place.usable).min();
    let all = || places.flat_map(|place| place.cores.iter()).collect::<CpuSet>().len();
    limit.unwrap_or_else(all) as u32
}

/// Returns the map that follows from the published places of all processes.
pub(super) fn map_by_places(places: &[String], rank: u32) -> JobMap {
    let hosts = places.iter().map(|place| place.split_once('@').map(|(_, host)| host));
    let nodes = drivers::machines(hosts);
    let places: Vec<PlaceOf> = places.iter().map(|place| PlaceOf::read(place)).collect();
    let cores_of = |node: u32| {
        let near = nodes.iter().zip(&places).filter(|(other, _)| **other == node);
        cores_together(near.map(|(_, place)| place))
    };
    let reported = places.iter().map_while(|place| place.parts).collect();
    let distances =
        rail_localities::distances_that_matter(places.iter().map(|place| place.distance));
    let switches = parts::numbered(places.iter().map(|place| place.switches.as_slice()));
    JobMap::new(rank, nodes.clone(), cores_of)
        .with_parts(parts::that_matter(reported, &nodes))
        .with_distances(distances)
        .with_switches(switches)
}

/// The exchange of values among the processes of a job.
pub(super) trait Exchange {
    /// Returns the rank of this process.
    fn rank(&self) -> u32;

    /// Publishes a value of this process, which the others see after the next barrier.
    ///
    /// # Errors
    /// The launcher is gone, or refuses the value.
    fn put(&self, key: &str, value: &str) -> Result<(), JoinError>;

    /// Returns the value that a process published.
    ///
    /// # Errors
    /// The process did not publish it, or the launcher is gone.
    fn get(&self, rank: u32, key: &str) -> Result<String, JoinError>;

    /// Waits for all processes of the job.
    ///
    /// # Errors
    /// The launcher is gone.
    fn barrier(&self) -> Result<(), JoinError>;
}

impl Exchange for Job {
    fn rank(&self) -> u32 {
        self.rank()
    }

    fn put(&self, key: &str, value: &str) -> Result<(), JoinError> {
        self.put(key, value)
    }

    fn get(&self, rank: u32, key: &str) -> Result<String, JoinError> {
        self.get(rank, key)
    }

    fn barrier(&self) -> Result<(), JoinError> {
        self.barrier()
    }
}

/// Returns the map of a large job from the launcher's mapping, after all processes have published
/// their places; `place_here` is that of this process. All machines count as having as many cores
/// as the machine of process 0. If the launcher did not send that number, the lowest rank of each
/// machine reads the places on its machine and publishes how many cores they contain.
///
/// # Errors
/// The launcher is gone.
pub(super) fn map_by_launcher(
    job: &impl Exchange,
    mapping: &[u32],
    place_here: &PlaceOf,
) -> Result<JobMap, JoinError> {
    let machines = first_alike(mapping.iter());
    let rank = job.rank();
    let own = machines[rank as usize];
    let place = |of: u32| Ok::<_, JoinError>(PlaceOf::read(&job.get(of, PLACE_KEY)?));
    // All processes read the place of process 0, so that all take part in the barrier or none.
    let (cores, cores_here) = if let Some(together) = place(0)?.together {
        (together as u32, cores_together(std::iter::once(place_here)))
    } else {
        if own == rank {
            let near = (0..).zip(&machines).filter(|(_, machine)| **machine == own);
            let places = near.map(|(of, _)| place(of)).collect::<Result<Vec<_>, _>>()?;
            job.put(CORES_KEY, &cores_together(places.iter()).to_string())?;
        }
        job.barrier()?;
        let of = |machine| Ok::<_, JoinError>(job.get(machine, CORES_KEY)?.parse().unwrap_or(1));
        (of(machines[0])?, of(own)?)
    };
    Ok(JobMap::new(rank, machines, |_| cores).with_cores_here(cores_here))
}

/// Returns for each item the index of the first equal item.
fn first_alike<T: Eq + Hash>(all: impl Iterator<Item = T>) -> Vec<u32> {
    let mut first = HashMap::new();
    (0..).zip(all).map(|(place, one)| *first.entry(one).or_insert(place)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, Mutex};

    use super::*;

    /// A job whose processes are threads.
    struct ThreadJob {
        values: Mutex<HashMap<(u32, String), String>>,
        barrier: Barrier,
    }

    struct ThreadOfJob<'a>(&'a ThreadJob, u32);

    impl Exchange for ThreadOfJob<'_> {
        fn rank(&self) -> u32 {
            self.1
        }

        fn put(&self, key: &str, value: &str) -> Result<(), JoinError> {
            self.0.values.lock().unwrap().insert((self.1, key.to_owned()), value.to_owned());
            Ok(())
        }

        fn get(&self, rank: u32, key: &str) -> Result<String, JoinError> {
            Ok(self.0.values.lock().unwrap()[&(rank, key.to_owned())].clone())
        }

        fn barrier(&self) -> Result<(), JoinError> {
            self.0.barrier.wait();
            Ok(())
        }
    }

    /// Returns the maps of all processes at these places.
    fn maps(mapping: &[u32], places: &[String]) -> Vec<JobMap> {
        let values =
            (0..).zip(places).map(|(rank, place)| ((rank, PLACE_KEY.into()), place.clone()));
        let job =
            ThreadJob { values: Mutex::new(values.collect()), barrier: Barrier::new(places.len()) };
        std::thread::scope(|scope| {
            let map = |rank: u32| {
                let place_here = PlaceOf::read(&places[rank as usize]);
                map_by_launcher(&ThreadOfJob(&job, rank), mapping, &place_here).unwrap()
            };
            let ranks = 0..places.len() as u32;
            let threads: Vec<_> = ranks.map(|rank| scope.spawn(move || map(rank))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    fn bound_to(core: usize) -> String {
        let place = PlaceOf {
            cores: [core].into_iter().collect(),
            usable: 1,
            together: None,
            parts: None,
            distance: None,
            switches: Vec::new(),
        };
        format!("{place}@a")
    }

    #[test]
    fn all_agree_whether_a_machine_is_oversubscribed() {
        // Three processes on the two cores of one machine, one process on the cores of another.
        let places = ["0-1:2@a", "0-1:2@b", "0-1:2@a", "0-1:2@a"].map(str::to_owned);
        for (rank, mapped) in (0..).zip(maps(&[5, 9, 5, 5], &places)) {
            let reported = map_by_places(&places, rank);
            for map in [reported, mapped] {
                assert_eq!(map.is_oversubscribed_here(), rank != 1);
                assert_eq!((map.nodes(), map.cores_min()), (&[0, 1, 0, 0][..], 2));
                assert!(map.is_oversubscribed_anywhere() && !map.is_one_machine());
            }
        }
    }

    #[test]
    fn cores_count_together_unless_time_is_limited() {
        let oversubscribed = |places: [&str; 2]| {
            map_by_places(&places.map(str::to_owned), 0).is_oversubscribed_here()
        };
        assert!(oversubscribed(["0:1@a@b", "0:1@a@b"]));
        assert!(!oversubscribed(["0:1@a@b", "1:1@a@b"]));
        assert!(!oversubscribed(["0:1@a@b", "0:1@a@c"]));
        assert!(oversubscribed(["0-3:1@a", "0-3:1@a"]));
        assert!(!oversubscribed(["0-3:4@a", "0-3:4@a"]));
        // Bound by a launcher that sent the number.
        assert!(!oversubscribed(["3:1:300@a", "3:1:300@a"]));
        assert!(oversubscribed(["3:1:1@a", "3:1:1@a"]));
    }

    #[test]
    fn processes_with_a_core_each_are_not_oversubscribed_however_many_cores_there_are() {
        let places: Vec<String> = (0..130).map(bound_to).collect();
        assert!(!map_by_places(&places, 7).is_oversubscribed_here());
        assert_eq!(map_by_places(&places, 7).cores_min(), 130);
        // High numbers, as of the second thread of each core.
        assert!(!map_by_places(&[127, 128, 700].map(bound_to), 2).is_oversubscribed_here());
        assert!(map_by_places(&[128, 128, 700].map(bound_to), 2).is_oversubscribed_here());
    }

    #[test]
    fn processes_of_a_large_job_count_the_cores_to_which_another_launcher_bound_them() {
        // 130 processes on each of two machines, with a core each; on the second machine two
        // processes share one.
        let cores = |rank: usize| if rank == 259 { 128 } else { rank % 130 };
        let places: Vec<String> = (0..260).map(|rank| bound_to(cores(rank))).collect();
        let mapping: Vec<u32> = (0..260).map(|rank| rank / 130).collect();
        for (rank, map) in maps(&mapping, &places).iter().enumerate() {
            assert_eq!(map.cores_min(), 130, "rank {rank}");
            assert!(!map.is_oversubscribed_anywhere(), "rank {rank}");
            assert_eq!(map.is_oversubscribed_here(), rank >= 130, "rank {rank}");
        }
    }

    #[test]
    fn long_lists_of_cores_are_shortened_and_the_rest_stays() {
        let every_second: CpuSet = (0..1024).map(|core| 2 * core).collect();
        let place = PlaceOf { cores: every_second, usable: 1024, ..PlaceOf::read("0:1") };
        let text = place.to_string();
        assert!(text.len() < 2 * CORES_TEXT_MAX, "{text}");
        let read = PlaceOf::read(&text);
        assert_eq!((read.cores.len(), read.usable), (2047, 1024));
        assert_eq!(cores_together([read].iter()), 1024);
    }
}
