//! Random numbers that cannot be guessed.

use std::fs::File;
use std::io::{self, Read};

/// The number of bytes that getrandom(2) returns without interruption by a signal.
const WHOLE_BYTES_MAX: usize = 256;

/// Fills `bytes` with random bytes from the system.
///
/// # Errors
/// If the system refuses the call, and /dev is not available.
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
