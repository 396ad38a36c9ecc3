//! The card by which peers find a process's interfaces, and which rails of two processes are
//! connected.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use driver::same_network;
use links::{RailPair, pair_rails, parse_card};

/// The addresses on which a process listens: one for each of its rails.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressCard {
    /// The name of its machine, as shown to users; empty: not known.
    pub host: String,
    /// The rails, in order.
    pub ends: Vec<Endpoint>,
}

/// The address at which one rail of a process can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Address and port.
    pub address: SocketAddr,
    /// The length of the network prefix in bits.
    pub prefix: u8,
}

const VERSION: &str = "tcp2";

/// The length in bytes to which names of machines are cut.
const HOST_BYTES_MAX: usize = 64;

impl AddressCard {
    /// Creates a card of this machine, without any rails yet.
    pub(crate) fn of_this_machine() -> Self {
        let plain = |byte: &char| byte.is_ascii_alphanumeric() || ".-_".contains(*byte);
        let name = rustix::system::uname();
        let name = name.nodename().to_string_lossy();
        let host = name.chars().filter(plain).take(HOST_BYTES_MAX).collect();
        Self { host, ends: Vec::new() }
    }
}

impl fmt::Display for AddressCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION},{}", self.host)?;
        self.ends.iter().try_for_each(|end| write!(f, ",{}/{}", end.address, end.prefix))
    }
}

impl FromStr for AddressCard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let end = |word: &str| {
            let (address, prefix) = word.split_once('/')?;
            Some(Endpoint { address: address.parse().ok()?, prefix: prefix.parse().ok()? })
        };
        let (host, ends) = parse_card(text, VERSION, |host| Some(host.to_owned()), end)?;
        Ok(Self { host, ends })
    }
}

/// Returns which rails of two processes are connected: pairs in one network, each rail once. If
/// there are no such pairs, all rails of the first process are paired with one rail of the second
/// each, as there may be routers between them. The number of a link is its index in the list, which
/// both processes compute.
pub(crate) fn links(lower: &AddressCard, upper: &AddressCard) -> Vec<RailPair> {
    let mut links = pair_rails(&lower.ends, &upper.ends, are_near);
    if links.is_empty() && !upper.ends.is_empty() {
        links = (0..lower.ends.len()).map(|index| (index, index % upper.ends.len())).collect();
    }
    links
}

fn are_near(one: &Endpoint, other: &Endpoint) -> bool {
    let (here, there): (IpAddr, IpAddr) = (one.address.ip(), other.address.ip());
    one.prefix == other.prefix && same_network(here, there, one.prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(ends: &[&str]) -> AddressCard {
        format!("tcp2,moon{}", ends.iter().map(|end| format!(",{end}")).collect::<String>())
            .parse()
            .unwrap()
    }

    #[test]
    fn a_card_survives_its_text() {
        let card = card(&["10.0.0.1:1/24", "[fd00::1]:80/64"]);
        assert_eq!(card.to_string().parse(), Ok(card.clone()));
        assert_eq!(card.host, "moon");
        assert_eq!("tcp2,".parse(), Ok(AddressCard::default()));
        assert!("tcp2".parse::<AddressCard>().is_err());
        assert!("tcp0".parse::<AddressCard>().is_err());
        assert!("tcp2,moon,10.0.0.1/24".parse::<AddressCard>().is_err());
    }

    #[test]
    fn rails_of_the_same_network_are_connected() {
        let one = card(&["10.0.0.1:1/24", "10.0.1.1:1/24", "192.168.0.1:1/24"]);
        let other = card(&["10.0.1.2:1/24", "10.0.0.2:1/24", "10.0.1.3:1/24"]);
        assert_eq!(links(&one, &other), [(0, 1), (1, 0)]);
        let far = card(&["172.20.0.1:1/16"]);
        assert_eq!(links(&one, &far), [(0, 0), (1, 0), (2, 0)], "over routers");
        assert_eq!(links(&one, &AddressCard::default()), []);
    }
}
