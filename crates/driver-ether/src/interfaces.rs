//! The Ethernet interfaces of this machine.

use std::fs;
use std::net::IpAddr;

use driver::NetworkSelection;
use if_addrs::IfAddr;

/// The name of the driver in `COMBRAY_NET` and in the table of drivers.
pub(crate) const DRIVER: &str = "ether";

/// The MAC address of an interface.
pub(crate) type MacAddress = [u8; 6];

/// An interface over which frames can be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EtherInterface {
    pub name: String,
    pub index: u32,
    pub mac: MacAddress,
    /// The maximal length of a frame behind the Ethernet header, in bytes.
    pub mtu: usize,
    /// Its IP address, if it has one, and the length of the network prefix in bits.
    pub address: Option<(IpAddr, u8)>,
    /// Its declared speed in bytes per microsecond (megabytes per second), if it declares one.
    pub speed: Option<u64>,
}

/// The maximal number of interfaces that are used.
const INTERFACES_MAX: usize = 8;

/// The kernel's type number of an Ethernet interface (ARPHRD_ETHER).
const ETHERNET: &str = "1";

/// Shorter frames would contain little but their heads.
const MTU_MIN: usize = 576;

/// Returns the Ethernet interfaces that are up and that `selection` accepts, by name.
pub(crate) fn usable(selection: &NetworkSelection) -> Vec<EtherInterface> {
    let folder = fs::read_dir("/sys/class/net");
    let names = folder.into_iter().flatten().flatten().map(|entry| entry.file_name());
    let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
    names.sort();
    let addresses = if_addrs::get_if_addrs().unwrap_or_default();
    let address_of = |name: &str| {
        let of_it = addresses.iter().filter(|one| one.name == name && !one.is_link_local());
        of_it.min_by_key(|one| one.ip().is_ipv6()).map(|one| match &one.addr {
            IfAddr::V4(v4) => (IpAddr::V4(v4.ip), v4.prefixlen),
            IfAddr::V6(v6) => (IpAddr::V6(v6.ip), v6.prefixlen),
        })
    };
    let of_name = |name: String| {
        let address = address_of(&name);
        let is_wanted = selection.accepts(DRIVER, &name, address.map(|address| address.0));
        if is_wanted { of_system(name, address) } else { None }
    };
    names.into_iter().filter_map(of_name).take(INTERFACES_MAX).collect()
}

/// Returns an interface in its current state, with the IP address under which it is known; none: it
/// is not up.
pub(crate) fn again(known: &EtherInterface) -> Option<EtherInterface> {
    of_system(known.name.clone(), known.address)
}

fn of_system(name: String, address: Option<(IpAddr, u8)>) -> Option<EtherInterface> {
    let reported = |what: &str| {
        let text = fs::read_to_string(format!("/sys/class/net/{name}/{what}")).ok()?;
        Some(text.trim().to_owned())
    };
    let is_down = reported("operstate").is_some_and(|state| state.ends_with("down"));
    if reported("type")? != ETHERNET || is_down {
        return None;
    }
    let mac = parse_mac(&reported("address")?)?;
    let mtu: usize = reported("mtu")?.parse().ok()?;
    let index = reported("ifindex")?.parse().ok()?;
    let megabits: Option<i64> = reported("speed").and_then(|speed| speed.parse().ok());
    let speed = megabits.and_then(|megabits| u64::try_from(megabits / 8).ok());
    let speed = speed.filter(|speed| *speed > 0);
    (mtu >= MTU_MIN).then_some(EtherInterface { name, index, mac, mtu, address, speed })
}

pub(crate) fn parse_mac(text: &str) -> Option<MacAddress> {
    let mut bytes = text.split(':').map(|digits| u8::from_str_radix(digits, 16).ok());
    let mut mac = MacAddress::default();
    for byte in &mut mac {
        *byte = bytes.next()??;
    }
    bytes.next().is_none().then_some(mac)
}
