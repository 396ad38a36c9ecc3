//! The network interfaces of this machine, and which of them jobs may use.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;

use driver::{FoundRail, NetworkSelection};
use if_addrs::IfAddr;

/// A network interface that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, such as `eth0`.
    pub name: String,
    /// Its address.
    pub address: IpAddr,
    /// The length of the network prefix in bits.
    pub prefix: u8,
    /// Its declared speed in bytes per microsecond (megabytes per second), if it declares one.
    pub speed: Option<u64>,
}

/// The name of the driver.
pub(crate) const DRIVER: &str = "tcp";

/// Returns the interfaces that are up and that `selection` accepts, by name. Of several addresses
/// of an interface, the first is taken, IPv4 before IPv6.
pub fn usable(selection: &NetworkSelection) -> Vec<Interface> {
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
        let is_accepted = selection.accepts(DRIVER, &interface.name, Some(address));
        if is_accepted && found.iter().all(|known| known.name != interface.name) {
            found.push(interface);
        }
    }
    found.truncate(INTERFACES_MAX);
    found
}

/// Returns the rails that a process here has, and the interfaces that it does not use.
pub fn survey(selection: &NetworkSelection) -> Vec<FoundRail> {
    let rail = |interface: String, obstacle| FoundRail {
        name: format!("{DRIVER}:{interface}"),
        interface,
        obstacle,
    };
    let mut rails: Vec<FoundRail> =
        usable(selection).into_iter().map(|one| rail(one.name, None)).collect();
    let all = if_addrs::get_if_addrs().unwrap_or_default();
    let listed = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let listed = listed.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names: BTreeSet<String> = all.iter().map(|one| one.name.clone()).chain(listed).collect();
    for name in names {
        if rails.iter().all(|rail| rail.interface != name) {
            let own = all.iter().filter(|one| one.name == name);
            let addresses = own.filter(|one| !one.is_link_local()).map(if_addrs::Interface::ip);
            let why = obstacle(selection, &name, is_down(&name), &addresses.collect::<Vec<_>>());
            rails.push(rail(name, Some(why)));
        }
    }
    rails
}

/// Returns why an interface is not used, if it is not; the addresses do not include link-local
/// ones.
fn obstacle(
    selection: &NetworkSelection,
    name: &str,
    is_down: bool,
    addresses: &[IpAddr],
) -> String {
    let is_accepted = |selection: &NetworkSelection| {
        addresses.iter().any(|address| selection.accepts(DRIVER, name, Some(*address)))
    };
    if is_down {
        format!("it is down, or has no carrier (ip link set {name} up)")
    } else if addresses.is_empty() {
        "it has no address other than link-local addresses (ip address add)".to_owned()
    } else if is_accepted(selection) {
        format!("{INTERFACES_MAX} others are used, which is the maximum")
    } else if is_accepted(&NetworkSelection::default()) {
        "COMBRAY_NET excludes it".to_owned()
    } else if addresses.iter().all(IpAddr::is_loopback) {
        "it reaches only this machine".to_owned()
    } else {
        format!(
            "its name is that of an interface to containers, virtual machines or a private network \
             (COMBRAY_NET={name} uses it)"
        )
    }
}

/// The maximal number of interfaces that are used.
const INTERFACES_MAX: usize = 8;

fn is_down(name: &str) -> bool {
    let state = fs::read_to_string(format!("/sys/class/net/{name}/operstate"));
    state.is_ok_and(|state| ["down", "lowerlayerdown"].contains(&state.trim()))
}

/// Returns the speed of an interface that the kernel reports, in bytes per microsecond.
fn declared_speed(name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/sys/class/net/{name}/speed")).ok()?;
    let megabits: i64 = text.trim().parse().ok()?;
    u64::try_from(megabits / 8).ok().filter(|speed| *speed > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_used_has_a_reason() {
        let address: IpAddr = "10.0.0.1".parse().unwrap();
        let loopback: IpAddr = "127.0.0.1".parse().unwrap();
        let all = NetworkSelection::default();
        let other = NetworkSelection::parse("eth1").unwrap();
        for (selection, name, is_down, addresses, word) in [
            (&all, "eth0", true, vec![address], "ip link set eth0 up"),
            (&all, "eth0", false, vec![], "no address"),
            (&all, "lo", false, vec![loopback], "only this machine"),
            (&all, "docker0", false, vec![address], "COMBRAY_NET=docker0"),
            (&other, "eth0", false, vec![address], "excludes it"),
            (&all, "eth9", false, vec![address], "8 others"),
        ] {
            let why = obstacle(selection, name, is_down, &addresses);
            assert!(why.contains(word), "{name}: {why}");
        }
    }

    #[test]
    fn each_interface_is_reported_once() {
        let rails = survey(&NetworkSelection::default());
        let names: BTreeSet<_> = rails.iter().map(|rail| &rail.interface).collect();
        assert_eq!(names.len(), rails.len(), "{rails:?}");
        let used = rails.iter().filter(|rail| rail.obstacle.is_none()).count();
        assert_eq!(used, usable(&NetworkSelection::default()).len());
    }
}
