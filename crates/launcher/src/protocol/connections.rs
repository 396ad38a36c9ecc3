//! What an inner agent of the launch tree does with the agents below it: orders that it executes
//! on a connection to one of them, events that it reports about it, and the bytes that it passes
//! on.

use std::time::Duration;

use sys::process::End;

use super::fields::{Emit, Frames, Parse};
use super::report_parser::{FOREIGN_BYTES_MAX, greeting_in};
use super::{HEARTBEAT_REPORT, emit_end, parse_end};
use crate::LaunchError;
use crate::access::{HostAccess, OwnHost};

/// How many bytes one [`ConnectionOrder::Send`] holds at most when an inner agent passes it on, so
/// that the frames around it stay short at every depth of the tree.
pub const PART_BYTES_MAX: usize = 1 << 20;

/// Something to do with the connection to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionOrder {
    /// Start the agent on its host.
    Open(AgentStart),
    /// Send these bytes to the agent.
    Send(Vec<u8>),
    /// Send heartbeats to the agent, which is ready to receive them.
    BeginHeartbeats,
    /// Close both directions of the connection to the agent, which then ends.
    Disconnect,
    /// Kill the command that reaches the agent, and close the connection.
    KillCommand,
}

/// Something that has happened to the connection to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionEvent {
    /// The agent sent these bytes.
    Received(Vec<u8>),
    /// The command that reaches the agent wrote this to its error output.
    ErrorOutput(Vec<u8>),
    /// The agent has closed its connection.
    Disconnected,
    /// The command that reaches the agent has ended, and everything that it wrote was received.
    CommandEnded(End),
    /// The agent, which runs, has sent nothing for too long.
    Silent,
}

/// How an agent is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentStart {
    /// The name of the host.
    pub host: String,
    /// The command that reaches it.
    pub access: HostAccess,
    /// After how long without received bytes either end of the connection counts as failed.
    pub timeout: Duration,
}

impl ConnectionOrder {
    /// Divides an order to send many bytes into several orders.
    pub(crate) fn into_parts(self) -> Vec<Self> {
        match self {
            Self::Send(bytes) => {
                bytes.chunks(PART_BYTES_MAX).map(|part| Self::Send(part.to_vec())).collect()
            }
            other => vec![other],
        }
    }

    pub(super) fn emit(&self, frame: &mut Vec<u8>) {
        match self {
            Self::Open(start) => {
                frame.push(0);
                frame.text(start.host.as_bytes());
                let (kind, words): (u8, &[_]) = match &start.access {
                    HostAccess::Ssh => (0, &[]),
                    HostAccess::Shell(words) => (1, words),
                    HostAccess::Srun(_) => (2, &[]),
                };
                frame.push(kind);
                frame.list(words, |frame, word| frame.os_text(word));
                frame.number(u32::try_from(start.timeout.as_millis()).unwrap_or(u32::MAX));
            }
            Self::Send(bytes) => {
                frame.push(1);
                frame.text(bytes);
            }
            Self::BeginHeartbeats => frame.push(2),
            Self::Disconnect => frame.push(3),
            Self::KillCommand => frame.push(4),
        }
    }

    pub(super) fn parse(fields: &mut Parse<'_>) -> Option<Self> {
        Some(match fields.byte()? {
            0 => {
                let host = fields.string()?;
                let kind = fields.byte()?;
                let words = fields.list(Parse::os_text)?;
                let access = match (kind, words.is_empty()) {
                    (0, true) => HostAccess::Ssh,
                    (1, false) => HostAccess::Shell(words),
                    (2, true) => HostAccess::Srun(OwnHost::Directly),
                    _ => return None,
                };
                let timeout = Duration::from_millis(fields.number()?.into());
                Self::Open(AgentStart { host, access, timeout })
            }
            1 => Self::Send(fields.text()?.to_vec()),
            2 => Self::BeginHeartbeats,
            3 => Self::Disconnect,
            4 => Self::KillCommand,
            _ => return None,
        })
    }
}

impl ConnectionEvent {
    /// Returns the events of a connection whose command cannot be started: those of a shell that
    /// does not find it.
    pub(crate) fn of_failed_start(error: &LaunchError) -> [Self; 2] {
        const NOT_FOUND: i32 = 127;
        let message = format!("{error}\n").into_bytes();
        [Self::ErrorOutput(message), Self::CommandEnded(End::Code(NOT_FOUND))]
    }

    pub(super) fn emit(&self, frame: &mut Vec<u8>) {
        match self {
            Self::Received(bytes) => {
                frame.push(0);
                frame.text(bytes);
            }
            Self::ErrorOutput(bytes) => {
                frame.push(1);
                frame.text(bytes);
            }
            Self::Disconnected => frame.push(2),
            Self::CommandEnded(end) => {
                frame.push(3);
                emit_end(frame, *end);
            }
            Self::Silent => frame.push(4),
        }
    }

    pub(super) fn parse(fields: &mut Parse<'_>) -> Option<Self> {
        Some(match fields.byte()? {
            0 => Self::Received(fields.text()?.to_vec()),
            1 => Self::ErrorOutput(fields.text()?.to_vec()),
            2 => Self::Disconnected,
            3 => Self::CommandEnded(parse_end(fields)?),
            4 => Self::Silent,
            _ => return None,
        })
    }
}

/// The bytes of an agent that the agent above it passes on towards the launcher: everything except
/// heartbeats, which are of use on one connection only.
#[derive(Debug, Default)]
pub struct ForwardedReports {
    frames: Frames,
    state: ForwardingState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ForwardingState {
    /// The agent's first line has not arrived completely.
    #[default]
    Connecting,
    /// Frames arrive.
    Greeted,
    /// The bytes make no sense, which the launcher notices and explains.
    Nonsense,
}

impl ForwardedReports {
    /// Whether the agent is running.
    pub fn has_greeted(&self) -> bool {
        self.state == ForwardingState::Greeted
    }

    /// Accepts bytes of the agent, and returns those to pass on now.
    pub fn receive(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        if self.state == ForwardingState::Nonsense {
            return bytes.to_vec();
        }
        self.frames.push(bytes);
        if self.state == ForwardingState::Connecting {
            let rest = self.frames.rest();
            let Some((_, end)) = greeting_in(rest) else {
                if rest.len() > FOREIGN_BYTES_MAX {
                    self.state = ForwardingState::Nonsense;
                }
                return bytes.to_vec();
            };
            let passed_on = rest.len() - bytes.len();
            out.extend_from_slice(&bytes[..end - passed_on]);
            self.frames.skip(end);
            self.state = ForwardingState::Greeted;
        }
        loop {
            match self.frames.take() {
                Ok(Some([HEARTBEAT_REPORT])) => {}
                Ok(Some(frame)) => out.text(frame),
                Ok(None) => return out,
                Err(_) => {
                    out.extend_from_slice(self.frames.rest());
                    self.state = ForwardingState::Nonsense;
                    return out;
                }
            }
        }
    }
}
