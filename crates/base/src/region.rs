//! The name of memory that a process lets its peers access.

/// The token that a peer needs to read or write a region of the process that declared it. It has a
/// fixed size, to be carried in packets and in shared memory. Only the process that issued it can
/// interpret it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionToken {
    /// The region of its owner: its index in the owner's table, and how often that index was used
    /// before.
    pub place: u64,
    /// A random word that the owner assigned to this region alone, so that no token can be guessed.
    pub secret: u64,
}

impl RegionToken {
    /// The token that names no region of any process.
    pub const NONE: Self = Self { place: 0, secret: 0 };

    /// The length of a token in bytes.
    pub const BYTES: usize = 16;

    /// Encodes the token.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.place.to_le_bytes());
        bytes[8..].copy_from_slice(&self.secret.to_le_bytes());
        bytes
    }

    /// Decodes a token. Whether it names a region is checked where it is used.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let both = u128::from_le_bytes(bytes);
        Self { place: both as u64, secret: (both >> 64) as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_its_bytes() {
        let token = RegionToken { place: 0x0102_0304_0506_0708, secret: u64::MAX - 5 };
        assert_eq!(RegionToken::from_bytes(token.to_bytes()), token);
    }
}
