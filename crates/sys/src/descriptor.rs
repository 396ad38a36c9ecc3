//! Inherited file descriptors.

use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::sync::{Mutex, PoisonError};

/// Serialises reading and changing a descriptor's flag.
static ADOPTING: Mutex<()> = Mutex::new(());

/// Takes ownership of an inherited descriptor, and makes it close-on-exec.
///
/// # Errors
/// If the descriptor is not open, was not inherited, or was adopted before: a close-on-exec
/// descriptor was opened or adopted by this process.
pub fn adopt(descriptor: i32) -> io::Result<File> {
    let _adopting = ADOPTING.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: F_GETFD takes only a number; one that is no descriptor is an error.
    let flags = crate::check(unsafe { libc::fcntl(descriptor, libc::F_GETFD) }.into())?;
    if flags & libc::c_long::from(libc::FD_CLOEXEC) != 0 {
        return Err(io::Error::other(format!("descriptor {descriptor} was not inherited")));
    }
    // SAFETY: F_SETFD takes two numbers.
    crate::check(unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) }.into())?;
    // SAFETY: the descriptor is open, and no other code in this process owns it: Rust opens all
    // descriptors close-on-exec, and adopted ones are close-on-exec too.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// Returns the maximum number of descriptors of this process.
///
/// # Errors
/// The system's.
pub fn limit() -> io::Result<usize> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes one structure to the address given.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    crate::check(result.into())?;
    Ok(usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn what_this_process_opened_is_not_adopted() {
        let own = File::open("/dev/null").unwrap();
        assert!(adopt(own.as_raw_fd()).is_err());
        assert!(adopt(-1).is_err());
        own.metadata().expect("it is still open");
    }

    #[test]
    fn what_was_inherited_is_adopted_once() {
        let own = File::open("/dev/null").unwrap();
        // SAFETY: makes a new descriptor, in the state that an exec would have left it in.
        let inherited = unsafe { libc::dup(own.as_raw_fd()) };
        let adopted = adopt(inherited).unwrap();
        assert_eq!(adopted.as_raw_fd(), inherited);
        // SAFETY: takes only a number.
        let flags = unsafe { libc::fcntl(inherited, libc::F_GETFD) };
        assert_eq!(flags, libc::FD_CLOEXEC, "programs that this one starts do not get it");
        assert!(adopt(inherited).is_err());
    }
}
