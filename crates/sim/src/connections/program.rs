//! The programs: what they do at random, and whether what they see agrees with the model.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use base::ErrorClass;
use endpoints::{
    ConnectRequest, EndpointDelivery, EndpointOptions, EndpointSend, Endpoints, MemoryAction,
    MemoryPermissions,
};
use memory::Buffer;

use super::model::{
    ModelConnection, ModelEnd, ModelMemory, ModelMessage, ModelOperation, ModelStage, REUSED,
    content_of, overwrite,
};
use super::process::SimulatedProcess;
use super::{ConnectionWorld, Outcome};

/// A program with one endpoint.
#[derive(Debug)]
pub(super) struct Program {
    pub process: Rc<SimulatedProcess>,
    pub endpoints: Rc<Endpoints<SimulatedProcess>>,
    /// The endpoint: its key, and its number in the world.
    pub endpoint: u32,
    pub number: usize,
    /// The messages that were not returned.
    pub held: Vec<u32>,
    pub is_open: bool,
    /// The connections of this program: key, and number and end in the world.
    pub connections: HashMap<u32, (usize, usize)>,
}

/// The longest messages, in bytes.
const LENGTH_MAX: usize = 100_000;

/// The length of registered memory in bytes.
const MEMORY_BYTES: usize = 400_000;

impl Program {
    pub fn new(process: Rc<SimulatedProcess>, number: usize) -> Self {
        let endpoints: Rc<Endpoints<SimulatedProcess>> = Rc::default();
        let options =
            EndpointOptions { memory: process.nodes.setting.memory, ..EndpointOptions::default() };
        let endpoint = endpoints.open(&process, options).expect("the system refuses nothing");
        let (held, connections) = Default::default();
        Self { process, endpoints, endpoint, number, held, is_open: true, connections }
    }

    pub fn end_keepalives(&self) {
        for key in self.connections.keys() {
            // It fails for connections that are not open.
            let _ = self.endpoints.set_keepalive(&self.process, *key, None);
        }
    }

    /// Returns the number and the end of a connection.
    pub fn connection(&self, key: u32) -> Option<(usize, usize)> {
        self.connections.get(&key).copied()
    }

    /// Whether an end of a connection is of this program.
    pub fn has(&self, end: (usize, usize)) -> bool {
        self.connections.values().any(|one| *one == end)
    }

    pub fn uri(&self) -> String {
        self.endpoints.uri(self.endpoint).expect("it is open")
    }
}

pub(super) fn refused(what: &str, error: &base::Error) -> String {
    format!("{what} was refused: {error:?}")
}

impl ConnectionWorld {
    /// Does one thing at random in a program.
    pub(super) fn act(&mut self, place: usize) -> Outcome {
        let choice = self.nodes.rng().u8(..32);
        match choice {
            0..3 => self.connect(place)?,
            3..12 => self.send(place)?,
            12..14 => self.access(place)?,
            14 => self.register(place)?,
            15 => self.deregister(place)?,
            16 => self.disconnect(place)?,
            17 => self.set_keepalive(place)?,
            18..21 => self.answer_one(place)?,
            21..24 => self.give_back(place, 3)?,
            24..30 => {
                let events = self.nodes.rng().usize(1..8);
                self.take_events(place, events)?;
            }
            30 => self.fail_something(place),
            _ => self.close_rarely(place)?,
        }
        Ok(())
    }

    /// Returns an end of a connection of a program in this stage.
    fn random_end(&self, place: usize, stage: ModelStage) -> Option<(usize, usize)> {
        let all = self.programs[place].connections.values().copied();
        let mut all: Vec<_> = all
            .filter(|(number, end)| self.connections[*number].ends[*end].stage == stage)
            .collect();
        all.sort_unstable();
        self.nodes.rng().choice(all)
    }

    fn connect(&mut self, place: usize) -> Outcome {
        let target = self.nodes.rng().usize(..self.uris.len());
        let number = self.connections.len();
        let mut request = vec![0; 8 + self.nodes.rng().usize(..100)];
        request[..8].copy_from_slice(&(number as u64).to_le_bytes());
        let timeout = Duration::from_millis(self.nodes.rng().u64(500..5000));
        let program = &self.programs[place];
        let (uri, node) = self.uris[target].clone();
        let asked = ConnectRequest { uri: &uri, data: &request, context: number, timeout };
        let made = program.endpoints.connect(&program.process, program.endpoint, &asked);
        let nodes = [program.process.node, node];
        let mut added = ModelConnection { nodes, target, request, ..ModelConnection::default() };
        match made {
            Ok(key) => {
                (added.ends[0].key, added.ends[0].stage) = (Some(key), ModelStage::Waiting);
                self.programs[place].connections.insert(key, (number, 0));
                self.report.connects += 1;
            }
            Err(error) if error.class == ErrorClass::NoSpace => {
                added.ends[0].stage = ModelStage::Ended;
            }
            Err(error) => return Err(refused("a connection", &error)),
        }
        self.connections.push(added);
        Ok(())
    }

    fn length(&self) -> usize {
        let rng = &mut self.nodes.rng();
        match rng.u8(..8) {
            0 => 0,
            1..4 => rng.usize(..64),
            4 | 5 => rng.usize(..3000),
            6 => rng.usize(..40_000),
            _ => rng.usize(..LENGTH_MAX),
        }
    }

    fn send(&mut self, place: usize) -> Outcome {
        let Some((number, end)) = self.random_end(place, ModelStage::Open) else { return Ok(()) };
        for _ in 0..self.nodes.rng().usize(1..8) {
            if !self.send_one(place, (number, end))? {
                break;
            }
        }
        Ok(())
    }

    /// Sends one message. Returns whether more can be sent.
    fn send_one(&mut self, place: usize, (number, end): (usize, usize)) -> Result<bool, String> {
        let delivery = match self.nodes.rng().u8(..6) {
            0 => EndpointDelivery::Unordered,
            1 => EndpointDelivery::Unreliable,
            _ => EndpointDelivery::Ordered,
        };
        let is_ordered = delivery == EndpointDelivery::Ordered;
        let is_unreliable = delivery == EndpointDelivery::Unreliable;
        let length = self.length().max(if is_ordered { 0 } else { 8 });
        self.numbers += 1;
        let message = ModelMessage { number: self.numbers, length, is_unreliable, after: None };
        let data = Buffer::zeroed(length);
        data.write(0, &message.bytes());
        let is_lent = !is_unreliable && self.nodes.rng().u8(..4) == 0;
        let completion = is_lent.then_some(self.numbers as usize);
        let program = &self.programs[place];
        let model = &mut self.connections[number].ends[end];
        let Some(key) = model.key else { return Ok(false) };
        let send = EndpointSend { data: data.clone(), completion, delivery };
        match program.endpoints.send(&program.process, key, send) {
            Ok(true) => {}
            Ok(false) if is_unreliable => return Err("an unreliable message waits".to_owned()),
            Ok(false) => {
                self.report.refusals += 1;
                model.refuse();
                return Ok(false);
            }
            // The event that reports the end waits in the queue.
            Err(error) if error.class == ErrorClass::Arg => return Ok(false),
            Err(error) => return Err(refused("a message", &error)),
        }
        self.report.messages += 1;
        match completion {
            Some(context) => drop(model.lent.insert(context, data)),
            None => overwrite(&data),
        }
        model.unreliable.0 += u64::from(is_unreliable);
        match is_ordered {
            true => model.ordered.push_back(message),
            false => drop(model.unordered.insert(message.number, message)),
        }
        Ok(true)
    }

    fn register(&mut self, place: usize) -> Outcome {
        let program = &self.programs[place];
        let registered = self.memories.iter().filter(|one| one.endpoint == program.number);
        if registered.filter(|one| one.frozen.is_none()).count() > 2 {
            return Ok(());
        }
        let buffer = Buffer::zeroed(MEMORY_BYTES);
        let permissions = MemoryPermissions { read: true, write: true };
        let name = program
            .endpoints
            .register(&program.process, program.endpoint, buffer.clone(), permissions)
            .map_err(|error| refused("memory", &error))?;
        let (endpoint, used, frozen) = (program.number, 0, None);
        self.memories.push(ModelMemory { endpoint, buffer, name, used, frozen });
        Ok(())
    }

    fn deregister(&mut self, place: usize) -> Outcome {
        let program = &self.programs[place];
        let is_own =
            |one: &&mut ModelMemory| one.endpoint == program.number && one.frozen.is_none();
        if self.nodes.rng().u8(..4) != 0 {
            return Ok(());
        }
        let Some(memory) = self.memories.iter_mut().find(is_own) else { return Ok(()) };
        program
            .endpoints
            .deregister(&program.process, program.endpoint, &memory.name)
            .map_err(|error| refused("deregistration", &error))?;
        memory.frozen = Some(content_of(&memory.buffer));
        self.report.deregistered += 1;
        Ok(())
    }

    /// Writes a range of memory of the other end, then reads it after a fence.
    fn access(&mut self, place: usize) -> Outcome {
        let Some((number, end)) = self.random_end(place, ModelStage::Open) else { return Ok(()) };
        let owner = self.endpoint_at((number, 1 - end));
        let usable = |(_, one): &(usize, &ModelMemory)| {
            Some(one.endpoint) == owner && one.used + LENGTH_MAX < MEMORY_BYTES
        };
        let found: Vec<usize> =
            self.memories.iter().enumerate().filter(usable).map(|(at, _)| at).collect();
        let Some(memory) = self.nodes.rng().choice(found) else { return Ok(()) };
        // Not empty, so that each operation has a range of its own.
        let length = self.length().max(1);
        let (offset, name) = (self.memories[memory].used, self.memories[memory].name);
        self.memories[memory].used += length;
        self.numbers += 1;
        let content = crate::region::pattern(self.numbers as usize, length);
        let from = Buffer::zeroed(length);
        from.write(0, &content);
        let message = (self.nodes.rng().bool()).then(|| {
            let after = Some((memory, offset, content.clone()));
            let length = self.length().clamp(8, 30_000);
            ModelMessage { number: self.numbers, length, is_unreliable: false, after }
        });
        let notice = message.as_ref().map(|message| {
            let buffer = Buffer::zeroed(message.length);
            buffer.write(0, &message.bytes());
            buffer
        });
        let offset_there = offset as u64;
        let write =
            MemoryAction::Write { name, offset: offset_there, from: from.clone(), message: notice };
        let of_write = ModelOperation { memory, offset, content, into: None };
        let content = of_write.content.clone();
        if !self.transfer(place, (number, end), write, Some((of_write, from)))? {
            return Ok(());
        }
        if let Some(message) = message {
            self.connections[number].ends[end].ordered.push_back(message);
        }
        if self.nodes.rng().bool()
            && self.transfer(place, (number, end), MemoryAction::Fence, None)?
        {
            let into = Buffer::zeroed(length);
            let read = MemoryAction::Read { name, offset: offset_there, into: into.clone() };
            let kept = Some(into.clone());
            let of_read = ModelOperation { memory, offset, content, into: kept };
            self.transfer(place, (number, end), read, Some((of_read, into)))?;
        }
        Ok(())
    }

    /// Begins an operation. Returns whether it was accepted.
    fn transfer(
        &mut self,
        place: usize,
        (number, end): (usize, usize),
        action: MemoryAction,
        model: Option<(ModelOperation, Buffer)>,
    ) -> Result<bool, String> {
        self.numbers += 1;
        let context = self.numbers as usize;
        let program = &self.programs[place];
        let of_end = &mut self.connections[number].ends[end];
        let Some(key) = of_end.key else { return Ok(false) };
        let notifies = (context, model.is_some());
        match program.endpoints.transfer(&program.process, key, action, notifies) {
            Ok(true) => {}
            Ok(false) => {
                of_end.refuse();
                return Ok(false);
            }
            Err(error) if error.class == ErrorClass::Arg => return Ok(false),
            Err(error) => return Err(refused("an operation", &error)),
        }
        self.report.operations += 1;
        if let Some((operation, _)) = model {
            of_end.operations.insert(context, operation);
        }
        Ok(true)
    }

    /// Returns the endpoint at an end of a connection, by its number in the world.
    fn endpoint_at(&self, (number, end): (usize, usize)) -> Option<usize> {
        let key = self.connections[number].ends[end].key?;
        let is_it = |one: &&Program| one.connections.get(&key) == Some(&(number, end));
        self.programs.iter().find(is_it).map(|one| one.number)
    }

    fn disconnect(&mut self, place: usize) -> Outcome {
        let stage =
            if self.nodes.rng().u8(..4) == 0 { ModelStage::Waiting } else { ModelStage::Open };
        match self.random_end(place, stage) {
            Some(end) if self.nodes.rng().bool() => self.disconnect_end(place, end),
            _ => Ok(()),
        }
    }

    pub(super) fn disconnect_end(
        &mut self,
        place: usize,
        (number, end): (usize, usize),
    ) -> Outcome {
        let program = &mut self.programs[place];
        let model = &mut self.connections[number].ends[end];
        let Some(key) = model.key else { return Ok(()) };
        match program.endpoints.disconnect(&program.process, key) {
            Ok(()) => model.has_closed = true,
            Err(error) if error.class == ErrorClass::Arg => {}
            Err(error) => return Err(refused("the end of a connection", &error)),
        }
        // No event follows if the connection waits for the answer of this program.
        if end == 1 && model.stage == ModelStage::Waiting && model.has_closed {
            model.end();
            program.connections.remove(&key);
        }
        Ok(())
    }

    fn set_keepalive(&mut self, place: usize) -> Outcome {
        let Some((number, end)) = self.random_end(place, ModelStage::Open) else { return Ok(()) };
        let limit = [None, Some(100), Some(800), Some(3000)][self.nodes.rng().usize(..4)];
        let program = &self.programs[place];
        let model = &mut self.connections[number].ends[end];
        let Some(key) = model.key else { return Ok(()) };
        let set = program.endpoints.set_keepalive(
            &program.process,
            key,
            limit.map(Duration::from_millis),
        );
        match set {
            Ok(()) => model.keepalive = model.keepalive.into_iter().chain(limit).min(),
            Err(error) if error.class == ErrorClass::Arg => {}
            Err(error) => return Err(refused("keepalive", &error)),
        }
        Ok(())
    }

    /// Answers a request that waits.
    fn answer_one(&mut self, place: usize) -> Outcome {
        let Some((number, 1)) = self.random_end(place, ModelStage::Waiting) else {
            return Ok(());
        };
        self.answer(place, number)
    }

    pub(super) fn answer(&mut self, place: usize, number: usize) -> Outcome {
        let rejects = self.nodes.rng().u8(..6) == 0;
        let program = &mut self.programs[place];
        let connection = &mut self.connections[number];
        let Some(key) = connection.ends[1].key else { return Ok(()) };
        let answered = match rejects {
            true => {
                let data = vec![number as u8; self.nodes.rng().usize(..40)];
                let answered = program.endpoints.reject(&program.process, key, &data);
                connection.rejection = Some(data).filter(|_| answered.is_ok());
                answered
            }
            false => program.endpoints.accept(&program.process, key, number),
        };
        match answered {
            Ok(()) if rejects => {
                connection.ends[1].end();
                program.connections.remove(&key);
            }
            Ok(()) => connection.ends[1].stage = ModelStage::Open,
            // The event that reports the end waits in the queue.
            Err(error) if error.class == ErrorClass::Arg => {}
            Err(error) => return Err(refused("an answer", &error)),
        }
        Ok(())
    }

    /// Returns some of the messages that a program holds, in any order.
    pub(super) fn give_back(&mut self, place: usize, count: usize) -> Outcome {
        let program = &mut self.programs[place];
        for _ in 0..count.min(program.held.len()) {
            let which = self.nodes.rng().usize(..program.held.len());
            let lent = program.held.swap_remove(which);
            program
                .endpoints
                .give_back(&program.process, program.endpoint, lent)
                .map_err(|error| refused("a returned message", &error))?;
        }
        Ok(())
    }

    pub(super) fn give_all_back(&mut self, place: usize) -> Outcome {
        self.give_back(place, self.programs[place].held.len())
    }

    fn fail_something(&mut self, place: usize) {
        let (kills, stops) = (self.nodes.setting.kills, self.nodes.setting.stops);
        if stops && self.nodes.rng().u8(..4) == 0 {
            let until = self.nodes.now() + self.nodes.rng().u64(1..3000);
            self.programs[place].process.stopped_until.set(until);
            self.report.stops += 1;
        }
        if kills && self.nodes.rng().u8(..6) == 0 {
            self.kill(place);
        }
    }

    /// Kills a process, and starts another one in its place.
    fn kill(&mut self, place: usize) {
        self.report.kills += 1;
        let machine = self.programs[place].process.machine;
        let started = self.start_program(machine);
        let killed = std::mem::replace(&mut self.programs[place], started);
        self.is_closed[killed.number] = true;
        let mut ended: Vec<_> = killed.connections.values().copied().collect();
        ended.sort_unstable();
        for (number, end) in ended {
            let model = &mut self.connections[number].ends[end];
            (model.stage, model.has_closed) = (ModelStage::Ended, true);
            model.operations.clear();
            model.is_refused = false;
        }
        killed.process.end();
        self.nodes.end_rails_of(&killed.process);
    }

    /// Closes the endpoint of a program, and opens another one.
    fn close_rarely(&mut self, place: usize) -> Outcome {
        if self.nodes.rng().u8(..16) != 0 {
            return Ok(());
        }
        self.close(place)?;
        let program = &mut self.programs[place];
        let options = EndpointOptions {
            memory: program.process.nodes.setting.memory,
            ..EndpointOptions::default()
        };
        let opened = program.endpoints.open(&program.process, options);
        program.endpoint = opened.map_err(|error| refused("an endpoint", &error))?;
        program.number = self.uris.len();
        program.is_open = true;
        self.uris.push((program.uri(), program.process.node));
        self.is_closed.push(false);
        Ok(())
    }

    pub(super) fn close(&mut self, place: usize) -> Outcome {
        self.report.endpoints_closed += 1;
        let program = &mut self.programs[place];
        self.is_closed[program.number] = true;
        program.held.clear();
        program.is_open = false;
        for (number, end) in std::mem::take(&mut program.connections).into_values() {
            self.connections[number].ends[end].has_closed = true;
            self.closing.push((number, end));
        }
        let (process, endpoint) = (Rc::clone(&program.process), program.endpoint);
        let closed = Rc::clone(&program.endpoints).close(&process, endpoint);
        closed.map_err(|error| refused("the end of an endpoint", &error))?;
        for (number, end) in std::mem::take(&mut self.closing) {
            let model: &mut ModelEnd = &mut self.connections[number].ends[end];
            model.lent.clear();
            model.end();
            for (_, operation) in model.operations.drain() {
                if let Some(into) = operation.into {
                    overwrite(&into);
                    self.abandoned.push(into);
                }
            }
        }
        let number = self.programs[place].number;
        for memory in self.memories.iter_mut().filter(|one| one.endpoint == number) {
            memory.frozen.get_or_insert_with(|| content_of(&memory.buffer));
        }
        Ok(())
    }

    /// Checks what programs use for something else: the library does not write there any more.
    pub(super) fn check_memory(&self) -> Outcome {
        if self.abandoned.iter().any(|one| content_of(one).iter().any(|byte| *byte != REUSED)) {
            return Err("a read has written after the end of its connection".to_owned());
        }
        let is_frozen = |one: &ModelMemory| {
            one.frozen.as_ref().is_none_or(|frozen| *frozen == content_of(&one.buffer))
        };
        match self.memories.iter().all(is_frozen) {
            true => Ok(()),
            false => Err("memory was written after it was deregistered".to_owned()),
        }
    }
}
