//! The messages of agreements, and their encoding.

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
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.round.to_le_bytes());
        self.failed.write(&mut bytes);
        match &self.content {
            MessageContent::Ask | MessageContent::Accept => {}
            MessageContent::Report { contribution, accepted } => {
                contribution.write(&mut bytes);
                if let Some((round, decision)) = accepted {
                    bytes.extend(round.to_le_bytes());
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
        let mut rest = Rest { bytes, size };
        let [kind] = rest.take()?;
        let (number, round, failed) = (rest.word()?, rest.word()?, rest.set()?);
        let content = match kind {
            0 => MessageContent::Ask,
            1 => {
                let contribution = rest.contribution()?;
                let accepted = match rest.bytes.is_empty() {
                    true => None,
                    false => Some((rest.word()?, rest.decision()?)),
                };
                MessageContent::Report { contribution, accepted }
            }
            2 => MessageContent::Propose(rest.decision()?),
            3 => MessageContent::Accept,
            4 => MessageContent::Decided(rest.decision()?),
            _ => return None,
        };
        let is_possible = round < size && rest.bytes.is_empty();
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
        self.flags.iter().for_each(|flag| bytes.extend(flag.to_le_bytes()));
        self.acknowledged.write(bytes);
        bytes.extend(self.candidate.to_le_bytes());
    }
}

impl Decision {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.flags.iter().for_each(|flag| bytes.extend(flag.to_le_bytes()));
        [&self.absent, &self.failed, &self.acknowledged].iter().for_each(|set| set.write(bytes));
        bytes.extend(self.candidate.to_le_bytes());
    }
}

/// The rest of a message that is being decoded.
struct Rest<'a> {
    bytes: &'a [u8],
    /// The number of members.
    size: u32,
}

impl Rest<'_> {
    fn take<const COUNT: usize>(&mut self) -> Option<[u8; COUNT]> {
        let (taken, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*taken)
    }

    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn flags(&mut self) -> Option<[i32; 2]> {
        Some([self.take().map(i32::from_le_bytes)?, self.take().map(i32::from_le_bytes)?])
    }

    fn set(&mut self) -> Option<MemberSet> {
        let (taken, rest) = self.bytes.split_at_checked(MemberSet::byte_count(self.size))?;
        self.bytes = rest;
        MemberSet::read(taken, self.size)
    }

    fn contribution(&mut self) -> Option<Contribution> {
        let (flags, acknowledged) = (self.flags()?, self.set()?);
        Some(Contribution { flags, acknowledged, candidate: self.candidate()? })
    }

    fn decision(&mut self) -> Option<Decision> {
        let flags = self.flags()?;
        let (absent, failed, acknowledged) = (self.set()?, self.set()?, self.set()?);
        Some(Decision { flags, absent, failed, acknowledged, candidate: self.candidate()? })
    }

    fn candidate(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}
