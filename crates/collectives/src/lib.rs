//! Collective algorithms as pure functions to schedules.
