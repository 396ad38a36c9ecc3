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
/// [`JOB_HOSTS`](base::variables::JOB_HOSTS), as `a=4/2,b=4/0`: slots and taken slots.
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
}

/// The last word of the text if processes without a slot are refused.
const REFUSE: &str = "nooversubscribe";

/// The maximal length of the text in bytes. A variable of the environment may have 128 KiB (Linux,
/// MAX_ARG_STRLEN). Hosts beyond it get no spawned processes by default.
const TEXT_BYTES_MAX: usize = 64 << 10;

impl SlotTable {
    /// Adds hosts that are not in the table yet. A host without a number has `slots` slots.
    pub(crate) fn add(&mut self, hosts: &[Host], slots: u32) {
        let known: HashSet<String> = self.entries.iter().map(|entry| entry.name.clone()).collect();
        for host in merged(hosts) {
            if !known.contains(&host.name) {
                let slots = host.slots.unwrap_or(slots);
                self.entries.push(SlotEntry { name: host.name, slots, taken: 0 });
            }
        }
    }

    /// Replaces the names of this machine by one that other hosts understand: `own`, if the user
    /// has given only a name that means each machine itself.
    pub(crate) fn name_this_machine(&mut self, own: &str, is_local: impl Fn(&str) -> bool) {
        let is_relative =
            |name: &str| name == "localhost" || name == "::1" || name.starts_with("127.");
        for SlotEntry { name, .. } in &mut self.entries {
            if is_relative(name) && is_local(name) {
                *name = own.to_owned();
            }
        }
    }

    /// Takes the slots of the processes of a job. Hosts that are not in the table have none.
    pub(crate) fn take(&mut self, placement: &HostAssignment, is_local: impl Fn(&str) -> bool) {
        let names = (0..).zip(&self.entries).map(|(position, entry)| (&entry.name, position));
        let named: HashMap<&String, usize> = names.collect();
        let position = |host: &Option<String>| match host {
            Some(name) => named.get(name).copied(),
            None => self.entries.iter().position(|entry| is_local(&entry.name)),
        };
        let positions: Vec<Option<usize>> = placement.hosts.iter().map(position).collect();
        for &host in &placement.ranks {
            if let Some(position) = positions[host] {
                self.entries[position].taken += 1;
            }
        }
    }

    /// Returns the taken slots of each host.
    pub(crate) fn taken(&self) -> HashMap<String, u32> {
        self.entries.iter().map(|entry| (entry.name.clone(), entry.taken)).collect()
    }

    /// Whether no host is listed.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns how many slots there are, free or taken.
    pub fn slots(&self) -> u32 {
        self.entries.iter().map(|entry| entry.slots).fold(0, u32::saturating_add)
    }

    /// Returns how many slots of a host there are, if it is listed.
    pub fn slots_of(&self, host: &str) -> Option<u32> {
        self.entry(host).map(|entry| entry.slots)
    }

    /// Returns the hosts.
    pub fn hosts(&self) -> Vec<Host> {
        let host = |entry: &SlotEntry| Host {
            name: entry.name.clone(),
            slots: Some(entry.slots),
            slots_max: None,
        };
        self.entries.iter().map(host).collect()
    }

    fn entry(&self, host: &str) -> Option<&SlotEntry> {
        self.entries.iter().find(|entry| entry.name == host)
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
            let (slots, taken) = counts.split_once('/')?;
            let (slots, taken) = (slots.parse().ok()?, taken.parse().ok()?);
            if !crate::is_host_name(name) {
                return None;
            }
            table.entries.push(SlotEntry { name: name.to_owned(), slots, taken });
        }
        Some(table)
    }
}

impl fmt::Display for SlotTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut length = 0;
        for SlotEntry { name, slots, taken } in &self.entries {
            let word = format!("{name}={slots}/{taken},");
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
        table.add(&[host("a", 4), host("2001:db8::7", 2), host("a", 1)], 1);
        assert_eq!(SlotTable::parse(&table.to_string()), Some(table.clone()));
        assert_eq!((table.slots(), table.slots_of("a"), table.slots_of("b")), (7, Some(5), None));
        table.without_slot = WithoutSlot::Refuse;
        assert_eq!(SlotTable::parse(&table.to_string()), Some(table));
        assert_eq!(SlotTable::parse(""), Some(SlotTable::default()));
        for wrong in ["a", "a=1", "a=x/1", "a=1/", "-o=1/1", "a=1/1;b=1/1"] {
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
        let mut table = SlotTable::default();
        table.add(&[host("localhost", 2), host("b", 2)], 1);
        table.name_this_machine("a", |name| name == "localhost");
        assert_eq!(table.to_string(), "a=2/0,b=2/0,");
    }
}
