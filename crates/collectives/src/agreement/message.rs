//! The messages of agreements, and their encoding.

use wire::Codec;

use super::{Contribution, Decision, MemberSet};

/// A message from one member to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgreementMessage {
    /// The number of the agreement.
    pub number: u32,
    /// The number of the round, which is the coordinator's number.
    pub round: u32,
    /// The members that have failed, as far as the sender knows.
    pub failed: MemberSet,
    /// The content.
    pub content: MessageContent,
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageContent {
    /// The coordinator requests a report.
    Ask,
    /// The sender's contribution, and the decision that it has accepted, with its round.
    Report {
        /// The sender's contribution.
        contribution: Contribution,
        /// The accepted decision, and its round.
        accepted: Option<(u32, Decision)>,
    },
    /// The coordinator proposes this decision.
    Propose(Decision),
    /// The sender has accepted the proposal.
    Accept,
    /// This decision was made.
    Decided(Decision),
}

impl AgreementMessage {
    /// Encodes the message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![self.content.kind()];
        self.number.write(&mut bytes);
        self.round.write(&mut bytes);
        self.failed.write(&mut bytes);
        match &self.content {
            MessageContent::Ask | MessageContent::Accept => {}
            MessageContent::Report { contribution, accepted } => {
                contribution.write(&mut bytes);
                if let Some((round, decision)) = accepted {
                    round.write(&mut bytes);
                    decision.write(&mut bytes);
                }
            }
            MessageContent::Propose(decision) | MessageContent::Decided(decision) => {
                decision.write(&mut bytes);
            }
        }
        bytes
    }

    /// Decodes a message of an agreement among `size` members. `None` if no member writes such
    /// bytes.
    pub fn from_bytes(bytes: &[u8], size: u32) -> Option<Self> {
        let rest = &mut &*bytes;
        let kind = u8::read(rest)?;
        let (number, round) = (u32::read(rest)?, u32::read(rest)?);
        let failed = MemberSet::read(rest, size)?;
        let content = match kind {
            0 => MessageContent::Ask,
            1 => {
                let contribution = Contribution::read(rest, size)?;
                let accepted = match rest.is_empty() {
                    true => None,
                    false => Some((u32::read(rest)?, Decision::read(rest, size)?)),
                };
                MessageContent::Report { contribution, accepted }
            }
            2 => MessageContent::Propose(Decision::read(rest, size)?),
            3 => MessageContent::Accept,
            4 => MessageContent::Decided(Decision::read(rest, size)?),
            _ => return None,
        };
        let is_possible = round < size && rest.is_empty();
        is_possible.then_some(Self { number, round, failed, content })
    }
}

impl MessageContent {
    fn kind(&self) -> u8 {
        match self {
            MessageContent::Ask => 0,
            MessageContent::Report { .. } => 1,
            MessageContent::Propose(_) => 2,
            MessageContent::Accept => 3,
            MessageContent::Decided(_) => 4,
        }
    }
}

impl Contribution {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.flags.write(bytes);
        self.acknowledged.write(bytes);
        self.candidate.write(bytes);
    }

    fn read(bytes: &mut &[u8], size: u32) -> Option<Self> {
        Some(Self {
            flags: Codec::read(bytes)?,
            acknowledged: MemberSet::read(bytes, size)?,
            candidate: Codec::read(bytes)?,
        })
    }
}

impl Decision {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.flags.write(bytes);
        [&self.absent, &self.failed, &self.acknowledged].iter().for_each(|set| set.write(bytes));
        self.candidate.write(bytes);
    }

    fn read(bytes: &mut &[u8], size: u32) -> Option<Self> {
        Some(Self {
            flags: Codec::read(bytes)?,
            absent: MemberSet::read(bytes, size)?,
            failed: MemberSet::read(bytes, size)?,
            acknowledged: MemberSet::read(bytes, size)?,
            candidate: Codec::read(bytes)?,
        })
    }
}
