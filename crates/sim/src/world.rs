//! A world: the engines, and the loop that moves it on.

use std::sync::Arc;

use base::{ContextId, GateId, RailId, RailProfile};
use engine::strategy::{Aggregate, Direct, Strategy};
use engine::{ContextSlot, Engine, Problem, Receive, RequestId, Send};
use fastrand::Rng;
use memory::{Buffer, Layout, Memory, Scratch, Segment};

use crate::network::Network;
use crate::oracle::{Got, check_order, identify, pattern};
use crate::program::{Program, Wanted};

/// What a world did, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Packets on all rails.
    pub packets: u64,
    /// Records that shared a packet with another one, at least.
    pub messages: u64,
    /// Fetches that were carried out.
    pub fetches: u64,
    /// Steps of the clock.
    pub steps: u64,
}

/// Runs the world of a seed to its end.
///
/// # Errors
/// What MPI promises and did not happen.
pub fn run(seed: u64) -> Result<Report, String> {
    let mut world = World::new(seed);
    world.go().map_err(|what| format!("seed {seed}: {what}"))
}

/// A world that has not ended after so many steps never will.
const STEPS_MAX: u64 = 200_000;

/// Control records that nobody waits for get out within so many steps.
const CLOSING_STEPS: u32 = 2000;

struct World {
    rng: Rng,
    program: Program,
    network: Network,
    engines: Vec<Engine>,
    /// By process and context.
    slots: Vec<Vec<Option<ContextSlot>>>,
    sends: Vec<Sent>,
    posted: Vec<Posted>,
    /// The next of each process's messages and receives.
    next_send: Vec<usize>,
    next_receive: Vec<usize>,
    fetches_fail: bool,
    report: Report,
}

struct Sent {
    request: Option<RequestId>,
    process: u32,
    message: usize,
    buffer: Buffer,
    done: bool,
}

struct Posted {
    request: RequestId,
    receive: usize,
    buffer: Buffer,
    got: Option<Option<usize>>,
    cancelled: bool,
}

/// Runs of 40 bytes with gaps of 24.
#[derive(Debug)]
struct Gaps;

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let packet = [256, 512, 4096][rng.usize(..3)];
        let eager = [64, 100, packet / 2][rng.usize(..3)].min(packet - 96);
        let rails = rng.usize(1..=2);
        let profile = RailProfile {
            name: "virtual".into(),
            packet_bytes_max: packet,
            eager_bytes_max: eager,
            fetch_segment_bytes_min: 0,
            latency_ns: 100,
            bandwidth_bytes_per_us: 1000,
            ordered: true,
        };
        let limits = [eager, packet, 3 * packet, 0, 8];
        let program = Program::random(&mut rng, &limits, rails == 1);
        let fetches = rng.bool();
        let aggregates = rng.bool();
        let engine = |own: u32| {
            let strategy: Box<dyn Strategy> =
                if aggregates { Box::new(Aggregate) } else { Box::new(Direct) };
            let mut engine = Engine::new(GateId(own), vec![profile.clone(); rails], strategy);
            let all: Vec<_> = (0..rails as u8).map(RailId).collect();
            (0..program.processes).for_each(|gate| engine.connect(GateId(gate), &all, fetches));
            engine
        };
        let engines: Vec<_> = (0..program.processes).map(engine).collect();
        let processes = program.processes as usize;
        Self {
            network: Network::new(&mut rng),
            slots: vec![vec![None; program.contexts]; processes],
            engines,
            sends: Vec::new(),
            posted: Vec::new(),
            next_send: vec![0; processes],
            next_receive: vec![0; processes],
            fetches_fail: rng.u8(..4) == 0,
            report: Report::default(),
            program,
            rng,
        }
    }

    fn go(&mut self) -> Result<Report, String> {
        while !self.is_over() {
            if self.network.now > STEPS_MAX {
                return Err(format!("stuck: {}", self.unfinished()));
            }
            for process in 0..self.program.processes {
                // Some processes are slow: what arrives for them is unexpected.
                if self.rng.bool() {
                    self.send_next(process);
                }
                if self.rng.u8(..3) == 0 {
                    self.receive_next(process);
                }
                if self.rng.u8(..20) == 0 {
                    let context = self.rng.usize(..self.program.contexts);
                    self.slot(process, context);
                }
                self.flush(process);
            }
            for (from, to, packet) in self.network.step(&mut self.rng) {
                let taken = self.engines[to.0 as usize].handle_packet(from, &packet);
                taken.map_err(|malformed| format!("process {}: {malformed}", to.0))?;
                self.carry_out_fetches(to.0);
            }
            self.take_outcomes()?;
        }
        self.close()?;
        self.report.steps = self.network.now;
        Ok(self.report)
    }

    /// Opens a context for a process when it first uses it, or at some other time: others may have
    /// sent before.
    fn slot(&mut self, process: u32, context: usize) -> ContextSlot {
        let engine = &mut self.engines[process as usize];
        let open = || engine.open_context(ContextId::new(7, context as u32), process);
        *self.slots[process as usize][context].get_or_insert_with(open)
    }

    fn send_next(&mut self, process: u32) {
        let from = self.next_send[process as usize];
        let own = (from..).zip(&self.program.messages[from..]);
        let Some((id, message)) = own.into_iter().find(|(_, m)| m.source == process) else {
            return;
        };
        let message = message.clone();
        self.next_send[process as usize] = id + 1;
        let context = self.slot(process, message.context);
        let buffer = buffer(message.length, message.scattered);
        buffer.write(0, &pattern(id, message.length));
        let gate = GateId(message.destination);
        let send = Send {
            gate,
            peer: message.destination,
            context,
            tag: message.tag,
            synchronous: message.synchronous,
            buffer: buffer.clone(),
        };
        let request = Some(self.engines[process as usize].send(send));
        self.report.messages += 1;
        self.sends.push(Sent { request, process, message: id, buffer, done: false });
    }

    fn receive_next(&mut self, process: u32) {
        let from = self.next_receive[process as usize];
        let own = (from..).zip(&self.program.receives[from..]);
        let Some((id, wanted)) = own.into_iter().find(|(_, r)| r.receiver == process) else {
            return;
        };
        let wanted = wanted.clone();
        let Wanted { context, source, tag, capacity, scattered, probed, .. } = wanted;
        let context = self.slot(process, context);
        let buffer = buffer(capacity, scattered);
        let engine = &mut self.engines[process as usize];
        let request = if probed {
            let looked = engine.probe(context, source, tag);
            let Some((message, incoming)) = engine.matched_probe(context, source, tag) else {
                return;
            };
            assert_eq!(looked, Some(incoming), "a probe tells what a matched probe takes");
            let request = engine.receive_message(message, buffer.clone());
            request.expect("the message was just taken")
        } else {
            engine.receive(Receive { context, source, tag, buffer: buffer.clone() })
        };
        self.next_receive[process as usize] = id + 1;
        let receive = Posted { request, receive: id, buffer, got: None, cancelled: false };
        self.posted.push(receive);
        self.carry_out_fetches(process);
    }

    /// Hands out packets as long as rails have room.
    fn flush(&mut self, process: u32) {
        let own = GateId(process);
        for _ in 0..self.engines[process as usize].gates_with_work() {
            let engine = &mut self.engines[process as usize];
            let Some(gate) = engine.gate_with_work() else { return };
            for rail in engine.rails_of(gate).to_vec() {
                if !self.network.has_room(own, gate, rail) {
                    continue;
                }
                let Some(length) = engine.plan_packet(gate, rail) else { continue };
                let mut packet = vec![0; length];
                engine.write_packet(gate, &mut packet);
                self.report.packets += 1;
                self.network.post(&mut self.rng, (own, gate, rail), packet);
            }
        }
    }

    /// Plays the rail that reads a peer's memory: the sender's buffer is found by its address.
    fn carry_out_fetches(&mut self, process: u32) {
        while let Some(fetch) = self.engines[process as usize].next_fetch() {
            let fails = self.fetches_fail && self.rng.bool();
            let source = self.sends.iter().find(|sent| {
                let mut address = None;
                sent.buffer.runs(0, sent.buffer.len(), &mut |at, _| {
                    address = Some(at as u64);
                    false
                });
                sent.process == fetch.gate.0 && address == Some(fetch.memory.address)
            });
            // Tables of runs lie where this crate, which is safe, cannot read.
            let readable = source.filter(|_| fetch.memory.runs == 1 && !fails);
            if let Some(sent) = readable {
                let mut data = vec![0; fetch.length as usize];
                sent.buffer.read(0, &mut data);
                fetch.into.write(0, &data);
                self.report.fetches += 1;
            }
            let engine = &mut self.engines[process as usize];
            engine.handle_fetched(fetch.request, readable.is_some());
        }
    }

    fn take_outcomes(&mut self) -> Result<(), String> {
        for sent in &mut self.sends {
            let message = &self.program.messages[sent.message];
            let engine = &mut self.engines[sent.process as usize];
            let Some(request) = sent.request.filter(|_| !sent.done) else { continue };
            if message.unwanted && self.rng.u8(..8) == 0 {
                engine.cancel(request);
            }
            if let Some(outcome) = engine.take(request) {
                sent.done = true;
                let whole = outcome.bytes == message.length as u64;
                if outcome.cancelled != message.unwanted || !whole && !outcome.cancelled {
                    return Err(format!("{message:?} ended with {outcome:?}"));
                }
            }
        }
        for index in 0..self.posted.len() {
            self.take_received(index)?;
        }
        Ok(())
    }

    fn take_received(&mut self, index: usize) -> Result<(), String> {
        let posted = &mut self.posted[index];
        let wanted = &self.program.receives[posted.receive];
        if posted.got.is_some() {
            return Ok(());
        }
        let engine = &mut self.engines[wanted.receiver as usize];
        if wanted.hopeless && !posted.cancelled && self.rng.u8(..16) == 0 {
            posted.cancelled = true;
            engine.cancel(posted.request);
        }
        let Some(outcome) = engine.take(posted.request) else { return Ok(()) };
        if outcome.cancelled != wanted.hopeless {
            return Err(format!("{wanted:?} ended with {outcome:?}"));
        }
        if outcome.cancelled {
            posted.got = Some(None);
            return Ok(());
        }
        let mut data = vec![0; outcome.bytes as usize];
        posted.buffer.read(0, &mut data);
        let truncated = outcome.problem.map(|Problem::Truncated { message, .. }| message);
        let (source, tag, bytes) = (outcome.source, outcome.tag, outcome.bytes);
        let got = Got { source, tag, bytes, truncated, data };
        posted.got = Some(Some(identify(&self.program, wanted, &got)?));
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.sends.len() == self.program.messages.len()
            && self.posted.len() == self.program.receives.len()
            && self.sends.iter().all(|sent| sent.done)
            && self.posted.iter().all(|posted| posted.got.is_some())
    }

    fn unfinished(&self) -> String {
        let sends = self.sends.iter().filter(|sent| !sent.done);
        let sends: Vec<_> = sends.map(|sent| &self.program.messages[sent.message]).collect();
        let receives = self.posted.iter().filter(|posted| posted.got.is_none());
        let receives: Vec<_> =
            receives.map(|posted| &self.program.receives[posted.receive]).collect();
        format!("{sends:?} {receives:?}")
    }

    /// Checks the order of all messages, closes all contexts, and checks that nothing is left.
    fn close(&mut self) -> Result<(), String> {
        let received: Vec<_> =
            self.posted.iter().map(|posted| (posted.receive, posted.got.flatten())).collect();
        check_order(&self.program, &received)?;
        for _ in 0..CLOSING_STEPS {
            (0..self.program.processes).for_each(|process| self.flush(process));
            for (from, to, packet) in self.network.step(&mut self.rng) {
                let taken = self.engines[to.0 as usize].handle_packet(from, &packet);
                taken.map_err(|malformed| format!("at the end: {malformed}"))?;
            }
        }
        for (engine, slots) in self.engines.iter_mut().zip(&self.slots) {
            slots.iter().flatten().for_each(|slot| engine.close_context(*slot));
            if engine.holdings() != (0, 0, 0) || engine.has_work() {
                return Err(format!("left over: {:?}", engine.holdings()));
            }
        }
        Ok(())
    }
}

fn buffer(length: usize, scattered: bool) -> Buffer {
    if !scattered {
        return Buffer::of_scratch(&Arc::new(Scratch::zeroed(length.max(1))), 0, length);
    }
    let runs = length.div_ceil(Gaps::RUN);
    let scratch = Arc::new(Scratch::zeroed((runs + 1) * Gaps::STRIDE));
    let whole = Buffer::laid_out_in_scratch(&scratch, 0, Arc::new(Gaps), length);
    debug_assert_eq!(whole.len(), length);
    whole
}

impl Gaps {
    const RUN: usize = 40;
    const STRIDE: usize = 64;

    fn each(offset: usize, length: usize, each: &mut dyn FnMut(usize, Segment) -> bool) {
        let mut done = 0;
        while done < length {
            let (run, within) = ((offset + done) / Self::RUN, (offset + done) % Self::RUN);
            let part = (Self::RUN - within).min(length - done);
            let displacement = (run * Self::STRIDE + within) as isize;
            if !each(done, Segment { displacement, length: part }) {
                return;
            }
            done += part;
        }
    }
}

/// Elements of one byte.
impl Layout for Gaps {
    fn size(&self) -> usize {
        1
    }

    fn bounds(&self, count: usize) -> (isize, isize) {
        (0, (count.div_ceil(Self::RUN) * Self::STRIDE) as isize)
    }

    fn segment_count(&self, count: usize) -> usize {
        count.div_ceil(Self::RUN)
    }

    fn segments(
        &self,
        _count: usize,
        offset: usize,
        length: usize,
        each: &mut dyn FnMut(Segment) -> bool,
    ) {
        Self::each(offset, length, &mut |_, segment| each(segment));
    }

    fn pack(&self, memory: &Memory, _count: usize, offset: usize, out: &mut [u8]) {
        Self::each(offset, out.len(), &mut |at, segment| {
            memory.read(segment.displacement, &mut out[at..at + segment.length]);
            true
        });
    }

    fn unpack(&self, memory: &Memory, _count: usize, offset: usize, data: &[u8]) {
        Self::each(offset, data.len(), &mut |at, segment| {
            memory.write(segment.displacement, &data[at..at + segment.length]);
            true
        });
    }
}
