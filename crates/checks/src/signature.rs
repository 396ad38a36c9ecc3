//! The types of the elements of a message, at the sender and at the receiver.

use serde::{Deserialize, Serialize};

/// The elements of a message in order, as runs: the type, and the number of elements. An empty type
/// stands for bytes that match any type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeSignature(Vec<(String, u64)>);

/// The largest number of runs in a signature. A message with more runs has no signature.
pub const SIGNATURE_RUNS_MAX: usize = 64;

impl TypeSignature {
    /// Appends `count` elements of one type. Returns whether the number of runs is within
    /// [`SIGNATURE_RUNS_MAX`].
    pub fn add(&mut self, kind: &str, count: u64) -> bool {
        match self.0.last_mut() {
            Some((last, before)) if last == kind => *before += count,
            _ => self.0.push((kind.to_owned(), count)),
        }
        self.0.len() <= SIGNATURE_RUNS_MAX
    }

    /// Returns the first difference between a message with this signature and a receive with
    /// another one, as (elements sent, elements received). The receive may have room for more
    /// elements.
    pub fn contradiction(&self, received: &Self) -> Option<(String, String)> {
        let has_bytes = |one: &Self| one.0.iter().any(|(kind, _)| kind.is_empty());
        if has_bytes(self) || has_bytes(received) {
            return None;
        }
        let mut theirs = received.0.iter().cloned();
        let mut room = theirs.next();
        for (kind, mut count) in self.0.iter().cloned() {
            while count > 0 {
                let (expected, left) = room.as_mut()?;
                if *expected != kind {
                    return Some((kind, expected.clone()));
                }
                let both = count.min(*left);
                count -= both;
                *left -= both;
                if *left == 0 {
                    room = theirs.next();
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(runs: &[(&str, u64)]) -> TypeSignature {
        let mut made = TypeSignature::default();
        runs.iter().for_each(|(kind, count)| assert!(made.add(kind, *count)));
        made
    }

    #[test]
    fn a_receive_may_have_room_for_more_of_the_same() {
        let sent = signature(&[("i", 3), ("f", 1)]);
        assert_eq!(sent.contradiction(&signature(&[("i", 1), ("i", 2), ("f", 9)])), None);
        assert_eq!(sent.contradiction(&signature(&[("i", 3)])), None, "that is truncation");
        let other = Some(("f".to_owned(), "i".to_owned()));
        assert_eq!(sent.contradiction(&signature(&[("i", 4)])), other);
        assert_eq!(sent.contradiction(&signature(&[("", 16)])), None);
        assert_eq!(signature(&[]).contradiction(&other_kind()), None);
    }

    fn other_kind() -> TypeSignature {
        signature(&[("f", 1)])
    }

    #[test]
    fn there_is_an_end_to_what_is_reported() {
        let mut made = TypeSignature::default();
        let kinds = ["i", "f"].iter().cycle().take(SIGNATURE_RUNS_MAX + 1);
        let fits: Vec<bool> = kinds.map(|kind| made.add(kind, 1)).collect();
        assert_eq!(fits.iter().filter(|fits| !**fits).count(), 1);
    }
}
