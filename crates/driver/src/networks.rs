//! Which network interfaces the user's configuration selects.

use std::net::IpAddr;

/// The drivers, interfaces and networks that the user selects or excludes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkSelection {
    choices: Vec<NetworkChoice>,
    /// Whether `choices` are excluded instead of selected.
    excludes: bool,
}

/// A rail to other machines that a process of this machine could have, as shown to users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRail {
    /// The name in its profile.
    pub name: String,
    /// The network interface.
    pub interface: String,
    /// Why the rail cannot be used, and what the user can do about it; `None`: it can be used.
    pub obstacle: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct NetworkChoice {
    /// The driver that the choice applies to; `None`: all drivers.
    driver: Option<String>,
    pattern: Pattern,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    /// The name of an interface, or of a driver where no driver precedes it.
    Name(String),
    Network(IpAddr, u8),
}

/// Prefixes of the names of interfaces of containers, virtual machines, bridges and private
/// networks, which do not lead to another machine of the job. They are used when the user names
/// them.
const VIRTUAL: [&str; 22] = [
    "docker",
    "br-",
    "virbr",
    "veth",
    "vnet",
    "tun",
    "tap",
    "wg",
    "zt",
    "tailscale",
    "cni",
    "flannel",
    "cali",
    "cilium",
    "kube",
    "podman",
    "lxc",
    "lxd",
    "vmnet",
    "vboxnet",
    "ppp",
    "utun",
];

impl NetworkSelection {
    /// Reads a list of drivers (`tcp`), interfaces (`eth0`) and networks (`10.1.0.0/16`), separated
    /// by commas. A driver before an interface or a network restricts the entry to that driver
    /// (`tcp:eth0`). `^` at the beginning excludes what is listed. Empty: all interfaces that lead
    /// to other machines.
    ///
    /// # Errors
    /// An entry has the form of a network (`10.1.0.0/16`), but its address or length is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (excludes, list) = match text.trim().strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, text.trim()),
        };
        let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
        let choices = words.map(NetworkChoice::parse).collect::<Result<_, _>>()?;
        Ok(Self { choices, excludes })
    }

    /// Returns the drivers that stand before an interface or a network.
    pub fn drivers(&self) -> impl Iterator<Item = &str> {
        self.choices.iter().filter_map(|choice| choice.driver.as_deref())
    }

    /// Whether the list selects a driver, alone or with an interface.
    pub fn names_driver(&self, driver: &str) -> bool {
        !self.excludes && self.choices.iter().any(|choice| choice.names(driver))
    }

    /// Whether the list selects an interface together with its driver.
    pub fn names_interface(&self, driver: &str, interface: &str) -> bool {
        let is_it = |choice: &NetworkChoice| {
            choice.driver.as_deref() == Some(driver) && choice.pattern.matches(interface, None)
        };
        !self.excludes && self.choices.iter().any(is_it)
    }

    /// Whether an entry applies to a driver or to all drivers. Empty lists and lists that exclude
    /// apply to all. `is_driver` recognizes the names of drivers.
    pub fn concerns(&self, driver: &str, is_driver: impl Fn(&str) -> bool) -> bool {
        let is_for = |choice: &NetworkChoice| match (&choice.driver, &choice.pattern) {
            (Some(named), _) => named == driver,
            (None, Pattern::Name(name)) if is_driver(name) => name == driver,
            _ => true,
        };
        self.excludes || self.choices.is_empty() || self.choices.iter().any(is_for)
    }

    /// Whether a driver is excluded entirely.
    pub fn excludes_driver(&self, driver: &str) -> bool {
        self.excludes && self.choices.iter().any(|choice| choice.is_driver(driver))
    }

    /// Whether a driver uses an interface with this address.
    pub fn accepts(&self, driver: &str, interface: &str, address: Option<IpAddr>) -> bool {
        let matching = |choice: &&NetworkChoice| choice.matches(driver, interface, address);
        let mut matching = self.choices.iter().filter(matching).peekable();
        let is_usual = !VIRTUAL.iter().any(|start| interface.starts_with(start))
            && address.is_none_or(|address| !address.is_loopback());
        if self.choices.is_empty() || self.excludes {
            return matching.peek().is_none() && is_usual;
        }
        // An entry that is only a driver selects the interfaces that the driver uses by default.
        matching.any(|choice| is_usual || !choice.is_driver(driver))
    }
}

impl NetworkChoice {
    fn parse(word: &str) -> Result<Self, String> {
        // IPv6 addresses contain colons, too.
        if let Ok(pattern @ Pattern::Network(..)) = Pattern::parse(word) {
            return Ok(Self { driver: None, pattern });
        }
        let (driver, rest) = match word.split_once(':') {
            Some((driver, rest)) => (Some(driver.to_owned()), rest),
            None => (None, word),
        };
        Ok(Self { driver, pattern: Pattern::parse(rest)? })
    }

    fn is_driver(&self, driver: &str) -> bool {
        self.driver.is_none() && self.pattern == Pattern::Name(driver.to_owned())
    }

    fn names(&self, driver: &str) -> bool {
        self.is_driver(driver) || self.driver.as_deref() == Some(driver)
    }

    fn matches(&self, driver: &str, interface: &str, address: Option<IpAddr>) -> bool {
        let is_for = self.driver.as_deref().is_none_or(|named| named == driver);
        is_for && (self.is_driver(driver) || self.pattern.matches(interface, address))
    }
}

impl Pattern {
    fn parse(word: &str) -> Result<Self, String> {
        let Some((address, bits)) = word.split_once('/') else {
            return Ok(Pattern::Name(word.to_owned()));
        };
        let wrong = || format!("\"{word}\" is not a network such as 10.1.0.0/16");
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.parse().ok().filter(|bits| *bits <= longest).ok_or_else(wrong)?;
        Ok(Pattern::Network(address, bits))
    }

    fn matches(&self, interface: &str, address: Option<IpAddr>) -> bool {
        match self {
            Pattern::Name(wanted) => wanted == interface,
            Pattern::Network(network, bits) => {
                address.is_some_and(|address| same_network(*network, address, *bits))
            }
        }
    }
}

/// Whether the first `bits` bits of two addresses agree.
pub fn same_network(one: IpAddr, other: IpAddr, bits: u8) -> bool {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            (one.to_bits() ^ other.to_bits()) & mask == 0
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            (one.to_bits() ^ other.to_bits()) & mask == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(text: &str, driver: &str, interface: &str, address: &str) -> bool {
        let address = Some(address.parse().unwrap());
        NetworkSelection::parse(text).unwrap().accepts(driver, interface, address)
    }

    #[test]
    fn only_interfaces_to_other_machines_are_used_by_default() {
        for text in ["", "tcp"] {
            assert!(accepts(text, "tcp", "eth0", "10.0.0.1"));
            assert!(!accepts(text, "tcp", "lo", "127.0.0.1"));
            assert!(!accepts(text, "tcp", "docker0", "172.17.0.1"));
            assert!(!accepts(text, "tcp", "tun0", "10.8.0.2"));
        }
    }

    #[test]
    fn interfaces_are_selected_by_name_or_network() {
        assert!(accepts("lo, docker0", "tcp", "lo", "127.0.0.1"));
        assert!(!accepts("lo, docker0", "tcp", "eth0", "10.0.0.1"));
        assert!(accepts("10.1.0.0/16", "tcp", "ib0", "10.1.9.9"));
        assert!(!accepts("10.1.0.0/16", "tcp", "eth0", "10.2.0.1"));
        assert!(accepts("fd00::/16", "tcp", "ib0", "fd00::9"));
        let without = "^eth0,10.1.0.0/16";
        assert!(!accepts(without, "tcp", "eth0", "10.0.0.1"));
        assert!(!accepts(without, "tcp", "eth1", "10.1.0.1"));
        assert!(accepts(without, "tcp", "eth2", "10.2.0.1"));
        assert!(!accepts(without, "tcp", "lo", "127.0.0.1"));
        for wrong in ["10.0.0.0/33", "tcp:10.0.0.0/33"] {
            let error = NetworkSelection::parse(wrong).unwrap_err();
            assert!(error.contains("10.0.0.0/33"), "{error}");
        }
    }

    #[test]
    fn each_driver_can_have_its_own_interfaces() {
        let both = "ether:eth1,tcp:eth0,tcp:fd00::/64";
        assert!(accepts(both, "ether", "eth1", "10.0.1.1"));
        assert!(!accepts(both, "ether", "eth0", "10.0.0.1"));
        assert!(accepts(both, "tcp", "eth0", "10.0.0.1"));
        assert!(accepts(both, "tcp", "eth2", "fd00::1"));
        assert!(!accepts(both, "tcp", "eth1", "10.0.1.1"));
        assert!(!accepts("^tcp", "tcp", "eth0", "10.0.0.1"));
        assert!(accepts("^tcp", "ether", "eth0", "10.0.0.1"));
        assert!(!accepts("^tcp:eth0", "tcp", "eth0", "10.0.0.1"));
        assert!(accepts("^tcp:eth0", "ether", "eth0", "10.0.0.1"));
        let selection = NetworkSelection::parse(both).unwrap();
        assert!(selection.names_driver("ether") && !selection.names_driver("datagram"));
        assert!(selection.names_interface("tcp", "eth0"));
        assert!(!selection.names_interface("ether", "eth0"));
        assert!(!NetworkSelection::parse("^tcp:eth0").unwrap().names_interface("tcp", "eth0"));
        assert!(selection.drivers().eq(["ether", "tcp", "tcp"]));
        let is_driver = |name: &str| ["tcp", "ether"].contains(&name);
        for (text, tcp) in [("", true), ("eth0", true), ("ether", false), ("ether:eth0", false)] {
            let selection = NetworkSelection::parse(text).unwrap();
            assert_eq!(selection.concerns("tcp", is_driver), tcp, "{text}");
        }
        assert!(NetworkSelection::parse("^tcp").unwrap().excludes_driver("tcp"));
        assert!(!NetworkSelection::parse("^tcp:eth0").unwrap().excludes_driver("tcp"));
    }
}
