//! The card by which peers find a process's interfaces, and which rails of two processes are
//! paired.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use driver::same_network;
use links::{RailPair, pair_rails, parse_card};

use crate::interfaces::{MacAddress, parse_mac};

/// What peers need to connect to a process: one entry for each of its rails.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EtherCard {
    /// A random number that each process draws anew, so that its keys are its own.
    pub nonce: u64,
    pub ends: Vec<EtherEnd>,
}

/// One rail of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EtherEnd {
    pub name: String,
    pub mac: MacAddress,
    pub mtu: usize,
    /// Its IP address, and the length of the network prefix in bits.
    pub address: Option<(IpAddr, u8)>,
    /// The number of the process's endpoint on the interface.
    pub endpoint: u32,
    pub slot: u8,
    /// How many bytes of frames may wait there.
    pub room: usize,
    /// The UDP port that the process holds there as long as it exists; 0: none.
    pub life: u16,
}

const VERSION: &str = "ether3";

impl fmt::Display for EtherCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION},{:016x}", self.nonce)?;
        for end in &self.ends {
            let EtherEnd { name, mac, mtu, endpoint, slot, room, life, .. } = end;
            let mac: Vec<String> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
            write!(f, ",{name};{};{mtu};{endpoint};{slot};{room};{life};", mac.join(":"))?;
            if let Some((address, prefix)) = end.address {
                write!(f, "{address}/{prefix}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for EtherCard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let nonce = |digits: &str| u64::from_str_radix(digits, 16).ok();
        let (nonce, ends) = parse_card(text, VERSION, nonce, parse_end)?;
        Ok(Self { nonce, ends })
    }
}

fn parse_end(word: &str) -> Option<EtherEnd> {
    let mut fields = word.split(';');
    let end = EtherEnd {
        name: fields.next()?.to_owned(),
        mac: parse_mac(fields.next()?)?,
        mtu: fields.next()?.parse().ok().filter(|mtu| (576..=65_536).contains(mtu))?,
        endpoint: fields.next()?.parse().ok()?,
        slot: fields.next()?.parse().ok()?,
        room: fields.next()?.parse().ok()?,
        life: fields.next()?.parse().ok()?,
        address: match fields.next()? {
            "" => None,
            text => {
                let (address, prefix) = text.split_once('/')?;
                Some((address.parse().ok()?, prefix.parse().ok()?))
            }
        },
    };
    fields.next().is_none().then_some(end)
}

/// Returns which rails of two processes are used together: rails in one network, each once.
/// Interfaces without addresses are paired by name.
pub(crate) fn pairs(lower: &EtherCard, upper: &EtherCard) -> Vec<RailPair> {
    pair_rails(&lower.ends, &upper.ends, are_near)
}

fn are_near(one: &EtherEnd, other: &EtherEnd) -> bool {
    // A switch never forwards a frame to the port from which it came.
    one.mac != other.mac
        && match (one.address, other.address) {
            (Some((here, bits)), Some((there, others))) => {
                bits == others && same_network(here, there, bits)
            }
            (None, None) => one.name == other.name,
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(ends: &[&str]) -> EtherCard {
        let ends: String = ends.iter().map(|end| format!(",{end}")).collect();
        format!("ether3,00000000000000ff{ends}").parse().unwrap()
    }

    #[test]
    fn a_card_survives_its_text() {
        let card = card(&[
            "eth0;02:00:00:00:00:01;9000;7;1;65536;4000;10.0.0.1/24",
            "eth1;02:00:00:00:01:01;1500;8;0;1;0;",
        ]);
        assert_eq!(card.to_string().parse(), Ok(card.clone()));
        assert_eq!((card.nonce, card.ends[0].mtu, card.ends[1].address), (255, 9000, None));
        for wrong in ["tcp2,", "ether3", "ether3,x", "ether3,1,eth0", "ether3,1,a;02:0;1;1;1;1;0;"]
        {
            assert!(wrong.parse::<EtherCard>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn interfaces_on_the_same_network_are_used_together() {
        let one = card(&[
            "a;02:00:00:00:00:01;1500;7;1;1;0;10.0.0.1/24",
            "b;02:00:00:00:00:02;1500;7;1;1;0;",
        ]);
        let other = card(&[
            "b;02:00:00:00:00:03;1500;7;1;1;0;",
            "c;02:00:00:00:00:04;1500;7;1;1;0;10.0.0.2/24",
        ]);
        assert_eq!(pairs(&one, &other), [(0, 1), (1, 0)]);
        assert_eq!(pairs(&one, &one), [], "the same machine");
    }
}
