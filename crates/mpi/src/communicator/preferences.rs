//! Hints about the scheduling of a communicator's messages: `combray_strategy`, `combray_priority`
//! and `combray_rail` (docs/strategies.md).

use std::rc::Rc;
use std::str;

use base::ContextId;
use engine::{ContextSlot, Preferences, RailChoice, strategy};

use super::Communicator;
use crate::Process;
use crate::hints::{PRIORITY, RAIL, STRATEGY};
use crate::info::Info;

impl Process {
    /// Adds hints to those of a communicator, or changes them, and follows them.
    pub fn set_communicator_info(&self, communicator: &Communicator, info: &Info) {
        let known = |key: &[u8], value: &[u8]| {
            key != RAIL.as_bytes() || self.rail_choice(Some(value)).is_some()
        };
        communicator.hints.add(info, known);
        let preferences = self.preferences(communicator);
        for slot in communicator.open_slots() {
            self.runtime().set_preferences(slot, preferences);
        }
    }

    /// All hints of a communicator that hold, given or by default.
    pub fn communicator_info(&self, communicator: &Communicator) -> Rc<Info> {
        communicator.hints.info(&[(STRATEGY, self.configuration().strategy())])
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
        slot
    }

    fn preferences(&self, communicator: &Communicator) -> Preferences {
        let given = |key: &str| communicator.hints.given(key);
        let name = given(STRATEGY);
        let strategy =
            strategy::NAMES.into_iter().find(|known| name.as_deref() == Some(known.as_bytes()));
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
