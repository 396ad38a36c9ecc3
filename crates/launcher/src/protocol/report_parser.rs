//! The launcher's side of the protocol with one agent: bytes in, reports out; no I/O.

use super::{AgentReport, GREETING, OUTPUT_BYTES_MAX, VERSION, fields, fields::Frames};

/// How far the agent has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AgentState {
    /// It has sent nothing yet; others may have.
    Connecting,
    /// It has told its version.
    Greeted,
    /// Its processes run or have run.
    Started,
    /// It has started none and will send no more.
    Failed,
}

/// What one agent has sent.
#[derive(Debug)]
pub(crate) struct ReportParser {
    stage: AgentState,
    frames: Frames,
    /// The ranks on its machine, and for each whether it has ended.
    ranks: Vec<(u32, bool)>,
}

/// How much may stand before the agent's first line.
const FOREIGN_BYTES_MAX: usize = 64 << 10;

/// An agent does not send more at once.
const REPORTED_BYTES_MAX: usize = OUTPUT_BYTES_MAX as usize;

impl ReportParser {
    /// With an agent on whose machine these ranks run, in ascending order.
    pub(crate) fn new(ranks: &[u32]) -> Self {
        let ranks = ranks.iter().map(|&rank| (rank, false)).collect();
        Self { stage: AgentState::Connecting, frames: Frames::default(), ranks }
    }

    /// Whether the agent is there and can take orders.
    pub(crate) fn has_greeted(&self) -> bool {
        self.stage != AgentState::Connecting
    }

    /// Whether all has been started that shall be.
    pub(crate) fn has_started(&self) -> bool {
        self.stage == AgentState::Started
    }

    /// What was printed in the agent's place, if it has not come.
    pub(crate) fn foreign_output(&self) -> &[u8] {
        if self.has_greeted() { &[] } else { self.frames.rest() }
    }

    /// Takes bytes, and appends the reports that are whole now.
    ///
    /// # Errors
    /// A text for people: what came makes no sense. Nothing that follows would.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<AgentReport>,
    ) -> Result<(), String> {
        self.frames.push(bytes);
        if self.stage == AgentState::Connecting && !self.find_greeting()? {
            return Ok(());
        }
        while let Some(frame) = self.frames.take()? {
            let report =
                fields::parse(frame, AgentReport::parse).ok_or("what it sends is no report")?;
            self.check(&report)?;
            out.push(report);
        }
        Ok(())
    }

    /// Whether the agent's first line has come whole.
    fn find_greeting(&mut self) -> Result<bool, String> {
        let bytes = self.frames.rest();
        let start = bytes.windows(GREETING.len()).position(|w| w == GREETING.as_bytes());
        let line = start.and_then(|start| {
            let rest = &bytes[start + GREETING.len()..];
            let length = rest.iter().position(|byte| *byte == b'\n')?;
            let text = String::from_utf8_lossy(&rest[..length]).into_owned();
            Some((text, start + GREETING.len() + length + 1))
        });
        let Some((line, end)) = line else {
            if bytes.len() > FOREIGN_BYTES_MAX {
                return Err("something else than Combray's agent was started there".to_owned());
            }
            return Ok(false);
        };
        let (version, release) = line.split_once(' ').unwrap_or((&line, "unknown"));
        if version.parse() != Ok(VERSION) {
            return Err(format!(
                "Combray is there in version {release}, here in version {}, which cannot talk to \
                 each other; install the same on all hosts",
                env!("CARGO_PKG_VERSION")
            ));
        }
        self.frames.skip(end);
        self.stage = AgentState::Greeted;
        Ok(true)
    }

    fn check(&mut self, report: &AgentReport) -> Result<(), String> {
        let stage = self.stage;
        let position = |rank: &u32| self.ranks.binary_search_by_key(rank, |known| known.0).ok();
        let makes_sense = match (report, stage) {
            (AgentReport::Started(processes), AgentState::Greeted) => {
                self.stage = AgentState::Started;
                processes.len() == self.ranks.len() && processes.iter().all(|&process| process > 1)
            }
            (AgentReport::StartFailed(_), AgentState::Greeted) => {
                self.stage = AgentState::Failed;
                true
            }
            (AgentReport::Output(rank, _, bytes), AgentState::Started) => {
                position(rank).is_some() && bytes.len() <= REPORTED_BYTES_MAX
            }
            (
                AgentReport::PmiData(rank, _)
                | AgentReport::PmiClosed(rank)
                | AgentReport::OutputClosed(rank, _)
                | AgentReport::Answer(rank, _),
                AgentState::Started,
            ) => position(rank).is_some(),
            (AgentReport::Ended(rank, _), AgentState::Started) => position(rank)
                .is_some_and(|index| !std::mem::replace(&mut self.ranks[index].1, true)),
            (AgentReport::InputTaken(_), AgentState::Started) => true,
            (AgentReport::Heartbeat, AgentState::Greeted | AgentState::Started) => true,
            _ => false,
        };
        if makes_sense {
            Ok(())
        } else {
            Err(format!("what it sends makes no sense now: {report:?}"))
        }
    }
}
