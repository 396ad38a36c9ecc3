//! Agreement among processes any of which may fail.
//!
//! The members of a communicator agree repeatedly on one [`Decision`], computed from the
//! contributions of all. All members that decide make an identical decision, including those that
//! fail afterwards. Every surviving member decides, whichever members fail, and whenever they do.
//! This requires a perfect failure detector: a process reported as failed sends nothing any more,
//! and every failure is detected eventually.
//!
//! The surviving member with the lowest number is the coordinator; its number is the number of the
//! round. Messages travel along a tree (`tree.rs`), so that each member exchanges messages with a
//! logarithmic number of others. Each phase is one way through the tree:
//!
//! ```text
//! members below             a member                    members above, up to the coordinator
//!   Report ───────────────────▶ combined with its own,
//!                               when all below have reported
//!                                 Report ───────────────▶ the coordinator chooses: the decision
//!                                                         accepted in the latest round, or else
//!                                                         the combined contributions
//!   Propose ◀────────────────── accepts ◀──────────────── Propose(decision)
//!   Accept ───────────────────▶ when all below have accepted
//!                                 Accept ───────────────▶ the coordinator decides
//!   Decided ◀────────────────── decides ◀──────────────── Decided(decision)
//! ```
//!
//! Reports and acceptances name the members for which they stand. A member whose parent in the tree
//! fails repeats them to the next living member above, so they may arrive twice, along two ways;
//! combining them twice changes nothing. A member that adopts others after a failure asks them
//! (`Ask`), which also informs them of the failure.
//!
//! If the coordinator fails, the next one begins the next round. A member enters it when it learns
//! of the failure, and then no longer accepts anything of an earlier round. Its report contains
//! what it has accepted before. Therefore a decision that any member can have made is known to all
//! survivors, and the next coordinator finds it. A member that has decided sends the decision to
//! members that ask it, also later. No member is more than one agreement ahead of another, so only
//! the last two decisions can be requested.

mod message;
mod set;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::VecDeque;

pub use message::{AgreementMessage, MessageContent};
pub use set::MemberSet;

/// The contribution of one member to an agreement, or the combined contributions of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contribution {
    /// The flags of all members are combined with bitwise "and".
    pub flags: [i32; 2],
    /// The members whose failure this member's program has acknowledged; of several members: those
    /// whose failure all have acknowledged.
    pub acknowledged: MemberSet,
    /// A value; the decision takes the value of the first member that contributes.
    pub candidate: u64,
}

/// What some members have reported: their contributions, and what they have accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberReport {
    /// The members that have reported; at least one.
    pub contributors: MemberSet,
    /// Their contributions.
    pub contribution: Contribution,
    /// Of the decisions that they have accepted: that of the latest round, with this round.
    pub accepted: Option<(u32, Decision)>,
}

/// The result of an agreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The combined flags of all members that contributed.
    pub flags: [i32; 2],
    /// The members that failed before they contributed.
    pub absent: MemberSet,
    /// The absent members, and all others whose failure any member knew of.
    pub failed: MemberSet,
    /// The members whose failure all contributing members had acknowledged.
    pub acknowledged: MemberSet,
    /// The candidate of the first member that contributed.
    pub candidate: u64,
}

impl Decision {
    /// Whether a member failed before it contributed, and not all members had acknowledged that
    /// failure.
    pub fn reports_failure(&self) -> bool {
        !self.absent.is_subset_of(&self.acknowledged)
    }
}

/// One member's part in the agreements of a communicator.
///
/// Call [`begin`](Self::begin) when the previous agreement is decided. Call
/// [`handle_message`](Self::handle_message) and [`handle_failure`](Self::handle_failure) at any
/// time. After each of these, send the messages that [`next_message`](Self::next_message) returns
/// to the surviving members. [`decision`](Self::decision) returns the result of an agreement.
#[derive(Debug)]
pub struct Agreement {
    own: u32,
    failed: MemberSet,
    /// The number of agreements that this member has begun, which is the number of the last one.
    begun: u32,
    /// The last agreement, if it is not decided.
    current: Option<AgreementRound>,
    /// The last decisions, each with the number of its agreement.
    decided: VecDeque<(u32, Decision)>,
    /// Messages of the next agreement that arrived early.
    early: Vec<(u32, AgreementMessage)>,
    outbox: VecDeque<(u32, AgreementMessage)>,
}

/// The state of an agreement.
#[derive(Debug)]
struct AgreementRound {
    contribution: Contribution,
    /// The accepted decision, and its round.
    accepted: Option<(u32, Decision)>,
    /// The number of the current round; messages of earlier rounds are not accepted any more.
    number: u32,
    /// The report of this member and of those below it that have reported.
    report: MemberReport,
    /// The member above to which this report was sent.
    reported_to: Option<u32>,
    /// The members, of these, that have accepted the proposal of this round.
    accepts: MemberSet,
    /// The member above to which the acceptance was sent.
    accepted_to: Option<u32>,
    /// The members directly below that need no question, because they have had one or will report
    /// without.
    addressed: MemberSet,
}

/// The number of decisions that are kept.
const DECISIONS_KEPT: usize = 2;

impl Agreement {
    /// Makes the part of member `own` of `size`.
    pub fn new(own: u32, size: u32) -> Self {
        Self {
            own,
            failed: MemberSet::none(size),
            begun: 0,
            current: None,
            decided: VecDeque::new(),
            early: Vec::new(),
            outbox: VecDeque::new(),
        }
    }

    /// Begins the next agreement. Returns its number.
    ///
    /// # Panics
    /// If the previous agreement is not decided.
    pub fn begin(&mut self, contribution: Contribution) -> u32 {
        assert!(self.current.is_none(), "agreements come one after the other");
        self.begun += 1;
        // In the first round all report without being asked.
        let mut addressed = MemberSet::none(self.failed.size());
        self.children(self.own).for_each(|child| {
            addressed.insert(child);
        });
        let mut current = AgreementRound::new(self.own, contribution, self.failed.size());
        current.addressed = addressed;
        self.current = Some(current);
        self.enter_round();
        // Messages that arrived early; messages of even later agreements are kept again.
        for (from, message) in std::mem::take(&mut self.early) {
            self.take(from, message);
        }
        self.ask_below();
        self.go_on();
        self.begun
    }

    /// Returns the decision of the agreement with this number, if it is decided and one of the
    /// last.
    pub fn decision(&self, number: u32) -> Option<&Decision> {
        self.decided.iter().find(|(of, _)| *of == number).map(|(_, decision)| decision)
    }

    /// Whether the last agreement that was begun is not decided.
    pub fn is_underway(&self) -> bool {
        self.current.is_some()
    }

    /// Returns the members that have failed, as far as this member knows.
    pub fn failed(&self) -> &MemberSet {
        &self.failed
    }

    /// Returns the next message to send, with the member that receives it.
    pub fn next_message(&mut self) -> Option<(u32, AgreementMessage)> {
        self.outbox.pop_front()
    }

    /// Handles the failure of a member.
    pub fn handle_failure(&mut self, member: u32) {
        if member != self.own && self.failed.insert(member) {
            self.enter_round();
            self.ask_below();
            self.go_on();
        }
    }

    /// Handles a message from another member.
    pub fn handle_message(&mut self, from: u32, message: AgreementMessage) {
        let own_failed = message.failed.contains(self.own);
        if from == self.own || own_failed || message.failed.size() != self.failed.size() {
            return;
        }
        let is_news = !message.failed.is_subset_of(&self.failed);
        if is_news {
            self.failed.unite(&message.failed);
            self.enter_round();
        }
        self.take(from, message);
        if is_news {
            self.ask_below();
        }
        self.go_on();
    }

    fn take(&mut self, from: u32, message: AgreementMessage) {
        let AgreementMessage { number, round, .. } = message;
        if number > self.begun {
            self.early.push((from, message));
            return;
        }
        let Some(current) = self.current.as_mut().filter(|_| number == self.begun) else {
            return self.report_if_decided(from, number, round, &message.content);
        };
        if let MessageContent::Decided(decision) = message.content {
            return self.decide(from, decision);
        }
        // The sender of a message of an earlier round will learn of the current one. The failures
        // of a message of a later round were noted, so this member is in that round now.
        if round != current.number {
            return;
        }
        match message.content {
            MessageContent::Report(report) => {
                let is_behind = report.accepted_in(round).is_none();
                current.report.combine(&report);
                // The sender's former parent has failed after this member accepted.
                if let Some(decision) = current.accepted_now().filter(|_| is_behind).cloned() {
                    self.send(from, round, MessageContent::Propose(decision));
                }
            }
            MessageContent::Propose(decision) => self.accept(decision),
            MessageContent::Accept(members) => current.accepts.unite(&members),
            // The question has informed this member of the round.
            MessageContent::Ask | MessageContent::Decided(_) => {}
        }
    }

    /// Sends the decision to a member that still takes part in an agreement decided here.
    fn report_if_decided(
        &mut self,
        to: u32,
        number: u32,
        round: u32,
        message_content: &MessageContent,
    ) {
        if matches!(message_content, MessageContent::Accept(_) | MessageContent::Decided(_)) {
            return;
        }
        if let Some(decision) = self.decision(number).cloned() {
            let (failed, content) = (self.failed.clone(), MessageContent::Decided(decision));
            self.outbox.push_back((to, AgreementMessage { number, round, failed, content }));
        }
    }

    /// Enters the round of the surviving member with the lowest number, if it is a later one.
    fn enter_round(&mut self) {
        let coordinator = self.coordinator();
        if let Some(current) = self.current.as_mut().filter(|one| one.number < coordinator) {
            let contribution = current.contribution.clone();
            let mut next = AgreementRound::new(self.own, contribution, self.failed.size());
            next.number = coordinator;
            next.accepted = current.accepted.take();
            next.report.accepted.clone_from(&next.accepted);
            self.current = Some(next);
        }
    }

    /// Asks the members directly below this one that may not know that they are.
    fn ask_below(&mut self) {
        if self.current.is_none() {
            return;
        }
        let below = self.directly_below();
        let Some(current) = &mut self.current else { return };
        let (round, proposal) = (current.number, current.accepted_now().cloned());
        let (addressed, reported) = (&mut current.addressed, &current.report.contributors);
        let must_ask = |member: &u32| {
            addressed.insert(*member) && (proposal.is_some() || !reported.contains(*member))
        };
        let asked: Vec<u32> = below.into_iter().filter(must_ask).collect();
        for member in asked {
            let content = proposal.clone().map_or(MessageContent::Ask, MessageContent::Propose);
            self.send(member, round, content);
        }
    }

    /// Takes all steps that are possible now.
    fn go_on(&mut self) {
        let (own, above, range) = (self.own, self.above(), self.range());
        let Some(current) = &mut self.current else { return };
        let round = current.number;
        let is_whole =
            |set: &MemberSet| set.first_in_neither(&self.failed, range.clone()).is_none();
        if is_whole(&current.report.contributors) {
            if own == round && current.accepted_now().is_none() {
                let decision = chosen(&current.report, &self.failed);
                return self.propose(decision);
            }
            if own != round && current.reported_to.replace(above) != Some(above) {
                let report = current.report.clone();
                self.send(above, round, MessageContent::Report(report));
            }
        }
        let Some(current) = &mut self.current else { return };
        let Some(decision) = current.accepted_now().cloned() else { return };
        let is_whole =
            |set: &MemberSet| set.first_in_neither(&self.failed, range.clone()).is_none();
        if !is_whole(&current.accepts) {
            return;
        }
        if own == round {
            self.decide(own, decision);
        } else if current.accepted_to.replace(above) != Some(above) {
            let accepts = current.accepts.clone();
            self.send(above, round, MessageContent::Accept(accepts));
        }
    }

    /// On the coordinator: proposes a decision.
    fn propose(&mut self, decision: Decision) {
        self.accept(decision);
        // A coordinator without others decides now.
        self.go_on();
    }

    /// Accepts the proposal of the current round, unless that is done, and passes it on.
    fn accept(&mut self, decision: Decision) {
        let Some(current) = self.current.as_mut().filter(|one| one.accepted_now().is_none()) else {
            return;
        };
        let round = current.number;
        current.accepted = Some((round, decision.clone()));
        current.report.accepted.clone_from(&current.accepted);
        current.accepts.insert(self.own);
        let below = self.directly_below();
        for member in below {
            if let Some(current) = &mut self.current {
                current.addressed.insert(member);
            }
            self.send(member, round, MessageContent::Propose(decision.clone()));
        }
    }

    /// Decides, after the decision was received from another member or made by this one.
    fn decide(&mut self, from: u32, decision: Decision) {
        let Some(current) = self.current.take() else { return };
        let mut others = self.directly_below();
        // The member above may be in a later round than the sender, and wait for a report.
        let above = self.above();
        if above != from && above != self.own {
            others.push(above);
        }
        for member in others {
            self.send(member, current.number, MessageContent::Decided(decision.clone()));
        }
        self.decided.push_back((self.begun, decision));
        if self.decided.len() > DECISIONS_KEPT {
            self.decided.pop_front();
        }
    }

    fn send(&mut self, to: u32, round: u32, content: MessageContent) {
        let (number, failed) = (self.begun, self.failed.clone());
        self.outbox.push_back((to, AgreementMessage { number, round, failed, content }));
    }
}

impl AgreementRound {
    /// Makes round 0 of a member, in which nobody below it has reported.
    fn new(own: u32, contribution: Contribution, size: u32) -> Self {
        let mut contributors = MemberSet::none(size);
        contributors.insert(own);
        let report =
            MemberReport { contributors, contribution: contribution.clone(), accepted: None };
        Self {
            contribution,
            accepted: None,
            number: 0,
            report,
            reported_to: None,
            accepts: MemberSet::none(size),
            accepted_to: None,
            addressed: MemberSet::none(size),
        }
    }

    /// Returns the proposal of this round, if this member has accepted it.
    fn accepted_now(&self) -> Option<&Decision> {
        accepted_in(&self.accepted, self.number)
    }
}

impl MemberReport {
    /// Returns the decision that was accepted in this round, if one was.
    fn accepted_in(&self, round: u32) -> Option<&Decision> {
        accepted_in(&self.accepted, round)
    }

    /// Adds what other members have reported, of which some may be in this report already.
    fn combine(&mut self, other: &Self) {
        if other.contributors.first() < self.contributors.first() {
            self.contribution.candidate = other.contribution.candidate;
        }
        let (own, added) = (&mut self.contribution, &other.contribution);
        (0..2).for_each(|index| own.flags[index] &= added.flags[index]);
        own.acknowledged.keep_only(&added.acknowledged);
        self.contributors.unite(&other.contributors);
        let round = |accepted: &Option<(u32, Decision)>| accepted.as_ref().map(|(round, _)| *round);
        if round(&other.accepted) > round(&self.accepted) {
            self.accepted.clone_from(&other.accepted);
        }
    }
}

fn accepted_in(accepted: &Option<(u32, Decision)>, round: u32) -> Option<&Decision> {
    accepted.as_ref().filter(|(of, _)| *of == round).map(|(_, decision)| decision)
}

/// Returns the proposal of a coordinator: the decision accepted in the latest round, which may be
/// decided already, or the combined contributions. All survivors have reported.
fn chosen(report: &MemberReport, failed: &MemberSet) -> Decision {
    if let Some((_, decision)) = &report.accepted {
        return decision.clone();
    }
    let mut absent = MemberSet::none(failed.size());
    failed.iter().filter(|member| !report.contributors.contains(*member)).for_each(|member| {
        absent.insert(member);
    });
    let mut acknowledged = failed.clone();
    acknowledged.keep_only(&report.contribution.acknowledged);
    Decision {
        flags: report.contribution.flags,
        absent,
        failed: failed.clone(),
        acknowledged,
        candidate: report.contribution.candidate,
    }
}
