//! The messages of agreements, and their encoding.

use wire::Codec;

use super::{Contribution, Decision, MemberReport, MemberSet};

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
    /// A member above requests a report.
    Ask,
    /// What the sender, and members below it, have reported.
    Report(MemberReport),
    /// The coordinator proposes this decision.
    Propose(Decision),
    /// These members have accepted the proposal.
    Accept(MemberSet),
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
            MessageContent::Ask => {}
            MessageContent::Report(report) => report.write(&mut bytes),
            MessageContent::Accept(members) => members.write(&mut bytes),
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
            1 => MessageContent::Report(MemberReport::read(rest, size)?),
            2 => MessageContent::Propose(Decision::read(rest, size)?),
            3 => MessageContent::Accept(MemberSet::read(rest, size)?),
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
            MessageContent::Report(_) => 1,
            MessageContent::Propose(_) => 2,
            MessageContent::Accept(_) => 3,
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

impl MemberReport {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.contributors.write(bytes);
        self.contribution.write(bytes);
        if let Some((round, decision)) = &self.accepted {
            round.write(bytes);
            decision.write(bytes);
        }
    }

    fn read(bytes: &mut &[u8], size: u32) -> Option<Self> {
        let contributors = MemberSet::read(bytes, size)?;
        contributors.first()?;
        let contribution = Contribution::read(bytes, size)?;
        let accepted = match bytes.is_empty() {
            true => None,
            false => Some((u32::read(bytes)?, Decision::read(bytes, size)?)),
        };
        Some(Self { contributors, contribution, accepted })
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
