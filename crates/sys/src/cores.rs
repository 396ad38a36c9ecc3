//! Which processor cores this process may use, and giving one up for a moment.

use std::{io, mem};

/// How many cores this process can keep busy at once: those that its affinity mask (which
/// includes the cpuset) allows, or fewer when a control group, of either version, grants less
/// processor time (rounded down). At least 1.
pub fn usable() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// How many cores the machine has, whether this process may use them or not.
pub fn configured() -> usize {
    // SAFETY: takes a number and gives one.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    usize::try_from(count).unwrap_or(1)
}

/// The numbers of the cores that this process's affinity mask allows, in order.
pub fn allowed() -> Vec<usize> {
    let mut set = [0_u64; 128];
    // SAFETY: the kernel writes at most the given number of bytes, all inside `set`.
    let got = unsafe {
        libc::sched_getaffinity(
            0,
            mem::size_of_val(&set),
            set.as_mut_ptr().cast::<libc::cpu_set_t>(),
        )
    };
    if got != 0 {
        return Vec::new();
    }
    (0..set.len() * 64).filter(|core| set[core / 64] >> (core % 64) & 1 == 1).collect()
}

/// A set of cores (hardware threads, by the kernel's numbers) on which a thread may run.
#[derive(Clone, Copy, Debug)]
pub struct Cores {
    words: [u64; 128],
}

impl Cores {
    /// The set of these.
    ///
    /// # Errors
    /// A number is larger than any the kernel has.
    pub fn of(cores: &[usize]) -> io::Result<Self> {
        let mut words = [0_u64; 128];
        for core in cores {
            let word = words.get_mut(core / 64).ok_or(io::ErrorKind::InvalidInput)?;
            *word |= 1 << (core % 64);
        }
        Ok(Self { words })
    }

    /// Lets the calling thread, and what it starts from now on, run on these only. Makes one system
    /// call and nothing else.
    ///
    /// # Errors
    /// The system's, such as that none of them is allowed.
    pub fn bind(&self) -> io::Result<()> {
        let set = self.words.as_ptr().cast::<libc::cpu_set_t>();
        // SAFETY: the kernel reads the given number of bytes, all inside `words`.
        let done = unsafe { libc::sched_setaffinity(0, mem::size_of_val(&self.words), set) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Whether the system lets the calling thread choose on which cores it runs; it stays where it may.
///
/// # Errors
/// The system's, with the name of the call.
pub fn check_binding() -> io::Result<()> {
    let cores = allowed();
    if cores.is_empty() {
        // It does not even tell where that is: whoever plans finds out.
        return Ok(());
    }
    Cores::of(&cores)?.bind().map_err(|cause| crate::refused("sched_setaffinity", &cause))
}

/// Lets the calling thread, and what it starts from now on, run on one core only.
///
/// # Errors
/// The system's, such as that the core is not allowed.
pub fn bind(core: usize) -> io::Result<()> {
    Cores::of(&[core])?.bind()
}

/// Gives the core to whoever else waits for it.
pub fn yield_now() {
    // SAFETY: takes nothing and touches no memory.
    unsafe {
        libc::sched_yield();
    }
}

/// The core on which the calling thread is running just now, if the system tells.
pub fn current() -> Option<usize> {
    // SAFETY: takes nothing and touches no memory.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// From now on short sleeps of the calling thread last hardly longer than asked for: the system
/// does not gather its timers with others (by default for 50 microseconds).
pub fn wake_precisely() {
    // SAFETY: takes plain integers; it cannot fail for these.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1000 as libc::c_ulong);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_least_one_core_is_usable() {
        assert!(usable() >= 1);
        assert!(usable() <= allowed().len().max(1));
    }
}
