//! The events that a job handles, and the actions that it requests.

use std::collections::VecDeque;

use hangs::JobReport;
use mpir::JobProcess;

use crate::TraceTarget;
use crate::jobs::{JobSummary, ResizeReply, Resizing};
use crate::launch_tree::LaunchTree;
use crate::protocol::{AgentOrder, AgentReport, ConnectionEvent, ConnectionOrder, OutputStream};
use crate::spawned::{AddressedOrder, SpawnedMessage};

/// Identifies a client of `combray ps`, even after it has disconnected.
pub type ClientId = u64;

/// Something that has happened. Hosts are given by their index.
#[derive(Clone, Debug)]
pub enum JobEvent {
    /// The processes of this machine report this, in the job's own host.
    Report(usize, AgentReport),
    /// This has happened to the connection to an agent that the launcher has started itself.
    Connection(usize, ConnectionEvent),
    /// The launcher received a signal.
    Signal(i32),
    /// Standard input for a rank 0 on another machine; empty: the input has ended.
    Input(Vec<u8>),
    /// A client asks for a summary of the job.
    SummaryRequest(ClientId),
    /// A client asks what all ranks do.
    ReportRequest(ClientId),
    /// A client asks the program to have another number of processes.
    ResizeRequest(ClientId, Resizing),
    /// A client asks for what all ranks have recorded.
    TraceRequest(ClientId),
    /// A debugger has the table of processes, or there is none: the processes may go on.
    DebuggerReady,
    /// The launcher's output has no reader any more.
    ReaderEnded,
    /// Output cannot be written, as this message says.
    OutputFailed(String),
    /// So many bytes wait to be written to each output of the launcher. Sent when all actions are
    /// carried out.
    Backlog([usize; 2]),
    /// The process that spawned this job has ended while the two jobs were connected.
    ParentEnded,
    /// The job no longer depends on the process that spawned it.
    Independent,
    /// The launcher above that of this job, which was spawned, has sent this.
    FromAbove(AddressedOrder),
    /// [`Action::EndDescendants`] was carried out.
    DescendantsEnded,
    /// Time has passed. All that had arrived by this time was reported.
    TimePassed,
}

/// Something to do. Hosts are given by their index.
#[derive(Clone, Debug)]
pub enum Action {
    /// Execute an order on this machine.
    Execute(usize, AgentOrder),
    /// Do this with the connection to an agent that the launcher has started itself, or must start
    /// now.
    Connection(usize, ConnectionOrder),
    /// Write to an output of the launcher.
    Print(OutputStream, Vec<u8>),
    /// Write to the file for an output of a rank.
    WriteFile(u32, OutputStream, Vec<u8>),
    /// Publish the table of processes to debuggers.
    PublishTable(Vec<JobProcess>),
    /// Send a client the summary of the job.
    SendSummary(ClientId, JobSummary),
    /// Send a client the report about all ranks.
    SendReport(ClientId, JobReport),
    /// Answer a client that asks for another number of processes: or why there cannot be so many.
    SendResizeReply(ClientId, Result<ResizeReply, String>),
    /// Send this to the launcher above that of this job, which was spawned.
    SendAbove(SpawnedMessage),
    /// Send a client what each rank has recorded, by rank; none: it is too long for an answer.
    SendTraces(ClientId, Option<Vec<Vec<u8>>>),
    /// Write the trace of the job from what each rank has recorded.
    WriteTrace(TraceTarget, Vec<Vec<u8>>),
    /// Kill all processes below this one.
    EndDescendants,
}

/// The actions that are not carried out yet.
#[derive(Debug)]
pub(super) struct Actions {
    queue: VecDeque<Action>,
    /// The agents through which others are reached.
    pub tree: LaunchTree,
}

impl Actions {
    pub(super) fn new(tree: LaunchTree) -> Self {
        Self { queue: VecDeque::new(), tree }
    }

    pub(super) fn push(&mut self, action: Action) {
        match action {
            Action::Connection(host, order) => self.push_order(host, order),
            other => self.queue.push_back(other),
        }
    }

    /// Appends an order for a connection. If another agent has that connection, the order is sent
    /// to that agent.
    fn push_order(&mut self, host: usize, order: ConnectionOrder) {
        let Some(parent) = self.tree.parent(host) else {
            return self.queue.push_back(Action::Connection(host, order));
        };
        for part in order.into_parts() {
            let mut bytes = Vec::new();
            // A part is never too long.
            AgentOrder::Connection(host as u32, part).emit(&mut bytes);
            self.push_order(parent, ConnectionOrder::Send(bytes));
        }
    }

    pub(super) fn take(&mut self) -> Option<Action> {
        self.queue.pop_front()
    }

    /// Returns the buffer to which output of the launcher is appended.
    pub(super) fn output(&mut self, target: OutputStream) -> &mut Vec<u8> {
        if !matches!(self.queue.back(), Some(Action::Print(last, _)) if *last == target) {
            self.queue.push_back(Action::Print(target, Vec::new()));
        }
        match self.queue.back_mut() {
            Some(Action::Print(_, bytes)) => bytes,
            _ => unreachable!("the last action prints"),
        }
    }
}
