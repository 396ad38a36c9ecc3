//! A client that reads and writes blocks at random, and verifies each answer.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use combray_endpoints::{
    Connection, ConnectionId, Endpoint, ErrorKind, Event, MemoryName, Message, Options, TransferId,
};

use crate::journal::{self, Journal, Note, State};
use crate::protocol::{
    BLOCK_BYTES, Head, Kind, check, check_any, contents, message, parse, writer,
};
use crate::{PATIENCE, Random, Result};

/// What a client does.
pub struct Plan {
    pub folder: PathBuf,
    pub servers: u64,
    /// The blocks of each server.
    pub blocks: u64,
    pub client: u64,
    /// How often this client was started before.
    pub life: u64,
    pub time: Duration,
}

/// How many requests are underway.
const DEPTH: usize = 16;

/// Connections to all servers.
pub struct Servers {
    endpoint: Endpoint,
    connections: Vec<Connection>,
    /// Messages that wait until their server takes more, in order.
    unsent: Vec<Vec<Vec<u8>>>,
}

/// What a server has sent, or what was read from its memory.
pub enum Arrived {
    Message(usize, Message),
    Memory(TransferId, Vec<u8>),
}

impl Servers {
    pub fn connect(folder: &std::path::Path, servers: u64) -> Result<Self> {
        let endpoint = Endpoint::open(&Options::new())?;
        let mut connections = Vec::new();
        for server in 0..servers {
            let uri = crate::find(folder, server)?;
            connections.push(endpoint.connect(&uri, &[], PATIENCE)?);
        }
        let unsent = connections.iter().map(|_| Vec::new()).collect();
        let found = Self { endpoint, connections, unsent };
        for _ in 0..servers {
            match found.endpoint.wait(Some(PATIENCE))? {
                Some(Event::Connected(_)) => {}
                other => return Err(unexpected("a connection to a server", other)),
            }
        }
        Ok(found)
    }

    /// Asks a server for the name of the memory with its blocks.
    fn locate(&mut self, server: usize) -> Result<MemoryName> {
        let head = Head { kind: Kind::Locate, tag: 0, block: 0, version: 0 };
        self.send(server, message(head, &[]))?;
        let (_, bytes) = self.answer()?;
        match parse(&bytes) {
            Some((Head { kind: Kind::Name, .. }, data)) => {
                let name = data.first_chunk().ok_or("a name is too short")?;
                Ok(MemoryName::from_bytes(*name))
            }
            _ => Err("a server does not name its memory".into()),
        }
    }

    /// Sends a request, or keeps it until its server takes it.
    pub fn send(&mut self, server: usize, bytes: Vec<u8>) -> Result<()> {
        self.unsent[server].push(bytes);
        self.send_kept(server)
    }

    fn send_kept(&mut self, server: usize) -> Result<()> {
        let kept = &mut self.unsent[server];
        while let Some(bytes) = kept.first() {
            match self.connections[server].send(bytes) {
                Ok(()) => drop(kept.remove(0)),
                Err(error) if error.kind() == ErrorKind::Pending => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Waits for the next answer, where no memory is read: its server, and the message.
    pub fn answer(&mut self) -> Result<(usize, Message)> {
        match self.arrived()? {
            Arrived::Message(server, message) => Ok((server, message)),
            Arrived::Memory(..) => Err("memory was read that nobody wanted".into()),
        }
    }

    /// Begins to read a block from the memory of its server; `None` if too many such reads are
    /// underway.
    fn read_memory(
        &self,
        server: usize,
        memory: &MemoryName,
        place: u64,
    ) -> Result<Option<TransferId>> {
        let offset = usize::try_from(place)? * BLOCK_BYTES;
        match self.connections[server].read_memory(memory, offset, vec![0; BLOCK_BYTES]) {
            Ok(transfer) => Ok(Some(transfer)),
            Err((error, _)) if error.kind() == ErrorKind::Pending => Ok(None),
            Err((error, _)) => Err(error.into()),
        }
    }

    /// Waits for what arrives next.
    fn arrived(&mut self) -> Result<Arrived> {
        loop {
            match self.endpoint.wait(Some(PATIENCE))? {
                Some(Event::Received { connection, message }) => {
                    return Ok(Arrived::Message(self.place(connection)?, message));
                }
                Some(Event::Completed { transfer, buffer, outcome, .. }) => {
                    outcome?;
                    return Ok(Arrived::Memory(transfer, buffer));
                }
                Some(Event::Writable(connection)) => {
                    let server = self.place(connection)?;
                    self.send_kept(server)?;
                }
                other => return Err(unexpected("an answer of a server", other)),
            }
        }
    }

    fn place(&self, connection: ConnectionId) -> Result<usize> {
        let place = self.connections.iter().position(|one| one.id() == connection);
        place.ok_or_else(|| "an event of an unknown connection".into())
    }
}

/// The error for another event than the awaited one, or none in time.
fn unexpected(awaited: &str, found: Option<Event>) -> Box<dyn std::error::Error + Send + Sync> {
    match found {
        Some(event) => format!("instead of {awaited}: {event}").into(),
        None => format!("no event in time instead of {awaited}").into(),
    }
}

/// A request without an answer.
struct Underway {
    kind: Kind,
    block: u64,
    /// The version that a write replaces.
    replaced: u64,
}

struct Client<'a> {
    plan: &'a Plan,
    servers: Servers,
    journal: Journal,
    /// The newest version of each block that this client has seen.
    seen: HashMap<u64, u64>,
    /// By tag. Each block has one at most.
    underway: HashMap<u64, Underway>,
    /// Blocks that are read from the memory of their servers.
    reading: HashMap<TransferId, u64>,
    /// The names of that memory.
    memories: Vec<MemoryName>,
    next_tag: u64,
    verified: u64,
    /// How often a block was changed while its memory was read.
    mixtures: u64,
}

/// Reads and writes for some time; prints how many answers were verified.
pub fn run(plan: &Plan) -> Result<()> {
    let mut servers = Servers::connect(&plan.folder, plan.servers)?;
    let memories = (0..plan.servers as usize).map(|server| servers.locate(server));
    let mut client = Client {
        plan,
        memories: memories.collect::<Result<_>>()?,
        servers,
        journal: Journal::open(&plan.folder, plan.client)?,
        seen: HashMap::new(),
        underway: HashMap::new(),
        reading: HashMap::new(),
        next_tag: 1,
        verified: 0,
        mixtures: 0,
    };
    // What earlier lives of this client have written must still be there.
    for note in journal::read(&plan.folder, plan.client)? {
        if note.state == State::Done {
            client.note_seen(note.block, note.version);
        }
    }
    let (mut known, mut random) = (client.seen.keys().copied().collect::<Vec<_>>(), {
        Random::new(writer(plan.client, plan.life))
    });
    let deadline = Instant::now() + plan.time;
    while client.requests() > 0 || Instant::now() < deadline {
        while client.requests() < DEPTH && Instant::now() < deadline {
            match known.pop() {
                Some(block) => client.begin(Kind::Read, block)?,
                None => client.begin_any(&mut random)?,
            }
        }
        if client.requests() > 0 {
            client.take_answer()?;
        }
    }
    println!("{} answers verified, {} mixtures noticed", client.verified, client.mixtures);
    Ok(())
}

impl Client<'_> {
    fn note_seen(&mut self, block: u64, version: u64) {
        let seen = self.seen.entry(block).or_default();
        *seen = version.max(*seen);
    }

    /// How many requests are underway.
    fn requests(&self) -> usize {
        self.underway.len() + self.reading.len()
    }

    /// Begins to read or write a random block for which no request is underway.
    fn begin_any(&mut self, random: &mut Random) -> Result<()> {
        let block = random.below(self.plan.servers * self.plan.blocks);
        let is_busy = self.underway.values().any(|one| one.block == block)
            || self.reading.values().any(|one| *one == block);
        match random.below(4) {
            _ if is_busy => Ok(()),
            0 => self.begin(Kind::Read, block),
            1 => self.begin_reading(block),
            _ => self.begin(Kind::Write, block),
        }
    }

    /// Begins to read a block from the memory of its server.
    fn begin_reading(&mut self, block: u64) -> Result<()> {
        let (server, place) = (block % self.plan.servers, block / self.plan.servers);
        let memory = &self.memories[server as usize];
        let begun = self.servers.read_memory(server as usize, memory, place)?;
        self.reading.extend(begun.map(|transfer| (transfer, block)));
        Ok(())
    }

    fn begin(&mut self, kind: Kind, block: u64) -> Result<()> {
        let replaced = self.seen.get(&block).copied().unwrap_or_default();
        let data = if kind == Kind::Write {
            let note = self.note_of(State::Begun, block, replaced + 1);
            self.journal.add(note)?;
            contents(block, note.version, note.writer)
        } else {
            Vec::new()
        };
        let tag = self.next_tag;
        self.next_tag += 1;
        self.underway.insert(tag, Underway { kind, block, replaced });
        let (server, place) = (block % self.plan.servers, block / self.plan.servers);
        let head = Head { kind, tag, block: place, version: replaced };
        self.servers.send(server as usize, message(head, &data))
    }

    fn note_of(&self, state: State, block: u64, version: u64) -> Note {
        Note { state, block, version, writer: writer(self.plan.client, self.plan.life) }
    }

    /// Waits for an answer, and verifies it.
    fn take_answer(&mut self) -> Result<()> {
        match self.servers.arrived()? {
            Arrived::Message(server, bytes) => self.verify_answer(server, &bytes),
            Arrived::Memory(transfer, data) => self.verify_memory(transfer, &data),
        }
    }

    /// Verifies a block that was read from the memory of its server. If it was changed meanwhile,
    /// the server is asked for it.
    fn verify_memory(&mut self, transfer: TransferId, data: &[u8]) -> Result<()> {
        let block = self.reading.remove(&transfer).ok_or("memory was read that nobody wanted")?;
        let Some(version) = check_any(data, block) else {
            self.mixtures += 1;
            return self.begin(Kind::Read, block);
        };
        let seen = self.seen.get(&block).copied().unwrap_or_default();
        if version < seen {
            return Err(format!("block {block} has version {version} after {seen} was seen").into());
        }
        self.note_seen(block, version);
        self.verified += 1;
        Ok(())
    }

    fn verify_answer(&mut self, server: usize, bytes: &[u8]) -> Result<()> {
        let (head, data) = parse(bytes).ok_or("an answer that is no message")?;
        let Some(Underway { kind, block, replaced }) = self.underway.remove(&head.tag) else {
            return Err(format!("an answer to no request: {head}").into());
        };
        let seen = self.seen.get(&block).copied().unwrap_or_default();
        let is_from =
            (server as u64, head.block) == (block % self.plan.servers, block / self.plan.servers);
        let is_right = is_from
            && match (kind, head.kind) {
                (Kind::Read, Kind::Data) => head.version >= seen,
                (Kind::Write, Kind::Written) => head.version == replaced + 1,
                (Kind::Write, Kind::Conflict) => head.version > replaced,
                _ => false,
            };
        if !is_right {
            return Err(format!(
                "{kind} of block {block} at version {replaced}, of which {seen} was seen, is answered by {head}"
            )
            .into());
        }
        if head.kind != Kind::Written {
            check(data, block, head.version)?;
        }
        if kind == Kind::Write {
            let state = if head.kind == Kind::Written { State::Done } else { State::Failed };
            self.journal.add(self.note_of(state, block, replaced + 1))?;
        }
        self.note_seen(block, head.version);
        self.verified += 1;
        Ok(())
    }
}
