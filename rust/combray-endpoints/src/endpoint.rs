//! Endpoints.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString, c_int};
use std::fmt;
use std::mem;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::connection::{Connection, ConnectionId, ConnectionState, Request, TransferId};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, Message, Rejection};
use crate::library::{Library, RawEvent};

/// How an endpoint is opened.
#[derive(Clone, Debug, Default)]
pub struct Options {
    memory: Option<u64>,
    key_file: Option<PathBuf>,
    encrypts: bool,
}

impl Options {
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the memory in bytes for messages that have arrived and were not returned: at least
    /// 65,536, and 256 MiB by default. It also bounds the number of connections, each of which
    /// gets between 4 and 256 KiB of it.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Trusts processes that have a file with the same content, in place of a key in the URI: 16
    /// to 4096 bytes that are hard to guess, which no other user may access.
    #[must_use]
    pub fn key_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.key_file = Some(file.into());
        self
    }

    /// Encrypts all that leaves the machine of a connection of this endpoint: data of requests,
    /// messages, and accesses to registered memory. Endpoints without this option encrypt, too,
    /// when they connect to one that has it. Shared memory is used as it is.
    #[must_use]
    pub fn encrypt(mut self) -> Self {
        self.encrypts = true;
        self
    }

    /// Returns the options of `combray_endpoint_open`.
    fn to_text(&self) -> Result<CString> {
        // Everything here may be called by any thread.
        let mut text = "threads".to_owned();
        if let Some(bytes) = self.memory {
            text.push_str(&format!(",memory={bytes}"));
        }
        if self.encrypts {
            text.push_str(",encrypt");
        }
        if let Some(file) = &self.key_file {
            let name = file.to_str().filter(|name| !name.contains(',') && name.trim() == *name);
            let name = name.ok_or_else(|| {
                let detail = format!(
                    "the name of the key file {} must be UTF-8, without commas, and not \
                     begin or end with a space",
                    file.display()
                );
                Error::new(ErrorKind::Argument, detail)
            })?;
            text.push_str(",key=");
            text.push_str(name);
        }
        CString::new(text).map_err(|_| {
            Error::new(ErrorKind::Argument, "the name of the key file contains a zero byte")
        })
    }
}

/// An endpoint: others connect to its URI, and it connects to those of others. All of its
/// connections have one queue of events. It may be cloned and used by several threads. It is
/// closed, with all its connections, when it was dropped and so were all its clones, connections,
/// requests and messages. What was sent arrives; that takes up to 4 s if a process does not
/// respond.
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) shared: Arc<Shared>,
}

/// What an endpoint, its connections and its messages share.
pub(crate) struct Shared {
    pub library: &'static Library,
    pub handle: usize,
    uri: String,
    descriptor: OnceLock<c_int>,
    /// The handle of the connection that the last empty poll has named; 0: none.
    held: AtomicUsize,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    connections: HashMap<ConnectionId, Arc<ConnectionState>>,
    /// Requests that were not answered.
    requests: HashSet<usize>,
    /// The memory of sends and transfers that the library uses.
    sends: HashMap<usize, (ConnectionId, Vec<u8>)>,
}

/// Numbers connections and sends. 0 is the context of events about neither.
static NEXT: AtomicUsize = AtomicUsize::new(1);

/// How long an endpoint that is dropped waits for the ends of sends.
const TAKE_BACK_TIME: Duration = Duration::from_secs(2);

/// The space for a URI.
const URI_BYTES: usize = 256;

/// The types of events, `COMBRAY_CONNECT_REQUEST` and following.
mod kind {
    pub const REQUEST: i32 = 1;
    pub const CONNECTED: i32 = 2;
    pub const REJECTED: i32 = 3;
    pub const RECEIVED: i32 = 4;
    pub const SENT: i32 = 5;
    pub const WRITABLE: i32 = 6;
    pub const CLOSED: i32 = 7;
    pub const LOST: i32 = 8;
    pub const COMPLETED: i32 = 9;
    pub const SILENT: i32 = 10;
    pub const WOKEN: i32 = 11;
}

impl Endpoint {
    /// Opens an endpoint. A process that has not initialized MPI joins its job, or becomes a job
    /// of its own; `combray run` is not needed. If MPI is initialized with a thread level below
    /// `MPI_THREAD_MULTIPLE`, open endpoints on the thread that calls MPI.
    ///
    /// # Errors
    /// [`NoLibrary`](ErrorKind::NoLibrary); [`Argument`](ErrorKind::Argument) for too little
    /// memory, or a key file that cannot be read or has another length;
    /// [`NoPermission`](ErrorKind::NoPermission) for one that other users may access;
    /// [`Other`](ErrorKind::Other) if the process cannot join its job, or the system refuses
    /// sockets.
    pub fn open(options: &Options) -> Result<Self> {
        let library = Library::get()?;
        let options = options.to_text()?;
        let mut handle = 0;
        // SAFETY: the text ends with a zero byte, and the pointer leads to a word.
        library.check(unsafe { (library.open)(options.as_ptr(), &mut handle) })?;
        let (descriptor, held, table) = Default::default();
        let mut shared = Shared { library, handle, uri: String::new(), descriptor, held, table };
        let mut uri = [0_u8; URI_BYTES];
        // SAFETY: the buffer has so many bytes.
        library.check(unsafe { (library.uri)(handle, uri.as_mut_ptr().cast(), URI_BYTES) })?;
        let uri = CStr::from_bytes_until_nul(&uri).unwrap_or_default();
        shared.uri = uri.to_string_lossy().into_owned();
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Returns the address of the endpoint. Without a [key file](Options::key_file) it contains a
    /// key: a process that has the URI can connect, and no other. Pass it as you pass a password.
    pub fn uri(&self) -> &str {
        &self.shared.uri
    }

    /// Returns a descriptor that is readable while the endpoint has events, for `poll` and
    /// `epoll`. [Poll](Self::poll) until there is no event before each wait. Do not read it.
    ///
    /// # Errors
    /// [`Other`](ErrorKind::Other) if the system has no descriptors left.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>> {
        let shared = &*self.shared;
        let number = match shared.descriptor.get() {
            Some(number) => *number,
            None => {
                let mut number = -1;
                // SAFETY: the pointer leads to an integer.
                let code = unsafe { (shared.library.descriptor)(shared.handle, &mut number) };
                shared.library.check(code)?;
                *shared.descriptor.get_or_init(|| number)
            }
        };
        // SAFETY: the descriptor is open as long as the endpoint, which outlives the borrow.
        Ok(unsafe { BorrowedFd::borrow_raw(number) })
    }

    /// Begins to connect to the endpoint with this URI, which may be in another process or this
    /// one. Does not wait: [`Event::Connected`] or [`Event::Rejected`] follows. The other program
    /// gets the data, at most 1024 bytes, to decide whether it accepts. It must answer within
    /// `timeout`.
    ///
    /// # Errors
    /// [`Port`](ErrorKind::Port) if the URI cannot be parsed; [`TooLong`](ErrorKind::TooLong) for
    /// longer data; [`NoSpace`](ErrorKind::NoSpace) if the endpoint has no memory left for a
    /// connection.
    pub fn connect(&self, uri: &str, data: &[u8], timeout: Duration) -> Result<Connection> {
        let uri = CString::new(uri).map_err(|_| {
            Error::new(ErrorKind::Port, "the URI contains a zero byte, so it is none of Combray")
        })?;
        let shared = &self.shared;
        let connection = shared.new_connection();
        connection.state.make(|| {
            let mut handle = 0;
            // SAFETY: the text ends with a zero byte, the bytes are readable during the call, and
            // the pointer leads to a word; the context is a number.
            let code = unsafe {
                (shared.library.connect)(
                    shared.handle,
                    uri.as_ptr(),
                    data.as_ptr(),
                    data.len(),
                    connection.id.0,
                    milliseconds(timeout),
                    &mut handle,
                )
            };
            shared.library.check(code)?;
            Ok(handle)
        })?;
        Ok(connection)
    }

    /// Takes the next event from the queue, if there is one. Does not wait. Events that several
    /// threads take at the same time have no order, so let one thread take them.
    ///
    /// # Errors
    /// None that a correct program can cause.
    pub fn poll(&self) -> Result<Option<Event>> {
        loop {
            match self.take(0)? {
                Taken::Event(event) => return Ok(Some(event)),
                Taken::Nothing => return Ok(None),
                Taken::Unreported => {}
            }
        }
    }

    /// Takes the next event from the queue; if there is none, waits for it, with a limit at most
    /// so long.
    ///
    /// # Errors
    /// Those of [`poll`](Self::poll).
    pub fn wait(&self, limit: Option<Duration>) -> Result<Option<Event>> {
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        loop {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            match self.take(left.map_or(-1, milliseconds))? {
                Taken::Event(event) => return Ok(Some(event)),
                Taken::Nothing if left.is_some_and(|left| left.is_zero()) => return Ok(None),
                Taken::Nothing | Taken::Unreported => {}
            }
        }
    }

    /// Puts [`Event::Woken`] into the queue, unless it is there, so that a thread that waits for an
    /// event returns.
    ///
    /// # Errors
    /// None that a correct program can cause.
    pub fn wake(&self) -> Result<()> {
        let library = self.shared.library;
        // SAFETY: has no preconditions.
        library.check(unsafe { (library.wake)(self.shared.handle) })
    }

    /// Returns a connection of which this program holds so many messages that its peer may be
    /// unable to send, if the last call of [`poll`](Self::poll) or [`wait`](Self::wait) found no
    /// event and such a connection.
    pub fn held_connection(&self) -> Option<ConnectionId> {
        let handle = self.shared.held.load(Ordering::Relaxed);
        if handle == 0 {
            return None;
        }
        let copy_of = |(id, state): (&ConnectionId, &Arc<_>)| (*id, Arc::clone(state));
        // A call that makes a connection takes the lock of the table with that of its state held.
        let all: Vec<(_, Arc<ConnectionState>)> =
            self.shared.lock().connections.iter().map(copy_of).collect();
        all.into_iter().find(|(_, state)| state.is_called(handle)).map(|(id, _)| id)
    }

    fn take(&self, timeout: c_int) -> Result<Taken> {
        let shared = &self.shared;
        let mut event = RawEvent::NONE;
        // SAFETY: the pointer leads to an event.
        let code = unsafe { (shared.library.poll)(shared.handle, &mut event, timeout) };
        shared.library.check(code)?;
        if event.kind == RawEvent::NONE.kind {
            shared.held.store(event.connection, Ordering::Relaxed);
            return Ok(Taken::Nothing);
        }
        Ok(Shared::report(shared, event).map_or(Taken::Unreported, Taken::Event))
    }
}

/// What a poll has found.
enum Taken {
    Event(Event),
    /// An event of a connection that the program has dropped.
    Unreported,
    Nothing,
}

/// Returns the milliseconds of a time, rounded up.
pub(crate) fn milliseconds(time: Duration) -> c_int {
    c_int::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(c_int::MAX)
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection whose handle is not known yet.
    pub fn new_connection(self: &Arc<Self>) -> Connection {
        let id = ConnectionId(NEXT.fetch_add(1, Ordering::Relaxed));
        let state = Arc::<ConnectionState>::default();
        self.lock().connections.insert(id, Arc::clone(&state));
        Connection { shared: Arc::clone(self), id, state }
    }

    /// Reports no more events of a connection.
    pub fn forget_connection(&self, id: ConnectionId) {
        self.lock().connections.remove(&id);
    }

    /// Keeps the memory of a send or transfer; returns the context for its event.
    pub fn keep_send(&self, connection: ConnectionId, data: Vec<u8>) -> usize {
        let token = NEXT.fetch_add(1, Ordering::Relaxed);
        self.lock().sends.insert(token, (connection, data));
        token
    }

    /// Takes the memory of a send or transfer that the library does not use any more.
    pub fn take_send(&self, token: usize) -> Vec<u8> {
        self.lock().sends.remove(&token).map(|(_, data)| data).unwrap_or_default()
    }

    /// Whether a request waits for an answer; takes the right to give it.
    pub fn answer(&self, request: usize) -> bool {
        self.lock().requests.remove(&request)
    }

    /// Returns a message to the library.
    pub fn give_back(&self, event: &mut RawEvent) {
        if event.lent == 0 {
            return;
        }
        // SAFETY: the event is one of the endpoint. An error is not possible: each message is
        // returned once.
        let _ = unsafe { (self.library.give_back)(self.handle, event) };
    }

    /// Converts an event, unless it is of a connection that the program has dropped.
    fn report(self: &Arc<Self>, raw: RawEvent) -> Option<Event> {
        let connection = ConnectionId(raw.context);
        // What is not reported is returned here.
        let message = Message::new(self, raw);
        match raw.kind {
            kind::WOKEN => return Some(Event::Woken),
            kind::REQUEST => {
                self.lock().requests.insert(raw.connection);
                return Some(Event::Request(Request::new(self, raw.connection, message)));
            }
            kind::SENT => {
                let (connection, buffer) = self.lock().sends.remove(&raw.context)?;
                let is_known = self.lock().connections.contains_key(&connection);
                return is_known.then_some(Event::Sent { connection, buffer });
            }
            kind::COMPLETED => {
                let (connection, buffer) = self.lock().sends.remove(&raw.context)?;
                let is_known = self.lock().connections.contains_key(&connection);
                let (transfer, outcome) = (TransferId(raw.context), self.library.check(raw.status));
                let event = Event::Completed { connection, transfer, buffer, outcome };
                return is_known.then_some(event);
            }
            kind::REJECTED | kind::CLOSED | kind::LOST => {
                self.note_end(connection, raw.connection)?
            }
            _ => drop(self.lock().connections.get(&connection)?),
        }
        Some(match raw.kind {
            kind::CONNECTED => Event::Connected(connection),
            kind::REJECTED if raw.status == 0 => {
                Event::Rejected { connection, reason: Rejection::ByProgram(message) }
            }
            kind::REJECTED => {
                let reason = Rejection::Failed(self.library.error_of(raw.status));
                Event::Rejected { connection, reason }
            }
            kind::RECEIVED => Event::Received { connection, message },
            kind::WRITABLE => Event::Writable(connection),
            kind::SILENT => Event::Silent(connection),
            kind::CLOSED => Event::Closed(connection),
            kind::LOST => Event::Lost { connection, error: self.library.error_of(raw.status) },
            // Of a newer library.
            _ => return None,
        })
    }

    /// Notes the last event of a connection; `None` if the program has dropped it.
    fn note_end(&self, connection: ConnectionId, handle: usize) -> Option<()> {
        let mut table = self.lock();
        if connection.0 == 0 {
            // It was not accepted.
            table.requests.remove(&handle);
            return None;
        }
        // The library uses no memory of the connection any more.
        table.sends.retain(|_, (of, _)| *of != connection);
        let state = table.connections.remove(&connection)?;
        drop(table);
        state.end();
        Some(())
    }
}

impl Shared {
    /// Takes events until the library uses no memory of sends any more. All connections are being
    /// closed, so each of them ends with an event, unless a process does not respond.
    fn take_back_sends(&self) {
        let deadline = Instant::now() + TAKE_BACK_TIME;
        while !self.lock().sends.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut event = RawEvent::NONE;
            // SAFETY: the pointer leads to an event.
            let code = unsafe { (self.library.poll)(self.handle, &mut event, milliseconds(left)) };
            if code != 0 || event.kind == RawEvent::NONE.kind {
                return;
            }
            match event.kind {
                kind::SENT | kind::COMPLETED => drop(self.take_send(event.context)),
                kind::REJECTED | kind::CLOSED | kind::LOST => {
                    let _ = self.note_end(ConnectionId(event.context), event.connection);
                }
                _ => {}
            }
            self.give_back(&mut event);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.take_back_sends();
        // SAFETY: the pointer leads to the handle of the endpoint, which is closed once.
        let _ = unsafe { (self.library.close)(&mut self.handle) };
        // No event says when the library does not use the memory any more of sends to processes
        // that do not respond.
        let table = self.table.get_mut().unwrap_or_else(PoisonError::into_inner);
        table.sends.drain().for_each(mem::forget);
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URI contains a key.
        write!(f, "Endpoint({:#x})", self.shared.handle)
    }
}
