//! What the program learns from the queue of an endpoint.

use base::Error;

/// An event of an endpoint.
#[derive(Debug)]
pub struct EndpointEvent {
    /// What has happened.
    pub kind: EndpointEventKind,
    /// The connection.
    pub connection: u32,
    /// The word that the program gave with the connection; with a send, for its completion.
    pub context: usize,
    /// What belongs to the event.
    pub body: EventBody,
}

/// What has happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointEventKind {
    /// Another process wants to connect.
    ConnectRequest,
    /// The other program has accepted the connection.
    Connected,
    /// The connection was not made. It does not exist any more.
    Rejected,
    /// A message has arrived.
    Received,
    /// A message has reached the other process, and its memory may be used again.
    Sent,
    /// After a send or an operation was refused: it is possible again.
    Writable,
    /// Both ends have closed the connection. It does not exist any more.
    Closed,
    /// The other process has ended, or cannot be reached. The connection does not exist any more.
    Lost,
    /// A read or write of memory of the other end, or a fence, has ended.
    Completed,
    /// Nothing has arrived from the other process for as long as the program has set, although it
    /// was asked to answer. The connection exists.
    Silent,
    /// The program has called [`Endpoints::wake`](crate::Endpoints::wake). The event is of no
    /// connection.
    Woken,
}

/// A message or data of the other program, in memory of the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LentData {
    /// The address of the first byte.
    pub address: usize,
    /// The number of bytes.
    pub bytes: usize,
    /// The key by which it is returned.
    pub key: u32,
}

/// What belongs to an event.
#[derive(Debug)]
pub enum EventBody {
    /// Nothing.
    Nothing,
    /// A message or data of the other program.
    Lent(LentData),
    /// Why the connection was not made, or was lost.
    Error(Error),
}
