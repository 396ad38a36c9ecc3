//! Synchronisation of threads. All types also work on kernel threads that are no workers.

mod barrier;
mod condition;
mod mutex;
mod once;
mod semaphore;

pub use barrier::Barrier;
pub use condition::Condition;
pub use mutex::{Mutex, MutexGuard};
pub use once::Once;
pub use semaphore::Semaphore;

use std::collections::VecDeque;

use std::sync::Arc;

use crate::thread::wait::Wait;

/// The waiting threads, in the order of their arrival.
pub(crate) type Line = VecDeque<Arc<Wait>>;

/// Removes a wait from a line. Returns false if the line does not contain it any more.
fn leave(line: &mut Line, wait: &Arc<Wait>) -> bool {
    let place = line.iter().position(|other| Arc::ptr_eq(other, wait));
    place.and_then(|place| line.remove(place)).is_some()
}
