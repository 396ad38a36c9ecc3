//! Connections, and the requests of others for one.

use std::fmt;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::endpoint::Shared;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Message;

/// Names a connection in events. No two connections of a process have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub(crate) usize);

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection {}", self.0)
    }
}

/// This end of a connection. It is closed on drop: what was sent arrives, and messages that have
/// not been received are dropped.
pub struct Connection {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: ConnectionId,
    pub(crate) state: Arc<ConnectionState>,
}

/// The handle of a connection in the library.
#[derive(Debug, Default)]
pub(crate) struct ConnectionState {
    handle: Mutex<Handle>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Handle {
    /// The call that makes the connection has not returned.
    #[default]
    Unknown,
    Open(usize),
    /// The program has closed its end.
    Closing,
    /// The last event of the connection was taken: the handle may name another one.
    Ended,
}

impl ConnectionState {
    fn lock(&self) -> MutexGuard<'_, Handle> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the connection by a call of the library that returns its handle.
    pub fn make(&self, call: impl FnOnce() -> Result<usize>) -> Result<()> {
        // The event that ends the connection waits for the lock.
        let mut handle = self.lock();
        *handle = Handle::Open(call()?);
        Ok(())
    }

    /// Notes that the last event was taken.
    pub fn end(&self) {
        *self.lock() = Handle::Ended;
    }

    /// Whether the library calls the connection so.
    pub fn is_called(&self, handle: usize) -> bool {
        *self.lock() == Handle::Open(handle)
    }
}

impl Connection {
    /// Returns the name of the connection in events.
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// Sends a message of at most 1 GiB. Messages of a connection arrive once and in order. Does
    /// not wait.
    ///
    /// # Errors
    /// [`Pending`](ErrorKind::Pending) if the other program must return messages first:
    /// [`Event::Writable`](crate::Event::Writable) follows, once.
    /// [`Argument`](ErrorKind::Argument) if the connection is not accepted yet, or has ended and
    /// the event was not taken; [`Closed`](ErrorKind::Closed) afterwards;
    /// [`TooLong`](ErrorKind::TooLong) for longer messages.
    pub fn send(&self, data: &[u8]) -> Result<()> {
        self.send_raw(data, 0, 0)
    }

    /// Sends a message without a copy; [`Event::Sent`](crate::Event::Sent) gives the memory back
    /// when the message has arrived in the other process.
    ///
    /// # Errors
    /// Those of [`send`](Self::send), with the memory.
    pub fn send_owned(&self, data: Vec<u8>) -> Result<(), (Error, Vec<u8>)> {
        const NOTIFY: i32 = 1;
        let (bytes, length) = (data.as_ptr(), data.len());
        let token = self.shared.keep_send(self.id, data);
        // SAFETY: the table of sends has the memory until the library is done with it.
        let data = unsafe { slice_of(bytes, length) };
        self.send_raw(data, token, NOTIFY).map_err(|error| (error, self.shared.take_send(token)))
    }

    fn send_raw(&self, data: &[u8], context: usize, flags: i32) -> Result<()> {
        let handle = self.state.lock();
        let Handle::Open(raw) = *handle else { return Err(Error::closed()) };
        let library = self.shared.library;
        // SAFETY: the bytes are readable during the call, and with NOTIFY until the event.
        let code = unsafe { (library.send)(raw, data.as_ptr(), data.len(), context, flags) };
        library.check(code)
    }

    /// Closes this end, and keeps the connection for the event that follows:
    /// [`Event::Closed`](crate::Event::Closed) when the other end is closed, too. For a connection
    /// that was not accepted yet no event follows.
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed) if the connection has ended, or was closed before.
    pub fn disconnect(&self) -> Result<()> {
        let mut handle = self.state.lock();
        let Handle::Open(raw) = *handle else { return Err(Error::closed()) };
        *handle = Handle::Closing;
        // SAFETY: has no preconditions.
        let code = unsafe { (self.shared.library.disconnect)(raw) };
        match self.shared.library.check(code) {
            // It has ended, and its event was not taken.
            Err(error) if error.kind() == ErrorKind::Argument => Err(Error::closed()),
            result => result,
        }
    }
}

/// Makes a slice whose lifetime the caller chooses.
///
/// # Safety
/// So many bytes can be read there as long as the slice is used.
unsafe fn slice_of<'a>(bytes: *const u8, length: usize) -> &'a [u8] {
    // SAFETY: as the caller has promised.
    unsafe { std::slice::from_raw_parts(bytes, length) }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({})", self.id.0)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // No event of it is reported any more.
        self.shared.forget_connection(self.id);
        // It fails if the connection has ended.
        let _ = self.disconnect();
    }
}

/// The request of another program for a connection, which is rejected on drop.
pub struct Request {
    pub(crate) shared: Arc<Shared>,
    handle: usize,
    data: Option<Message>,
}

impl Request {
    pub(crate) fn new(shared: &Arc<Shared>, handle: usize, data: Message) -> Self {
        Self { shared: Arc::clone(shared), handle, data: Some(data) }
    }

    /// Returns what the other program has sent with the request.
    pub fn data(&self) -> &[u8] {
        self.data.as_deref().unwrap_or_default()
    }

    /// Accepts the connection: messages can be sent and received.
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed) if the other program has ended or given up.
    pub fn accept(self) -> Result<Connection> {
        let connection = self.shared.new_connection();
        connection.state.make(|| {
            self.take_turn()?;
            // SAFETY: has no preconditions; the context is a number.
            let code = unsafe { (self.shared.library.accept)(self.handle, connection.id.0) };
            self.answered(code)?;
            Ok(self.handle)
        })?;
        Ok(connection)
    }

    /// Rejects the connection. The other program gets the data, at most 1024 bytes.
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed) if the other program has ended or given up;
    /// [`TooLong`](ErrorKind::TooLong) for longer data: the connection is then rejected without.
    pub fn reject(self, data: &[u8]) -> Result<()> {
        self.take_turn()?;
        let reject = self.shared.library.reject;
        // SAFETY: the bytes are readable during the call.
        let outcome = self.answered(unsafe { reject(self.handle, data.as_ptr(), data.len()) });
        if outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::TooLong) {
            // SAFETY: there are no bytes.
            let _ = unsafe { reject(self.handle, ptr::null(), 0) };
        }
        outcome
    }

    /// Takes the right to answer; it ends with the answer, or when the other program has given up.
    fn take_turn(&self) -> Result<()> {
        if self.shared.answer(self.handle) { Ok(()) } else { Err(Self::given_up()) }
    }

    fn answered(&self, code: i32) -> Result<()> {
        self.shared.library.check(code).map_err(|error| match error.kind() {
            ErrorKind::Argument => Self::given_up(),
            _ => error,
        })
    }

    #[cold]
    fn given_up() -> Error {
        Error::new(ErrorKind::Closed, "the program that wanted to connect has ended or given up")
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({} bytes)", self.data().len())
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if self.shared.answer(self.handle) {
            // SAFETY: there are no bytes. It fails if the other program has given up.
            let _ = unsafe { (self.shared.library.reject)(self.handle, ptr::null(), 0) };
        }
    }
}
