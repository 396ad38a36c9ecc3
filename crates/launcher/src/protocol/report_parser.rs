//! The launcher's side of the protocol with one agent: bytes in, reports out; no I/O.

use super::rules::{AgentState, ReportRules};
use super::{AgentReport, GREETING, VERSION, fields, fields::Frames};

/// What one agent has sent.
#[derive(Debug)]
pub(crate) struct ReportParser {
    frames: Frames,
    rules: ReportRules,
}

/// How much may stand before the agent's first line.
const FOREIGN_BYTES_MAX: usize = 64 << 10;

impl ReportParser {
    /// With an agent on whose machine these ranks run, in ascending order.
    pub(crate) fn new(ranks: &[u32]) -> Self {
        Self { frames: Frames::default(), rules: ReportRules::new(ranks.iter().copied()) }
    }

    /// Whether the agent is there and can take orders.
    pub(crate) fn has_greeted(&self) -> bool {
        self.rules.state() != AgentState::Connecting
    }

    /// Whether all has been started that shall be.
    pub(crate) fn has_started(&self) -> bool {
        self.rules.state() == AgentState::Started
    }

    /// What was printed in the agent's place, if it has not come.
    pub(crate) fn foreign_output(&self) -> &[u8] {
        if self.has_greeted() { &[] } else { self.frames.rest() }
    }

    /// Takes bytes, and appends the reports that are whole now.
    ///
    /// # Errors
    /// A text for people: what came is no report, or one that may not be sent now. Nothing that
    /// follows makes sense.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<AgentReport>,
    ) -> Result<(), String> {
        self.frames.push(bytes);
        if !self.has_greeted() && !self.find_greeting()? {
            return Ok(());
        }
        while let Some(frame) = self.frames.take()? {
            let report =
                fields::parse(frame, AgentReport::parse).ok_or("what it sends is no report")?;
            self.rules.follow(&report)?;
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
        self.rules.greet();
        Ok(true)
    }
}
