//! Determines which host names mean this machine.

use std::net::{IpAddr, UdpSocket};

/// Returns the name of this machine.
pub fn host_name() -> String {
    sys::process::host_name()
}

/// Whether a host's name or address means this machine: `localhost`, the machine's own name with or
/// without its domain, or one of its addresses. Names are not looked up.
pub fn is_this_machine(name: &str) -> bool {
    if let Ok(address) = name.parse::<IpAddr>() {
        // Only addresses of this machine can be bound to.
        return UdpSocket::bind((address, 0)).is_ok() && !address.is_unspecified();
    }
    let own = host_name();
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    name == "localhost" || (!own.is_empty() && short(name) == short(&own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_names_and_others() {
        let own = host_name();
        for name in ["localhost", "127.0.0.1", "127.0.1.1", &own, &format!("{own}.example.org")] {
            assert!(is_this_machine(name), "{name}");
        }
        for name in ["elsewhere", "192.0.2.1", "0.0.0.0", "", "localhost2"] {
            assert!(!is_this_machine(name), "{name}");
        }
    }
}
