//! The resources that this process has used: processor time and memory.

use std::fs;
use std::time::Duration;

/// Returns the processor time of all threads of this process, including those that have ended.
pub fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` may be written; every process has this clock.
    let outcome = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    debug_assert_eq!(outcome, 0, "the clock exists");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the processor time of all threads of another process; none if there is no such process.
/// For running threads it ends at the last tick of the kernel.
pub fn processor_time_of(process: i32) -> Option<Duration> {
    let mut clock: libc::clockid_t = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `clock` and `time` may be written; the kernel refuses clocks that it does not have.
    let is_there = (1..=PROCESS_MAX).contains(&process)
        && unsafe {
            libc::clock_getcpuclockid(process, &mut clock) == 0
                && libc::clock_gettime(clock, &mut time) == 0
        };
    is_there.then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Returns the processor time of a thread of this process; none if there is no such thread.
pub fn processor_time_of_thread(thread: u32) -> Option<Duration> {
    let number = i32::try_from(thread).ok().filter(|number| (1..=PROCESS_MAX).contains(number))?;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` may be written; the kernel refuses clocks that it does not have.
    let outcome = unsafe { libc::clock_gettime(!number << 3 | THREAD_CLOCK, &mut time) };
    (outcome == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// The kind of the clocks that measure the processor time of threads, as
/// `pthread_getcpuclockid` returns them.
const THREAD_CLOCK: libc::clockid_t = 6;

/// The largest number of a process. The numbers of clocks have no room for much larger ones.
const PROCESS_MAX: i32 = 1 << 22;

/// Returns the processor time of living threads with this name; zero if the system does not report
/// it. The system keeps the first 15 bytes of names.
pub fn processor_time_of_threads(name: &str) -> Duration {
    let is_it = |(other, _): &(String, Duration)| other == known(name);
    threads().into_iter().filter(is_it).map(|(_, time)| time).sum()
}

/// Returns how many living threads have used at least this processor time, except threads named
/// `aside`.
pub fn busy_threads(least: Duration, aside: &str) -> usize {
    let is_busy = |(name, time): &&(String, Duration)| name != known(aside) && *time >= least;
    threads().iter().filter(is_busy).count()
}

/// Returns the part of a thread's name that the system keeps.
fn known(name: &str) -> &str {
    &name[..name.len().min(15)]
}

/// Returns the names of all living threads, with the processor time of each.
fn threads() -> Vec<(String, Duration)> {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    let of_thread = |thread: fs::DirEntry| {
        let read = |file| fs::read_to_string(thread.path().join(file)).ok();
        let ns = read("schedstat")?.split_whitespace().next()?.parse().ok()?;
        Some((read("comm")?.trim_end().to_owned(), Duration::from_nanos(ns)))
    };
    threads.flatten().filter_map(of_thread).collect()
}

/// Returns how many bytes of memory of this process are resident; 0 if the system does not report
/// it.
pub fn resident_bytes() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").ok().and_then(|text| resident_pages(&text));
    // SAFETY: takes a number; the system has pages.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    pages.unwrap_or(0).saturating_mul(page.max(0) as u64)
}

fn resident_pages(text: &str) -> Option<u64> {
    text.split_whitespace().nth(1)?.parse().ok()
}

/// Returns how many bytes of memory files with this word in their names are mapped and used in this
/// process.
pub fn shared_memory_bytes(word: &str) -> u64 {
    fs::read_to_string("/proc/self/smaps").map_or(0, |text| shared_in(&text, word))
}

fn shared_in(text: &str, word: &str) -> u64 {
    let (mut is_it, mut kib) = (false, 0);
    for line in text.lines() {
        if let Some(size) = line.strip_prefix("Rss:") {
            let size = size.split_whitespace().next().and_then(|size| size.parse::<u64>().ok());
            kib += size.filter(|_| is_it).unwrap_or(0);
        } else if line.starts_with(|first: char| first.is_ascii_hexdigit() && !first.is_uppercase())
        {
            is_it = line.split_once("/memfd:").is_some_and(|(_, name)| name.contains(word));
        }
    }
    kib << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_uses_processors() {
        let begun = processor_time();
        while processor_time() == begun {
            std::hint::black_box(0);
        }
        assert!(processor_time_of(std::process::id() as i32).is_some());
        assert_eq!(processor_time_of(i32::MAX), None);
        let own = processor_time_of_thread(crate::process::thread_id());
        assert!(own.is_some_and(|own| own > Duration::ZERO && own <= processor_time()));
        assert_eq!(processor_time_of_thread(u32::MAX), None);
        assert_eq!(processor_time_of_threads("no such thread"), Duration::ZERO);
        assert!(busy_threads(Duration::ZERO, "no such thread") >= 1);
        assert_eq!(busy_threads(Duration::MAX, "no such thread"), 0);
    }

    #[test]
    fn mappings_are_distinguished_by_name() {
        let text = "7f00-7f10 rw-s 00000000 00:01 5   /memfd:combray (deleted)\nSize:  64 kB\n\
                    Rss:  12 kB\n7f20-7f30 r--p 00000000 08:01 9  /usr/lib/combray.so\nRss:  8 kB\n\
                    a000-a010 rw-s 00 00:01 6 /memfd:combray-shared (deleted)\nRss: 4 kB\n";
        assert_eq!(shared_in(text, "combray"), 16 << 10);
    }
}
