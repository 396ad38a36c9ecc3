//! Engine, drivers and clock meet.
