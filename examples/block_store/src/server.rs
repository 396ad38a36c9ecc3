//! A server: blocks in memory, changed by one thread.

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use combray_endpoints::{
    Connection, ConnectionId, Endpoint, ErrorKind, Event, Message, Options, Permissions, Registered,
};

use crate::Result;
use crate::protocol::{BLOCK_BYTES, Head, Kind, message, parse};

/// The blocks, in memory that clients may read.
struct Store {
    versions: Vec<u64>,
    blocks: Registered,
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
    let versions = vec![0; usize::try_from(blocks)?];
    let blocks = endpoint.register(versions.len() * BLOCK_BYTES, Permissions::READ)?;
    let mut store = Store { versions, blocks };
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
    fn answer_waiting(&mut self, store: &mut Store, clients: u64) {
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
fn answer(request: &[u8], store: &mut Store, clients: u64) -> Vec<u8> {
    const NONSENSE: Head = Head { kind: Kind::Refused, tag: 0, block: 0, version: 0 };
    let Some((head, data)) = parse(request) else { return message(NONSENSE, &[]) };
    if head.kind == Kind::Count {
        return message(Head { kind: Kind::Connections, version: clients, ..head }, &[]);
    }
    if head.kind == Kind::Locate {
        let mut data = store.blocks.name().to_bytes().to_vec();
        data.resize(BLOCK_BYTES, 0);
        return message(Head { kind: Kind::Name, ..head }, &data);
    }
    let place = usize::try_from(head.block).ok().filter(|place| *place < store.versions.len());
    match (head.kind, place) {
        (Kind::Read, Some(place)) => store.answer(Kind::Data, head, place),
        (Kind::Write, Some(place)) if store.versions[place] == head.version => {
            // Clients that read the memory meanwhile notice a mixture.
            store.blocks.write(place * BLOCK_BYTES, data);
            store.versions[place] += 1;
            message(Head { kind: Kind::Written, version: store.versions[place], ..head }, &[])
        }
        (Kind::Write, Some(place)) => store.answer(Kind::Conflict, head, place),
        _ => message(Head { kind: Kind::Refused, ..head }, &[]),
    }
}

impl Store {
    /// Returns an answer with a block and its version.
    fn answer(&self, kind: Kind, head: Head, place: usize) -> Vec<u8> {
        let mut data = vec![0; BLOCK_BYTES];
        self.blocks.read(place * BLOCK_BYTES, &mut data);
        message(Head { kind, version: self.versions[place], ..head }, &data)
    }
}
