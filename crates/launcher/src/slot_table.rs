//! The slots of the hosts of a job, and how many of them are taken: what the launcher of a spawned
//! job needs to know in order to use free slots.
//!
//! Why: docs/internals/decisions/0100-spawned-processes-get-the-free-slots-of-the-job.md

use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::placement::{Host, HostAssignment, merged};

/// What happens to spawned processes for which no slot is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WithoutSlot {
    /// They share slots with others.
    #[default]
    Share,
    /// They are not started.
    Refuse,
}

/// The hosts of a job with their slots. Processes that the job spawns run there by default. Empty:
/// they run on the machine of the process that spawns them.
///
/// As a text it passes from the launcher to the processes in
/// [`JOB_HOSTS`](base::variables::JOB_HOSTS), as `a=4/2,b=4/0/8`: slots, taken
/// slots, and the maximum of processes, if there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotTable {
    entries: Vec<SlotEntry>,
    /// What happens when no slot is free.
    pub without_slot: WithoutSlot,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct SlotEntry {
    name: String,
    slots: u32,
    taken: u32,
    slots_max: Option<u32>,
}

/// The last word of the text if processes without a slot are refused.
const REFUSE: &str = "nooversubscribe";

/// The maximal length of the text in bytes. A variable of the environment may have 128 KiB (Linux,
/// MAX_ARG_STRLEN). Hosts beyond it get no spawned processes by default.
const TEXT_BYTES_MAX: usize = 64 << 10;

impl SlotTable {
    /// Makes a table of hosts, of which those that are named have so many processes already.
    pub fn of(hosts: &[Host], taken: &[(String, u32)]) -> Self {
        let mut table = Self::default();
        table.add(hosts, 1);
        taken.iter().for_each(|(name, count)| table.change(name, i64::from(*count)));
        table
    }

    /// Adds hosts that are not in the table yet. A host without a number has `slots` slots.
    pub(crate) fn add(&mut self, hosts: &[Host], slots: u32) {
        let known: HashSet<String> = self.entries.iter().map(|entry| entry.name.clone()).collect();
        for host in merged(hosts) {
            if !known.contains(&host.name) {
                let Host { name, slots_max, .. } = host;
                let slots = host.slots.unwrap_or(slots);
                self.entries.push(SlotEntry { name, slots, taken: 0, slots_max });
            }
        }
    }

    /// Takes the slots of the processes of a job. Hosts that are not in the table have none.
    /// Returns for each process the name of the host whose slot it has.
    pub(crate) fn take(
        &mut self,
        placement: &HostAssignment,
        is_local: impl Fn(&str) -> bool,
    ) -> Vec<Option<String>> {
        let names = (0..).zip(&self.entries).map(|(at, entry)| (entry.name.clone(), at));
        let named: HashMap<String, usize> = names.collect();
        // The machine of the launcher may have several names.
        let own: Vec<usize> =
            (0..self.entries.len()).filter(|&at| is_local(&self.entries[at].name)).collect();
        let mut taken = Vec::with_capacity(placement.ranks.len());
        for &host in &placement.ranks {
            let has_room = |&at: &usize| self.entries[at].taken < self.entries[at].slots;
            let at = match &placement.hosts[host] {
                Some(name) => named.get(name).copied(),
                None => own.iter().copied().find(has_room).or(own.first().copied()),
            };
            taken.push(at.map(|at| {
                self.entries[at].taken += 1;
                self.entries[at].name.clone()
            }));
        }
        taken
    }

    /// Takes so many slots of a host, or gives them back if the number is negative.
    pub(crate) fn change(&mut self, name: &str, count: i64) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.name == name) {
            let taken = i64::from(entry.taken) + count;
            entry.taken = taken.clamp(0, u32::MAX.into()) as u32;
        }
    }

    /// Forgets the slots of a host that has failed.
    pub(crate) fn lose(&mut self, name: &str) {
        self.entries.retain(|entry| entry.name != name);
    }

    /// Returns the taken slots of each host.
    pub(crate) fn taken(&self) -> HashMap<String, u32> {
        let mut all = HashMap::new();
        for SlotEntry { name, taken, .. } in &self.entries {
            *all.entry(name.clone()).or_default() += taken;
        }
        all
    }

    /// Whether no host is listed.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns how many slots there are, free or taken.
    pub fn slots(&self) -> u32 {
        self.entries.iter().map(|entry| entry.slots).fold(0, u32::saturating_add)
    }

    /// Returns the host with this name, if it is listed.
    pub fn host(&self, name: &str) -> Option<Host> {
        self.entries.iter().find(|entry| entry.name == name).map(SlotEntry::host)
    }

    /// Returns the hosts.
    pub fn hosts(&self) -> Vec<Host> {
        self.entries.iter().map(SlotEntry::host).collect()
    }

    /// Parses the text; `None` if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut table = Self::default();
        for word in text.split(',').filter(|word| !word.is_empty()) {
            if word == REFUSE {
                table.without_slot = WithoutSlot::Refuse;
                continue;
            }
            let (name, counts) = word.split_once('=')?;
            let counts: Option<Vec<u32>> =
                counts.split('/').map(|count| count.parse().ok()).collect();
            let (slots, taken, slots_max) = match counts?[..] {
                [slots, taken] => (slots, taken, None),
                [slots, taken, most] => (slots, taken, Some(most)),
                _ => return None,
            };
            if !crate::is_host_name(name) {
                return None;
            }
            let name = name.to_owned();
            table.entries.push(SlotEntry { name, slots, taken, slots_max });
        }
        Some(table)
    }
}

impl SlotEntry {
    fn host(&self) -> Host {
        Host { name: self.name.clone(), slots: Some(self.slots), slots_max: self.slots_max }
    }
}

/// Returns the name of a host for other hosts: `own` instead of a name of this machine that means
/// each machine itself.
pub(crate) fn name_elsewhere(name: &str, own: &str, is_local: impl Fn(&str) -> bool) -> String {
    let is_relative = name == "localhost" || name == "::1" || name.starts_with("127.");
    if is_relative && is_local(name) { own.to_owned() } else { name.to_owned() }
}

impl fmt::Display for SlotTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut length = 0;
        for SlotEntry { name, slots, taken, slots_max } in &self.entries {
            let most = slots_max.map_or_else(String::new, |most| format!("/{most}"));
            let word = format!("{name}={slots}/{taken}{most},");
            length += word.len();
            if length > TEXT_BYTES_MAX {
                break;
            }
            f.write_str(&word)?;
        }
        match self.without_slot {
            WithoutSlot::Share => Ok(()),
            WithoutSlot::Refuse => f.write_str(REFUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, slots: u32) -> Host {
        Host { name: name.to_owned(), slots: Some(slots), slots_max: None }
    }

    #[test]
    fn a_table_is_parsed_as_it_was_written() {
        let mut table = SlotTable::default();
        let limited = Host { slots_max: Some(9), ..host("c", 3) };
        table.add(&[host("a", 4), host("2001:db8::7", 2), host("a", 1), limited], 1);
        assert_eq!(SlotTable::parse(&table.to_string()), Some(table.clone()));
        assert_eq!(
            (table.slots(), table.host("a"), table.host("b")),
            (10, Some(host("a", 5)), None)
        );
        assert_eq!(table.host("c").and_then(|host| host.slots_max), Some(9));
        table.without_slot = WithoutSlot::Refuse;
        assert_eq!(SlotTable::parse(&table.to_string()), Some(table));
        assert_eq!(SlotTable::parse(""), Some(SlotTable::default()));
        for wrong in ["a", "a=1", "a=x/1", "a=1/", "-o=1/1", "a=1/1;b=1/1", "a=1/1/1/1"] {
            assert_eq!(SlotTable::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_text_fits_into_a_variable() {
        let mut table = SlotTable::default();
        let hosts: Vec<Host> = (0..20_000).map(|one| host(&format!("node{one}"), 8)).collect();
        table.add(&hosts, 1);
        table.without_slot = WithoutSlot::Refuse;
        let text = table.to_string();
        assert!(text.len() <= TEXT_BYTES_MAX + REFUSE.len());
        let parsed = SlotTable::parse(&text).unwrap();
        assert_eq!(parsed.without_slot, WithoutSlot::Refuse);
        assert_eq!(parsed.hosts()[..], table.hosts()[..parsed.hosts().len()]);
    }

    #[test]
    fn other_hosts_understand_the_name_of_this_machine() {
        let is_local = |name: &str| name == "localhost";
        assert_eq!(name_elsewhere("localhost", "a", is_local), "a");
        assert_eq!(name_elsewhere("b", "a", is_local), "b");
    }

    #[test]
    fn all_names_of_a_machine_share_its_processes() {
        let mut table = SlotTable::default();
        table.add(&[host("a", 2), host("a.domain", 2), host("b", 2)], 1);
        let mut placement = HostAssignment::default();
        placement.ranks = vec![placement.position(None); 5];
        table.take(&placement, |name| name.starts_with('a'));
        assert_eq!(table.to_string(), "a=2/3,a.domain=2/2,b=2/0,");
    }
}
