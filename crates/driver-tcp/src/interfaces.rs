//! The network interfaces of this machine, and which of them jobs may use.

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
    /// How many bits of the address name its network.
    pub prefix: u8,
    /// Its declared speed in bytes per microsecond (megabytes per second), if it declares one.
    pub speed: Option<u64>,
}

/// The name of the driver.
pub(crate) const DRIVER: &str = "tcp";

/// The interfaces that are up and that `selection` lets in, by name; of several addresses of one,
/// the first, those of version 4 before those of version 6.
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

/// The rails that a process here has.
pub fn survey(selection: &NetworkSelection) -> Vec<FoundRail> {
    let rail = |interface: Interface| FoundRail {
        name: format!("{DRIVER}:{}", interface.name),
        interface: interface.name,
        obstacle: None,
    };
    usable(selection).into_iter().map(rail).collect()
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
