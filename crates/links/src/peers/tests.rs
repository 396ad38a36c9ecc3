//! Tests of the table of links to one peer over two rails.

use std::fmt;
use std::time::{Duration, Instant};

use driver::conformance::{RecordingSink, SharedCards};
use driver::{PeerLife, Probe};

use super::*;
use crate::pairs::pair_rails;
use crate::silence::{KeepAlive, Traffic};

const PEER: GateId = GateId(1);
const LIMIT: Duration = Duration::from_secs(10);

/// A network on which each process has two rails.
struct TwoRails;

struct EmptyCard;

struct TestLink {
    turn: u32,
    has_departed: bool,
    keep_alive: KeepAlive<AnsweringUntil>,
}

/// A kernel that answers probes until this time.
struct AnsweringUntil(Duration);

impl Probe for AnsweringUntil {
    fn check(&mut self, now: Duration, _: Duration) -> PeerLife {
        if now <= self.0 { PeerLife::SystemAnswers } else { PeerLife::Unknown }
    }

    fn rest(&mut self) {}
}

impl WatchedLink for TestLink {
    type Probe = AnsweringUntil;

    fn keep_alive(&mut self) -> &mut KeepAlive<AnsweringUntil> {
        &mut self.keep_alive
    }

    fn traffic(&self) -> Option<Traffic> {
        Some(Traffic::default())
    }
}

impl fmt::Display for EmptyCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("card")
    }
}

impl FromStr for EmptyCard {
    type Err = String;

    fn from_str(_: &str) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Network for TwoRails {
    type Card = EmptyCard;
    type Link = TestLink;
    type Rail = ();

    const NO_PAIR: &str = "no rails";

    fn pairs(_: &EmptyCard, _: &EmptyCard) -> Vec<RailPair> {
        pair_rails(&[0, 1], &[0, 1], |one, other| one == other)
    }

    fn interface_names(_: &EmptyCard) -> Vec<String> {
        Vec::new()
    }

    fn has_departed(link: &TestLink) -> bool {
        link.has_departed
    }
}

fn link(turn: u32) -> TestLink {
    let answers_until = AnsweringUntil(LIMIT / 2);
    TestLink { turn, has_departed: false, keep_alive: KeepAlive::of_probed(answers_until) }
}

fn met(now: Instant) -> LinkTable<TwoRails> {
    let directory = SharedCards::default();
    *directory.0.lock().unwrap() = vec![String::new(); 2];
    let mut links = LinkTable::new(GateId(0), EmptyCard, Box::new(directory), LIMIT, now);
    links.rails = vec![RailProfile::default(); 2];
    assert!(links.meet(PEER, |_, _| Ok(((), link(0)))).is_ok());
    links
}

fn lose(links: &mut LinkTable<TwoRails>, rail: usize, why: &str) {
    assert!(links.end(PEER, rail, why.to_owned()).is_some());
}

fn restore(links: &mut LinkTable<TwoRails>, rail: usize) {
    links.restore((PEER, rail), Instant::now(), |_, _, turn, ()| link(turn));
}

fn depart(links: &mut LinkTable<TwoRails>, rail: usize) {
    links.get_mut(PEER, rail).unwrap().has_departed = true;
}

#[test]
fn rails_to_a_peer_that_has_left_are_not_restored() {
    // The goodbye has arrived over the link that is lost, or over the other one.
    for rail in 0..2 {
        let mut links = met(Instant::now());
        depart(&mut links, rail);
        lose(&mut links, 0, "a test");
        restore(&mut links, 0);
        assert_eq!(links.restoring(), []);
        assert_eq!(links.next_attempt(), None);
    }
}

#[test]
fn a_peer_has_departed_once_it_has_said_goodbye_over_all_links() {
    let mut links = met(Instant::now());
    assert!(!links.has_departed(PEER));
    depart(&mut links, 0);
    assert!(!links.has_departed(PEER), "data may still arrive over the other link");
    depart(&mut links, 1);
    assert!(links.has_departed(PEER));
    let mut links = met(Instant::now());
    (0..2).for_each(|rail| lose(&mut links, rail, "a test"));
    assert!(!links.has_departed(PEER), "it may have failed");
}

#[test]
fn lost_rails_to_a_peer_are_connected_unless_it_has_left() {
    let mut links = met(Instant::now());
    lose(&mut links, 0, "a test");
    assert_eq!(links.peer(PEER).unwrap().reached_over(), [0, 1]);
    depart(&mut links, 1);
    lose(&mut links, 1, "a test");
    assert!(links.peer(PEER).unwrap().reached_over().is_empty());
}

#[test]
fn each_turn_has_its_number_and_forgets_why_the_rail_was_lost_before() {
    let mut links = met(Instant::now());
    for turn in 1..4 {
        lose(&mut links, 0, &format!("loss {turn}"));
        links.report_loss(PEER, 0);
        let mut sink = RecordingSink::default();
        assert!(links.report(&mut sink));
        assert_eq!(sink.lost, [(PEER, 0, format!("loss {turn}"))]);
        restore(&mut links, 0);
        assert_eq!(links.note_restored(PEER, 0).map(|link| link.turn), Some(turn));
        assert_eq!(links.restoring(), []);
        assert!(links.report(&mut sink));
        assert_eq!(sink.restored, [(PEER, 0)]);
    }
}

#[test]
fn nothing_is_reported_about_a_rail_that_was_given_up() {
    let mut links = met(Instant::now());
    lose(&mut links, 0, "a test");
    links.report_loss(PEER, 0);
    restore(&mut links, 0);
    links.note_restored(PEER, 0);
    links.give_up(PEER, 0);
    assert!(!links.report(&mut RecordingSink::default()));
}

/// The kernel of the peer's machine answers for half the limit. It is probed after 500 ms, to learn
/// whether it answers at all, and again once the link has been silent for a quarter of the limit.
#[test]
fn time_in_which_the_kernel_of_the_peer_answers_is_no_silence() {
    let began = Instant::now();
    let mut links = met(began);
    links.give_up(PEER, 1);
    let is_lost = |(_, check): &(LinkName, LinkCheck)| matches!(check, LinkCheck::Lost(_));
    let times = (1..100_u64).map(|count| Duration::from_millis(500 * count));
    let lost_after = times
        .into_iter()
        .find(|after| links.check_links(Arrivals::Processed, began + *after).iter().any(is_lost));
    assert_eq!(lost_after, Some(Duration::from_secs(13)));
}
