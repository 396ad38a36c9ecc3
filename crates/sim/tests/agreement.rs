//! Members agree while any of them fail, at any message. All members that decide make one decision,
//! which consists of what was contributed, and every surviving member decides.

use std::collections::{BTreeMap, VecDeque};

use collectives::agreement::{Agreement, AgreementMessage, Contribution, Decision, MemberSet};
use fastrand::Rng;

/// Members that agree several times in succession.
struct World {
    members: Vec<Agreement>,
    alive: Vec<bool>,
    /// Whether each member has noticed the failure of each other.
    noticed: Vec<Vec<bool>>,
    /// The messages in transit, by sender and receiver.
    links: BTreeMap<(usize, usize), VecDeque<Vec<u8>>>,
    /// How many agreements each member has begun, and how many there are.
    begun: Vec<u32>,
    agreements: u32,
    /// The contributions and decisions, by agreement and member.
    contributed: BTreeMap<(u32, usize), Contribution>,
    decided: BTreeMap<(u32, usize), Decision>,
}

/// A step that may happen next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Begin(usize),
    Deliver((usize, usize)),
    Notice { who: usize, failed: usize },
}

impl World {
    fn new(size: usize, agreements: u32) -> Self {
        Self {
            members: (0..size).map(|own| Agreement::new(own as u32, size as u32)).collect(),
            alive: vec![true; size],
            noticed: vec![vec![false; size]; size],
            links: BTreeMap::new(),
            begun: vec![0; size],
            agreements,
            contributed: BTreeMap::new(),
            decided: BTreeMap::new(),
        }
    }

    fn size(&self) -> usize {
        self.members.len()
    }

    fn living(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.size()).filter(|&member| self.alive[member])
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for member in self.living() {
            if !self.members[member].is_underway() && self.begun[member] < self.agreements {
                steps.push(Step::Begin(member));
            }
            let unnoticed = (0..self.size())
                .filter(|&failed| !self.alive[failed] && !self.noticed[member][failed]);
            steps.extend(unnoticed.map(|failed| Step::Notice { who: member, failed }));
        }
        let waiting =
            self.links.iter().filter(|(link, messages)| !messages.is_empty() && self.alive[link.1]);
        steps.extend(waiting.map(|(link, _)| Step::Deliver(*link)));
        steps
    }

    fn take(&mut self, step: Step) {
        let member = match step {
            Step::Begin(member) => {
                let number = self.begun[member] + 1;
                let mut acknowledged = MemberSet::none(self.size() as u32);
                // Before the last agreement, every member acknowledges the failures that it has
                // noticed.
                if number == self.agreements {
                    acknowledged.unite(self.members[member].failed());
                }
                let flags = [!(1 << member), -1 << (member + number as usize)];
                let candidate = (u64::from(number) << 32) + member as u64;
                let contribution = Contribution { flags, acknowledged, candidate };
                self.contributed.insert((number, member), contribution.clone());
                assert_eq!(self.members[member].begin(contribution), number);
                self.begun[member] = number;
                member
            }
            Step::Deliver((from, to)) => {
                let bytes = self.links.get_mut(&(from, to)).and_then(VecDeque::pop_front);
                let bytes = bytes.expect("it is underway");
                let message = AgreementMessage::from_bytes(&bytes, self.size() as u32);
                self.members[to].handle_message(from as u32, message.expect("it is well-formed"));
                to
            }
            Step::Notice { who, failed } => {
                self.noticed[who][failed] = true;
                self.members[who].handle_failure(failed as u32);
                who
            }
        };
        while let Some((to, message)) = self.members[member].next_message() {
            let link = (member, to as usize);
            self.links.entry(link).or_default().push_back(message.to_bytes());
        }
        let number = self.begun[member];
        if let Some(decision) = self.members[member].decision(number) {
            let known = self.decided.entry((number, member)).or_insert_with(|| decision.clone());
            assert_eq!(known, decision, "a decision stays");
        }
        let size = self.size();
        for failed in self.members[member].failed().iter() {
            assert!(
                (failed as usize) < size && !self.alive[failed as usize],
                "nobody is slandered"
            );
        }
    }

    /// A member fails. Of its messages to each other member, the last ones may be lost.
    fn fail(&mut self, victim: usize, mut kept: impl FnMut(usize) -> usize) {
        self.alive[victim] = false;
        for to in 0..self.size() {
            if let Some(messages) = self.links.get_mut(&(victim, to)) {
                messages.truncate(kept(messages.len()));
            }
        }
    }

    /// Checks the decisions when nothing more can happen.
    fn check(&self, what: &str) {
        for number in 1..=self.agreements {
            let of_number = || self.decided.iter().filter(|((of, _), _)| *of == number);
            for member in self.living() {
                let decided = self.decided.contains_key(&(number, member));
                assert!(decided, "{what}: member {member} waits in agreement {number}");
            }
            let Some((_, decision)) = of_number().next() else { continue };
            for ((_, member), other) in of_number() {
                assert_eq!(decision, other, "{what}: member {member} decides otherwise");
            }
            let absent = &decision.absent;
            assert!(absent.is_subset_of(&decision.failed), "{what}");
            let mut flags = [-1, -1];
            let mut first = None;
            for member in (0..self.size()).filter(|&member| !absent.contains(member as u32)) {
                let contribution = self.contributed.get(&(number, member));
                let contribution = contribution.expect("who is not absent has contributed");
                (0..2).for_each(|index| flags[index] &= contribution.flags[index]);
                first.get_or_insert(contribution.candidate);
            }
            assert_eq!((flags, first), (decision.flags, Some(decision.candidate)), "{what}");
            for member in self.living() {
                assert!(!decision.failed.contains(member as u32), "{what}: {member} lives");
            }
        }
    }
}

#[test]
fn all_survivors_decide_alike_whichever_processes_fail() {
    let seeds = if cfg!(miri) { 0..5 } else { 0..20_000 };
    let mut deaths = 0;
    for seed in seeds {
        let mut random = Rng::with_seed(seed);
        // Trees of several levels, in which members adopt those below failed ones.
        let size_max = [8, 8, 20][random.usize(0..3)];
        let size = random.usize(1..size_max);
        let mut world = World::new(size, random.u32(1..5));
        // In some runs the failures happen close together, in all phases.
        let rarity = [5, 20, 80][random.usize(0..3)];
        let mut left = random.usize(0..size);
        loop {
            let steps = world.steps();
            if left > 0 && random.u32(0..rarity) == 0 {
                let living: Vec<usize> = world.living().collect();
                let victim = living[random.usize(0..living.len())];
                world.fail(victim, |length| random.usize(0..=length));
                (left, deaths) = (left - 1, deaths + 1);
                continue;
            }
            if steps.is_empty() {
                break;
            }
            world.take(steps[random.usize(0..steps.len())]);
        }
        world.check(&format!("seed {seed}"));
    }
    assert!(cfg!(miri) || deaths > 10_000, "only {deaths} members have failed");
}

/// Every pair of members fails at every pair of moments of an ordered run, with every possible part
/// of its messages lost. This includes the coordinator and its successor.
#[test]
fn every_pair_of_deaths_at_every_message() {
    const SIZE: usize = 4;
    let mut runs = 0;
    for first in 0..SIZE {
        for second in (0..SIZE).filter(|&second| second != first) {
            for (moment, later) in
                (0..40).flat_map(|moment| (0..40).map(move |later| (moment, later)))
            {
                for lost in [0, 1, 2, usize::MAX] {
                    let mut world = World::new(SIZE, 2);
                    let kept = |length: usize| length.saturating_sub(lost);
                    for turn in 0.. {
                        if turn == moment {
                            world.fail(first, kept);
                        }
                        if turn == moment + later {
                            world.fail(second, kept);
                        }
                        let steps = world.steps();
                        let Some(step) = steps.first() else {
                            if turn > moment + later {
                                break;
                            }
                            continue;
                        };
                        world.take(*step);
                    }
                    world.check(&format!(
                        "{first} at {moment}, {second} {later} later, {lost} lost"
                    ));
                    runs += 1;
                }
            }
        }
    }
    assert_eq!(runs, 4 * 3 * 1600 * 4);
}

#[test]
fn without_failures_each_member_sends_two_messages_and_the_coordinator_two_to_each() {
    let mut world = World::new(5, 1);
    let mut sent = 0;
    while let Some(step) = world.steps().first().copied() {
        sent += usize::from(matches!(step, Step::Deliver(_)));
        world.take(step);
    }
    world.check("no failures");
    assert_eq!(sent, 4 * 4);
}
