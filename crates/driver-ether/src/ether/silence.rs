//! Checks links, and gives up those over which nothing arrives.

use std::time::Duration;

use base::GateId;
use driver::PeerLife;

use super::Ether;
use super::leaving::used;
use crate::timing::{MILLISECOND, Time};

/// Links that wait for answers are checked more often than this. If not, this process was stopped,
/// or computed, and frames that arrived meanwhile are not processed yet: that is no silence.
const PAUSE_MIN: Time = 2000 * MILLISECOND;

/// How often all links are checked, even if nothing is in flight.
const IDLE_LOOK_PERIOD: Time = 1000 * MILLISECOND;

/// How many times an idle peer is probed within the limit of silence.
const ASKED_WITHIN_SILENCE: Time = 5;

impl Ether {
    /// Checks all links, as it is time for one of them.
    pub(super) fn look(&mut self, now: Time) {
        self.look_at = None;
        self.waking.pass(now);
        self.look_after_ports(now);
        self.look_after_restoring(now);
        let has_looked = now.saturating_sub(std::mem::replace(&mut self.looked, now)) < PAUSE_MIN;
        for (gate, rail) in self.links.names() {
            self.transmit((gate, rail), now);
            if !has_looked && let Some(known) = self.links.get_mut(gate, rail) {
                known.link.excuse_silence(now);
            }
            self.ask_if_idle(gate, rail, now);
            if let Some(why) = self.judge_silence(gate, rail, now) {
                self.lose(gate, rail, &why);
            }
        }
        if self.links.peers().next().is_some() {
            self.look_by(now + IDLE_LOOK_PERIOD);
        }
    }

    /// Probes a peer over a link on which nothing is in flight and nothing has arrived for a while:
    /// this process may wait for something that a failed machine never sends.
    fn ask_if_idle(&mut self, gate: GateId, rail: usize, now: Time) {
        let since = now.saturating_sub(self.silence / ASKED_WITHIN_SILENCE);
        let Some(known) = self.links.get_mut(gate, rail) else { return };
        if known.link.ask_if_idle(since) {
            self.transmit((gate, rail), now);
        }
    }

    /// Returns why a silent link must be given up, if it must. A process that computes, or is
    /// stopped, is waited for as long as its kernel reports that it exists. This does not apply if
    /// the peer has sent something over another link a short time ago.
    fn judge_silence(&mut self, gate: GateId, rail: usize, now: Time) -> Option<String> {
        let silence = self.silence;
        let peer = self.links.peer_mut(gate)?;
        let heard_at = used(peer).map(|link| link.heard_at).max().unwrap_or_default();
        let known = peer.rails.get_mut(rail)?.link.as_mut()?;
        let silent_for = known.link.silence(now);
        if silent_for < silence / 4 {
            known.liveness.rest();
            return None;
        }
        // The interface's address may have changed: the kernel reports no event for that while it
        // is up.
        self.ports[rail].is_down = true;
        let rank = gate.0;
        let is_heard = heard_at > now.saturating_sub(silence / 4);
        match known.liveness.look(Duration::from_nanos(now)) {
            PeerLife::Ended => Some(format!(
                "the process of rank {rank} has ended, as the system of its machine tells"
            )),
            PeerLife::SystemAnswers if !is_heard => {
                known.link.excuse_silence(now);
                None
            }
            life => (silent_for >= silence).then(|| {
                let seconds = silent_for / (1000 * MILLISECOND);
                match life {
                    PeerLife::SystemAnswers => format!(
                        "no frame of rank {rank} has come for {seconds} s, while others come over \
                         another interface"
                    ),
                    _ => format!(
                        "rank {rank}, and the system of its machine, have answered nothing for \
                         {seconds} s"
                    ),
                }
            }),
        }
    }
}
