//! Hints of communicators, windows and files: the program's assertions about its use of these
//! objects, and the defaults (sections 7.4.4, 12.2.1 and 14.2.8 of the MPI standard).

use std::cell::RefCell;
use std::rc::Rc;

use engine::strategy::NAMES;
use memory::placing::Placing;
use runtime::TrafficClass;

use crate::info::{Info, InfoLimits};

/// The hints of one object.
#[derive(Debug)]
pub struct Hints {
    reserved: &'static [Reserved],
    given: RefCell<Rc<Info>>,
}

/// A key that the library recognizes.
#[derive(Debug)]
struct Reserved {
    key: &'static str,
    default: &'static str,
    /// Whether a value is valid; invalid values are ignored.
    accepts: fn(&[u8]) -> bool,
}

/// The keys for the strategy that plans a communicator's packets, the priority of its messages,
/// and the rails that carry them.
pub(crate) const STRATEGY: &str = "combray_strategy";
pub(crate) const PRIORITY: &str = "combray_priority";
pub(crate) const RAIL: &str = "combray_rail";

/// Parses a value of `combray_priority`.
pub(crate) fn priority(value: &[u8]) -> Option<i32> {
    str::from_utf8(value).ok()?.parse().ok()
}

/// The key for the preference of a communicator's messages.
pub(crate) const PREFER: &str = "combray_prefer";

/// The key for the NUMA nodes of memory.
pub const MEMORY: &str = "combray_memory";

/// Parses a value of [`MEMORY`]; `None` if it does not denote an existing place.
pub fn placing(value: &[u8]) -> Option<Placing> {
    let placing: Placing = std::str::from_utf8(value).ok()?.parse().ok()?;
    placing.check().is_ok().then_some(placing)
}

fn is_placing(value: &[u8]) -> bool {
    placing(value).is_some()
}

/// The keys of communicators. A program that makes an assertion promises that it is true, so the
/// library may ignore every assertion.
const OF_COMMUNICATORS: [Reserved; 10] = [
    assertion("mpi_assert_no_any_tag"),
    assertion("mpi_assert_no_any_source"),
    assertion("mpi_assert_exact_length"),
    assertion("mpi_assert_allow_overtaking"),
    assertion("mpi_assert_strict_persistent_collective_ordering"),
    MEMORY_KINDS,
    Reserved { key: STRATEGY, default: NAMES[0], accepts: is_strategy },
    Reserved {
        key: PREFER,
        default: TrafficClass::NAMES[0],
        accepts: |value| TrafficClass::named(value).is_some(),
    },
    Reserved { key: PRIORITY, default: "0", accepts: |value| priority(value).is_some() },
    // Whether the rail exists is checked where the hint is applied.
    Reserved { key: RAIL, default: "all", accepts: |_| true },
];

/// The keys of windows.
const OF_WINDOWS: [Reserved; 9] = [
    assertion("no_locks"),
    assertion("same_size"),
    assertion("same_disp_unit"),
    assertion("alloc_shared_noncontig"),
    Reserved { key: "accumulate_ops", default: "same_op_no_op", accepts: is_choice_of_operations },
    Reserved { key: "accumulate_ordering", default: "rar,raw,war,waw", accepts: is_ordering },
    Reserved { key: "mpi_accumulate_granularity", default: "0", accepts: is_number },
    Reserved { key: MEMORY, default: "first-touch", accepts: is_placing },
    MEMORY_KINDS,
];

/// The key for collective buffering of reads.
pub const COLLECTIVE_READS: &str = "romio_cb_read";
/// The key for collective buffering of writes.
pub const COLLECTIVE_WRITES: &str = "romio_cb_write";
/// The key for the number of processes that access the file for the others in collective
/// transfers.
pub const COLLECTIVE_NODES: &str = "cb_nodes";
/// The key for the number of bytes that each of these processes transfers at once.
pub const COLLECTIVE_BUFFER: &str = "cb_buffer_size";
/// The key for data sieving of reads: whether runs are read together with the holes between them.
pub const SIEVE_READS: &str = "romio_ds_read";
/// The key for data sieving of writes: whether runs are written together with the holes between
/// them.
pub const SIEVE_WRITES: &str = "romio_ds_write";
/// The key for the buffer size of data sieving of reads.
pub const READ_BUFFER: &str = "ind_rd_buffer_size";
/// The key for the buffer size of data sieving of writes.
pub const WRITE_BUFFER: &str = "ind_wr_buffer_size";
/// The key for the alignment of the file parts that different processes access.
pub const STRIPE: &str = "striping_unit";
/// The key for the permissions of a new file, in octal.
pub const FILE_PERMISSIONS: &str = "file_perm";

/// The keys of files.
const OF_FILES: [Reserved; 11] = [
    Reserved { key: "collective_buffering", default: "true", accepts: is_truth },
    Reserved { key: COLLECTIVE_READS, default: "automatic", accepts: is_file_choice },
    Reserved { key: COLLECTIVE_WRITES, default: "automatic", accepts: is_file_choice },
    Reserved { key: COLLECTIVE_NODES, default: "0", accepts: is_number },
    Reserved { key: COLLECTIVE_BUFFER, default: "4194304", accepts: is_amount },
    Reserved { key: SIEVE_READS, default: "automatic", accepts: is_file_choice },
    Reserved { key: SIEVE_WRITES, default: "automatic", accepts: is_file_choice },
    Reserved { key: READ_BUFFER, default: "4194304", accepts: is_amount },
    Reserved { key: WRITE_BUFFER, default: "524288", accepts: is_amount },
    Reserved { key: STRIPE, default: "4096", accepts: is_number },
    Reserved { key: FILE_PERMISSIONS, default: "666", accepts: is_octal },
];

/// The kinds of memory for buffers, which the program cannot change.
const MEMORY_KINDS: Reserved =
    Reserved { key: "mpi_memory_alloc_kinds", default: "mpi,system", accepts: |_| false };

/// Info objects that only the library writes need no limits.
const NO_LIMITS: InfoLimits = InfoLimits { key_bytes_max: usize::MAX, value_bytes_max: usize::MAX };

impl Hints {
    /// The hints of a new communicator.
    pub fn of_communicator() -> Self {
        Self { reserved: &OF_COMMUNICATORS, given: RefCell::default() }
    }

    /// The hints of a new window.
    pub fn of_window() -> Self {
        Self { reserved: &OF_WINDOWS, given: RefCell::default() }
    }

    /// The hints of a new file.
    pub fn of_file() -> Self {
        Self { reserved: &OF_FILES, given: RefCell::default() }
    }

    /// Returns all hints that apply, given or by default. `defaults` overrides default values
    /// that vary.
    pub fn info(&self, defaults: &[(&str, &str)]) -> Rc<Info> {
        let info = Info::new();
        for Reserved { key, default, .. } in self.reserved {
            let other = defaults.iter().find(|(other, _)| other == key);
            let default = match other {
                Some((_, default)) => *default,
                None if *key == MEMORY_KINDS.key && memory::may_be_distant() => {
                    "mpi,system,cuda,cuda:host,cuda:device,cuda:managed,rocm,rocm:host,rocm:device,\
                     rocm:managed"
                }
                None => *default,
            };
            let set = info.set(key.as_bytes(), default.as_bytes(), NO_LIMITS);
            debug_assert!(set.is_ok(), "there are no limits");
        }
        info.take_over(&self.given.borrow(), |_, _| true);
        info
    }

    /// Returns the value that was given for a key.
    pub fn given(&self, key: &str) -> Option<Rc<[u8]>> {
        self.given.borrow().hint(key.as_bytes())
    }

    /// Adds hints, or changes hints that were given before. Ignores keys that are not reserved,
    /// invalid values and hints that `accepts` refuses. The program can thus see in the object's
    /// hints which ones are used (section 7.4.4).
    pub fn add(&self, hints: &Info, accepts: impl Fn(&[u8], &[u8]) -> bool) {
        let means_something = |key: &[u8], value: &[u8]| {
            let reserved = self.reserved.iter().find(|reserved| reserved.key.as_bytes() == key);
            reserved.is_some_and(|reserved| (reserved.accepts)(value)) && accepts(key, value)
        };
        self.given.borrow().take_over(hints, means_something);
    }
}

const fn assertion(key: &'static str) -> Reserved {
    Reserved { key, default: "false", accepts: |value| matches!(value, b"true" | b"false") }
}

fn is_choice_of_operations(value: &[u8]) -> bool {
    matches!(value, b"same_op" | b"same_op_no_op")
}

fn is_ordering(value: &[u8]) -> bool {
    let known = |word: &[u8]| matches!(word, b"rar" | b"raw" | b"war" | b"waw");
    value == b"none" || value.split(|letter| *letter == b',').all(known)
}

fn is_strategy(value: &[u8]) -> bool {
    NAMES.iter().any(|name| name.as_bytes() == value)
}

fn is_number(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().all(u8::is_ascii_digit)
}

fn is_truth(value: &[u8]) -> bool {
    matches!(value, b"true" | b"false")
}

fn is_file_choice(value: &[u8]) -> bool {
    matches!(value, b"enable" | b"disable" | b"automatic")
}

/// Whether the value is a number of bytes that is not 0 and that memory can have.
fn is_amount(value: &[u8]) -> bool {
    is_number(value) && value.len() < 13 && value.iter().any(|digit| *digit != b'0')
}

fn is_octal(value: &[u8]) -> bool {
    (1..=4).contains(&value.len()) && value.iter().all(|digit| (b'0'..=b'7').contains(digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(key: &str, value: &str) -> Rc<Info> {
        let info = Info::new();
        info.set(key.as_bytes(), value.as_bytes(), NO_LIMITS).unwrap();
        info
    }

    fn value(hints: &Hints, key: &str) -> Option<String> {
        let found = hints.info(&[]).hint(key.as_bytes())?;
        Some(String::from_utf8_lossy(&found).into_owned())
    }

    #[test]
    fn defaults_hold_until_something_else_is_given() {
        let hints = Hints::of_communicator();
        let key = "mpi_assert_no_any_tag";
        assert_eq!(value(&hints, key).as_deref(), Some("false"));
        hints.add(&given(key, "true"), |_, _| true);
        hints.add(&given("color", "blue"), |_, _| true);
        assert_eq!(value(&hints, key).as_deref(), Some("true"));
        assert_eq!(value(&hints, "color"), None, "what is ignored is not among them");
        assert_eq!(hints.info(&[]).key_count(), OF_COMMUNICATORS.len());
    }

    #[test]
    fn values_without_meaning_are_ignored() {
        let communicator = Hints::of_communicator();
        communicator.add(&given("mpi_assert_exact_length", "maybe"), |_, _| true);
        communicator.add(&given("mpi_memory_alloc_kinds", "moon"), |_, _| true);
        assert_eq!(value(&communicator, "mpi_assert_exact_length").as_deref(), Some("false"));
        assert_eq!(value(&communicator, "mpi_memory_alloc_kinds").as_deref(), Some("mpi,system"));
        for (key, wrong, right) in
            [(STRATEGY, "magic", "split"), (PRIORITY, "very", "-3"), (PRIORITY, "5000000000", "7")]
        {
            let before = value(&communicator, key);
            communicator.add(&given(key, wrong), |_, _| true);
            assert_eq!(value(&communicator, key), before);
            communicator.add(&given(key, right), |_, _| true);
            assert_eq!(value(&communicator, key).as_deref(), Some(right));
        }
        let window = Hints::of_window();
        for (key, wrong, right) in [
            ("accumulate_ordering", "rar,wrong", "war,rar"),
            ("accumulate_ordering", "none,rar", "none"),
            ("accumulate_ops", "all", "same_op"),
            ("mpi_accumulate_granularity", "-1", "64"),
            ("no_locks", "", "true"),
        ] {
            let before = value(&window, key);
            window.add(&given(key, wrong), |_, _| true);
            assert_eq!(value(&window, key), before);
            window.add(&given(key, right), |_, _| true);
            assert_eq!(value(&window, key).as_deref(), Some(right));
        }
    }
}
