//! The peers of a driver, and the life of its links to them.
//!
//! A link is **lost** when its driver says so. The layers above give the rail up, and may have it
//! **restored**: then the next **turn** of the link begins, which is attempted with pauses. A link
//! of one turn must accept nothing of another turn.

use std::fmt::Display;
use std::str::FromStr;
use std::time::{Duration, Instant};

use base::{GateId, PeerTable, RailProfile};
use driver::{Directory, DriverError, Secret, Sink, read_card};

use crate::pairs::{RailPair, describe_no_pair, pairs_from};
use crate::silence::{Arrivals, LinkCheck, SilenceClock, WatchedLink};

/// A peer and an own rail.
pub type LinkName = (GateId, usize);

/// What differs between networks.
pub trait Network {
    /// What a process publishes for its peers.
    type Card: Display + FromStr<Err = String>;
    /// The state of a rail to a peer in one turn.
    type Link;
    /// What a driver keeps of a rail to a peer, also while the rail is lost.
    type Rail: Default;

    /// Returns which rails of two processes are connected, the process with the lower rank first;
    /// of two jobs, a process of the job that comes first.
    fn pairs(lower: &Self::Card, upper: &Self::Card) -> Vec<RailPair>;

    /// The beginning of the message to users that two processes have no pair of rails, such as "no
    /// network connects both processes".
    const NO_PAIR: &str;

    /// Returns the names or addresses of a process's interfaces, for messages to users.
    fn interface_names(card: &Self::Card) -> Vec<String>;

    /// Whether the peer has said goodbye over a link.
    fn has_departed(link: &Self::Link) -> bool;
}

/// The peers of a process over one network, indexed by gate, and what is to be reported about them.
pub struct LinkTable<N: Network> {
    /// The rank of this process.
    pub own: GateId,
    /// The profile of each rail.
    pub rails: Vec<RailProfile>,
    /// Where cards of peers come from, and the secrets of this job and of connected jobs.
    pub directory: Box<dyn Directory>,
    /// What this process publishes.
    pub card: N::Card,
    /// The limit of silence, and when links are checked.
    pub silence: SilenceClock,
    /// How many frames, messages or connections were refused.
    pub refused: u64,
    peers: PeerTable<Option<Box<Peer<N>>>, 32>,
    lost: Vec<(GateId, usize, DriverError)>,
    restored: Vec<LinkName>,
    /// How many rails are being restored: usually none, so that the rails need not be searched.
    restoring: usize,
}

/// A peer whose card has been read.
pub struct Peer<N: Network> {
    /// What the peer has published.
    pub card: N::Card,
    /// The connected rails, own rail first, by the number that both processes compute for the pair.
    pub pairs: Vec<RailPair>,
    /// By own rail.
    pub rails: Vec<PeerRail<N>>,
    /// Why rails were lost, for users.
    failures: Vec<(usize, String)>,
    /// Whether the peer had said goodbye on a link that was lost.
    pub departed: bool,
    /// Whether something has changed encrypted data on its way between both processes.
    pub was_tampered_with: bool,
}

/// The state of an own rail to a peer.
pub struct PeerRail<N: Network> {
    /// The link; none: it was lost, or the rail does not lead to the peer.
    pub link: Option<N::Link>,
    /// What is kept while the rail is lost.
    pub state: N::Rail,
    /// How many times the link was lost and begun anew.
    pub turn: u32,
    /// The next turn of a link that was lost and must be restored.
    restoring: Option<Box<RestoringLink<N::Link>>>,
}

/// The next turn of a link that was lost.
struct RestoringLink<L> {
    link: L,
    /// When the next attempt begins, and the number of attempts that have begun.
    at: Instant,
    attempts: u32,
}

/// The two processes of a link.
pub struct Ends<'a, C> {
    /// This process.
    pub own: (GateId, &'a C),
    /// The other process.
    pub peer: (GateId, &'a C),
    /// The secret that both processes have.
    pub secret: Secret,
}

impl<N: Network> LinkTable<N> {
    /// Creates a process without rails and peers, to which peers may be silent for this long.
    pub fn new(
        own: GateId,
        card: N::Card,
        directory: Box<dyn Directory>,
        silence: Duration,
        now: Instant,
    ) -> Self {
        Self {
            silence: SilenceClock::new(silence, now),
            rails: Vec::new(),
            card,
            refused: 0,
            own,
            directory,
            peers: PeerTable::default(),
            lost: Vec::new(),
            restored: Vec::new(),
            restoring: 0,
        }
    }

    /// Returns the secret that this process has in common with the process behind `gate`.
    ///
    /// # Errors
    /// The secret of the job cannot be had.
    pub fn secret_of(&mut self, gate: GateId) -> Result<Secret, DriverError> {
        match self.directory.between_jobs(gate) {
            Some(pair) => Ok(pair.secret.secret),
            None => self.directory.secret(),
        }
    }

    /// Whether what leaves the machine for the process behind `gate` is encrypted.
    pub fn is_encrypted(&mut self, gate: GateId) -> bool {
        self.directory.between_jobs(gate).is_some_and(|pair| pair.secret.is_encrypted)
    }

    /// Whether this process precedes the process behind `gate` in an order on which both agree.
    pub fn comes_before(&mut self, gate: GateId) -> bool {
        let pair = self.directory.between_jobs(gate);
        pair.map_or(self.own < gate, |pair| pair.comes_first)
    }

    /// Returns both ends of the links to a peer whose card has been read.
    pub fn ends(&mut self, gate: GateId) -> Option<Ends<'_, N::Card>> {
        let secret = self.secret_of(gate).ok()?;
        let peer = (gate, &self.peer(gate)?.card);
        Some(Ends { own: (self.own, &self.card), peer, secret })
    }

    /// Returns a peer whose card has been read.
    #[inline]
    pub fn peer(&self, gate: GateId) -> Option<&Peer<N>> {
        self.peers.get(gate.0)?.as_deref()
    }

    /// Returns a peer whose card has been read, for changes.
    #[inline]
    pub fn peer_mut(&mut self, gate: GateId) -> Option<&mut Peer<N>> {
        self.peers.get_mut(gate.0)?.as_deref_mut()
    }

    /// Returns an own rail to a peer, for changes.
    #[inline]
    pub fn rail_mut(&mut self, gate: GateId, rail: usize) -> Option<&mut PeerRail<N>> {
        self.peer_mut(gate)?.rails.get_mut(rail)
    }

    /// Returns the link over an own rail to a peer.
    #[inline]
    pub fn get(&self, gate: GateId, rail: usize) -> Option<&N::Link> {
        self.peer(gate)?.rails.get(rail)?.link.as_ref()
    }

    /// Returns the link over an own rail to a peer, for changes.
    #[inline]
    pub fn get_mut(&mut self, gate: GateId, rail: usize) -> Option<&mut N::Link> {
        self.rail_mut(gate, rail)?.link.as_mut()
    }

    /// Iterates over the peers.
    pub fn peers(&self) -> impl Iterator<Item = &Peer<N>> {
        self.peers.iter().filter_map(|(_, peer)| peer.as_deref())
    }

    /// Iterates over all links.
    pub fn iter(&self) -> impl Iterator<Item = &N::Link> {
        self.peers().flat_map(Peer::links)
    }

    /// Returns the names of the rails that fulfil a condition.
    pub fn names_where(&self, is_so: impl Fn(&PeerRail<N>) -> bool) -> Vec<LinkName> {
        let of_peer = |(gate, peer): (u32, &Option<Box<Peer<N>>>)| {
            let rails = peer.iter().flat_map(|peer| peer.rails.iter().enumerate());
            let rails = rails.filter(|(_, rail)| is_so(rail));
            rails.map(|(rail, _)| (GateId(gate), rail)).collect::<Vec<_>>()
        };
        self.peers.iter().flat_map(of_peer).collect()
    }

    /// Returns the names of all links.
    pub fn names(&self) -> Vec<LinkName> {
        self.names_where(|rail| rail.link.is_some())
    }

    /// Reads the card of a peer, if that was not done yet. `begin` is called for each own rail and
    /// the peer's rail with which it is connected, and returns the state of the rail and its link.
    ///
    /// # Errors
    /// The card cannot be had, has no rail in common with the own one, or `begin` fails.
    pub fn meet(
        &mut self,
        gate: GateId,
        mut begin: impl FnMut(&Ends<'_, N::Card>, RailPair) -> Result<(N::Rail, N::Link), DriverError>,
    ) -> Result<&mut Peer<N>, DriverError> {
        if self.peer(gate).is_none() {
            let card: N::Card = read_card(&mut *self.directory, gate)?;
            // Gates order the processes of one job only.
            let (own, peer) = match self.comes_before(gate) {
                true => (GateId(0), GateId(1)),
                false => (GateId(1), GateId(0)),
            };
            let pairs = pairs_from((own, &self.card), (peer, &card), N::pairs);
            if pairs.is_empty() {
                let message = describe_no_pair(
                    N::NO_PAIR,
                    &N::interface_names(&self.card),
                    &N::interface_names(&card),
                );
                return Err(DriverError { message });
            }
            let secret = self.secret_of(gate)?;
            let ends = Ends { own: (self.own, &self.card), peer: (gate, &card), secret };
            let mut rails: Vec<PeerRail<N>> =
                self.rails.iter().map(|_| PeerRail::unused()).collect();
            for &pair in &pairs {
                let (state, link) = begin(&ends, pair)?;
                rails[pair.0] = PeerRail { state, link: Some(link), turn: 0, restoring: None };
            }
            let peer = Peer {
                card,
                pairs,
                rails,
                failures: Vec::new(),
                departed: false,
                was_tampered_with: false,
            };
            *self.peers.entry(gate.0, || None) = Some(Box::new(peer));
        }
        Ok(self.peer_mut(gate).expect("it was met above, or before"))
    }

    /// Removes a link, if there is one, and notes why it is lost.
    pub fn end(&mut self, gate: GateId, rail: usize, why: String) -> Option<N::Link> {
        let peer = self.peer_mut(gate)?;
        let link = peer.rails.get_mut(rail)?.link.take()?;
        peer.failures.push((rail, why));
        peer.departed |= N::has_departed(&link);
        Some(link)
    }

    /// Reports with the next [`report`](Self::report) that a rail is lost.
    #[cold]
    pub fn report_loss(&mut self, gate: GateId, rail: usize) {
        let Some(peer) = self.peer(gate) else { return };
        let messages: Vec<&str> = peer.failures.iter().map(|(_, why)| why.as_str()).collect();
        let message = messages.join("; ");
        self.lost.push((gate, rail, DriverError { message }));
    }

    /// Stops using a rail and trying to restore it, and reports nothing about it. Returns the link
    /// that was used, or tried.
    pub fn give_up(&mut self, gate: GateId, rail: usize) -> Option<N::Link> {
        self.lost.retain(|lost| (lost.0, lost.1) != (gate, rail));
        self.restored.retain(|restored| *restored != (gate, rail));
        let peer = self.peer_mut(gate)?;
        let link = peer.rails.get_mut(rail)?.link.take();
        peer.departed |= link.as_ref().is_some_and(N::has_departed);
        link.or_else(|| self.stop_restoring(gate, rail))
    }

    /// Forgets a peer whose rails were given up. It is met anew when it is connected again.
    pub fn forget(&mut self, gate: GateId) {
        let known = self.peers.get_mut(gate.0).and_then(Option::take);
        let has_rails = known.is_some_and(|peer| {
            peer.rails.iter().any(|rail| rail.link.is_some() || rail.is_restoring())
        });
        debug_assert!(!has_rails, "the rails to {gate:?} were not given up");
    }

    /// Stops trying to restore a rail, if it is being restored. Returns the link that was tried.
    pub fn stop_restoring(&mut self, gate: GateId, rail: usize) -> Option<N::Link> {
        let restoring = self.rail_mut(gate, rail)?.restoring.take()?;
        self.restoring -= 1;
        Some(restoring.link)
    }

    /// Returns the names of the rails that are being restored.
    pub fn restoring(&self) -> Vec<LinkName> {
        if self.restoring == 0 {
            return Vec::new();
        }
        self.names_where(PeerRail::is_restoring)
    }

    /// Returns the names of the rails that are being restored although their peers have left. The
    /// driver must give them up, so that what it holds for them is released.
    pub fn needless_attempts(&self) -> Vec<LinkName> {
        let mut names = self.restoring();
        names.retain(|(gate, _)| self.peer(*gate).is_some_and(Peer::has_left));
        names
    }

    /// Begins the next turn of a link that was lost, unless the peer has left. `begin` returns the
    /// link of that turn over a pair of rails.
    pub fn restore(
        &mut self,
        (gate, rail): LinkName,
        now: Instant,
        begin: impl FnOnce(&Ends<'_, N::Card>, RailPair, u32, &mut N::Rail) -> N::Link,
    ) {
        let Ok(secret) = self.secret_of(gate) else { return };
        let Some(Some(peer)) = self.peers.get_mut(gate.0) else { return };
        let Some(pair) = peer.pair_of(rail) else { return };
        if peer.has_left()
            || peer.rails[rail].link.is_some()
            || peer.rails[rail].restoring.is_some()
        {
            return;
        }
        let ends = Ends { own: (self.own, &self.card), peer: (gate, &peer.card), secret };
        let PeerRail { turn, state, restoring, .. } = &mut peer.rails[rail];
        *turn += 1;
        let link = begin(&ends, pair, *turn, state);
        let at = now + restore_pause(0);
        *restoring = Some(Box::new(RestoringLink { link, at, attempts: 0 }));
        self.restoring += 1;
    }

    /// Returns the rails that must be attempted now, and plans the next attempts.
    pub fn attempts_due(&mut self, now: Instant) -> Vec<LinkName> {
        let mut due = Vec::new();
        for (gate, rail) in self.restoring() {
            let known = self.rail_mut(gate, rail);
            if let Some(restoring) = known.and_then(|known| known.restoring.as_mut())
                && now >= restoring.at
            {
                restoring.attempts += 1;
                restoring.at = now + restore_pause(restoring.attempts);
                due.push((gate, rail));
            }
        }
        due
    }

    /// Returns when the next lost rail must be attempted.
    pub fn next_attempt(&self) -> Option<Instant> {
        if self.restoring == 0 {
            return None;
        }
        let rails = self.peers().flat_map(|peer| &peer.rails);
        rails.filter_map(|rail| Some(rail.restoring.as_ref()?.at)).min()
    }

    /// Reports that a lost rail works again, if it was being restored. Returns the link.
    pub fn note_restored(&mut self, gate: GateId, rail: usize) -> Option<&mut N::Link> {
        let peer = self.peers.get_mut(gate.0)?.as_mut()?;
        let restoring = peer.rails[rail].restoring.take()?;
        self.restoring -= 1;
        peer.failures.retain(|(of_rail, _)| *of_rail != rail);
        self.restored.push((gate, rail));
        Some(peer.rails[rail].link.insert(restoring.link))
    }

    /// Reports which rails were lost and restored. Returns whether there were any.
    #[inline]
    pub fn report(&mut self, sink: &mut dyn Sink) -> bool {
        if self.lost.is_empty() && self.restored.is_empty() {
            return false;
        }
        for (gate, rail, why) in self.lost.drain(..) {
            sink.lost(gate, rail, why);
        }
        for (gate, rail) in self.restored.drain(..) {
            sink.restored(gate, rail);
        }
        true
    }

    /// Whether a peer has said goodbye over all links that were not lost, and over one at least.
    pub fn has_departed(&self, gate: GateId) -> bool {
        self.peer(gate).is_some_and(|peer| {
            let mut links = peer.links().peekable();
            (peer.departed || links.peek().is_some()) && links.all(N::has_departed)
        })
    }
}

impl<N: Network<Link: WatchedLink>> LinkTable<N> {
    /// Checks all links, if it is time to. If the driver's last poll has left messages unread, the
    /// check is put off, a limited number of times.
    pub fn check_links(&mut self, arrivals: Arrivals, now: Instant) -> Vec<(LinkName, LinkCheck)> {
        let Some(passed) = self.silence.passed_after(arrivals, now) else { return Vec::new() };
        let (clock, mut checks) = (&self.silence, Vec::new());
        for (gate, peer) in self.peers.iter_mut() {
            let rails = peer.iter_mut().flat_map(|peer| &mut peer.rails).enumerate();
            let mut states: Vec<_> = rails
                .filter_map(|(rail, known)| {
                    let link = known.link.as_mut()?;
                    let traffic = link.traffic()?;
                    let state = link.keep_alive();
                    state.count(traffic, passed);
                    Some((rail, state))
                })
                .collect();
            let heard = states.iter().filter(|(_, state)| state.is_heard(clock)).count();
            for (rail, state) in &mut states {
                let others = heard - usize::from(state.is_heard(clock));
                let check = state.judge(gate, others, clock);
                checks.extend(check.map(|check| ((GateId(gate), *rail), check)));
            }
        }
        checks
    }
}

impl<N: Network> Peer<N> {
    /// Iterates over the links to the peer.
    pub fn links(&self) -> impl Iterator<Item = &N::Link> {
        self.rails.iter().filter_map(|rail| rail.link.as_ref())
    }

    /// Returns the first pair of an own rail.
    pub fn pair_of(&self, rail: usize) -> Option<RailPair> {
        self.pairs.iter().copied().find(|pair| pair.0 == rail)
    }

    /// Whether the peer has said goodbye over any link.
    pub fn has_left(&self) -> bool {
        self.departed || self.links().any(N::has_departed)
    }

    /// Returns the own rails that lead to the peer, or did so until they were lost: both processes
    /// must get equal counts. None if the peer has left.
    pub fn reached_over(&self) -> Vec<usize> {
        let leads = |rail: &usize| {
            let PeerRail { link, restoring, .. } = &self.rails[*rail];
            let is_kept = link.is_some() || restoring.is_some();
            is_kept || !self.departed && self.pair_of(*rail).is_some()
        };
        (0..self.rails.len()).filter(leads).collect()
    }
}

impl<N: Network> PeerRail<N> {
    /// The state of a rail that does not lead to the peer.
    fn unused() -> Self {
        Self { link: None, state: N::Rail::default(), turn: 0, restoring: None }
    }

    /// Whether the rail was lost and is being restored.
    pub fn is_restoring(&self) -> bool {
        self.restoring.is_some()
    }

    /// Returns the link of a rail that is being restored, for changes.
    pub fn restoring_mut(&mut self) -> Option<&mut N::Link> {
        self.restoring.as_mut().map(|restoring| &mut restoring.link)
    }

    /// Returns the link, or the link that is being restored.
    pub fn any_link_mut(&mut self) -> Option<&mut N::Link> {
        let restoring = self.restoring.as_mut().map(|restoring| &mut restoring.link);
        self.link.as_mut().or(restoring)
    }
}

/// Returns how long to wait before a lost rail is tried again, after `failures` failed attempts.
fn restore_pause(failures: u32) -> Duration {
    let (first, last) = RESTORE_PAUSES;
    first.saturating_mul(1 << failures.min(16)).min(last)
}

const RESTORE_PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(8));

#[cfg(test)]
mod tests;
