//! An endpoint: its queue of events and what it has lent.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use dynamic::PortSecret;
use memory::{Buffer, HeldBytes};

use crate::event::{EndpointEvent, EndpointEventKind, EventBody, LentData};
use crate::host::EndpointHost;
use crate::registered::RegisteredMemory;
use crate::signal::Flag;
use crate::slots::Slots;

/// An endpoint of this process.
#[derive(Debug)]
pub(crate) struct Endpoint<Port> {
    pub port: Port,
    /// By which it reaches endpoints whose URIs contain no key.
    pub secret: Option<PortSecret>,
    pub events: VecDeque<EndpointEvent>,
    /// Messages that the program holds, or that are in the queue.
    pub lent: Slots<LentMessage>,
    /// Made when the program asks for it.
    flag: Option<Flag>,
    /// The memory that connections may still be granted, in bytes.
    pub memory_left: u64,
    /// Whether the queue has an event `Woken`.
    is_woken: bool,
    /// Whether the program is in a call that takes an event.
    is_polling: bool,
    /// The connection that was last found to have used up its window.
    pub exhausted: Option<u32>,
    /// The memory that the other ends of its connections may access.
    pub memories: Slots<RegisteredMemory>,
}

/// A message that was delivered and not returned.
#[derive(Debug)]
pub(crate) struct LentMessage {
    pub connection: u32,
    /// How much of the window it takes; data of a request or rejection takes nothing.
    pub cost: u64,
    pub content: LentContent,
}

/// The memory of a message that has arrived.
#[derive(Debug)]
pub(crate) enum LentContent {
    /// It arrived whole.
    Held(HeldBytes),
    /// It was received in parts.
    Received(Buffer),
}

impl LentContent {
    pub fn len(&self) -> usize {
        match self {
            Self::Held(bytes) => bytes.len(),
            Self::Received(buffer) => buffer.len(),
        }
    }

    fn address(&self) -> usize {
        match self {
            Self::Held(bytes) => bytes.address(),
            Self::Received(buffer) => buffer.base_address(),
        }
    }

    pub fn to_vec(&self) -> Vec<u8> {
        match self {
            Self::Held(bytes) => bytes.shared().to_vec(),
            Self::Received(buffer) => {
                let mut bytes = vec![0; buffer.len()];
                buffer.read(0, &mut bytes);
                bytes
            }
        }
    }

    pub fn into_buffer(self) -> Buffer {
        match self {
            Self::Held(bytes) => bytes.into_buffer(),
            Self::Received(buffer) => buffer,
        }
    }
}

impl<Port> Endpoint<Port> {
    pub fn new(port: Port, memory: u64, secret: Option<PortSecret>) -> Self {
        let (events, lent, memories) = Default::default();
        Self {
            port,
            secret,
            events,
            lent,
            flag: None,
            memory_left: memory,
            is_woken: false,
            is_polling: false,
            exhausted: None,
            memories,
        }
    }

    /// Ends the accesses of other processes to the memory of the endpoint.
    pub fn end(mut self, process: &impl EndpointHost) {
        self.memories.take_all().for_each(|memory| memory.revoke(process));
    }

    /// Takes the window of a new connection from the memory that is left; `None` if too little is.
    pub fn grant_window(&mut self) -> Option<u64> {
        let window = (self.memory_left / 16).clamp(CONNECTION_WINDOW_MIN, CONNECTION_WINDOW_MAX);
        self.memory_left = self.memory_left.checked_sub(window)?;
        Some(window)
    }

    /// Lends a message of a connection to the program; `None` if the program holds too many.
    pub fn lend(&mut self, connection: u32, cost: u64, content: LentContent) -> Option<EventBody> {
        let (address, bytes) = (content.address(), content.len());
        let key = self.lent.insert(LentMessage { connection, cost, content })?;
        Some(EventBody::Lent(LentData { address, bytes, key }))
    }

    pub fn push(&mut self, event: EndpointEvent) {
        self.events.push_back(event);
        if !self.is_polling {
            self.update_flag();
        }
    }

    /// Makes the descriptor readable if there are events.
    fn update_flag(&mut self) {
        match &mut self.flag {
            Some(flag) if self.events.is_empty() => flag.lower(),
            Some(flag) => flag.raise(),
            None => {}
        }
    }

    /// Sets whether the program takes events, so that those that come now need no descriptor.
    pub fn set_polling(&mut self, is_polling: bool) {
        self.is_polling = is_polling;
        if !is_polling {
            self.update_flag();
        }
    }

    /// Adds the event `Woken`, unless the queue has it.
    pub fn push_wake(&mut self) {
        if !std::mem::replace(&mut self.is_woken, true) {
            let (kind, body) = (EndpointEventKind::Woken, EventBody::Nothing);
            self.push(EndpointEvent { kind, connection: 0, context: 0, body });
        }
    }

    pub fn pop(&mut self) -> Option<EndpointEvent> {
        let event = self.events.pop_front();
        if event.as_ref().is_some_and(|one| one.kind == EndpointEventKind::Woken) {
            self.is_woken = false;
        }
        if !self.is_polling {
            self.update_flag();
        }
        event
    }

    /// Whether the program has asked for the descriptor.
    pub fn has_descriptor(&self) -> bool {
        self.flag.is_some()
    }

    /// Returns the number of the descriptor that is readable while there are events.
    pub fn descriptor(&mut self, process: &impl EndpointHost) -> io::Result<i32> {
        if self.flag.is_none() {
            self.flag = Some(Flag::new(|epoll| process.watch_doorbell(epoll))?);
            self.update_flag();
        }
        let number = |flag: &Flag| flag.as_fd().as_raw_fd();
        self.flag.as_ref().map(number).ok_or_else(|| io::ErrorKind::Other.into())
    }
}

/// The window of a connection: what its peer may send before something is returned, in bytes.
pub(crate) const CONNECTION_WINDOW_MIN: u64 = 4 << 10;
pub(crate) const CONNECTION_WINDOW_MAX: u64 = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_fit_into_the_memory() {
        let mut endpoint = Endpoint::new((), 1 << 20, None);
        let windows: Vec<u64> = std::iter::from_fn(|| endpoint.grant_window()).collect();
        assert!(windows.iter().sum::<u64>() <= 1 << 20);
        assert!(windows.len() > 50 && windows[0] == 64 << 10);
        assert_eq!(windows.last(), Some(&CONNECTION_WINDOW_MIN));
    }
}
