//! The symbols that parallel debuggers look for in a process: where its message queues are, and
//! which library of Combray reads them (crate `mqs`).
//!
//! The second symbol is defined by "MPI Message Queue Dumping Interface", version 1.0 (MPI Forum,
//! 2013).

use std::path::Path;
use std::sync::Once;
use std::sync::atomic::{AtomicU8, Ordering};

use message_queues::QueueTable;
use mpi::Process;

/// The table from which a debugger finds the message queues.
// SAFETY: the name has the prefix of this library, which programs do not use for symbols.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name is part of the interface")]
pub static combray_queues: QueueTable = QueueTable::new();

/// The longest path that can be published, with the zero byte at its end.
const PATH_BYTES: usize = 4096;
const READER: &str = "libcombray_mqs.so";

/// The library that reads the queues, as a text that ends with a zero byte. Until the process has
/// joined its job, this is the name without a directory.
// SAFETY: the interface reserves the name for MPI libraries.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name is part of the interface")]
pub static MPIR_dll_name: [AtomicU8; PATH_BYTES] = {
    let mut text = [const { AtomicU8::new(0) }; PATH_BYTES];
    let mut place = 0;
    while place < READER.len() {
        text[place] = AtomicU8::new(READER.as_bytes()[place]);
        place += 1;
    }
    text
};

/// Publishes what debuggers look for, once the process has joined its job.
pub fn show_queues(process: &Process) {
    static SHOWN: Once = Once::new();
    SHOWN.call_once(|| {
        process.show_queues(&combray_queues);
        if let Some(path) = reader() {
            // The first byte is written last, so that a debugger never reads an incomplete path.
            MPIR_dll_name[0].store(0, Ordering::Release);
            for (place, byte) in path.bytes().enumerate().rev() {
                MPIR_dll_name[place].store(byte, Ordering::Release);
            }
        }
    });
}

/// Returns the path of the library that reads the queues. It is found from the directory of this
/// library in an installation prefix, which is `lib` or a directory of `lib/combray`.
fn reader() -> Option<String> {
    let own = sys::callers::object_of(std::ptr::from_ref(&combray_queues).addr())?.path;
    let folder = Path::new(&own).canonicalize().ok()?.parent()?.to_owned();
    let places = [folder.join("combray").join(READER), folder.parent()?.join(READER)];
    let found = places.iter().find(|place| place.is_file())?.to_str()?.to_owned();
    (found.len() < PATH_BYTES).then_some(found)
}
