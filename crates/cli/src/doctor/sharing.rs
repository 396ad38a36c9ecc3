//! Checks whether processes of this machine can share memory, and read each other's memory. A
//! second process tries both, with the system calls that jobs use.

use std::sync::atomic::Ordering;
use std::{fs, io, process};

use runtime::configuration::Configuration;
use serde::{Deserialize, Serialize};
use sys::cross_memory;

use super::finding::Finding;
use super::{output_of, own_command};

/// The results of the second process.
#[derive(Serialize, Deserialize)]
struct Probe {
    /// Why it could not open the shared memory.
    shared: Option<String>,
    /// Why it could not open it through /proc, and over a Unix socket.
    by_proc: Option<String>,
    by_socket: Option<String>,
    /// Why it could not read the memory of the first process.
    read: Option<String>,
}

/// About as much as a process of a job shares, in bytes. The kernel allocates pages only when they
/// are used.
const SHARED_BYTES: usize = 64 << 20;

/// The value that the second process writes into the shared word, and reads from the first process.
const MARK: u32 = 0x0c0b_7a11;

static READ_BY_THE_OTHER: u32 = MARK;

const SHARED: &str = "shared memory";
const SINGLE_COPY: &str = "single copy";

pub fn findings() -> Vec<Finding> {
    let (memory, invitation) = match runtime::share_memory(1, SHARED_BYTES) {
        Ok(shared) => shared,
        Err(cause) => {
            let found = format!("it cannot be created: {cause}");
            return vec![Finding::fault(SHARED, found, REMEDY)];
        }
    };
    invitation.answer_by_thread();
    let process = process::id().to_string();
    let address = (&raw const READ_BY_THE_OTHER).addr().to_string();
    let words = ["doctor", "--probe", &invitation.card, &process, &address];
    let answer = own_command(&words).and_then(|mut command| output_of(&mut command));
    let probe = answer.and_then(|text| {
        serde_json::from_str::<Probe>(&text).map_err(|_| format!("it answers \"{text}\""))
    });
    let probe = match probe {
        Ok(probe) => probe,
        Err(cause) => {
            let found = format!("a second process could not try it: {cause}");
            return vec![Finding::fault(SHARED, found, REMEDY)];
        }
    };
    let shared = match probe.shared {
        None if memory.word(0).load(Ordering::Acquire) == MARK => {
            way_of_sharing(probe.by_proc, probe.by_socket)
        }
        None => Finding::fault(SHARED, "one process does not see what the other writes", REMEDY),
        Some(cause) => Finding::fault(SHARED, cause, REMEDY),
    };
    vec![shared, single_copy(probe.read)]
}

/// The finding about the ways by which the second process opened the memory, if by any.
fn way_of_sharing(by_proc: Option<String>, by_socket: Option<String>) -> Finding {
    match (by_proc, by_socket) {
        (None, None) => Finding::fit(
            SHARED,
            "two processes share memory (memfd_create; its descriptor through /proc, or over a Unix \
             socket)",
        ),
        (Some(cause), _) => Finding::note(
            SHARED,
            format!(
                "two processes share memory, but only by a descriptor that is passed over a Unix \
                 socket: /proc/PID/fd is closed ({cause})"
            ),
            "it costs a thread for each process, and large messages are copied twice. Processes of \
             one user in one user namespace, of executables that the user can read, open it",
        ),
        (None, Some(cause)) => Finding::note(
            SHARED,
            format!(
                "two processes share memory through /proc, but no descriptor can be passed over a \
                 Unix socket: {cause}"
            ),
            "processes that may not be traced, or that are in user namespaces of their own \
             (apptainer, rootless podman), communicate over networks then. The container (its \
             filter of system calls) must allow Unix sockets",
        ),
    }
}

/// The finding about single-copy transfers of large messages.
fn single_copy(refusal: Option<String>) -> Finding {
    match refusal {
        None if !Configuration::read().0.single_copy() => Finding::note(
            SINGLE_COPY,
            "allowed, but disabled by COMBRAY_SINGLE_COPY=never",
            "unset COMBRAY_SINGLE_COPY",
        ),
        None => Finding::fit(SINGLE_COPY, "a process may read another's memory (process_vm_readv)"),
        Some(cause) => Finding::slow(
            SINGLE_COPY,
            format!("{cause}: large messages inside the machine are copied twice"),
            remedy(&fs::read_to_string(PTRACE_SCOPE).unwrap_or_default()),
        ),
    }
}

const PTRACE_SCOPE: &str = "/proc/sys/kernel/yama/ptrace_scope";

/// Which setting must allow reading. `scope` is empty if the system has no such setting.
fn remedy(scope: &str) -> String {
    match scope.trim() {
        "" | "0" => "in a container: --cap-add=SYS_PTRACE for docker and podman, or a filter of \
                     system calls (seccomp) that lets process_vm_readv and process_vm_writev through"
            .to_owned(),
        scope => format!(
            "kernel.yama.ptrace_scope is {scope}; as root: sysctl kernel.yama.ptrace_scope=0, and a \
             file in /etc/sysctl.d to keep it. Processes of one user may then read each other"
        ),
    }
}

const REMEDY: &str = "processes of one machine need it. ulimit -f and ulimit -v must not be too low, the \
                      container (its filter of system calls) must allow memfd_create, and /proc must \
                      be mounted, or Unix sockets be allowed";

/// Runs as the second process: opens the shared memory that the card names, writes there, and reads
/// the first process's memory.
///
/// # Errors
/// The arguments are malformed.
pub fn serve_probe(words: &[String]) -> Result<(), String> {
    let [card, process, address] = words else { return Err("--probe needs three words".into()) };
    let number = |text: &str| text.parse::<usize>().map_err(|_| format!("{text} is not a number"));
    let (process, address) = (number(process)? as i32, number(address)?);
    let trial = runtime::try_opening(card).map_err(|error| error.to_string())?;
    let text = |result: io::Result<()>| result.err().map(|cause| cause.to_string());
    let shared = match runtime::open_memory(card, 1, SHARED_BYTES) {
        Ok(memory) => {
            memory.word(0).store(MARK, Ordering::Release);
            None
        }
        Err(error) => Some(error.to_string()),
    };
    let read = match cross_memory::word_of(process, address) {
        Ok(MARK) => None,
        Ok(_) => Some("process_vm_readv reads wrong data".to_owned()),
        Err(cause) => Some(format!("process_vm_readv: {cause}")),
    };
    let (by_proc, by_socket) = (text(trial.by_proc), text(trial.by_socket));
    let probe = Probe { shared, by_proc, by_socket, read };
    println!("{}", serde_json::to_string(&probe).map_err(|cause| cause.to_string())?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_that_is_closed_is_named() {
        let refused = || Some("refused".to_owned());
        let words = |finding: &Finding| serde_json::to_string(finding).unwrap();
        let closed = words(&way_of_sharing(refused(), None));
        assert!(closed.contains("/proc/PID/fd is closed (refused)"), "{closed}");
        let no_socket = words(&way_of_sharing(None, refused()));
        assert!(no_socket.contains("over a Unix socket: refused"), "{no_socket}");
    }

    #[test]
    fn the_remedy_depends_on_the_yama_setting() {
        assert!(remedy("1\n").contains("sysctl kernel.yama.ptrace_scope=0"));
        assert!(remedy("").contains("SYS_PTRACE") && remedy("0").contains("SYS_PTRACE"));
    }
}
