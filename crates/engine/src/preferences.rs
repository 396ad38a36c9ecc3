//! How the messages of one context shall travel, where the program has said so.

use base::RailId;

use crate::gate::Gate;
use crate::strategy::RailSet;

/// What a program wants for the messages of a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preferences {
    /// The strategy that plans them, one of [`NAMES`](crate::strategy::NAMES); none: the engine's.
    pub strategy: Option<&'static str>,
    /// How urgent they are, for the strategy `priority`.
    pub priority: i32,
    /// Which rails carry them.
    pub rails: RailChoice,
}

/// Which rails carry the messages of a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RailChoice {
    /// Whichever the strategy takes.
    #[default]
    All,
    /// The fastest for large messages, of those that lead to the peer.
    Fastest,
    /// This one, where it leads to the peer; to others whichever the strategy takes.
    Only(RailId),
}

/// The rails that a choice leaves for a gate; `fastest` is the fastest of those that lead there.
pub(crate) fn chosen_rails(choice: RailChoice, gate: &Gate, fastest: RailId) -> RailSet {
    match choice {
        RailChoice::Only(rail) if gate.rails.contains(&rail) => RailSet::only(rail),
        RailChoice::Fastest => RailSet::only(fastest),
        _ => RailSet::ALL,
    }
}
