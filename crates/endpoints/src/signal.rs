//! Descriptors: the one that the program watches, and those that this process watches.

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use sys::forks;

/// A descriptor that is readable while it is raised, and while something has arrived for this
/// process that it has not looked at.
#[derive(Debug)]
pub(crate) struct Flag {
    /// The epoll descriptor of the flag and of what the doorbell adds.
    descriptor: Arc<OwnedFd>,
    flag: OwnedFd,
    is_raised: bool,
}

impl Flag {
    /// `add_more` adds to the descriptor what else makes it readable.
    pub fn new(add_more: impl FnOnce(&Arc<OwnedFd>) -> io::Result<()>) -> io::Result<Self> {
        let descriptor = Arc::new(epoll::create(CreateFlags::CLOEXEC)?);
        let flag = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&*descriptor, &flag, EventData::new_u64(0), EventFlags::IN)?;
        add_more(&descriptor)?;
        Ok(Self { descriptor, flag, is_raised: false })
    }

    pub fn raise(&mut self) {
        if !self.is_raised {
            // Cannot fail: the counter is 0.
            self.is_raised = rustix::io::write(&self.flag, &1_u64.to_ne_bytes()).is_ok();
        }
    }

    pub fn lower(&mut self) {
        if self.is_raised {
            self.is_raised = rustix::io::read(&self.flag, &mut [0; 8]).is_err();
        }
    }
}

impl AsFd for Flag {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// A thread that sleeps until a socket of this process becomes ready, and then rings. While it is
/// told to [tick](Self::set_tick), it also rings from time to time.
pub struct Watcher {
    shared: Arc<WatcherState>,
    thread: Option<JoinHandle<()>>,
}

struct WatcherState {
    epoll: OwnedFd,
    /// Wakes the thread.
    wake: OwnedFd,
    has_news: AtomicBool,
    /// Whether a connection has arrived.
    has_arrivals: AtomicBool,
    /// The interval of ticks in milliseconds; 0: none.
    tick: AtomicU32,
    ends: AtomicBool,
}

/// The maximal number of sockets reported at once.
const EVENTS_MAX: usize = 16;

/// What an event of a listening socket contains.
const ARRIVAL: u64 = 1;

/// The name of the thread.
const THREAD_NAME: &str = "combray-sockets";

impl Watcher {
    /// Starts the thread. `ring` is called on it.
    ///
    /// # Errors
    /// The system has no descriptor or thread left.
    pub fn start(ring: impl Fn() + Send + 'static) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &wake, EventData::new_u64(0), EventFlags::IN | EventFlags::ET)?;
        let [has_news, has_arrivals, ends] = [const { AtomicBool::new(false) }; 3];
        let tick = AtomicU32::new(0);
        let shared = Arc::new(WatcherState { epoll, wake, has_news, has_arrivals, tick, ends });
        let state = Arc::clone(&shared);
        let builder = thread::Builder::new().name(THREAD_NAME.into()).stack_size(64 << 10);
        let run = move || state.run(ring);
        let thread = sys::signals::without_signals(|| builder.spawn(run))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Rings from now on when a connection arrives at a listening socket.
    pub fn watch(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&self.shared.epoll, socket, EventData::new_u64(ARRIVAL), flags)?;
        forks::keep_from_children(socket);
        Ok(())
    }

    /// Stops watching a socket, which is about to be closed.
    pub fn forget(&self, socket: BorrowedFd<'_>) {
        // It fails only for a socket that is not watched.
        let _ = epoll::delete(&self.shared.epoll, socket);
        forks::release(socket);
    }

    /// Whether a socket became ready, or time has passed, since this was called last.
    pub fn take_news(&self) -> bool {
        self.shared.has_news.load(Ordering::Relaxed)
            && self.shared.has_news.swap(false, Ordering::Acquire)
    }

    /// Whether a connection has arrived since this was called last.
    pub fn take_arrivals(&self) -> bool {
        self.shared.has_arrivals.swap(false, Ordering::AcqRel)
    }

    /// Makes [`take_news`](Self::take_news) return true once more.
    pub fn look_again(&self) {
        self.shared.has_news.store(true, Ordering::Release);
    }

    /// Sets the interval in milliseconds at which the thread rings; 0: it does not.
    pub fn set_tick(&self, milliseconds: u32) {
        if self.shared.tick.swap(milliseconds, Ordering::AcqRel) != milliseconds {
            self.shared.wake();
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Release);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            // An error means that the thread panicked, which was reported already.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watcher({:?})", self.shared.epoll)
    }
}

impl WatcherState {
    fn wake(&self) {
        // Each write makes the descriptor ready once more; a full counter has done so, too.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn run(&self, ring: impl Fn()) {
        let mut events = [const { MaybeUninit::<Event>::uninit() }; EVENTS_MAX];
        while !self.ends.load(Ordering::Acquire) {
            let limit = match self.tick.load(Ordering::Acquire) {
                0 => None,
                tick => Some(Timespec {
                    tv_sec: i64::from(tick / 1000),
                    tv_nsec: i64::from(tick % 1000) * 1_000_000,
                }),
            };
            match epoll::wait(&self.epoll, &mut events, limit.as_ref()) {
                Ok((ready, _)) if ready.iter().any(|one| one.data.u64() == ARRIVAL) => {
                    self.has_arrivals.store(true, Ordering::Release);
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            self.has_news.store(true, Ordering::Release);
            ring();
        }
    }
}
