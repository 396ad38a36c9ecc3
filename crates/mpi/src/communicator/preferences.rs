//! Hints about the scheduling of a communicator's messages: `combray_strategy`, `combray_priority`,
//! `combray_rail` and `combray_prefer` (docs/internals/strategies.md).

use std::rc::Rc;
use std::str;

use base::ContextId;
use engine::{ContextSlot, Preferences, RailChoice, strategy};
use runtime::TrafficClass;

use super::Communicator;
use crate::Process;
use crate::group::Group;
use crate::hints::{PREFER, PRIORITY, RAIL, STRATEGY, priority};
use crate::info::Info;

impl Process {
    /// Parses a value of `combray_rail`; `None` if this process has no such rail.
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

impl Communicator {
    /// The preference for the communicator's messages.
    fn traffic_class(&self, process: &Process) -> TrafficClass {
        let given = self.hints.given(PREFER);
        given
            .and_then(|name| TrafficClass::named(&name))
            .unwrap_or(process.configuration().traffic_class())
    }

    fn preferences(&self, process: &Process) -> Preferences {
        let given = |key: &str| self.hints.given(key);
        let name = given(STRATEGY);
        let strategy =
            strategy::NAMES.iter().copied().find(|known| name.as_deref() == Some(known.as_bytes()));
        // A strategy that the user configured for the whole process overrides the one that the
        // preference suggests.
        let is_free = process.configuration().strategy() == strategy::NAMES[0];
        let suggested = self.traffic_class(process).strategy().filter(|_| is_free);
        let strategy = strategy.or(suggested);
        let priority = given(PRIORITY).as_deref().and_then(priority).unwrap_or(0);
        let rails = process.rail_choice(given(RAIL).as_deref()).unwrap_or_default();
        Preferences { strategy, priority, rails }
    }

    /// Adds or changes hints of the communicator, and applies them.
    pub fn set_info(&self, process: &Process, info: &Info) {
        let known = |key: &[u8], value: &[u8]| {
            key != RAIL.as_bytes() || process.rail_choice(Some(value)).is_some()
        };
        self.hints.add(info, known);
        let (preferences, traffic_class) = (self.preferences(process), self.traffic_class(process));
        for slot in self.open_slots() {
            process.runtime().set_preferences(slot, preferences);
            process.runtime().set_traffic_class(slot, traffic_class);
        }
    }

    /// Returns all hints that apply to the communicator, given or by default.
    pub fn info(&self, process: &Process) -> Rc<Info> {
        let configuration = process.configuration();
        let defaults =
            [(STRATEGY, configuration.strategy()), (PREFER, configuration.traffic_class().name())];
        self.hints.info(&defaults)
    }

    /// Opens a message space of a communicator.
    pub(crate) fn open_context(&self, process: &Process, id: ContextId, rank: u32) -> ContextSlot {
        let slot = process.open_context(id, rank);
        let peers = self.remote().map_or(self.group(), |remote| &remote.group);
        process.runtime().set_members(slot, Rc::<Group>::clone(peers));
        let preferences = self.preferences(process);
        if preferences != Preferences::default() {
            process.runtime().set_preferences(slot, preferences);
        }
        process.runtime().set_traffic_class(slot, self.traffic_class(process));
        slot
    }
}
