//! The network interfaces of this machine, and which of them jobs may use.

use std::fs;
use std::net::IpAddr;

use if_addrs::IfAddr;

/// A network interface that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, such as `eth0`.
    pub name: String,
    /// Its address.
    pub address: IpAddr,
    /// How many bits of the address name its network.
    pub prefix: u8,
    /// Its declared speed in bytes per microsecond (megabytes per second), if it declares one.
    pub speed: Option<u64>,
}

/// Which interfaces a person wants: names or networks, or those that are not to be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceSelection {
    wanted: Vec<Pattern>,
    unwanted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Name(String),
    Network(IpAddr, u8),
}

/// Interfaces of containers, virtual machines, bridges and private networks begin so: what they
/// lead to is not another machine of the job. They are used when a person names them.
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

impl InterfaceSelection {
    /// Reads names (`eth0`) and networks (`10.1.0.0/16`) with commas between; `^` before them all
    /// says that these are not to be used. Nothing: all that lead to other machines.
    ///
    /// # Errors
    /// Something is neither a name nor a network.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (unwanted, list) = match text.trim().strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, text.trim()),
        };
        let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
        let wanted = words.map(Pattern::parse).collect::<Result<_, _>>()?;
        Ok(Self { wanted, unwanted })
    }

    /// Whether it names an interface, or the network that an address is in.
    pub fn names(&self, name: &str, address: IpAddr) -> bool {
        self.wanted.iter().any(|pattern| pattern.matches(name, address))
    }

    fn accepts(&self, interface: &Interface) -> bool {
        let named = self.names(&interface.name, interface.address);
        if self.wanted.is_empty() || self.unwanted {
            let virtual_one = VIRTUAL.iter().any(|start| interface.name.starts_with(start));
            return !named && !virtual_one && !interface.address.is_loopback();
        }
        named
    }
}

impl Pattern {
    fn parse(word: &str) -> Result<Self, String> {
        let Some((address, bits)) = word.split_once('/') else {
            return Ok(Pattern::Name(word.to_owned()));
        };
        let wrong = || format!("\"{word}\" is no network such as 10.1.0.0/16");
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.parse().ok().filter(|bits| *bits <= longest).ok_or_else(wrong)?;
        Ok(Pattern::Network(address, bits))
    }

    fn matches(&self, name: &str, address: IpAddr) -> bool {
        match self {
            Pattern::Name(wanted) => wanted == name,
            Pattern::Network(network, bits) => same_network(*network, address, *bits),
        }
    }
}

/// Whether the first `bits` bits of two addresses agree.
pub(crate) fn same_network(one: IpAddr, other: IpAddr, bits: u8) -> bool {
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

/// The interfaces that are up and that `selection` lets in, by name; of several addresses of one,
/// the first, those of version 4 before those of version 6.
pub fn usable(selection: &InterfaceSelection) -> Vec<Interface> {
    let mut found: Vec<Interface> = Vec::new();
    let mut all = if_addrs::get_if_addrs().unwrap_or_default();
    all.retain(|interface| !interface.is_link_local() && !is_down(&interface.name));
    all.sort_by_key(|interface| (interface.name.clone(), interface.ip().is_ipv6()));
    for interface in all {
        let (address, prefix) = match &interface.addr {
            IfAddr::V4(v4) => (IpAddr::V4(v4.ip), v4.prefixlen),
            IfAddr::V6(v6) => (IpAddr::V6(v6.ip), v6.prefixlen),
        };
        let speed = declared_speed(&interface.name);
        let interface = Interface { name: interface.name, address, prefix, speed };
        if selection.accepts(&interface) && found.iter().all(|known| known.name != interface.name) {
            found.push(interface);
        }
    }
    found.truncate(INTERFACES_MAX);
    found
}

/// More interfaces than these are not used.
const INTERFACES_MAX: usize = 8;

fn is_down(name: &str) -> bool {
    let state = fs::read_to_string(format!("/sys/class/net/{name}/operstate"));
    state.is_ok_and(|state| ["down", "lowerlayerdown"].contains(&state.trim()))
}

/// What the kernel knows of an interface's speed, in bytes per microsecond.
fn declared_speed(name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/sys/class/net/{name}/speed")).ok()?;
    let megabits: i64 = text.trim().parse().ok()?;
    u64::try_from(megabits / 8).ok().filter(|speed| *speed > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, address: &str) -> Interface {
        let address = address.parse().unwrap();
        Interface { name: name.into(), address, prefix: 24, speed: None }
    }

    #[test]
    fn only_what_leads_to_other_machines_is_taken_by_itself() {
        let any = InterfaceSelection::default();
        assert!(any.accepts(&interface("eth0", "10.0.0.1")));
        assert!(!any.accepts(&interface("lo", "127.0.0.1")));
        assert!(!any.accepts(&interface("docker0", "172.17.0.1")));
        assert!(!any.accepts(&interface("tun0", "10.8.0.2")));
    }

    #[test]
    fn names_and_networks_choose() {
        let by_name = InterfaceSelection::parse("lo, docker0").unwrap();
        assert!(by_name.accepts(&interface("lo", "127.0.0.1")));
        assert!(!by_name.accepts(&interface("eth0", "10.0.0.1")));
        let by_network = InterfaceSelection::parse("10.1.0.0/16").unwrap();
        assert!(by_network.accepts(&interface("ib0", "10.1.9.9")));
        assert!(!by_network.accepts(&interface("eth0", "10.2.0.1")));
        let without = InterfaceSelection::parse("^eth0,10.1.0.0/16").unwrap();
        assert!(!without.accepts(&interface("eth0", "10.0.0.1")));
        assert!(!without.accepts(&interface("eth1", "10.1.0.1")));
        assert!(without.accepts(&interface("eth2", "10.2.0.1")));
        assert!(!without.accepts(&interface("lo", "127.0.0.1")));
        assert!(InterfaceSelection::parse("10.0.0.0/33").unwrap_err().contains("10.0.0.0/33"));
    }
}
