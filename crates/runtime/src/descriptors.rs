//! The limit of open descriptors of a process, which connections to all peers of a large job reach.

use sys::process::DescriptorLimit;

/// How many descriptors a process needs for each peer at most: a connection in each direction over
/// each of two interfaces.
const DESCRIPTORS_PER_PEER: u64 = 4;

/// How many descriptors a process needs besides, for itself and for the program.
const DESCRIPTORS_BESIDES: u64 = 64;

/// Raises the soft limit of open descriptors if it is too low for a job of `size` processes, as far
/// as the hard limit allows. In small jobs the program keeps the limit that the user has set. If
/// the limit cannot be raised, the connection that exceeds it fails, with a message that names the
/// limit.
pub(crate) fn raise_limit(size: u32) {
    let Ok(limit) = DescriptorLimit::read() else { return };
    if let Some(raised) = raised(limit, size) {
        let _ = raised.set();
    }
}

/// Returns the limit for a job of `size` processes, if it must differ from the present one.
fn raised(limit: DescriptorLimit, size: u32) -> Option<DescriptorLimit> {
    let needed = DESCRIPTORS_BESIDES + DESCRIPTORS_PER_PEER * u64::from(size);
    let soft = needed.min(limit.hard);
    (soft > limit.soft).then_some(DescriptorLimit { soft, ..limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_jobs_raise_the_limit_and_none_beyond_the_hard_one() {
        let usual = DescriptorLimit { soft: 1024, hard: 4096 };
        for (size, expected) in [(1, None), (240, None), (241, Some(1028)), (5000, Some(4096))] {
            assert_eq!(raised(usual, size).map(|limit| limit.soft), expected, "{size} processes");
        }
        assert_eq!(raised(DescriptorLimit { soft: 4096, hard: 4096 }, 5000), None);
        let unlimited = DescriptorLimit { soft: u64::MAX, hard: u64::MAX };
        assert_eq!(raised(unlimited, u32::MAX), None);
    }
}
