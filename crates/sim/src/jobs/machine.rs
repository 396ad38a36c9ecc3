//! A simulated machine: its ranks, and, if it is not the launcher's own, an agent that is reached
//! by a command.

use std::collections::VecDeque;

use launcher::protocol::{
    AgentOrder, AgentReport, ForwardedReports, LocalAnswer, OUTPUT_BYTES_MAX, OrderParser,
    OutputStream, TracePart,
};
use sys::process::{End, signal};

use super::rank::{EndCause, SimulatedRank, StepOutcome};
use super::setting::RankScript;

/// A machine.
pub(super) struct SimulatedMachine {
    pub ranks: Vec<SimulatedRank>,
    pub has_started: bool,
    /// How many bytes of each output may be read from the ranks.
    room: [i64; 2],
    /// None: it is the launcher's own machine.
    pub agent: Option<SimulatedAgent>,
    pub health: MachineHealth,
}

/// An agent with its connection.
pub(super) struct SimulatedAgent {
    pub orders: OrderParser,
    pub last_received: u64,
    pub is_running: bool,
    /// Whether the launcher still reads what arrives, and sends orders.
    pub is_connected: bool,
    /// Whether the command that reaches the machine has ended.
    pub has_command_ended: bool,
    /// When the last bytes in each direction arrive: to the agent, to the launcher.
    pub arrivals: [u64; 2],
    /// Whether bytes in each direction are lost.
    pub loses: [bool; 2],
    /// The machine whose agent has the other end of the connection; none: the launcher.
    pub holder: Option<usize>,
    /// Whether the command that reaches the machine was started.
    pub is_opened: bool,
    /// Whether it was ordered to end, and waits for the agents below it.
    pub is_closing: bool,
    /// What the agent above passes on, when it last received something, and whether that is too
    /// long ago.
    pub forwarded: ForwardedReports,
    pub heard: u64,
    pub is_silent: bool,
}

/// The state of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MachineHealth {
    Up,
    /// It stands still until this time.
    Frozen(u64),
    Gone,
}

/// What follows from an order.
pub(super) enum Consequence {
    Report(AgentReport),
    /// These reports come a while later.
    ReportLater(AgentReport),
    /// The rank with this index on this machine goes on.
    Step(usize),
    /// The agent has done its work.
    Finished,
}

impl SimulatedMachine {
    /// Creates a machine with these ranks, of which the first has this number.
    pub(super) fn new(first: u32, scripts: &[RankScript], agent: Option<SimulatedAgent>) -> Self {
        let rank =
            |(number, script): (u32, &RankScript)| SimulatedRank::new(number, script.clone());
        Self {
            ranks: (first..).zip(scripts).map(rank).collect(),
            has_started: false,
            room: [i64::from(OUTPUT_BYTES_MAX); 2],
            agent,
            health: MachineHealth::Up,
        }
    }

    /// Executes an order.
    pub(super) fn execute(&mut self, order: AgentOrder) -> VecDeque<Consequence> {
        let mut out = VecDeque::new();
        let first = self.ranks[0].number;
        match order {
            AgentOrder::Start(start) => {
                assert_eq!(start.ranks.len(), self.ranks.len(), "each rank is started once");
                let processes = self.ranks.iter().map(|rank| rank.process).collect();
                out.push_back(Consequence::Report(AgentReport::Started(processes)));
                self.has_started = true;
                out.extend((0..self.ranks.len()).map(Consequence::Step));
            }
            AgentOrder::Input(bytes) => {
                let taken = AgentReport::InputTaken(bytes.len() as u32);
                out.push_back(Consequence::Report(taken));
            }
            AgentOrder::Answer(number, line) => {
                let index = (number - first) as usize;
                if let StepOutcome::Continues(_) = self.ranks[index].answer(line) {
                    out.push_back(Consequence::Step(index));
                }
            }
            AgentOrder::Signal(only, number) => {
                for index in 0..self.ranks.len() {
                    if only.is_none_or(|rank| rank == self.ranks[index].number) {
                        self.signal(index, number, EndCause::Launcher, &mut out);
                    }
                }
            }
            AgentOrder::OutputCredit(target, bytes) => {
                self.room[target as usize] += i64::from(bytes);
                self.read_outputs(&mut out);
            }
            // No process spawns a job here.
            AgentOrder::ToSpawned(..) => {}
            AgentOrder::Ask => {
                for rank in self.ranks.iter().filter(|rank| rank.end.is_none()) {
                    let answer = LocalAnswer { process: rank.process, ..LocalAnswer::default() };
                    let answer = AgentReport::Answer(rank.number, answer);
                    out.push_back(Consequence::ReportLater(answer));
                }
            }
            AgentOrder::SendTrace(number, offset) => {
                let part = TracePart { offset, total: 0, bytes: Vec::new() };
                out.push_back(Consequence::Report(AgentReport::TracePart(number, part)));
            }
            AgentOrder::Close => {
                self.end_all(EndCause::Launcher, &mut out);
                out.push_back(Consequence::Finished);
            }
            // The library cannot go on without the launcher.
            AgentOrder::ClosePmi(number) => {
                self.end((number - first) as usize, End::Code(1), EndCause::Program, &mut out);
            }
            AgentOrder::Connection(..) => unreachable!("the world executes it"),
            AgentOrder::Heartbeat | AgentOrder::PublishFailures(_) => {}
        }
        out
    }

    /// Sends a signal to a rank.
    pub(super) fn signal(
        &mut self,
        index: usize,
        number: i32,
        cause: EndCause,
        out: &mut VecDeque<Consequence>,
    ) {
        match self.ranks[index].signal(number) {
            StepOutcome::Ended(end) => self.end(index, end, cause, out),
            StepOutcome::Continues(_) => out.push_back(Consequence::Step(index)),
            StepOutcome::Waits => {}
        }
    }

    /// Records the end of a rank, and reports it after all that the rank wrote.
    pub(super) fn end(
        &mut self,
        index: usize,
        end: End,
        cause: EndCause,
        out: &mut VecDeque<Consequence>,
    ) {
        let rank = &mut self.ranks[index];
        if rank.end.is_some() {
            return;
        }
        rank.end = Some((end, cause));
        let mut report = |report| out.push_back(Consequence::Report(report));
        for target in [OutputStream::Output, OutputStream::Errors] {
            while let Some(output) = rank.read(target, 64 << 10) {
                let AgentReport::Output(_, _, bytes) = &output else { continue };
                self.room[target as usize] -= bytes.len() as i64;
                report(output);
            }
            if !rank.script.leaves_process {
                report(AgentReport::OutputClosed(rank.number, target));
            }
        }
        report(AgentReport::Ended(rank.number, end));
        // If a process that was left behind held this connection, others could wait for it forever.
        report(AgentReport::PmiClosed(rank.number));
    }

    /// Kills all ranks.
    pub(super) fn end_all(&mut self, cause: EndCause, out: &mut VecDeque<Consequence>) {
        for index in 0..self.ranks.len() {
            self.end(index, End::Signal(signal::SIGKILL), cause, out);
        }
    }

    /// Reads what the ranks wrote, as far as there is room.
    pub(super) fn read_outputs(&mut self, out: &mut VecDeque<Consequence>) {
        for rank in &mut self.ranks {
            for target in [OutputStream::Output, OutputStream::Errors] {
                let room = self.room[target as usize].clamp(0, 64 << 10) as usize;
                if let Some(AgentReport::Output(rank, target, bytes)) = rank.read(target, room) {
                    self.room[target as usize] -= bytes.len() as i64;
                    out.push_back(Consequence::Report(AgentReport::Output(rank, target, bytes)));
                }
            }
        }
    }
}
