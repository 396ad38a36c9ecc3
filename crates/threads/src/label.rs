//! Names of threads in a form that other threads can read while the names change.

use std::sync::atomic::{AtomicU64, Ordering};

const WORDS: usize = 3;

/// The first bytes of a thread's name, padded with zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Label([u64; WORDS]);

/// The label of the thread that a processor runs, readable by other threads.
#[derive(Default)]
pub(crate) struct SharedLabel([AtomicU64; WORDS]);

impl Label {
    pub fn of(name: Option<&str>) -> Self {
        let mut bytes = [0; WORDS * 8];
        let name = name.unwrap_or_default();
        let fits = |&end: &usize| name.is_char_boundary(end);
        let length = (0..=name.len().min(bytes.len())).rev().find(fits).unwrap_or(0);
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        Self(std::array::from_fn(|word| {
            u64::from_ne_bytes(std::array::from_fn(|byte| bytes[word * 8 + byte]))
        }))
    }

    /// The name as text; empty if the thread has no name.
    pub fn text(self) -> String {
        let bytes: Vec<u8> = self.0.iter().flat_map(|word| word.to_ne_bytes()).collect();
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
    }
}

impl SharedLabel {
    #[inline]
    pub fn set(&self, label: Label) {
        for (word, value) in self.0.iter().zip(label.0) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Returns the label. If it changes during the read, the result may mix two names.
    pub fn get(&self) -> Label {
        Label(std::array::from_fn(|word| self.0[word].load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_end_between_letters() {
        let label = |name| Label::of(Some(name)).text();
        assert_eq!(label("main"), "main");
        assert_eq!(label("exchange with neighbours"), "exchange with neighbours");
        assert_eq!(label("exchange with all neighbours"), "exchange with all neighb");
        assert_eq!(label("abcdefghijklmnopqrstuvwä"), "abcdefghijklmnopqrstuvw");
        assert_eq!(Label::of(None).text(), "");
        let shared = SharedLabel::default();
        shared.set(Label::of(Some("main")));
        assert_eq!(shared.get().text(), "main");
    }
}
