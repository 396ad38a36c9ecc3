//! Hints about the scheduling of a communicator's messages: `combray_strategy`, `combray_priority`,
//! `combray_rail` and `combray_prefer` (docs/strategies.md).

use std::rc::Rc;
use std::str;

use base::ContextId;
use engine::{ContextSlot, Preferences, RailChoice, strategy};
use runtime::Aim;

use super::Communicator;
use crate::Process;
use crate::hints::{PREFER, PRIORITY, RAIL, STRATEGY};
use crate::info::Info;

impl Process {
    /// Adds hints to those of a communicator, or changes them, and follows them.
    pub fn set_communicator_info(&self, communicator: &Communicator, info: &Info) {
        let known = |key: &[u8], value: &[u8]| {
            key != RAIL.as_bytes() || self.rail_choice(Some(value)).is_some()
        };
        communicator.hints.add(info, known);
        let (preferences, aim) = (self.preferences(communicator), self.aim(communicator));
        for slot in communicator.open_slots() {
            self.runtime().set_preferences(slot, preferences);
            self.runtime().set_aim(slot, aim);
        }
    }

    /// All hints of a communicator that hold, given or by default.
    pub fn communicator_info(&self, communicator: &Communicator) -> Rc<Info> {
        let configuration = self.configuration();
        let defaults = [(STRATEGY, configuration.strategy()), (PREFER, configuration.aim().name())];
        communicator.hints.info(&defaults)
    }

    /// Opens a message space of a communicator.
    pub(crate) fn open_context_of(
        &self,
        communicator: &Communicator,
        id: ContextId,
        rank: u32,
    ) -> ContextSlot {
        let slot = self.open_context(id, rank);
        let preferences = self.preferences(communicator);
        if preferences != Preferences::default() {
            self.runtime().set_preferences(slot, preferences);
        }
        self.runtime().set_aim(slot, self.aim(communicator));
        slot
    }

    /// What is wanted of its messages first.
    fn aim(&self, communicator: &Communicator) -> Aim {
        let given = communicator.hints.given(PREFER);
        given.and_then(|name| Aim::named(&name)).unwrap_or(self.configuration().aim())
    }

    fn preferences(&self, communicator: &Communicator) -> Preferences {
        let given = |key: &str| communicator.hints.given(key);
        let name = given(STRATEGY);
        let strategy =
            strategy::NAMES.into_iter().find(|known| name.as_deref() == Some(known.as_bytes()));
        // The person's word for the whole process counts more than what an aim suggests.
        let is_free = self.configuration().strategy() == strategy::NAMES[0];
        let suggested = self.aim(communicator).strategy().filter(|_| is_free);
        let strategy = strategy.or(suggested);
        let priority = given(PRIORITY).as_deref().and_then(number).unwrap_or(0);
        let rails = self.rail_choice(given(RAIL).as_deref()).unwrap_or_default();
        Preferences { strategy, priority, rails }
    }

    /// What a value of `combray_rail` means; `None`: nothing here.
    fn rail_choice(&self, value: Option<&[u8]>) -> Option<RailChoice> {
        match value {
            None | Some(b"all") => Some(RailChoice::All),
            Some(b"fastest") => Some(RailChoice::Fastest),
            Some(name) => {
                let name = str::from_utf8(name).ok()?;
                self.runtime().rail_named(name).map(RailChoice::Only)
            }
        }
    }
}

/// The number that a value of `combray_priority` is.
pub(crate) fn number(value: &[u8]) -> Option<i32> {
    str::from_utf8(value).ok()?.parse().ok()
}
