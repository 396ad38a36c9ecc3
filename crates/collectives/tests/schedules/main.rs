//! Runs the schedules of all processes together, on symbols instead of data.

mod boards;
mod choice;
mod data_movement;
mod exposures;
mod hierarchies;
mod intercommunicators;
mod large_boards;
mod neighborhoods;
mod plans;
mod reductions;
mod simulator;
