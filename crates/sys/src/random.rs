//! Numbers that nobody can guess.

use std::fs::File;
use std::io::{self, Read};

/// Fills `bytes` with random ones from the system.
///
/// # Errors
/// The system has none to give: /dev is not there.
pub fn fill(bytes: &mut [u8]) -> io::Result<()> {
    File::open("/dev/urandom")?.read_exact(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_are_the_same() {
        let (mut one, mut other) = ([0; 32], [0; 32]);
        fill(&mut one).unwrap();
        fill(&mut other).unwrap();
        assert_ne!(one, other);
    }
}
