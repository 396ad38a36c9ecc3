//! Numbers that nobody can guess.

use std::fs::File;
use std::io::{self, Read};

/// The system gives so many at least before a signal may interrupt it (getrandom(2)).
const WHOLE_BYTES_MAX: usize = 256;

/// Fills `bytes` with random ones from the system.
///
/// # Errors
/// The system has none to give: it refuses the call, and /dev is not there.
pub fn fill(bytes: &mut [u8]) -> io::Result<()> {
    for piece in bytes.chunks_mut(WHOLE_BYTES_MAX) {
        // SAFETY: the system writes at most so many bytes to the address.
        let given = unsafe { libc::getrandom(piece.as_mut_ptr().cast(), piece.len(), 0) };
        if given != piece.len() as isize {
            File::open("/dev/urandom")
                .and_then(|mut file| file.read_exact(piece))
                .map_err(|cause| crate::refused("getrandom, or /dev/urandom", &cause))?;
        }
    }
    Ok(())
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
