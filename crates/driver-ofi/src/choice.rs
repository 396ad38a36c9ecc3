//! Decides which of libfabric's interfaces are used.

use driver::{FoundRail, NetworkSelection};

use crate::library::{FabricInterface, InterfaceName, functions};

/// The name of the driver in `COMBRAY_NET` and in the table of drivers.
pub(crate) const DRIVER: &str = "ofi";

/// The providers of fast networks, which `ofi` alone selects.
const FAST: [&str; 6] = ["verbs", "efa", "cxi", "opx", "psm3", "psm2"];

/// The provider that is shown if the user names none, so that the user learns its name.
const PLAIN: &str = "tcp";

/// The maximal number of interfaces that are used.
const INTERFACES_MAX: usize = 8;

/// Returns the interfaces to use.
///
/// # Errors
/// The user names the driver, and there is no libfabric, or no matching interface; the message
/// lists the ones that exist.
pub(crate) fn chosen(selection: &NetworkSelection) -> Result<Vec<FabricInterface>, String> {
    let is_named = selection.names_driver(DRIVER);
    let found = match functions().and_then(|functions| functions.interfaces()) {
        Ok(found) => distinct(found),
        Err(why) if is_named => return Err(why),
        Err(_) => return Ok(Vec::new()),
    };
    let is_used = |interface: &FabricInterface| accepts(selection, &interface.name);
    if is_named && !found.iter().any(is_used) {
        let names: Vec<String> = found.iter().map(|found| full_name(&found.name)).collect();
        let there = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        return Err(format!(
            "COMBRAY_NET selects no interface of libfabric here: {DRIVER} alone selects the \
             providers of fast networks ({}), others must be named; libfabric has {there}",
            FAST.join(", ")
        ));
    }
    Ok(found.into_iter().filter(is_used).take(INTERFACES_MAX).collect())
}

/// Whether an interface is to be used. The user may name it with its provider (`tcp:eth0`). An
/// interface of a fast network may also be named alone (`mlx5_0`), or selected by the driver's
/// name.
fn accepts(selection: &NetworkSelection, interface: &InterfaceName) -> bool {
    let InterfaceName { provider, domain, .. } = interface;
    let whole = interface.whole();
    if selection.names_interface(DRIVER, &whole) {
        return true;
    }
    let names = [&whole, provider, domain];
    let is_meant = match is_fast(interface) {
        // Excluding one of its names excludes the interface.
        true if !selection.names_driver(DRIVER) => {
            names.iter().all(|name| selection.accepts(DRIVER, name, None))
        }
        true => names.iter().any(|name| selection.accepts(DRIVER, name, None)),
        false => selection.names_interface(DRIVER, provider),
    };
    is_meant && leads_away(interface)
}

fn is_fast(interface: &InterfaceName) -> bool {
    FAST.contains(&interface.provider.as_str())
}

/// Whether it leads to other machines, judging by its name and address.
fn leads_away(interface: &InterfaceName) -> bool {
    NetworkSelection::default().accepts(DRIVER, &interface.domain, interface.address)
}

fn full_name(interface: &InterfaceName) -> String {
    format!("{DRIVER}:{}", interface.whole())
}

/// Returns each interface once: a provider lists an interface once for each address.
fn distinct(found: Vec<FabricInterface>) -> Vec<FabricInterface> {
    let mut distinct: Vec<FabricInterface> = Vec::new();
    for interface in found {
        if distinct.iter().all(|known| known.name.whole() != interface.name.whole()) {
            distinct.push(interface);
        }
    }
    distinct
}

/// Returns the rails that a process here would have, and the other interfaces that libfabric has.
pub fn survey(selection: &NetworkSelection) -> Vec<FoundRail> {
    let found = match functions().and_then(|functions| functions.interfaces()) {
        Ok(found) => distinct(found),
        Err(obstacle) => {
            let (name, interface) = (DRIVER.to_owned(), String::new());
            return vec![FoundRail { name, interface, obstacle: Some(obstacle) }];
        }
    };
    let rail = |interface: InterfaceName| {
        let is_used = accepts(selection, &interface);
        let is_candidate = is_fast(&interface) || interface.provider == PLAIN;
        let obstacle = match is_fast(&interface) {
            _ if is_used => None,
            true => Some("COMBRAY_NET does not select it".to_owned()),
            false => Some("the driver tcp is faster".to_owned()),
        };
        (is_used || is_candidate && leads_away(&interface)).then(|| FoundRail {
            name: full_name(&interface),
            interface: interface.domain,
            obstacle,
        })
    };
    found.into_iter().map(|interface| interface.name).filter_map(rail).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(text: &str, name: &str) -> bool {
        let (provider, domain) = name.split_once(':').unwrap();
        let address = (domain == "lo").then(|| [127, 0, 0, 1].into());
        let (provider, domain) = (provider.to_owned(), domain.to_owned());
        let interface = InterfaceName { provider, domain, address };
        super::accepts(&NetworkSelection::parse(text).unwrap(), &interface)
    }

    #[test]
    fn the_providers_of_fast_networks_are_meant_by_the_driver() {
        for text in ["ofi", "ofi:verbs", "ofi:mlx5_0", "ofi:verbs:mlx5_0", "tcp, ofi", "^tcp"] {
            assert!(accepts(text, "verbs:mlx5_0"), "{text}");
            assert!(!accepts(text, "tcp:eth0") && !accepts(text, "udp:lo"), "{text}");
        }
        for text in ["ofi:efa", "ofi:mlx5_1", "^ofi:mlx5_0", "^ofi:verbs", "^ofi:verbs:mlx5_0"] {
            assert!(!accepts(text, "verbs:mlx5_0"), "{text}");
        }
    }

    #[test]
    fn others_are_used_if_their_name_is_said() {
        assert!(accepts("ofi:tcp", "tcp:eth0") && accepts("ofi,ofi:tcp", "tcp:eth0"));
        assert!(!accepts("ofi:tcp", "tcp:lo") && !accepts("ofi:tcp", "tcp:docker0"));
        assert!(accepts("ofi:tcp:lo", "tcp:lo") && !accepts("ofi:tcp:lo", "tcp:eth0"));
        assert!(!accepts("ofi:tcp", "net:eth0") && !accepts("ofi:eth0", "tcp:eth0"));
    }
}
