//! Plans which process runs on which host; no I/O.

use std::collections::HashMap;
use std::fmt::Write;

/// A host on which processes may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name or address, as the user wrote it.
    pub name: String,
    /// How many processes are meant to run there; none: not given by the user.
    pub slots: Option<u32>,
    /// How many processes may run there at most, even if that is more than slots.
    pub slots_max: Option<u32>,
}

/// The maximal length of a name or address (RFC 1035), even with a user before it.
const NAME_LETTERS_MAX: usize = 255;

/// Whether a text may be the name or address of a host, as ssh accepts it: letters, digits and some
/// signs. A text that begins with a dash would be an option of ssh.
pub fn is_host_name(name: &str) -> bool {
    let is_usual = |letter: char| letter.is_alphanumeric() || "-._:@%+".contains(letter);
    (1..=NAME_LETTERS_MAX).contains(&name.chars().count())
        && !name.starts_with('-')
        && name.chars().all(is_usual)
        && name.contains(char::is_alphanumeric)
}

/// The request of one program.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostRequest<'a> {
    pub processes: u32,
    /// Empty: on this machine.
    pub hosts: &'a [Host],
    pub per_host: Option<u32>,
    pub oversubscribe: bool,
    /// Whether the hosts get one process each in turn, instead of being filled one after the other.
    pub in_turn: bool,
}

/// The places of all processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostAssignment {
    /// The used hosts, in the order of their first process; `None` is this machine.
    pub hosts: Vec<Option<String>>,
    /// For each rank the index of its host.
    pub ranks: Vec<usize>,
    /// The index of each of these hosts.
    positions: HashMap<Option<String>, usize>,
}

/// Merges hosts of equal names, in the order of their first occurrence.
pub(crate) fn merged(hosts: &[Host]) -> Vec<Host> {
    let mut merged: Vec<Host> = Vec::new();
    let mut positions: HashMap<&str, usize> = HashMap::new();
    for host in hosts {
        match positions.get(host.name.as_str()) {
            Some(&position) => {
                let known = &mut merged[position];
                // A name that occurs twice counts for two processes.
                let sum = known.slots.unwrap_or(1).saturating_add(host.slots.unwrap_or(1));
                known.slots = Some(sum);
                known.slots_max = host.slots_max.or(known.slots_max);
            }
            None => {
                positions.insert(&host.name, merged.len());
                merged.push(host.clone());
            }
        }
    }
    merged
}

/// Returns for how many processes these hosts are meant.
pub fn slots(hosts: &[Host], per_host: Option<u32>) -> u32 {
    let hosts = merged(hosts);
    let of = |host: &Host| per_host.unwrap_or(host.slots.unwrap_or(1));
    hosts.iter().map(of).fold(0, u32::saturating_add)
}

/// The greatest number of processes of a job on a host; a larger number is a typing error.
const HOST_PROCESSES_MAX: u32 = 4096;

/// Gives each process its host: the hosts are filled one after the other, up to their slots.
/// `used` are the processes of other jobs on each host; `is_local` decides which names mean this
/// machine.
///
/// # Errors
/// A message for users: there are not enough slots.
pub(crate) fn place(
    requests: &[HostRequest<'_>],
    mut used: HashMap<String, u32>,
    is_local: impl Fn(&str) -> bool,
) -> Result<HostAssignment, String> {
    let mut placement = HostAssignment::default();
    for request in requests {
        if request.hosts.is_empty() {
            let here = placement.position(None);
            placement.ranks.extend(std::iter::repeat_n(here, request.processes as usize));
            continue;
        }
        let hosts = merged(request.hosts);
        let mut positions = vec![None; hosts.len()];
        for (host, count) in fill(request, &hosts, &mut used)? {
            let position = *positions[host].get_or_insert_with(|| {
                let name = Some(hosts[host].name.clone()).filter(|name| !is_local(name));
                placement.position(name)
            });
            placement.ranks.extend(std::iter::repeat_n(position, count as usize));
        }
    }
    Ok(placement)
}

impl HostAssignment {
    /// Returns this assignment if no host has more than [`HOST_PROCESSES_MAX`] processes.
    ///
    /// # Errors
    /// A message for users that names the first other host.
    pub(crate) fn checked(self) -> Result<Self, String> {
        let mut counts = vec![0_u32; self.hosts.len()];
        self.ranks.iter().for_each(|host| counts[*host] += 1);
        let Some(full) = counts.iter().position(|count| *count > HOST_PROCESSES_MAX) else {
            return Ok(self);
        };
        let name = self.hosts[full].as_deref().unwrap_or("this machine");
        Err(format!(
            "{} processes would run on {name}, but a host can have at most {HOST_PROCESSES_MAX}; \
             start fewer (-n), or name more hosts",
            counts[full]
        ))
    }

    /// Returns the index of a host, which becomes the last one if it is new.
    pub(crate) fn position(&mut self, name: Option<String>) -> usize {
        *self.positions.entry(name).or_insert_with_key(|name| {
            self.hosts.push(name.clone());
            self.hosts.len() - 1
        })
    }
}

/// Returns how many processes go to which host, in the order of ranks.
fn fill(
    request: &HostRequest<'_>,
    hosts: &[Host],
    used: &mut HashMap<String, u32>,
) -> Result<Vec<(usize, u32)>, String> {
    // A single host without a number of slots is meant for all processes.
    let is_sole = hosts.len() == 1 && hosts[0].slots.is_none() && request.per_host.is_none();
    let share = |host: &Host| match request.per_host {
        _ if is_sole => request.processes,
        None => host.slots.unwrap_or(1),
        Some(each) if request.oversubscribe => each,
        Some(each) => host.slots.map_or(each, |slots| slots.min(each)),
    };
    let mut left = request.processes;
    let mut parts = Vec::new();
    // From the second round on, there are more processes than slots.
    for round in 0_u32.. {
        let mut room: Vec<u32> = Vec::new();
        for host in hosts {
            let used = used.get(&host.name).copied().unwrap_or_default();
            let slots = if round == 0 { share(host).saturating_sub(used) } else { share(host) };
            let most = host.slots_max.map_or(u32::MAX, |max| max.saturating_sub(used));
            room.push(slots.min(most));
        }
        let dealt = deal(left, room, if request.in_turn { 1 } else { u32::MAX });
        for &(index, count) in &dealt {
            *used.entry(hosts[index].name.clone()).or_default() += count;
            left -= count;
        }
        let is_full = dealt.is_empty();
        parts.extend(dealt);
        if left == 0 {
            return Ok(parts);
        }
        if !request.oversubscribe || (round > 0 && is_full) {
            return Err(too_few(request, hosts, request.processes - left));
        }
    }
    Ok(parts)
}

/// Distributes at most `left` processes to hosts with this room: to each host as many as fit, but
/// `at_a_time` at most before the next host gets some.
fn deal(mut left: u32, mut room: Vec<u32>, at_a_time: u32) -> Vec<(usize, u32)> {
    let mut parts = Vec::new();
    while left > 0 && room.iter().any(|room| *room > 0) {
        for (index, room) in room.iter_mut().enumerate() {
            let count = left.min(*room).min(at_a_time);
            if count > 0 {
                parts.push((index, count));
                *room -= count;
                left -= count;
            }
        }
    }
    parts
}

/// How many hosts a message names.
const NAMED_MAX: usize = 8;

fn too_few(request: &HostRequest<'_>, hosts: &[Host], free: u32) -> String {
    let shown = hosts.iter().take(NAMED_MAX).map(|host| match host.slots {
        Some(slots) => format!("{}:{slots}", host.name),
        None => format!("{} (1, because no number is given)", host.name),
    });
    let mut text = format!(
        "{} processes are requested, but the hosts have free slots for {free}: {}",
        request.processes,
        shown.collect::<Vec<_>>().join(", ")
    );
    if hosts.len() > NAMED_MAX {
        // Writing to a string cannot fail.
        let _ = write!(text, " and {} more", hosts.len() - NAMED_MAX);
    }
    if let Some(each) = request.per_host {
        let _ = write!(text, "; {each} on each were requested");
    }
    if request.oversubscribe {
        return text + "; more than max_slots are not started even with --oversubscribe";
    }
    let name = hosts.first().map_or("a", |host| &host.name);
    text + &format!(
        ". Give the hosts more slots (--hosts {name}:8, or \"{name} slots=8\" in a hostfile), ask \
         for fewer processes, or let processes share slots (--oversubscribe)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    fn host(text: &str) -> Host {
        let mut words = text.split(':').map(str::to_owned);
        let number = |text: Option<String>| text.and_then(|text| text.parse().ok());
        let name = words.next().unwrap();
        Host { name, slots: number(words.next()), slots_max: number(words.next()) }
    }

    fn hosts(text: &str) -> Vec<Host> {
        text.split_whitespace().map(host).collect()
    }

    fn placed(processes: u32, text: &str, oversubscribe: bool) -> Result<String, String> {
        placed_per_host(processes, text, oversubscribe, None)
    }

    /// Returns the hosts of all ranks, in order.
    fn placed_per_host(
        processes: u32,
        text: &str,
        oversubscribe: bool,
        per_host: Option<u32>,
    ) -> Result<String, String> {
        let hosts = hosts(text);
        let request =
            HostRequest { processes, hosts: &hosts, per_host, oversubscribe, in_turn: false };
        place(&[request], HashMap::new(), |name| name == "here").map(|placement| names(&placement))
    }

    fn names(placement: &HostAssignment) -> String {
        let name = |host: &usize| placement.hosts[*host].as_deref().unwrap_or("-");
        placement.ranks.iter().map(name).collect()
    }

    #[test]
    fn a_host_can_have_thousands_of_processes_and_a_job_a_million() {
        let on = |hosts: usize, each: u32| {
            let ranks = (0..hosts).flat_map(|host| std::iter::repeat_n(host, each as usize));
            let names = (0..hosts).map(|host| (host > 0).then(|| format!("node{host}")));
            let ranks = ranks.collect();
            HostAssignment { hosts: names.collect(), ranks, ..HostAssignment::default() }.checked()
        };
        assert!(on(256, HOST_PROCESSES_MAX).is_ok());
        let message = on(2, HOST_PROCESSES_MAX + 1).expect_err("they are too many");
        assert!(message.starts_with("4097 processes would run on this machine"), "{message}");
    }

    #[test]
    fn slots_are_filled_host_by_host() {
        assert_eq!(placed(3, "a:2 b:2", false).unwrap(), "aab");
        assert_eq!(placed(4, "a:2 b:2", false).unwrap(), "aabb");
        assert_eq!(placed(2, "a b", false).unwrap(), "ab");
        assert_eq!(placed(4, "a b a:2", false).unwrap(), "aaab");
        assert_eq!(placed(3, "here:2 b:2", false).unwrap(), "--b");
        assert_eq!(placed(5, "a", false).unwrap(), "aaaaa");
        assert_eq!(slots(&hosts("a:2 b a"), None), 4);
        assert_eq!(slots(&hosts("a:2 b"), Some(3)), 6);
    }

    #[test]
    fn more_than_slots_are_refused_or_go_around() {
        let error = placed(5, "a:2 b:1", false).unwrap_err();
        for word in ["5 processes", "slots for 3", "a:2, b:1", "--oversubscribe", "a:8"] {
            assert!(error.contains(word), "{error}");
        }
        assert_eq!(placed(7, "a:2 b:1", true).unwrap(), "aabaaba");
        assert_eq!(placed(7, "a:2:3 b:1", true).unwrap(), "aababbb");
        assert!(placed(7, "a:2:3 b:1:2", true).unwrap_err().contains("max_slots"));
        assert!(placed(2, "a:0 b:0", true).is_err());
    }

    #[test]
    fn so_many_on_each() {
        assert_eq!(placed_per_host(4, "a:8 b:8", false, Some(2)).unwrap(), "aabb");
        assert_eq!(placed_per_host(4, "a b", false, Some(2)).unwrap(), "aabb");
        assert!(placed_per_host(5, "a b", false, Some(2)).unwrap_err().contains("2 on each"));
        assert!(placed_per_host(4, "a:1 b:1", false, Some(2)).is_err());
        assert_eq!(placed_per_host(4, "a:1 b:1", true, Some(2)).unwrap(), "aabb");
        assert!(placed_per_host(3, "a", false, Some(2)).is_err());
    }

    #[test]
    fn hosts_may_have_their_turns() {
        let placed = |processes, text, oversubscribe| {
            let (hosts, per_host) = (hosts(text), None);
            let request =
                HostRequest { processes, hosts: &hosts, per_host, oversubscribe, in_turn: true };
            place(&[request], HashMap::new(), |_| false).map(|placement| names(&placement))
        };
        assert_eq!(placed(6, "a:2 b:1 c:4", false).unwrap(), "abcacc");
        assert_eq!(placed(5, "a b", true).unwrap(), "ababa");
        assert_eq!(placed(3, "a", false).unwrap(), "aaa");
        assert!(placed(4, "a:2 b:1", false).is_err());
    }

    #[test]
    fn later_programs_take_what_is_left() {
        let (first, own) = (hosts("a:2 b:2"), hosts("c"));
        let request = |processes, hosts| HostRequest { processes, hosts, ..HostRequest::default() };
        let three = [request(1, &first[..]), request(2, &own[..]), request(3, &first[..])];
        assert_eq!(names(&place(&three, HashMap::new(), |_| false).unwrap()), "accabb");
        let four = [request(1, &first[..]), request(4, &first[..])];
        assert!(place(&four, HashMap::new(), |_| false).unwrap_err().contains("slots for 3"));
        // Processes of another job take slots, too.
        let used = || HashMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)]);
        assert_eq!(names(&place(&[request(1, &first[..])], used(), |_| false).unwrap()), "a");
        let error = place(&[request(2, &first[..])], used(), |_| false).unwrap_err();
        assert!(error.contains("free slots for 1"), "{error}");
        let shared = HostRequest { oversubscribe: true, ..request(4, &first[..]) };
        assert_eq!(names(&place(&[shared], used(), |_| false).unwrap()), "aaab");
        let local = [request(2, &[][..]), request(1, &own[..])];
        assert_eq!(names(&place(&local, HashMap::new(), |_| false).unwrap()), "--c");
    }

    proptest! {
        #[test]
        fn slots_hold(
            counts in proptest::collection::vec(0_u32..5, 1..6),
            processes in 1_u32..30,
        ) {
            let hosts: Vec<Host> = (0..).zip(&counts)
                .map(|(n, &slots)| Host { name: format!("h{n}"), slots: Some(slots), slots_max: None })
                .collect();
            let request = HostRequest { processes, hosts: &hosts, ..HostRequest::default() };
            let total: u32 = counts.iter().sum();
            match place(&[request], HashMap::new(), |_| false) {
                Ok(placement) => {
                    prop_assert_eq!(placement.ranks.len() as u32, processes);
                    prop_assert!(processes <= total);
                    prop_assert!(placement.ranks.is_sorted());
                }
                Err(_) => prop_assert!(processes > total),
            }
        }
    }
}
