//! How simulated processes find each other's ports and meet, as `dynamic` does it over sockets.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use base::{Error, ErrorClass, GateId, Result};
use dynamic::PortSide;
use endpoints::{EndpointPort, EndpointWatcher};

use super::gates::NodeOffer;

/// The port of an endpoint.
#[derive(Debug)]
pub(super) struct SimulatedPort {
    pub place: Rc<PortPlace>,
}

/// What a search finds.
#[derive(Debug, Default)]
pub(super) struct PortPlace {
    pub number: u32,
    pub node: u32,
    pub is_closed: Cell<bool>,
    /// The links that have proved themselves, with the time of their arrival.
    pub arrived: RefCell<VecDeque<(u64, SimulatedLink)>>,
}

impl Drop for SimulatedPort {
    fn drop(&mut self) {
        self.place.is_closed.set(true);
        self.place.arrived.borrow_mut().drain(..).for_each(|(_, link)| link.wire.break_off());
    }
}

impl EndpointPort for SimulatedPort {
    fn uri(&self) -> String {
        format!("sim:{}", self.place.number)
    }

    fn refused(&self) -> u64 {
        0
    }

    fn must_be_polled(&self) -> bool {
        !self.place.arrived.borrow().is_empty()
    }
}

/// One end of a connection on which two processes meet.
#[derive(Debug)]
pub(super) struct SimulatedLink {
    pub wire: Rc<LinkWire>,
    /// The process at this end, and the other one.
    pub nodes: (u32, u32),
}

/// What both ends of a link share.
#[derive(Debug, Default)]
pub(super) struct LinkWire {
    is_broken: Cell<bool>,
    /// What goes to the accepting end, and to the other one.
    frames: [RefCell<VecDeque<(u64, MeetingFrame)>>; 2],
}

impl LinkWire {
    pub fn break_off(&self) {
        self.is_broken.set(true);
    }
}

#[derive(Debug)]
enum MeetingFrame {
    Greeting(Vec<u8>),
    Gates(NodeOffer),
    Ready,
}

/// A search for a port.
#[derive(Debug)]
pub(super) struct SimulatedSearch {
    pub place: Rc<PortPlace>,
    /// When the link is there, or the port is found to be gone.
    pub ends_at: u64,
}

/// The meeting of two processes.
#[derive(Debug)]
pub(super) struct SimulatedMeeting {
    link: SimulatedLink,
    side: PortSide,
    stage: MeetingStage,
    words: Vec<u8>,
    /// Until when the other process must send the next frame.
    deadline: u64,
}

#[derive(Clone, Copy, Debug)]
enum MeetingStage {
    Greeting,
    Gates(NodeOffer),
    Ready(GateId, bool),
}

/// What a meeting needs of its process.
pub(super) trait MeetingProcess {
    fn step(&self) -> u64;
    /// Returns when a frame that is sent now arrives.
    fn arrival(&self) -> u64;
    fn offer(&self, node: u32) -> NodeOffer;
    /// Decides for the kept gate, or for the fresh one, which the other process names `theirs`.
    fn decide(&self, offer: NodeOffer, theirs: Option<GateId>) -> GateId;
    fn withdraw(&self, offer: NodeOffer);
    fn abandon_gate(&self, gate: GateId);
    fn release(&self, gate: GateId);
}

/// How long a step of a meeting may take, in milliseconds.
const STEP_MAX: u64 = 30_000;

impl SimulatedMeeting {
    pub fn new(
        process: &impl MeetingProcess,
        link: SimulatedLink,
        side: PortSide,
        words: &[u8],
    ) -> Self {
        let (stage, deadline) = (MeetingStage::Greeting, process.step() + STEP_MAX);
        let meeting = Self { link, side, stage, words: Vec::new(), deadline };
        meeting.post(process, MeetingFrame::Greeting(words.into()));
        meeting
    }

    fn post(&self, process: &impl MeetingProcess, frame: MeetingFrame) {
        let to = usize::from(self.side == PortSide::Accepts);
        let mut frames = self.link.wire.frames[to].borrow_mut();
        let after = frames.back().map_or(0, |(last, _)| *last);
        frames.push_back((process.arrival().max(after), frame));
    }

    /// Advances; returns the gate and the data of the other process at the end.
    pub fn poll(&mut self, process: &impl MeetingProcess) -> Result<Option<(GateId, Vec<u8>)>> {
        let own = usize::from(self.side == PortSide::Connects);
        loop {
            let mut frames = self.link.wire.frames[own].borrow_mut();
            if frames.front().is_none_or(|(arrival, _)| *arrival > process.step()) {
                // What was sent before the link broke arrives.
                let is_lost = frames.is_empty() && self.link.wire.is_broken.get();
                if is_lost || process.step() > self.deadline {
                    let detail = "the simulated link is broken";
                    return Err(Error::new(ErrorClass::Port, detail));
                }
                return Ok(None);
            }
            let frame = frames.pop_front().map(|(_, frame)| frame);
            drop(frames);
            self.deadline = process.step() + STEP_MAX;
            match (self.stage, frame) {
                (MeetingStage::Greeting, Some(MeetingFrame::Greeting(words))) => {
                    self.words = words;
                    let offer = process.offer(self.link.nodes.1);
                    self.post(process, MeetingFrame::Gates(offer));
                    self.stage = MeetingStage::Gates(offer);
                }
                (MeetingStage::Gates(own), Some(MeetingFrame::Gates(theirs))) => {
                    let is_kept = own.kept.is_some()
                        && theirs.kept.map(|(gate, other)| (other, gate)) == own.kept;
                    let gate = process.decide(own, (!is_kept).then_some(theirs.fresh));
                    self.post(process, MeetingFrame::Ready);
                    self.stage = MeetingStage::Ready(gate, !is_kept);
                }
                (MeetingStage::Ready(gate, _), Some(MeetingFrame::Ready)) => {
                    return Ok(Some((gate, std::mem::take(&mut self.words))));
                }
                (stage, frame) => unreachable!("{frame:?} in {stage:?}"),
            }
        }
    }

    pub fn abandon(self, process: &impl MeetingProcess) {
        match self.stage {
            MeetingStage::Greeting => {}
            MeetingStage::Gates(offer) => process.withdraw(offer),
            MeetingStage::Ready(gate, true) => process.abandon_gate(gate),
            MeetingStage::Ready(gate, false) => process.release(gate),
        }
    }
}

impl Drop for SimulatedLink {
    fn drop(&mut self) {
        self.wire.break_off();
    }
}

/// Notices what arrives at ports, and the passing of time.
#[derive(Debug, Default)]
pub(super) struct SimulatedWatcher {
    clock: Rc<WatcherClock>,
}

/// What the world does with a watcher.
#[derive(Debug, Default)]
pub(super) struct WatcherClock {
    has_news: Cell<bool>,
    tick: Cell<u32>,
    ticked_at: Cell<u64>,
}

impl SimulatedWatcher {
    pub fn with(clock: &Rc<WatcherClock>) -> Self {
        Self { clock: Rc::clone(clock) }
    }
}

impl WatcherClock {
    pub fn note_news(&self) {
        self.has_news.set(true);
    }

    /// Lets time pass until this step.
    pub fn pass(&self, step: u64) {
        let tick = u64::from(self.tick.get());
        if tick > 0 && step >= self.ticked_at.get() + tick {
            self.ticked_at.set(step);
            self.has_news.set(true);
        }
    }
}

impl EndpointWatcher<SimulatedPort> for SimulatedWatcher {
    fn watch(&self, _: &SimulatedPort) -> std::io::Result<()> {
        Ok(())
    }

    fn forget(&self, _: &SimulatedPort) {}

    fn take_news(&self) -> bool {
        self.clock.has_news.replace(false)
    }

    fn look_again(&self) {
        self.clock.has_news.set(true);
    }

    fn set_tick(&self, milliseconds: u32) {
        self.clock.tick.set(milliseconds);
    }
}
