//! The strategy, priority and rails that a program prefers for the messages of one context.

use base::RailId;

use crate::gate::Gate;
use crate::strategy::RailSet;

/// A program's preferences for the messages of a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preferences {
    /// The strategy that plans them, one of [`NAMES`](crate::strategy::NAMES); `None`: the
    /// engine's.
    pub strategy: Option<&'static str>,
    /// Their priority, for the strategy `priority`.
    pub priority: i32,
    /// The rails that carry them.
    pub rails: RailChoice,
}

/// The rails that carry the messages of a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RailChoice {
    /// All rails: the strategy chooses.
    #[default]
    All,
    /// For large messages, the fastest rail of those that lead to the peer.
    Fastest,
    /// This rail, if it leads to the peer; to other peers the strategy chooses.
    Only(RailId),
}

/// Returns the rails that a choice allows for a gate. `fastest` is the fastest rail that leads
/// there.
pub(crate) fn chosen_rails(choice: RailChoice, gate: &Gate, fastest: RailId) -> RailSet {
    match choice {
        RailChoice::Only(rail) if gate.rails.contains(&rail) => RailSet::only(rail),
        RailChoice::Fastest => RailSet::only(fastest),
        _ => RailSet::ALL,
    }
}
