//! A simulated job: one engine for each process, whose packets the test delivers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use base::{Error, ErrorClass, GateId, RailId, RailProfile, Result};
use boards::SeriesOrder;
use collectives::Situation;
use datatype::Datatype;
use engine::strategy::Direct;
use engine::{ContextSlot, Engine, Planned, Problem, Receive, RequestId, Send};
use memory::{Buffer, SharedMemory};
use runtime::Regions;

use super::super::board::Board;
use crate::collective::blocks::{element_room, elements_in};
use crate::collective::channel::Channel;
use crate::collective::execution::Execution;
use crate::collective::{Collective, Invocation};
use crate::contexts::{ContextBlock, Contexts, SpacePurpose};
use crate::group::Group;
use crate::message_domain::{MessageDomainParts, Spaces};
use crate::messages::MemberMessages;
use crate::team::Team;

/// All processes of a job, and each one's team of all processes.
pub(in crate::collective) struct World {
    engines: Vec<RefCell<Engine>>,
    pub(in crate::collective) teams: Vec<Rc<Team>>,
    /// The process that starts first in the next run, so that tests see different orders.
    turn: Cell<usize>,
}

impl World {
    pub(in crate::collective) fn new(size: u32, oversubscribed: bool) -> Self {
        let (engines, teams) = (0..size).map(|rank| process(rank, size, oversubscribed)).unzip();
        Self { engines, teams, turn: Cell::new(0) }
    }

    /// Adds a board, if there is more than one process.
    pub(super) fn with_board(self) -> Self {
        let size = self.size() as u32;
        if size > 1 {
            let (memory, _file) = SharedMemory::create(0, boards::bytes_of(size)).unwrap();
            for (rank, team) in (0..).zip(&self.teams) {
                let memory = Rc::clone(&memory);
                team.board_place().put(Board::new(memory, size, rank, Vec::new()));
            }
        }
        self
    }

    pub(super) fn size(&self) -> usize {
        self.engines.len()
    }

    /// Carries out one operation on all processes. Returns the result of each.
    pub(super) fn run(
        &self,
        prepare: impl Fn(usize, &Invocation<'_>) -> Collective,
    ) -> Vec<Result<()>> {
        self.run_times(1, prepare)
    }

    /// Carries out one operation on all processes several times, as a persistent one. Returns the
    /// result of each process.
    pub(super) fn run_times(
        &self,
        times: usize,
        prepare: impl Fn(usize, &Invocation<'_>) -> Collective,
    ) -> Vec<Result<()>> {
        let mut executions: Vec<_> = (0..self.size())
            .map(|rank| {
                let invocation = Invocation::blocking(&self.teams[rank]);
                Execution::new(prepare(rank, &invocation).task, SeriesOrder::Blocking, Vec::new())
            })
            .collect();
        for _ in 0..times {
            self.carry_out(&mut executions);
        }
        executions.iter_mut().map(Execution::outcome).collect()
    }

    fn carry_out(&self, executions: &mut [Execution]) {
        let first = self.turn.replace(self.turn.get() + 1);
        let order: Vec<usize> = (0..self.size()).map(|i| (first + i) % self.size()).collect();
        let mut waiting: Vec<usize> = Vec::new();
        for &rank in &order {
            executions[rank].start(&self.link(rank), first as i32);
            self.carry_packets(first % 2);
            waiting.push(rank);
        }
        for _ in 0..ROUNDS_MAX {
            waiting.retain(|&rank| !executions[rank].advance(&self.link(rank)));
            if waiting.is_empty() {
                return self.check_nothing_left();
            }
            self.carry_packets(usize::MAX);
        }
        panic!("the processes {waiting:?} wait for ever");
    }

    /// Begins an operation on all processes but the last, delivers `packets` packets of each, and
    /// makes the last process fail. Returns the results of the other processes. `is_over` is
    /// called with the rank of each process as soon as the operation is complete there.
    pub(super) fn run_while_the_last_fails(
        &self,
        packets: usize,
        prepare: impl Fn(usize, &Invocation<'_>) -> Collective,
        mut is_over: impl FnMut(usize),
    ) -> Vec<Result<()>> {
        let left = self.size() - 1;
        let mut executions: Vec<_> = (0..left)
            .map(|rank| {
                let invocation = Invocation::blocking(&self.teams[rank]);
                Execution::new(prepare(rank, &invocation).task, SeriesOrder::Blocking, Vec::new())
            })
            .collect();
        let mut waiting: Vec<usize> = (0..left).collect();
        for (rank, execution) in executions.iter_mut().enumerate() {
            execution.start(&self.link(rank), 0);
        }
        for round in 0..packets + ROUNDS_MAX {
            if round == packets {
                for (rank, execution) in executions.iter_mut().enumerate() {
                    self.engines[rank].borrow_mut().fail_gate(GateId(left as u32));
                    execution.abandon(&self.link(rank));
                }
            }
            waiting.retain(|&rank| {
                let over = executions[rank].advance(&self.link(rank));
                if over {
                    is_over(rank);
                }
                !over
            });
            if waiting.is_empty() && round >= packets {
                self.carry_packets(usize::MAX);
                return executions.iter_mut().map(Execution::outcome).collect();
            }
            self.carry_packets(1);
            if round >= packets {
                for engine in &self.engines[..left] {
                    engine.borrow_mut().end_failed(GateId(left as u32));
                }
            }
        }
        panic!("the processes {waiting:?} wait for ever");
    }

    fn link(&self, rank: usize) -> TestLink<'_> {
        TestLink { world: self, rank }
    }

    /// Delivers packets until none is left, or at most `limit` from each process.
    fn carry_packets(&self, limit: usize) {
        let mut carried = true;
        while carried {
            carried = false;
            for (rank, engine) in self.engines.iter().enumerate() {
                for _ in 0..limit.min(16) {
                    let Some((gate, packet)) = next_packet(&mut engine.borrow_mut()) else { break };
                    let mut peer = self.engines[gate.0 as usize].borrow_mut();
                    peer.handle_packet(GateId(rank as u32), &packet).expect("well formed");
                    carried = limit == usize::MAX;
                }
            }
        }
    }

    fn check_nothing_left(&self) {
        self.carry_packets(usize::MAX);
        for engine in &self.engines {
            let (requests, unexpected, _) = engine.borrow().holdings();
            assert_eq!((requests, unexpected), (0, 0), "requests and messages left behind");
        }
    }
}

struct TestLink<'a> {
    world: &'a World,
    rank: usize,
}

impl TestLink<'_> {
    fn context(&self) -> ContextSlot {
        self.world.teams[self.rank].collective_context()
    }
}

impl MemberMessages for TestLink<'_> {
    fn send(&self, peer: u32, tag: i32, buffer: Buffer) -> Option<RequestId> {
        let (gate, context) = (GateId(peer), self.context());
        let send = Send { gate, peer, context, tag, synchronous: false, buffer };
        Some(self.world.engines[self.rank].borrow_mut().send(send))
    }

    fn receive(&self, peer: u32, tag: i32, buffer: Buffer) -> RequestId {
        let context = self.context();
        let receive = Receive { context, source: Some(peer), tag: Some(tag), buffer };
        self.world.engines[self.rank].borrow_mut().receive(receive)
    }

    fn take(&self, id: RequestId) -> Option<Result<()>> {
        let outcome = self.world.engines[self.rank].borrow_mut().take(id)?;
        Some(match outcome.problem {
            None => Ok(()),
            Some(Problem::Truncated { .. }) => Err(Error::new(ErrorClass::Truncate, "too long")),
            Some(Problem::PeerFailed) => Err(Error::new(ErrorClass::ProcFailed, "it failed")),
            Some(Problem::Revoked) => Err(Error::new(ErrorClass::Revoked, "it was revoked")),
        })
    }
}

impl Channel for TestLink<'_> {
    fn cancel(&self, pending: RequestId) {
        self.world.engines[self.rank].borrow_mut().cancel(pending);
    }

    fn is_revoked(&self) -> bool {
        self.world.teams[self.rank].is_revoked()
    }

    fn may_lose_members(&self) -> bool {
        false
    }

    fn failed_member(&self) -> Option<u32> {
        self.world.engines[self.rank].borrow().failed().first().map(|gate| gate.0)
    }

    fn board(&self) -> Option<&Board> {
        self.world.teams[self.rank].board()
    }

    fn leaves_portions(&self) -> bool {
        false
    }

    fn with_regions<R>(&self, _: impl FnOnce(&mut dyn Regions) -> R) -> R {
        unreachable!("nobody exposes anything without a board")
    }

    fn gate(&self, member: u32) -> GateId {
        GateId(member)
    }
}

fn process(rank: u32, size: u32, oversubscribed: bool) -> (RefCell<Engine>, Rc<Team>) {
    let rail = RailProfile {
        name: "test".into(),
        packet_bytes_max: 1024,
        eager_bytes_max: 512,
        fetch_segment_bytes_min: 0,
        latency_ns: 100,
        bandwidth_bytes_per_us: 10_000,
        packet_ns: 50,
        bulk: false,
        pushed_bytes: 0..0,
    };
    let mut engine = Engine::new(GateId(rank), vec![rail], Box::new(Direct));
    for peer in 0..size {
        engine.connect(GateId(peer), &[RailId(0)]);
    }
    let block = ContextBlock::WORLD;
    let plain = Situation::plain(size);
    let (group, contexts) = (Group::world(size), Rc::new(Contexts::new(rank)));
    let domain = MessageDomainParts { group, rank, remote: None, contexts, session: None };
    let team = Team::new(domain, if oversubscribed { plain.oversubscribed_on(2) } else { plain });
    team.open(Spaces {
        block,
        point_to_point: engine.open_context(block.id(SpacePurpose::PointToPoint), rank),
        collective: engine.open_context(block.id(SpacePurpose::Collective), rank),
    });
    let all_members = Rc::clone(team.all_members());
    engine.set_members(team.collective_context(), all_members);
    (RefCell::new(engine), team)
}

fn next_packet(engine: &mut Engine) -> Option<(GateId, Vec<u8>)> {
    for _ in 0..engine.gates_with_work() {
        let gate = engine.gate_with_work()?;
        if let Planned::Packet(length) = engine.plan(gate, RailId(0), &mut |_| 0) {
            let mut packet = vec![0; length];
            engine.write_packet(gate, RailId(0), &mut packet);
            return Some((gate, packet));
        }
    }
    None
}

/// Elements of a datatype in a memory of their own, which detects writes to gaps.
pub(super) struct Elements {
    memory: Buffer,
    pub(super) buffer: Buffer,
}

impl Elements {
    /// Makes `count` elements with this packed content, which may be shorter.
    pub(super) fn new(datatype: &Arc<Datatype>, count: usize, packed: &[u8]) -> Self {
        let (bytes, origin) = element_room(datatype, count);
        let memory = Buffer::zeroed(bytes);
        memory.write(0, &vec![GAP; bytes]);
        let buffer = elements_in(&memory, origin, datatype, count);
        buffer.write(0, packed);
        Self { memory, buffer }
    }

    pub(super) fn packed(&self) -> Vec<u8> {
        packed(&self.buffer)
    }

    /// Checks the content, and that all bytes outside the data are unchanged.
    pub(super) fn check(&self, expected: &[u8]) {
        assert_eq!(self.packed(), expected);
        self.buffer.write(0, &vec![GAP; expected.len()]);
        let all = packed(&self.memory);
        assert!(all.iter().all(|byte| *byte == GAP), "a gap was written to");
        self.buffer.write(0, expected);
    }
}

pub(super) fn packed(buffer: &Buffer) -> Vec<u8> {
    let mut bytes = vec![0; buffer.len()];
    buffer.read(0, &mut bytes);
    bytes
}

/// More rounds than any operation of a few processes needs.
const ROUNDS_MAX: usize = 10_000;

const GAP: u8 = 0xee;
