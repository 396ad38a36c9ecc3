//! What threads wait on. All of it also works on kernel threads that are no workers.

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

use crate::parking::Wait;

/// Those who wait, the first first.
pub(crate) type Line = VecDeque<Arc<Wait>>;
