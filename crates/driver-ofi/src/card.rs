//! The card by which peers find a process's endpoints, and which rails of two processes are paired.

use std::fmt::{self, Write};
use std::str::FromStr;

use links::{RailPair, pair_rails, parse_card};

/// What peers need to connect to a process: one entry for each of its rails.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OfiCard {
    /// A random number of this process, so that tokens of different processes differ.
    pub nonce: u64,
    pub ends: Vec<OfiEnd>,
}

/// One rail of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OfiEnd {
    pub provider: String,
    /// libfabric's name of the fabric: interfaces that reach each other have equal names.
    pub fabric: String,
    /// The address of the endpoint.
    pub address: Vec<u8>,
}

const VERSION: &str = "ofi2";

impl fmt::Display for OfiCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION},{:016x}", self.nonce)?;
        for OfiEnd { provider, fabric, address } in &self.ends {
            // Names come from other libraries, and may contain any character.
            write!(f, ",")?;
            for (bytes, last) in
                [(provider.as_bytes(), ";"), (fabric.as_bytes(), ";"), (address, "")]
            {
                write_hex(f, bytes)?;
                f.write_str(last)?;
            }
        }
        Ok(())
    }
}

fn write_hex(f: &mut impl Write, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl FromStr for OfiCard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let nonce = |digits: &str| u64::from_str_radix(digits, 16).ok();
        let (nonce, ends) = parse_card(text, VERSION, nonce, parse_end)?;
        Ok(Self { nonce, ends })
    }
}

fn parse_end(word: &str) -> Option<OfiEnd> {
    let mut fields = word.split(';').map(parse_hex);
    let end = OfiEnd {
        provider: String::from_utf8(fields.next()??).ok()?,
        fabric: String::from_utf8(fields.next()??).ok()?,
        address: fields.next()??,
    };
    fields.next().is_none().then_some(end)
}

fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |[high, low]: &[u8; 2]| Some(digit(high)? << 4 | digit(low)?);
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

/// Returns which rails of two processes are used together, the rail of the process with the lower
/// rank first: rails of one provider on one fabric, each once.
pub(crate) fn pairs(lower: &OfiCard, upper: &OfiCard) -> Vec<RailPair> {
    pair_rails(&lower.ends, &upper.ends, |one, other| {
        one.provider == other.provider && one.fabric == other.fabric
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(provider: &str, fabric: &str) -> OfiEnd {
        OfiEnd { provider: provider.into(), fabric: fabric.into(), address: vec![0, 255, 16] }
    }

    #[test]
    fn a_card_survives_its_text() {
        let card = OfiCard { nonce: 255, ends: vec![end("tcp", "10.0.0.0/24"), end("a b", ",;")] };
        assert_eq!(card.to_string().parse(), Ok(card.clone()));
        assert!(!card.to_string().contains(' '));
        for wrong in ["tcp2,", "ofi2", "ofi2,x", "ofi2,1,74", "ofi2,1,7;7;7", "ofi2,1,74;74;00;00"]
        {
            assert!(wrong.parse::<OfiCard>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn interfaces_on_the_same_fabric_are_used_together() {
        let one =
            OfiCard { nonce: 1, ends: vec![end("tcp", "a"), end("tcp", "b"), end("efa", "a")] };
        let other = OfiCard { nonce: 2, ends: vec![end("tcp", "b"), end("efa", "a")] };
        assert_eq!(pairs(&one, &other), [(1, 0), (2, 1)]);
        assert_eq!(pairs(&other, &one), [(0, 1), (1, 2)]);
    }
}
