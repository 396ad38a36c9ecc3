//! The events that a job handles, and the actions that it requests.

use std::collections::VecDeque;

use hangs::JobReport;
use mpir::JobProcess;
use sys::process::End;

use crate::jobs::JobSummary;
use crate::protocol::{AgentOrder, AgentReport, OutputStream};

/// Identifies a client of `combray ps`, even after it has disconnected.
pub type ClientId = u64;

/// Something that has happened. Hosts are given by their index.
#[derive(Clone, Debug)]
pub enum JobEvent {
    /// The processes of this machine report this, in the job's own host.
    Report(usize, AgentReport),
    /// An agent sent these bytes.
    Received(usize, Vec<u8>),
    /// The command that reaches an agent wrote this to its error output.
    ErrorOutput(usize, Vec<u8>),
    /// An agent has closed its connection.
    Disconnected(usize),
    /// The command that reaches an agent has ended, and everything that it wrote was received.
    CommandEnded(usize, End),
    /// The launcher received a signal.
    Signal(i32),
    /// Standard input for a rank 0 on another machine; empty: the input has ended.
    Input(Vec<u8>),
    /// A client asks for a summary of the job.
    SummaryRequest(ClientId),
    /// A client asks what all ranks do.
    ReportRequest(ClientId),
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
    /// Send these bytes to an agent.
    Send(usize, Vec<u8>),
    /// Send heartbeats to an agent, which is ready to receive them.
    BeginHeartbeats(usize),
    /// Close both directions of the connection to an agent, which then ends.
    Disconnect(usize),
    /// Kill the command that reaches an agent, and close the connection.
    KillCommand(usize),
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
    /// Kill all processes below this one.
    EndDescendants,
}

/// The actions that are not carried out yet.
#[derive(Debug, Default)]
pub(super) struct Actions(VecDeque<Action>);

impl Actions {
    pub(super) fn push(&mut self, action: Action) {
        self.0.push_back(action);
    }

    pub(super) fn take(&mut self) -> Option<Action> {
        self.0.pop_front()
    }

    /// Returns the buffer to which output of the launcher is appended.
    pub(super) fn output(&mut self, target: OutputStream) -> &mut Vec<u8> {
        if !matches!(self.0.back(), Some(Action::Print(last, _)) if *last == target) {
            self.0.push_back(Action::Print(target, Vec::new()));
        }
        match self.0.back_mut() {
            Some(Action::Print(_, bytes)) => bytes,
            _ => unreachable!("the last action prints"),
        }
    }
}
