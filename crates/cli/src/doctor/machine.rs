//! The machine: cores, memory, limits, huge pages, the clock.

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

use runtime::configuration;
use sys::cores;
use sys::process::DescriptorLimit;
use topology::{Scope, Topology};

use super::finding::Finding;
use super::processors;

pub fn findings() -> Vec<Finding> {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut findings =
        vec![cores(cores::configured(), &cores::allowed(), cores::usable()), binding()];
    findings.extend(load());
    findings.push(memory(&groups));
    findings.push(descriptors());
    findings.extend(other_limits(&limits));
    findings.extend(huge_pages());
    findings.push(clock());
    findings.extend(host_timeout());
    findings.extend(processors::findings());
    findings
}

/// How many processes can run at once: the cores of the machine, those that the affinity mask
/// allows, and those for which there is processor time.
fn cores(configured: usize, allowed: &[usize], usable: usize) -> Finding {
    let subject = "cores";
    if allowed.is_empty() {
        return Finding::slow(
            subject,
            "the kernel does not report on which cores processes may run (sched_getaffinity)",
            "in a container, its filter of system calls (seccomp) must allow it",
        );
    }
    let count = allowed.len();
    if usable < count {
        return Finding::slow(
            subject,
            format!("processor time for {usable} of the {count} hardware threads that may be used"),
            "a quota of the control group (cpu.max, cpu.cfs_quota_us) stops processes in between; \
             raise it (docker --cpus, limits of Kubernetes), or start no more processes than that",
        );
    }
    if count < configured {
        return Finding::note(
            subject,
            format!("{count} of {configured} hardware threads may be used"),
            "the others are kept from this shell by its affinity mask or cpuset: taskset, a \
             container (--cpuset-cpus), or an allocation that has only these (--cpus-per-task, \
             --exclusive)",
        );
    }
    Finding::fit(subject, format!("all {count} hardware threads, without a quota"))
}

/// Checks whether processes can be bound.
fn binding() -> Finding {
    if let Err(cause) = cores::check_binding() {
        let found = format!("processes are not bound: {cause}");
        let remedy = "until then jobs start as with --bind-to none, with a warning; an explicit \
                      --bind-to fails";
        return Finding::slow("binding", found, remedy);
    }
    match Topology::this_machine(Scope::Cores) {
        Ok(_) => Finding::fit("binding", "each process is bound to its share of the cores"),
        Err(error) => Finding::slow("binding", "processes are not bound", error.to_string()),
    }
}

/// The average number of processes that ran at once in the last minute.
fn average_load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// The load of the last minute, if it is so high that times measured now mean little.
pub fn oversubscription() -> Option<String> {
    let (load, usable) = (average_load()?, cores::usable());
    (load > 0.5 * usable as f64)
        .then(|| format!("{load} processes ran at once in the last minute, on {usable} cores"))
}

/// Checks whether other processes use the cores.
fn load() -> Option<Finding> {
    let (subject, load) = ("load", average_load()?);
    Some(if let Some(found) = oversubscription() {
        Finding::note(
            subject,
            found,
            "times that are measured now are not reliable; top shows these processes",
        )
    } else {
        Finding::fit(subject, format!("{load} processes ran at once in the last minute"))
    })
}

/// Checks the free memory, and the limit of the control group.
fn memory(groups: &str) -> Finding {
    let subject = "memory";
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok())
    };
    let (Some(total), Some(available)) = (of("MemTotal"), of("MemAvailable")) else {
        return Finding::note(
            subject,
            "the kernel does not report it (/proc/meminfo)",
            "mount /proc",
        );
    };
    let (total, available) = (total << 10, available << 10);
    let found = format!("{} of {} free", gib(available), gib(total));
    match group_limit(Path::new("/sys/fs/cgroup"), groups).filter(|limit| *limit < total) {
        Some(limit) => Finding::note(
            subject,
            format!("{found}; the control group may use {}", gib(limit)),
            "the kernel kills processes that use more (exit code 137); raise memory.max, docker \
             --memory, or --mem of Slurm",
        ),
        None => Finding::fit(subject, found),
    }
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1_u64 << 30) as f64)
}

/// The lowest memory limit of this process's control group and the groups around it, for both
/// versions of control groups.
fn group_limit(root: &Path, groups: &str) -> Option<u64> {
    let mut least = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?.trim_start_matches('/'));
        let (top, name): (PathBuf, _) = match controllers {
            "" => (root.to_path_buf(), "memory.max"),
            "memory" => (root.join("memory"), "memory.limit_in_bytes"),
            _ => continue,
        };
        for folder in top.join(path).ancestors().take_while(|folder| folder.starts_with(&top)) {
            let text = fs::read_to_string(folder.join(name)).unwrap_or_default();
            let limit = text.trim().parse::<u64>().ok();
            least = limit.into_iter().chain(least).min();
        }
    }
    least
}

/// Checks how many processes the limit of open files allows.
fn descriptors() -> Finding {
    let subject = "open files";
    let Ok(DescriptorLimit { hard, .. }) = DescriptorLimit::read() else {
        return Finding::note(subject, "the kernel does not report the limit", "check ulimit -n");
    };
    let (ranks, usable) = (launcher::ranks_within(hard), cores::usable() as u64);
    let found = format!("{hard} (ulimit -Hn): enough to start {ranks} processes here");
    match ranks < usable {
        true => Finding::fault(
            subject,
            found,
            "raise the limit of open files: ulimit -n, nofile in /etc/security/limits.conf, \
             LimitNOFILE= of a service, docker --ulimit nofile=65536",
        ),
        false => Finding::fit(subject, found),
    }
}

/// Checks limits of the shell that are seldom set on purpose.
fn other_limits(limits: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (row, subject, option, why) in [
        ("Max file size", "file size", "-f", "the memory that processes share is a file"),
        (
            "Max address space",
            "address space",
            "-v",
            "each process maps the memory that the others share",
        ),
    ] {
        if let Some(bytes) = limit_of(limits, row) {
            let mib = bytes >> 20;
            findings.push(Finding::note(
                subject,
                format!("limited to {mib} MiB; {why}"),
                format!("ulimit {option} unlimited"),
            ));
        }
    }
    let locked = match limit_of(limits, "Max locked memory") {
        Some(bytes) => format!("up to {} KiB (ulimit -l); Combray locks none", bytes >> 10),
        None => "without limit; Combray locks none".to_owned(),
    };
    findings.push(Finding::fit("locked memory", locked));
    findings
}

/// The soft limit in this row, if there is one.
fn limit_of(limits: &str, row: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(row))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Checks whether programs get huge pages.
fn huge_pages() -> Option<Finding> {
    let text = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    let chosen = text.split('[').nth(1)?.split(']').next()?;
    let subject = "huge pages";
    Some(match chosen {
        "never" => Finding::note(
            subject,
            "off: programs with large arrays have more page faults",
            "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, or always",
        ),
        "madvise" => Finding::fit(subject, "for programs that ask for them (madvise)"),
        _ => Finding::fit(subject, "for all programs (always)"),
    })
}

/// Checks the cost of reading the clock. If that needs a system call, all time measurement is slow.
fn clock() -> Finding {
    let name = fs::read_to_string(CLOCK_SOURCE).unwrap_or_default();
    judged_clock(name.trim(), clock_ns())
}

const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

fn judged_clock(name: &str, ns: u64) -> Finding {
    let name = if name.is_empty() { "not reported by the kernel" } else { name };
    let found = format!("{name}, read in {ns} ns");
    if ns <= CLOCK_NS_MAX && !SLOW_CLOCKS.contains(&name) {
        return Finding::fit("clock", found);
    }
    Finding::slow(
        "clock",
        found,
        "each reading is a system call or an access to a slow device: MPI_Wtime costs as much, and \
         waits are less precise. \
         /sys/devices/system/clocksource/clocksource0/available_clocksource lists others; tsc is \
         the fast one (kernel option tsc=reliable), kvm-clock in a virtual machine",
    )
}

/// Without a system call, a reading takes some 20 to 60 ns.
const CLOCK_NS_MAX: u64 = 200;

/// Clock sources that are devices.
const SLOW_CLOCKS: &[&str] = &["hpet", "acpi_pm", "jiffies"];

/// The minimum of several batches, because other processes use the core, too.
fn clock_ns() -> u64 {
    const READINGS: u32 = 2000;
    let batch = |_| {
        let begin = Instant::now();
        (0..READINGS).for_each(|_| _ = black_box(Instant::now()));
        begin.elapsed() / READINGS
    };
    (0..9).map(batch).min().unwrap_or_default().as_nanos() as u64
}

/// Checks the timeout after which hosts count as lost.
fn host_timeout() -> Option<Finding> {
    let wrong = configuration::host_timeout().err()?;
    Some(Finding::fault("host timeout", wrong, "unset COMBRAY_HOST_TIMEOUT, or correct it"))
}

#[cfg(test)]
mod tests {
    use super::super::finding::{PageForm, Verdict};
    use super::*;

    #[test]
    fn cores_that_are_missing_have_a_reason() {
        let verdict = |configured, allowed: &[usize], usable| {
            let finding = cores(configured, allowed, usable);
            assert_eq!(finding.verdict == Verdict::Fit, finding.remedy.is_empty());
            (finding.verdict, finding.remedy)
        };
        assert_eq!(verdict(4, &[0, 1, 2, 3], 4).0, Verdict::Fit);
        let (grave, remedy) = verdict(4, &[0, 1, 2, 3], 1);
        assert!(grave == Verdict::Slow && remedy.contains("cpu.max"));
        let (grave, remedy) = verdict(4, &[2], 1);
        assert!(grave == Verdict::Note && remedy.contains("taskset"));
        assert_eq!(verdict(4, &[], 4).0, Verdict::Slow);
    }

    #[test]
    fn the_tightest_group_counts_in_both_versions() {
        let private = tempfile::tempdir().unwrap();
        let root = private.path().join("groups");
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("user/job/memory.max", "max\n");
        write("user/memory.max", "5000000\n");
        write("memory/box/memory.limit_in_bytes", "4000000\n");
        assert_eq!(group_limit(&root, "0::/user/job\n"), Some(5_000_000));
        let both = "9:memory:/box/inner\n3:cpu,cpuacct:/\n0::/user/job\n";
        assert_eq!(group_limit(&root, both), Some(4_000_000));
        assert_eq!(group_limit(&root, "0::/\n"), None);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn limits_are_read() {
        let text = "Limit        Soft Limit  Hard Limit  Units\n\
                    Max file size   104857600  unlimited  bytes\n\
                    Max address space  unlimited unlimited bytes\n\
                    Max locked memory  8388608 8388608 bytes\n";
        let form = PageForm { columns: 100, has_colours: false };
        let limits = other_limits(text);
        let shown: String = limits.iter().map(|finding| finding.text(form)).collect();
        assert!(shown.contains("limited to 100 MiB") && shown.contains("ulimit -f unlimited"));
        assert!(!shown.contains("address space") && shown.contains("8192 KiB"), "{shown}");
    }

    #[test]
    fn slow_clocks_are_reported() {
        assert_eq!(judged_clock("tsc", 30).verdict, Verdict::Fit);
        assert_eq!(judged_clock("tsc", 900).verdict, Verdict::Slow);
        assert!(judged_clock("hpet", 30).remedy.contains("tsc=reliable"));
    }
}
