//! The shape of the scaling of a HYDRO-like solver, with the schedules of this crate and as the
//! course measured it. `cargo run --release -p collectives --example hydro_scaling` prints all
//! figures.

mod hydro;

use hydro::{CORES, MEASURED_STRONG, MEASURED_WEAK, MODES, Run};

/// Small enough for a build without optimization.
const CORES_TESTED: u32 = 1024;

#[test]
fn with_trees_flat_processes_lose_little_against_threads() {
    for cores in CORES.into_iter().filter(|cores| *cores <= CORES_TESTED) {
        let times = MODES.map(|(_, threads)| Run::weak(cores, threads).seconds());
        assert!(times.iter().all(|time| (6.1..6.4).contains(time)), "{cores} cores: {times:?}");
        assert!(times[0] < times[2] * 1.02, "{cores} cores: {times:?}");
    }
    let few = Run::strong(256, 1).seconds();
    let many = Run::strong(CORES_TESTED, 1).seconds();
    assert!((3.9..4.0).contains(&(few / many)), "{few} s and {many} s");
}

/// Beyond what computation takes, the course's times depend on the number of processes alone, and
/// on its square: a queue of as many messages that is searched for each of them.
#[test]
fn the_curves_of_the_course_are_those_of_one_searched_queue() {
    let cores = &CORES[4..];
    let mut deviations = Vec::new();
    for (measured, is_weak) in [(MEASURED_WEAK, true), (MEASURED_STRONG, false)] {
        for ((_, threads), measured) in MODES.into_iter().zip(measured) {
            for (&cores, measured) in cores.iter().zip(measured) {
                // What the simulation adds at these sizes is below a percent.
                let points = if is_weak { f64::from(cores) * 390_625.0 } else { 1.6e9 };
                let computing = points * 15.8e-6 / f64::from(cores);
                let searching = Run::strong(cores, threads).searching_seconds();
                deviations.push(((computing + searching) / measured - 1.0).abs());
            }
        }
    }
    deviations.sort_by(f64::total_cmp);
    let median = deviations[deviations.len() / 2];
    assert!(median < 0.03, "{deviations:?}");
    assert!(deviations.iter().all(|one| *one < 0.15), "{deviations:?}");
}
