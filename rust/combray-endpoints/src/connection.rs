//! Connections, and the requests of others for one.

use std::fmt;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::endpoint::{Shared, milliseconds};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Message;
use crate::memory::MemoryName;

/// `COMBRAY_NOTIFY`: an event follows.
const NOTIFY: i32 = 1;
/// `COMBRAY_UNORDERED` and `COMBRAY_UNRELIABLE`.
const UNORDERED: i32 = 2;
const UNRELIABLE: i32 = 4;

/// Names a connection in events. No two connections of a process have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub(crate) usize);

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection {}", self.0)
    }
}

/// Names a read, write or fence of registered memory in its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransferId(pub(crate) usize);

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

    /// Sends a message as [`send`](Self::send) does. It arrives once, as soon as it is there, even
    /// if a message that was sent before is still on its way.
    ///
    /// # Errors
    /// Those of [`send`](Self::send).
    pub fn send_unordered(&self, data: &[u8]) -> Result<()> {
        self.send_raw(data, 0, UNORDERED)
    }

    /// Sends a message as [`send_unordered`](Self::send_unordered) does, or drops it if the other
    /// program must return messages first, or the rails to it are busy with earlier messages.
    ///
    /// # Errors
    /// Those of [`send`](Self::send), but not [`Pending`](ErrorKind::Pending).
    pub fn send_unreliable(&self, data: &[u8]) -> Result<()> {
        self.send_raw(data, 0, UNRELIABLE)
    }

    /// Returns how many unreliable messages this end has dropped.
    ///
    /// # Errors
    /// [`Argument`](ErrorKind::Argument) and [`Closed`](ErrorKind::Closed) if the connection has
    /// ended.
    pub fn dropped(&self) -> Result<usize> {
        let handle = self.state.lock();
        let Handle::Open(raw) = *handle else { return Err(Error::closed()) };
        let mut count = 0;
        // SAFETY: the pointer leads to a word.
        self.shared.library.check(unsafe { (self.shared.library.dropped)(raw, &mut count) })?;
        Ok(count)
    }

    /// Sends a message without a copy; [`Event::Sent`](crate::Event::Sent) gives the memory back
    /// when the message has arrived in the other process.
    ///
    /// # Errors
    /// Those of [`send`](Self::send), with the memory.
    pub fn send_owned(&self, data: Vec<u8>) -> Result<(), (Error, Vec<u8>)> {
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

    /// Reads as many bytes of registered memory of the other end as the buffer has, from `offset`
    /// on. [`Event::Completed`](crate::Event::Completed) gives the buffer back. Between processes
    /// of one host the bytes are copied in the call, without the other process.
    ///
    /// # Errors
    /// With the buffer: [`Pending`](ErrorKind::Pending) if 1024 transfers are underway;
    /// [`NoPermission`](ErrorKind::NoPermission), [`OutOfRange`](ErrorKind::OutOfRange) and
    /// [`NotRegistered`](ErrorKind::NotRegistered) as far as the name says that;
    /// [`Argument`](ErrorKind::Argument) and [`Closed`](ErrorKind::Closed) as for
    /// [`send`](Self::send).
    pub fn read_memory(
        &self,
        memory: &MemoryName,
        offset: usize,
        mut buffer: Vec<u8>,
    ) -> Result<TransferId, (Error, Vec<u8>)> {
        let (address, bytes) = (buffer.as_mut_ptr(), buffer.len());
        self.transfer(buffer, |raw, token| {
            let read = self.shared.library.memory_read;
            // SAFETY: the table has the buffer until the read or the connection has ended.
            unsafe { read(raw, memory, offset, address, bytes, token, NOTIFY) }
        })
    }

    /// Writes bytes to registered memory of the other end, from `offset` on.
    /// [`Event::Completed`](crate::Event::Completed) gives them back. A message, if there is one,
    /// arrives when the bytes were written.
    ///
    /// # Errors
    /// Those of [`read_memory`](Self::read_memory); [`TooLong`](ErrorKind::TooLong) for a message
    /// of more than 1 GiB.
    pub fn write_memory(
        &self,
        memory: &MemoryName,
        offset: usize,
        data: Vec<u8>,
        message: Option<&[u8]>,
    ) -> Result<TransferId, (Error, Vec<u8>)> {
        let (address, bytes) = (data.as_ptr(), data.len());
        let (text, text_bytes) = message.map_or((ptr::null(), 0), |one| (one.as_ptr(), one.len()));
        self.transfer(data, |raw, token| {
            let write = self.shared.library.memory_write;
            // SAFETY: the table has the data until the write or the connection has ended; the
            // message is used during the call.
            unsafe { write(raw, memory, offset, address, bytes, text, text_bytes, token, NOTIFY) }
        })
    }

    /// Lets reads and writes of this connection that are begun later take place after those that
    /// were begun before have ended, which [`Event::Completed`](crate::Event::Completed) reports.
    ///
    /// # Errors
    /// [`Pending`](ErrorKind::Pending), [`Argument`](ErrorKind::Argument) and
    /// [`Closed`](ErrorKind::Closed) as for [`read_memory`](Self::read_memory).
    pub fn fence(&self) -> Result<TransferId> {
        let begun = self.transfer(Vec::new(), |raw, token| {
            // SAFETY: has no preconditions.
            unsafe { (self.shared.library.memory_fence)(raw, token, NOTIFY) }
        });
        begun.map_err(|(error, _)| error)
    }

    /// Begins a transfer by a call that gets the handle of the connection and the context.
    fn transfer(
        &self,
        buffer: Vec<u8>,
        call: impl FnOnce(usize, usize) -> i32,
    ) -> Result<TransferId, (Error, Vec<u8>)> {
        let handle = self.state.lock();
        let Handle::Open(raw) = *handle else { return Err((Error::closed(), buffer)) };
        let token = self.shared.keep_send(self.id, buffer);
        match self.shared.library.check(call(raw, token)) {
            Ok(()) => Ok(TransferId(token)),
            Err(error) => Err((error, self.shared.take_send(token))),
        }
    }

    /// Lets [`Event::Silent`](crate::Event::Silent) report from now on when nothing comes from the
    /// other process for `limit`, rounded up to milliseconds; `None`: no longer. After half of that
    /// time the other library is asked for a sign of life. A connection without this call, or on
    /// which messages arrive, causes no messages for it.
    ///
    /// # Errors
    /// [`Argument`](ErrorKind::Argument) and [`Closed`](ErrorKind::Closed) as for
    /// [`send`](Self::send).
    pub fn set_keepalive(&self, limit: Option<Duration>) -> Result<()> {
        let handle = self.state.lock();
        let Handle::Open(raw) = *handle else { return Err(Error::closed()) };
        let limit = limit.map_or(0, |limit| milliseconds(limit).max(1));
        // SAFETY: has no preconditions.
        let code = unsafe { (self.shared.library.keepalive)(raw, limit) };
        self.shared.library.check(code)
    }

    /// Closes this end, and keeps the connection for the event that follows:
    /// [`Event::Closed`](crate::Event::Closed) when the other end is closed, too; for a connection
    /// that was not accepted yet, it follows without the other end.
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
