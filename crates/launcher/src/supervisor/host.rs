//! One machine of the job: a crew of our own, or an agent's.

use std::os::fd::RawFd;
use std::time::Instant;

use sys::process::{End, Interest};

use crate::LaunchError;
use crate::crew::Crew;
use crate::outlets::Outlets;
use crate::protocol::{Order, Report, Start, Target};
use crate::remote::Remote;

/// A machine.
pub(super) struct Host {
    /// Its name, for people.
    pub name: String,
    link: Link,
    stage: Stage,
    /// How much output was taken from it, for each target, and has not been granted again.
    owed: [u32; 2],
}

enum Link {
    Here(Crew),
    There(Box<Remote>),
}

/// How far a machine has come.
enum Stage {
    /// These processes are not asked for yet.
    Waiting(Start),
    /// They are asked for.
    Begun,
    /// They run or have run.
    Started,
    /// Nothing more will be heard from it.
    Gone,
}

impl Host {
    /// This machine.
    pub(super) fn here(name: String, crew: Crew, start: Start) -> Self {
        Self { name, link: Link::Here(crew), stage: Stage::Waiting(start), owed: [0; 2] }
    }

    /// Another machine.
    pub(super) fn there(name: String, remote: Remote, start: Start) -> Self {
        let link = Link::There(Box::new(remote));
        Self { name, link, stage: Stage::Waiting(start), owed: [0; 2] }
    }

    pub(super) fn is_here(&self) -> bool {
        matches!(self.link, Link::Here(_))
    }

    /// Whether it can be asked to start its processes.
    pub(super) fn is_ready(&self) -> bool {
        match &self.link {
            Link::Here(_) => true,
            Link::There(remote) => remote.has_greeted(),
        }
    }

    /// Whether it was not asked to start its processes yet.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Waiting(_))
    }

    pub(super) fn has_started(&self) -> bool {
        matches!(self.stage, Stage::Started)
    }

    pub(super) fn is_gone(&self) -> bool {
        matches!(self.stage, Stage::Gone)
    }

    /// Notes that its processes run.
    pub(super) fn note_start(&mut self) {
        self.stage = Stage::Started;
    }

    /// Notes that nothing more is expected from it.
    pub(super) fn dismiss(&mut self) {
        self.stage = Stage::Gone;
    }

    /// Asks it to start its processes, if it was not asked yet.
    ///
    /// # Errors
    /// There is too much to tell.
    pub(super) fn begin(&mut self, reports: &mut Vec<Report>) -> Result<(), LaunchError> {
        match std::mem::replace(&mut self.stage, Stage::Begun) {
            Stage::Waiting(start) => self.order(Order::Start(start), reports),
            other => {
                self.stage = other;
                Ok(())
            }
        }
    }

    /// Gives an order.
    ///
    /// # Errors
    /// It is too long for the way to the machine.
    pub(super) fn order(
        &mut self,
        order: Order,
        reports: &mut Vec<Report>,
    ) -> Result<(), LaunchError> {
        if matches!(self.stage, Stage::Waiting(_) | Stage::Gone) {
            return Ok(());
        }
        match &mut self.link {
            Link::Here(crew) => {
                crew.obey(order, reports);
                Ok(())
            }
            Link::There(remote) => remote.send(&order),
        }
    }

    /// Appends the descriptors to watch; returns how many.
    pub(super) fn watched(&mut self, list: &mut Vec<(RawFd, Interest)>) -> usize {
        let before = list.len();
        match &mut self.link {
            Link::Here(crew) => crew.watched(list),
            Link::There(remote) => remote.watched(list),
        }
        list.len() - before
    }

    /// Moves on what is ready, in the order of [`watched`](Self::watched).
    pub(super) fn serve(&mut self, ready: &[bool], reports: &mut Vec<Report>) {
        match &mut self.link {
            Link::Here(crew) => crew.serve(ready, reports),
            Link::There(remote) => remote.serve(ready, reports),
        }
    }

    /// A child of this process has ended; false if it has nothing to do with this machine.
    pub(super) fn bury(&mut self, process: i32, end: End, reports: &mut Vec<Report>) -> bool {
        match &mut self.link {
            Link::Here(crew) => crew.bury(process, end, reports),
            Link::There(remote) => remote.bury(process, end, reports),
        }
    }

    /// Notes that so much output was taken from it.
    pub(super) fn owe(&mut self, target: Target, length: usize) {
        self.owed[target as usize] += length as u32;
    }

    /// Grants again what was taken, where the launcher's own output can take more.
    pub(super) fn pay(&mut self, outlets: &Outlets) {
        for target in [Target::Output, Target::Errors] {
            if self.owed[target as usize] > 0 && !outlets.is_full(target) {
                let bytes = std::mem::take(&mut self.owed[target as usize]);
                // Neither is this order too long, nor does it bring reports.
                let _ = self.order(Order::Room(target, bytes), &mut Vec::new());
            }
        }
    }

    /// Ends the connection, if it is another machine.
    pub(super) fn cut(&mut self) {
        if let Link::There(remote) = &mut self.link {
            remote.kill();
        }
    }

    /// Why the connection to it has ended, if it has.
    pub(super) fn loss(&self) -> Option<String> {
        match &self.link {
            Link::There(remote) if remote.is_gone() => Some(remote.obituary(&self.name)),
            _ => None,
        }
    }

    /// What a person is told about it if it is not ready in time.
    pub(super) fn complaint(&self) -> String {
        match &self.link {
            Link::Here(_) => String::new(),
            Link::There(remote) => remote.complaint(&self.name),
        }
    }

    /// Does what it is time for.
    pub(super) fn look_at_clock(&mut self) {
        if let Link::There(remote) = &mut self.link {
            remote.look_at_clock();
        }
    }

    /// When to look again, though nothing may have happened.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.link {
            Link::There(remote) if !self.is_gone() => remote.deadline(),
            _ => None,
        }
    }
}
