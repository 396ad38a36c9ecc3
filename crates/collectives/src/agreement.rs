//! Agreement among processes any of which may fail.
//!
//! The members of a communicator agree, once and again, on one [`Decision`], made of what each of
//! them contributes. All that decide decide the same, also those that fail afterwards; and
//! everybody that lives on decides, whoever fails and when. It takes a failure detector that is
//! never wrong: who is said to have failed sends nothing any more, and who has failed is
//! noticed some day.
//!
//! The member with the lowest number that lives is the coordinator; its number names the round.
//!
//! ```text
//! member                                   coordinator
//!   begin ── Report(contribution) ───────────▶ as soon as all that live have reported:
//!                                              what one of them accepted in the latest round,
//!                                              or else the contributions taken together
//!   accept ◀───────────────── Propose(decision)
//!          ── Accept ────────────────────────▶ as soon as all that live have accepted
//!   decide ◀───────────────── Decided(decision)
//! ```
//!
//! Where the coordinator fails, the next one begins the next round: it asks (`Ask`) those that it
//! has no report of. Who reports in a round accepts nothing of an earlier one any more, so a
//! decision that anybody can have made is known to all that live, and the next coordinator
//! finds it. A member that has decided tells those who do not know it, also later: no member is
//! more than one agreement ahead of another, so the last two decisions are all that
//! anybody can ask for.

mod message;
mod set;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

pub use message::{AgreementMessage, MessageContent};
pub use set::MemberSet;

/// What one member brings into an agreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contribution {
    /// They are combined bit by bit, with "and".
    pub flags: [i32; 2],
    /// The members whose failure the program of this one has acknowledged.
    pub acknowledged: MemberSet,
    /// That of the first member that contributes is decided for.
    pub candidate: u64,
}

/// What the members agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The flags of all that contributed.
    pub flags: [i32; 2],
    /// The members that failed before they contributed.
    pub absent: MemberSet,
    /// These, and all others whose failure anybody knew of.
    pub failed: MemberSet,
    /// The members whose failure everybody that contributed had acknowledged.
    pub acknowledged: MemberSet,
    /// The candidate of the first member that contributed.
    pub candidate: u64,
}

impl Decision {
    /// Whether a member has failed whose failure not everybody had acknowledged.
    pub fn tells_failure(&self) -> bool {
        !self.absent.is_subset_of(&self.acknowledged)
    }
}

/// One member's part in the agreements of a communicator.
///
/// Call [`begin`](Self::begin) when the decision of the agreement before is known,
/// [`handle_message`](Self::handle_message) and [`handle_failure`](Self::handle_failure) at any
/// time; after each of these hand out what [`next_message`](Self::next_message) gives, to the
/// members that live. [`decision`](Self::decision) tells how an agreement ended.
#[derive(Debug)]
pub struct Agreement {
    own: u32,
    failed: MemberSet,
    /// How many agreements this member has begun: the number of the last one.
    begun: u32,
    /// The last one, if it is not decided.
    current: Option<AgreementRound>,
    /// The last decisions with their numbers.
    decided: VecDeque<(u32, Decision)>,
    /// What came of the next agreement.
    early: Vec<(u32, AgreementMessage)>,
    outbox: VecDeque<(u32, AgreementMessage)>,
}

/// How far an agreement is.
#[derive(Debug)]
struct AgreementRound {
    contribution: Contribution,
    /// Nothing of an earlier round is accepted any more.
    promised: u32,
    /// What was accepted, and in which round.
    accepted: Option<(u32, Decision)>,
    /// The coordinator that was told the contribution last.
    reported_to: Option<u32>,
    /// Of the coordinator: what it was told, by member, whom it asked, and who has accepted what it
    /// proposes.
    reports: Vec<Option<MemberReport>>,
    asked: MemberSet,
    accepts: Option<MemberSet>,
}

/// What a coordinator is told.
#[derive(Clone, Debug)]
struct MemberReport {
    contribution: Contribution,
    accepted: Option<(u32, Decision)>,
}

/// So many decisions are kept.
const DECISIONS_KEPT: usize = 2;

impl Agreement {
    /// The part of member `own` of `size`.
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

    /// Begins the next agreement; its number.
    ///
    /// # Panics
    /// If the one before is not decided.
    pub fn begin(&mut self, contribution: Contribution) -> u32 {
        assert!(self.current.is_none(), "agreements come one after the other");
        self.begun += 1;
        let size = self.failed.size();
        self.current = Some(AgreementRound {
            contribution,
            promised: 0,
            accepted: None,
            reported_to: None,
            reports: vec![None; size as usize],
            asked: MemberSet::none(size),
            accepts: None,
        });
        // What came too early; what comes earlier still is kept once more.
        for (from, message) in std::mem::take(&mut self.early) {
            self.take(from, message);
        }
        self.go_on();
        self.begun
    }

    /// How the agreement with a number ended, if it has, and is one of the last.
    pub fn decision(&self, number: u32) -> Option<&Decision> {
        self.decided.iter().find(|(of, _)| *of == number).map(|(_, decision)| decision)
    }

    /// Whether the last agreement that was begun is not decided.
    pub fn is_underway(&self) -> bool {
        self.current.is_some()
    }

    /// The members that have failed, as far as this one knows.
    pub fn failed(&self) -> &MemberSet {
        &self.failed
    }

    /// The next message for another member, and that member.
    pub fn next_message(&mut self) -> Option<(u32, AgreementMessage)> {
        self.outbox.pop_front()
    }

    /// Learns that a member has failed.
    pub fn handle_failure(&mut self, member: u32) {
        if member != self.own && self.failed.insert(member) {
            self.go_on();
        }
    }

    /// Takes a message from another member.
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
            return self.tell_if_decided(from, number, round, &message.content);
        };
        match message.content {
            MessageContent::Ask if round >= current.promised => {
                current.reported_to = None;
                self.report(from);
            }
            MessageContent::Report { contribution, accepted } if round == self.own => {
                current.reports[from as usize] = Some(MemberReport { contribution, accepted });
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
            // Of a round that is over.
            MessageContent::Ask
            | MessageContent::Report { .. }
            | MessageContent::Propose(_)
            | MessageContent::Accept => {}
        }
    }

    /// Whoever is in an agreement that has ended here hears how.
    fn tell_if_decided(&mut self, to: u32, number: u32, round: u32, said: &MessageContent) {
        if matches!(said, MessageContent::Accept | MessageContent::Decided(_)) {
            return;
        }
        if let Some(decision) = self.decision(number).cloned() {
            let (failed, content) = (self.failed.clone(), MessageContent::Decided(decision));
            self.outbox.push_back((to, AgreementMessage { number, round, failed, content }));
        }
    }

    /// Does what can be done now.
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

    /// Tells a coordinator what this member contributes, and accepts nothing of earlier rounds any
    /// more.
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

    /// In the first round everybody reports without being asked.
    fn ask_for_reports(&mut self) {
        let others = self.living_others();
        let Some(current) = self.current.as_mut().filter(|_| self.own > 0) else { return };
        current.promised = self.own;
        let missing: Vec<u32> = others
            .into_iter()
            .filter(|&other| {
                current.reports[other as usize].is_none() && current.asked.insert(other)
            })
            .collect();
        for other in missing {
            self.send(other, self.own, MessageContent::Ask);
        }
    }

    fn propose_if_all_reported(&mut self) {
        let others = self.living_others();
        let Some(current) = &mut self.current else { return };
        if others.iter().any(|&other| current.reports[other as usize].is_none()) {
            return;
        }
        let own = MemberReport {
            contribution: current.contribution.clone(),
            accepted: current.accepted.clone(),
        };
        current.reports[self.own as usize] = Some(own);
        let decision = chosen(&current.reports, &self.failed);
        current.accepted = Some((self.own, decision.clone()));
        current.accepts = Some(MemberSet::none(self.failed.size()));
        for other in others {
            self.send(other, self.own, MessageContent::Propose(decision.clone()));
        }
    }

    fn decide_if_all_accepted(&mut self) {
        let others = self.living_others();
        let Some(current) = &self.current else { return };
        let Some(accepts) = &current.accepts else { return };
        if others.iter().all(|&other| accepts.contains(other))
            && let Some((_, decision)) = current.accepted.clone()
        {
            self.decide(decision);
        }
    }

    fn decide(&mut self, decision: Decision) {
        self.current = None;
        self.decided.push_back((self.begun, decision.clone()));
        if self.decided.len() > DECISIONS_KEPT {
            self.decided.pop_front();
        }
        // The others wait for the coordinator.
        if self.failed.first_absent() == Some(self.own) {
            for other in self.living_others() {
                self.send(other, self.own, MessageContent::Decided(decision.clone()));
            }
        }
    }

    fn living_others(&self) -> Vec<u32> {
        let is_other = |&member: &u32| member != self.own && !self.failed.contains(member);
        (0..self.failed.size()).filter(is_other).collect()
    }

    fn send(&mut self, to: u32, round: u32, content: MessageContent) {
        let (number, failed) = (self.begun, self.failed.clone());
        self.outbox.push_back((to, AgreementMessage { number, round, failed, content }));
    }
}

/// What a coordinator proposes: what was accepted in the latest round, as it may be decided, or
/// all contributions together.
fn chosen(reports: &[Option<MemberReport>], failed: &MemberSet) -> Decision {
    let told = || reports.iter().flatten();
    let accepted = told().filter_map(|report| report.accepted.as_ref());
    if let Some((_, decision)) = accepted.max_by_key(|(round, _)| *round) {
        return decision.clone();
    }
    let mut absent = MemberSet::none(failed.size());
    for (member, _) in (0..).zip(reports).filter(|(_, report)| report.is_none()) {
        absent.insert(member);
    }
    let mut all_failed = failed.clone();
    all_failed.unite(&absent);
    let contributions = || told().map(|report| &report.contribution);
    let mut acknowledged = all_failed.clone();
    contributions().for_each(|one| acknowledged.keep_only(&one.acknowledged));
    let flag = |index: usize| contributions().fold(-1, |all, one| all & one.flags[index]);
    Decision {
        flags: [flag(0), flag(1)],
        absent,
        failed: all_failed,
        acknowledged,
        candidate: contributions().next().map_or(0, |first| first.candidate),
    }
}
