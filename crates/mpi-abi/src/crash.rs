//! Reports crashes of the program: where it was, and how to find out more.

use std::fs;
use std::sync::{Arc, OnceLock};

use mpi::{AnswerSlot, Process};
use sys::crashes::{Crash, CrashSafeAllocator};
use sys::process::signal;

use crate::call_stack;
use crate::output::{host_name, print_message};
use crate::python;

/// The allocator of this library. A report about a crash must not rely on the program's heap.
#[global_allocator]
static ALLOCATOR: CrashSafeAllocator = CrashSafeAllocator;

/// What a report needs to know about the process.
#[derive(Debug)]
struct Reporter {
    rank: u32,
    size: u32,
    /// Where the launcher finds the report, if it is Combray's.
    slot: Option<Arc<AnswerSlot>>,
}

static REPORTER: OnceLock<Reporter> = OnceLock::new();

/// The largest number of functions that a report shows.
const FRAMES_MAX: usize = 24;

/// Reports crashes from now on. If the system refuses that, crashes are not reported.
pub fn report_crashes(process: &Process) {
    let (rank, size) = (process.rank(), process.size());
    REPORTER.get_or_init(|| Reporter { rank, size, slot: process.answer_slot() });
    let _ = sys::crashes::report_crashes(report);
}

/// Composes the report and sends it to the launcher. Runs in a copy of the process.
fn report(crash: &Crash) {
    let Some(Reporter { rank, size, slot }) = REPORTER.get() else { return };
    let lines = describe(crash, *size).join("\n");
    let is_sent = slot.as_ref().is_some_and(|slot| slot.report_crash(lines.as_bytes()));
    if !is_sent {
        let name = signal::name(crash.signal);
        let lines = lines.replace('\n', "\n  ");
        print_message(&format!(
            "{} on {} ends by {name}\n  {lines}",
            crate::report::named_rank(*rank),
            host_name()
        ));
    }
}

fn describe(crash: &Crash, size: u32) -> Vec<String> {
    let mut lines: Vec<String> = cause(crash).into_iter().collect();
    let frames = call_stack::crashed_functions(FRAMES_MAX);
    if !frames.is_empty() {
        lines.push("it was in:".to_owned());
        lines.extend(frames.iter().map(|frame| format!("  {frame}")));
        if !frames.iter().any(|frame| frame.contains(" (")) {
            lines.push("compile with -g to see files and lines here".to_owned());
        }
    }
    if python::is_loaded() {
        lines.push("python -X faulthandler shows the lines of Python".to_owned());
    }
    lines.push(core_file(crash.core_bytes_max));
    let program = std::env::args_os().next().unwrap_or_default();
    lines.push(format!(
        "in a debugger: combray run -n {size} xterm -e gdb {}",
        program.to_string_lossy()
    ));
    lines
}

/// Returns what is known about the address.
fn cause(crash: &Crash) -> Option<String> {
    let Crash { signal, code, address, .. } = *crash;
    if code <= 0 {
        // abort() sends the signal to its own process, which needs no explanation.
        return (signal != signal::SIGABRT).then(|| "a process sent the signal".to_owned());
    }
    let what = match (signal, code) {
        (signal::SIGSEGV, 1) => "no memory is mapped there",
        (signal::SIGSEGV, 2) => "the access is not permitted there",
        (signal::SIGSEGV, 128) => {
            return Some("the address is none that this processor has".to_owned());
        }
        (signal::SIGBUS, 1) => "the address is not aligned",
        (signal::SIGBUS, 2) => "the memory cannot be provided",
        (signal::SIGFPE, 1) => "an integer was divided by zero",
        (signal::SIGFPE, 2) => "an integer overflowed",
        (signal::SIGFPE, 3) => "a floating-point number was divided by zero",
        (signal::SIGFPE, 4) => "a floating-point result was too large",
        (signal::SIGFPE, 5) => "a floating-point result was too small",
        (signal::SIGFPE, 7) => "a floating-point operation was invalid",
        _ => return Some(format!("address {address:#x}")),
    };
    Some(format!("address {address:#x}: {what}"))
}

/// Returns where the core file is, or how to get one.
fn core_file(limit: u64) -> String {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    match pattern.trim() {
        pattern if limit == 0 && !pattern.starts_with('|') => {
            "core file: none, as `ulimit -c` is 0; `ulimit -c unlimited` before the job allows it"
                .to_owned()
        }
        pattern if pattern.starts_with('|') => {
            let program = pattern[1..].split_whitespace().next().unwrap_or_default();
            format!("core file: given to {program} (core_pattern); `coredumpctl gdb` may find it")
        }
        pattern if pattern.starts_with('/') => format!("core file: {pattern} (core_pattern)"),
        pattern => {
            let folder = std::env::current_dir().unwrap_or_default();
            format!("core file: {}/{pattern} (core_pattern)", folder.display())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_named_where_the_kernel_names_them() {
        let cause_of =
            |signal, code| cause(&Crash { signal, code, address: 16, core_bytes_max: 0 });
        let text = cause_of(signal::SIGSEGV, 1).unwrap();
        assert_eq!(text, "address 0x10: no memory is mapped there");
        assert_eq!(cause_of(signal::SIGABRT, -6), None);
        assert!(cause_of(signal::SIGSEGV, 0).unwrap().contains("sent"));
        assert!(cause_of(signal::SIGILL, 9).unwrap().contains("0x10"));
    }
}
