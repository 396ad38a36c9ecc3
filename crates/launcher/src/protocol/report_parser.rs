//! The launcher's side of the protocol with one agent: bytes in, reports out; no I/O.

use super::rules::{AgentState, ReportRules};
use super::{AgentOrder, AgentReport, GREETING, VERSION, fields, fields::Frames};

/// The parser of the bytes that one agent has sent.
#[derive(Debug)]
pub(crate) struct ReportParser {
    frames: Frames,
    rules: ReportRules,
}

/// How many bytes may precede the agent's first line.
pub(super) const FOREIGN_BYTES_MAX: usize = 64 << 10;

impl ReportParser {
    /// Creates the parser for an agent on whose machine these ranks run, in ascending order.
    pub(crate) fn new(ranks: &[u32]) -> Self {
        Self { frames: Frames::default(), rules: ReportRules::new(ranks.iter().copied()) }
    }

    /// Whether the agent is running and accepts orders.
    pub(crate) fn has_greeted(&self) -> bool {
        self.rules.state() != AgentState::Connecting
    }

    /// Whether all processes were started.
    pub(crate) fn has_started(&self) -> bool {
        self.rules.state() == AgentState::Started
    }

    /// Returns what was printed instead of the agent's first line, if that has not arrived.
    pub(crate) fn foreign_output(&self) -> &[u8] {
        if self.has_greeted() { &[] } else { self.frames.rest() }
    }

    /// Records an order that was sent to the agent, on which its later reports depend.
    pub(crate) fn note_order(&mut self, order: &AgentOrder) {
        self.rules.note_order(order);
    }

    /// Accepts bytes, and appends the reports that are complete now.
    ///
    /// # Errors
    /// A message for users: the bytes are not a report, or the report may not be sent now. The
    /// rest of the stream cannot be used.
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
            let report = fields::parse(frame, AgentReport::parse)
                .ok_or("the data from it is not a report")?;
            self.rules.follow(&report)?;
            out.push(report);
        }
        Ok(())
    }

    /// Whether the agent's first line has arrived completely.
    fn find_greeting(&mut self) -> Result<bool, String> {
        let bytes = self.frames.rest();
        let Some((line, end)) = greeting_in(bytes) else {
            if bytes.len() > FOREIGN_BYTES_MAX {
                return Err("a program other than Combray's agent was started there".to_owned());
            }
            return Ok(false);
        };
        let (version, release) = line.split_once(' ').unwrap_or((&line, "unknown"));
        if version.parse() != Ok(VERSION) {
            return Err(format!(
                "Combray is there in version {release}, here in version {}, which are \
                 incompatible; install one version on all hosts",
                env!("CARGO_PKG_VERSION")
            ));
        }
        self.frames.skip(end);
        self.rules.greet();
        Ok(true)
    }
}

/// Returns the rest of the agent's first line after [`GREETING`], and where the line ends, once it
/// is complete.
pub(super) fn greeting_in(bytes: &[u8]) -> Option<(String, usize)> {
    let start = bytes.windows(GREETING.len()).position(|w| w == GREETING.as_bytes())?;
    let rest = &bytes[start + GREETING.len()..];
    let length = rest.iter().position(|byte| *byte == b'\n')?;
    let text = String::from_utf8_lossy(&rest[..length]).into_owned();
    Some((text, start + GREETING.len() + length + 1))
}
