//! Agreement among processes any of which may fail.
//!
//! The members of a communicator agree repeatedly on one [`Decision`], computed from the
//! contributions of all. All members that decide make an identical decision, including those that
//! fail afterwards. Every surviving member decides, whichever members fail, and whenever they do.
//! This requires a perfect failure detector: a process reported as failed sends nothing any more,
//! and every failure is detected eventually.
//!
//! The surviving member with the lowest number is the coordinator; its number is the number of the
//! round.
//!
//! ```text
//! member                                   coordinator
//!   begin ── Report(contribution) ───────────▶ as soon as all survivors have reported:
//!                                              the decision accepted in the latest round,
//!                                              or else the combined contributions
//!   accept ◀───────────────── Propose(decision)
//!          ── Accept ────────────────────────▶ as soon as all survivors have accepted
//!   decide ◀───────────────── Decided(decision)
//! ```
//!
//! If the coordinator fails, the next one begins the next round: it asks (`Ask`) the members that
//! have not reported to it. A member that reports in a round no longer accepts anything of an
//! earlier round. Therefore a decision that any member can have made is known to all survivors, and
//! the next coordinator finds it. A member that has decided sends the decision to members that do
//! not have it, also later. No member is more than one agreement ahead of another, so only the last
//! two decisions can be requested.

mod message;
mod set;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

pub use message::{AgreementMessage, MessageContent};
pub use set::MemberSet;

/// The contribution of one member to an agreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contribution {
    /// The flags of all members are combined with bitwise "and".
    pub flags: [i32; 2],
    /// The members whose failure this member's program has acknowledged.
    pub acknowledged: MemberSet,
    /// A value; the decision takes the value of the first member that contributes.
    pub candidate: u64,
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
    /// The number of the current round; messages of earlier rounds are not accepted any more.
    promised: u32,
    /// The accepted decision, and its round.
    accepted: Option<(u32, Decision)>,
    /// The coordinator to which the contribution was last reported.
    reported_to: Option<u32>,
    /// On the coordinator: the reports by member, whether it has asked for those that are missing,
    /// and the members that have accepted its proposal.
    reports: BTreeMap<u32, MemberReport>,
    has_asked: bool,
    accepts: Option<MemberSet>,
    /// On the coordinator: the members below this number have failed, or have done what it waits
    /// for: reported, later accepted. So it does not check all members at each message.
    checked: u32,
}

/// A member's report to the coordinator.
#[derive(Clone, Debug)]
struct MemberReport {
    contribution: Contribution,
    accepted: Option<(u32, Decision)>,
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
        self.current = Some(AgreementRound {
            contribution,
            promised: 0,
            accepted: None,
            reported_to: None,
            reports: BTreeMap::new(),
            has_asked: false,
            accepts: None,
            checked: 0,
        });
        // Messages that arrived early; messages of even later agreements are kept again.
        for (from, message) in std::mem::take(&mut self.early) {
            self.take(from, message);
        }
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
            self.go_on();
        }
    }

    /// Handles a message from another member.
    pub fn handle_message(&mut self, from: u32, message: AgreementMessage) {
        let own_failed = message.failed.contains(self.own);
        if from == self.own || own_failed || message.failed.size() != self.failed.size() {
            return;
        }
        self.failed.unite(&message.failed);
        self.take(from, message);
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
        match message.content {
            MessageContent::Ask if round >= current.promised => {
                current.reported_to = None;
                self.report(from);
            }
            MessageContent::Report { contribution, accepted } if round == self.own => {
                current.reports.insert(from, MemberReport { contribution, accepted });
            }
            MessageContent::Propose(decision) if round >= current.promised => {
                current.promised = round;
                current.accepted = Some((round, decision));
                self.send(from, round, MessageContent::Accept);
            }
            MessageContent::Accept if round == self.own => {
                if let Some(accepts) = &mut current.accepts {
                    accepts.insert(from);
                }
            }
            MessageContent::Decided(decision) => self.decide(decision),
            // A message of an earlier round.
            MessageContent::Ask
            | MessageContent::Report { .. }
            | MessageContent::Propose(_)
            | MessageContent::Accept => {}
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
        if matches!(message_content, MessageContent::Accept | MessageContent::Decided(_)) {
            return;
        }
        if let Some(decision) = self.decision(number).cloned() {
            let (failed, content) = (self.failed.clone(), MessageContent::Decided(decision));
            self.outbox.push_back((to, AgreementMessage { number, round, failed, content }));
        }
    }

    /// Takes all steps that are possible now.
    fn go_on(&mut self) {
        let Some(current) = &self.current else { return };
        let coordinator = self.failed.first_absent().unwrap_or(self.own);
        if coordinator != self.own {
            if current.reported_to != Some(coordinator) && coordinator >= current.promised {
                self.report(coordinator);
            }
            return;
        }
        if current.accepts.is_none() {
            self.ask_for_reports();
            self.propose_if_all_reported();
        }
        self.decide_if_all_accepted();
    }

    /// Reports this member's contribution to a coordinator. The member accepts nothing of earlier
    /// rounds any more.
    fn report(&mut self, coordinator: u32) {
        let Some(current) = &mut self.current else { return };
        if current.reported_to == Some(coordinator) {
            return;
        }
        current.promised = coordinator;
        current.reported_to = Some(coordinator);
        let (contribution, accepted) = (current.contribution.clone(), current.accepted.clone());
        self.send(coordinator, coordinator, MessageContent::Report { contribution, accepted });
    }

    /// Asks the members whose reports are missing. In the first round all report without being
    /// asked.
    fn ask_for_reports(&mut self) {
        let Some(current) = self.current.as_mut().filter(|_| self.own > 0) else { return };
        current.promised = self.own;
        if std::mem::replace(&mut current.has_asked, true) {
            return;
        }
        let reports = &current.reports;
        let has_not_reported = |other: &u32| *other != self.own && !reports.contains_key(other);
        let missing: Vec<u32> = self.failed.absent_from(0).filter(has_not_reported).collect();
        for other in missing {
            self.send(other, self.own, MessageContent::Ask);
        }
    }

    fn propose_if_all_reported(&mut self) {
        let Some(current) = &mut self.current else { return };
        let reports = &current.reports;
        let is_missing = |other: &u32| *other != self.own && !reports.contains_key(other);
        if let Some(missing) = self.failed.absent_from(current.checked).find(is_missing) {
            current.checked = missing;
            return;
        }
        let own = MemberReport {
            contribution: current.contribution.clone(),
            accepted: current.accepted.clone(),
        };
        current.reports.insert(self.own, own);
        let decision = chosen(&current.reports, &self.failed);
        current.accepted = Some((self.own, decision.clone()));
        current.accepts = Some(MemberSet::none(self.failed.size()));
        current.checked = 0;
        for other in self.living_others() {
            self.send(other, self.own, MessageContent::Propose(decision.clone()));
        }
    }

    fn decide_if_all_accepted(&mut self) {
        let Some(current) = &mut self.current else { return };
        let Some(accepts) = &current.accepts else { return };
        let is_missing = |other: &u32| *other != self.own && !accepts.contains(*other);
        if let Some(missing) = self.failed.absent_from(current.checked).find(is_missing) {
            current.checked = missing;
        } else if let Some((_, decision)) = current.accepted.clone() {
            self.decide(decision);
        }
    }

    fn decide(&mut self, decision: Decision) {
        self.current = None;
        self.decided.push_back((self.begun, decision.clone()));
        if self.decided.len() > DECISIONS_KEPT {
            self.decided.pop_front();
        }
        // The other members wait for the coordinator's message.
        if self.failed.first_absent() == Some(self.own) {
            for other in self.living_others() {
                self.send(other, self.own, MessageContent::Decided(decision.clone()));
            }
        }
    }

    fn living_others(&self) -> Vec<u32> {
        self.failed.absent_from(0).filter(|member| *member != self.own).collect()
    }

    fn send(&mut self, to: u32, round: u32, content: MessageContent) {
        let (number, failed) = (self.begun, self.failed.clone());
        self.outbox.push_back((to, AgreementMessage { number, round, failed, content }));
    }
}

/// Returns the proposal of a coordinator: the decision accepted in the latest round, which may be
/// decided already, or the combined contributions.
fn chosen(reports: &BTreeMap<u32, MemberReport>, failed: &MemberSet) -> Decision {
    let accepted = reports.values().filter_map(|report| report.accepted.as_ref());
    if let Some((_, decision)) = accepted.max_by_key(|(round, _)| *round) {
        return decision.clone();
    }
    let mut absent = MemberSet::none(failed.size());
    // All that live have reported.
    failed.iter().filter(|member| !reports.contains_key(member)).for_each(|member| {
        absent.insert(member);
    });
    let contributions = || reports.values().map(|report| &report.contribution);
    let mut acknowledged = failed.clone();
    contributions().for_each(|one| acknowledged.keep_only(&one.acknowledged));
    let flag = |index: usize| contributions().fold(-1, |all, one| all & one.flags[index]);
    Decision {
        flags: [flag(0), flag(1)],
        absent,
        failed: failed.clone(),
        acknowledged,
        candidate: contributions().next().map_or(0, |first| first.candidate),
    }
}
