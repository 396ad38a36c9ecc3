//! Runs the schedules of all processes together, on symbols instead of data.

mod data_movement;
mod neighborhoods;
mod intercommunicators;
mod reductions;
mod simulator;
