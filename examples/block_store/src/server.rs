//! A server: blocks in memory, changed by one thread.

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use combray_endpoints::{Connection, ConnectionId, Endpoint, ErrorKind, Event, Message, Options};

use crate::Result;
use crate::protocol::{BLOCK_BYTES, Head, Kind, message, parse};

struct Block {
    version: u64,
    data: Vec<u8>,
}

struct Client {
    connection: Connection,
    /// An answer that could not be sent yet.
    unsent: Option<Vec<u8>>,
    /// Requests that wait until it was sent. They stay in the library's memory, so that a client
    /// that takes no answers can send no further requests.
    waiting: VecDeque<Message>,
}

/// Serves the blocks of one server, until the process is killed.
pub fn serve(folder: &Path, server: u64, blocks: u64) -> Result<()> {
    let endpoint = Endpoint::open(&Options::new())?;
    crate::publish(folder, server, endpoint.uri())?;
    let empty = || Block { version: 0, data: vec![0; BLOCK_BYTES] };
    let mut store: Vec<Block> = (0..blocks).map(|_| empty()).collect();
    let mut clients: HashMap<ConnectionId, Client> = HashMap::new();
    while let Some(event) = endpoint.wait(None)? {
        match event {
            Event::Request(request) => {
                // It fails if the client was killed meanwhile.
                if let Ok(connection) = request.accept() {
                    let (unsent, waiting) = Default::default();
                    clients.insert(connection.id(), Client { connection, unsent, waiting });
                }
            }
            Event::Received { connection, message } => {
                let count = clients.len() as u64;
                if let Some(client) = clients.get_mut(&connection) {
                    client.waiting.push_back(message);
                    client.answer_waiting(&mut store, count);
                }
            }
            Event::Writable(connection) => {
                let count = clients.len() as u64;
                if let Some(client) = clients.get_mut(&connection) {
                    client.answer_waiting(&mut store, count);
                }
            }
            Event::Closed(connection) | Event::Lost { connection, .. } => {
                clients.remove(&connection);
            }
            other => return Err(format!("an event that no server gets: {other}").into()),
        }
    }
    Ok(())
}

impl Client {
    /// Answers the requests that wait, as far as the client takes answers.
    fn answer_waiting(&mut self, store: &mut [Block], clients: u64) {
        loop {
            if let Some(answer) = self.unsent.take() {
                match self.connection.send(&answer) {
                    Err(error) if error.kind() == ErrorKind::Pending => {
                        self.unsent = Some(answer);
                        return;
                    }
                    // A connection that has ended gets its event soon.
                    Ok(()) | Err(_) => {}
                }
            }
            let Some(request) = self.waiting.pop_front() else { return };
            self.unsent = Some(answer(&request, store, clients));
        }
    }
}

/// Executes a request, and returns the answer.
fn answer(request: &[u8], store: &mut [Block], clients: u64) -> Vec<u8> {
    const NONSENSE: Head = Head { kind: Kind::Refused, tag: 0, block: 0, version: 0 };
    let Some((head, data)) = parse(request) else { return message(NONSENSE, &[]) };
    if head.kind == Kind::Count {
        return message(Head { kind: Kind::Connections, version: clients, ..head }, &[]);
    }
    let block = usize::try_from(head.block).ok().and_then(|index| store.get_mut(index));
    match (head.kind, block) {
        (Kind::Read, Some(block)) => {
            message(Head { kind: Kind::Data, version: block.version, ..head }, &block.data)
        }
        (Kind::Write, Some(block)) if block.version == head.version => {
            block.version += 1;
            block.data.copy_from_slice(data);
            message(Head { kind: Kind::Written, version: block.version, ..head }, &[])
        }
        (Kind::Write, Some(block)) => {
            message(Head { kind: Kind::Conflict, version: block.version, ..head }, &block.data)
        }
        _ => message(Head { kind: Kind::Refused, ..head }, &[]),
    }
}
