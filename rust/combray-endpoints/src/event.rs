//! Events, and the messages that the library lends.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::slice;
use std::sync::Arc;

use crate::connection::{ConnectionId, Request, TransferId};
use crate::endpoint::Shared;
use crate::error::{Error, Result};
use crate::library::RawEvent;

/// What has happened at an endpoint. Each connection that this program has not dropped ends with
/// exactly one event [`Rejected`](Self::Rejected), [`Closed`](Self::Closed) or
/// [`Lost`](Self::Lost).
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// Another program wants to connect.
    Request(Request),
    /// The other program has accepted a connection of this one.
    Connected(ConnectionId),
    /// A connection of this program was not made.
    Rejected {
        /// The connection.
        connection: ConnectionId,
        /// Why not.
        reason: Rejection,
    },
    /// A message has arrived.
    Received {
        /// The connection.
        connection: ConnectionId,
        /// The message, which drops when it is no longer needed.
        message: Message,
    },
    /// A message of [`Connection::send_owned`](crate::Connection::send_owned) has arrived in the
    /// other process.
    Sent {
        /// The connection.
        connection: ConnectionId,
        /// What was sent.
        buffer: Vec<u8>,
    },
    /// A read, write or fence of registered memory has ended.
    Completed {
        /// The connection.
        connection: ConnectionId,
        /// The value that the call has returned.
        transfer: TransferId,
        /// The memory of the call: what was read, or what was written.
        buffer: Vec<u8>,
        /// Whether it was done: [`NotRegistered`](crate::ErrorKind::NotRegistered),
        /// [`NoPermission`](crate::ErrorKind::NoPermission) or
        /// [`OutOfRange`](crate::ErrorKind::OutOfRange) if the owner has refused it.
        outcome: Result<()>,
    },
    /// After an error [`Pending`](crate::ErrorKind::Pending): messages can be sent again.
    Writable(ConnectionId),
    /// Nothing has come from the other process for the time of
    /// [`Connection::set_keepalive`](crate::Connection::set_keepalive), although it was asked for a
    /// sign of life. The connection stays. The event comes once for each silence.
    Silent(ConnectionId),
    /// A thread has called [`Endpoint::wake`](crate::Endpoint::wake).
    Woken,
    /// Both programs have closed the connection, and all messages before that were received.
    Closed(ConnectionId),
    /// The other process has ended or cannot be reached any more, or it has sent more than it may.
    /// The last messages may be lost.
    Lost {
        /// The connection.
        connection: ConnectionId,
        /// Why.
        error: Error,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(_) => write!(f, "a request for a connection"),
            Self::Connected(id) => write!(f, "{id} is accepted"),
            Self::Rejected { connection, reason: Rejection::ByProgram(_) } => {
                write!(f, "{connection} is rejected by the other program")
            }
            Self::Rejected { connection, reason: Rejection::Failed(error) } => {
                write!(f, "{connection} was not made: {error}")
            }
            Self::Received { connection, message } => {
                write!(f, "a message of {} bytes on {connection}", message.len())
            }
            Self::Sent { connection, buffer } => {
                write!(f, "a message of {} bytes has arrived on {connection}", buffer.len())
            }
            Self::Completed { connection, outcome: Ok(()), .. } => {
                write!(f, "a transfer of {connection} has ended")
            }
            Self::Completed { connection, outcome: Err(error), .. } => {
                write!(f, "a transfer of {connection} is refused: {error}")
            }
            Self::Writable(id) => write!(f, "{id} can be written again"),
            Self::Silent(id) => write!(f, "the other end of {id} is silent"),
            Self::Woken => write!(f, "a call of wake"),
            Self::Closed(id) => write!(f, "{id} is closed"),
            Self::Lost { connection, error } => write!(f, "{connection} is lost: {error}"),
        }
    }
}

/// Why a connection was not made.
#[derive(Debug)]
pub enum Rejection {
    /// The other program has rejected it, with this data.
    ByProgram(Message),
    /// No process has this URI, or it did not answer in time.
    Failed(Error),
}

/// Bytes that have arrived, in memory of the library, which is returned on drop. Messages may be
/// dropped in any order and on any thread, also after the end of the connection. While a program
/// keeps messages, the sender can send less, and other connections are not affected.
pub struct Message {
    shared: Arc<Shared>,
    event: RawEvent,
}

// SAFETY: the memory belongs to the message alone, and endpoints admit several threads.
unsafe impl Send for Message {}
// SAFETY: shared access only reads the memory.
unsafe impl Sync for Message {}

impl Message {
    /// Takes the data of an event.
    pub(crate) fn new(shared: &Arc<Shared>, event: RawEvent) -> Self {
        Self { shared: Arc::clone(shared), event }
    }
}

impl Deref for Message {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        if self.event.bytes == 0 {
            return &[];
        }
        // SAFETY: the library lends so many bytes to this message until it is returned.
        unsafe { slice::from_raw_parts(self.event.data, self.event.bytes) }
    }
}

impl DerefMut for Message {
    fn deref_mut(&mut self) -> &mut [u8] {
        if self.event.bytes == 0 {
            return &mut [];
        }
        // SAFETY: as for shared access; the program may write there.
        unsafe { slice::from_raw_parts_mut(self.event.data, self.event.bytes) }
    }
}

impl AsRef<[u8]> for Message {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message({} bytes)", self.len())
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        self.shared.give_back(&mut self.event);
    }
}
