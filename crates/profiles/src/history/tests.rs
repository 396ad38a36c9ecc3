use super::*;
use crate::{CallProfile, PhaseTotals, SizeTotals};

/// Pseudo-random numbers (Marsaglia's xorshift).
struct Noise(u64);

impl Noise {
    fn share(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a factor that is normally distributed around 1.
    fn factor(&mut self, deviation: f64) -> f64 {
        let sum: f64 = (0..12).map(|_| self.share()).sum();
        1.0 + deviation * (sum - 6.0)
    }
}

/// Returns the profile of a job of two ranks, whose phase and calls take so long.
fn job(phase: f64, short_call: f64, long_call: f64) -> JobProfile {
    let sizes = vec![
        SizeTotals { bytes_max: 8, calls: 1000, seconds: 1000.0 * short_call },
        SizeTotals { bytes_max: 1024, calls: 10, seconds: 10.0 * long_call },
    ];
    let call = CallProfile {
        function: "MPI_Allreduce".to_owned(),
        caller: Some("solve (a.c:12)".to_owned()),
        calls: 1010,
        seconds: 1000.0 * short_call + 10.0 * long_call,
        sizes,
        ..CallProfile::default()
    };
    let rank = |rank: u32| RankProfile {
        rank,
        seconds: 4.0 * phase + 1.0 + call.seconds,
        calls: vec![call.clone()],
        phases: vec![PhaseTotals {
            name: "assembly".to_owned(),
            times: 4,
            // The second rank is the slowest.
            seconds: phase * (3.0 + f64::from(rank)),
            ..PhaseTotals::default()
        }],
        ..RankProfile::default()
    };
    JobProfile::of("model".to_owned(), vec![rank(0), rank(1)])
}

fn past(phase: f64, short_call: f64, long_call: f64) -> PastRun {
    PastRun::of(RunKey::default(), &job(phase, short_call, long_call), 0)
}

fn calls_of(bytes_max: u64) -> TimedSubject {
    let (function, caller) = ("MPI_Allreduce".to_owned(), Some("solve (a.c)".to_owned()));
    TimedSubject::Call { function, caller, bytes_max }
}

#[test]
fn a_run_has_phases_and_calls_by_size() {
    let run = past(0.5, 1e-3, 0.25);
    let item = |subject| run.item(&subject).map(|item| (item.times, item.seconds));
    assert_eq!(item(TimedSubject::Run), Some((1.0, 6.5)));
    assert_eq!(item(TimedSubject::Phase("assembly".to_owned())), Some((4.0, 0.5)));
    assert_eq!(item(calls_of(8)), Some((1000.0, 1e-3)));
    assert_eq!(item(calls_of(1024)), Some((10.0, 0.25)));
    assert_eq!(PastRun::from_json(&run.to_json()), Some(run));
}

#[test]
fn runs_of_other_versions_and_without_durations_are_refused() {
    let run = past(0.5, 1e-3, 0.25);
    let damaged = [
        PastRun { version: VERSION + 1, ..run.clone() },
        PastRun { items: vec![run.items[0].clone(); 2 * ITEMS_MAX + 3], ..run.clone() },
        PastRun { items: vec![TimedItem { seconds: -1.0, ..run.items[0].clone() }], ..run },
    ];
    assert!(damaged.iter().all(|run| PastRun::from_json(&run.to_json()).is_none()));
    assert_eq!(PastRun::from_json("{}"), None);
}

/// Returns runs of which each duration scatters, and of which some are disturbed.
fn scattered(runs: usize, deviation: f64, noise: &mut Noise) -> Vec<PastRun> {
    let run = |_| {
        let disturbed = if noise.share() < 0.1 { 1.5 } else { 1.0 };
        let mut duration = |mean: f64| mean * disturbed * noise.factor(deviation);
        past(duration(0.5), duration(1e-3), duration(0.25))
    };
    (0..runs).map(run).collect()
}

fn slower_subjects(run: &PastRun, earlier: &[PastRun]) -> Vec<TimedSubject> {
    run.compared(earlier).slower.into_iter().map(|one| one.subject).collect()
}

#[test]
fn what_is_slower_is_named_with_its_cost() {
    let mut noise = Noise(7);
    let earlier = scattered(12, 0.03, &mut noise);
    let phase = TimedSubject::Phase("assembly".to_owned());
    let found = past(1.0, 1e-3, 0.25).compared(&earlier);
    assert_eq!(found.runs, 12);
    let of_phase = found.slower.iter().find(|one| one.subject == phase).unwrap();
    assert!((1.8..2.2).contains(&of_phase.cost), "{of_phase:?}");
    assert!((0.45..0.55).contains(&of_phase.before), "{of_phase:?}");
    let subjects = slower_subjects(&past(0.5, 2.5e-3, 0.25), &earlier);
    assert_eq!(subjects, [TimedSubject::Run, calls_of(8)]);
    let subjects = slower_subjects(&past(0.5, 1e-3, 0.5), &earlier);
    assert!(subjects.contains(&calls_of(1024)), "{subjects:?}");
    assert!(!subjects.contains(&calls_of(8)) && !subjects.contains(&phase), "{subjects:?}");
    // Faster, or within the spread.
    assert_eq!(slower_subjects(&past(0.2, 1e-3, 0.25), &earlier), []);
    assert_eq!(slower_subjects(&past(0.53, 1e-3, 0.25), &earlier), []);
}

#[test]
fn few_runs_are_compared_with_nothing() {
    let earlier = vec![past(0.5, 1e-3, 0.25); RUNS_MIN - 1];
    let found = past(5.0, 1e-3, 0.25).compared(&earlier);
    assert_eq!((found.runs as usize, found.slower), (RUNS_MIN - 1, vec![]));
}

/// Runs that are not slower are reported seldom, however much they scatter, and runs that are much
/// slower nearly always, unless they scatter as much.
#[test]
fn chance_is_seldom_reported() {
    let mut noise = Noise(1);
    for (runs, deviation, false_max) in
        [(5, 0.03, 2), (5, 0.1, 40), (5, 0.2, 50), (32, 0.1, 3), (32, 0.2, 5)]
    {
        let (mut alarms, mut found) = (0, 0);
        for _ in 0..1000 {
            let mut earlier = || {
                let disturbed = if noise.share() < 0.1 { 1.5 } else { 1.0 };
                disturbed * noise.factor(deviation)
            };
            let (median, spread) = center((0..runs).map(|_| earlier()).collect());
            let now = noise.factor(deviation);
            alarms += u32::from(now > beyond(median, spread, runs));
            found += u32::from(1.5 * now > beyond(median, spread, runs));
        }
        assert!(alarms <= false_max, "{runs} runs, {deviation}: {alarms} of 1000");
        assert!(deviation > 0.05 || found > 900, "{runs} runs, {deviation}: {found} of 1000");
    }
}

#[test]
fn numbers_of_lines_are_no_part_of_a_place() {
    for (caller, expected) in [
        ("solve (a.c:12)", "solve (a.c)"),
        ("step (b.py:7), called by main (c.py:190)", "step (b.py), called by main (c.py)"),
        ("std::vector::at (a.h:1)", "std::vector::at (a.h)"),
        ("./program+0x12", "./program+0x12"),
    ] {
        assert_eq!(without_line(caller), expected);
    }
}

#[test]
fn a_list_and_a_table_are_for_readers() {
    let key = RunKey {
        program: "/bin/model".to_owned(),
        arguments: vec!["64\u{1b}".to_owned()],
        ranks: 2,
        hosts: 1,
        machine: "EPYC, 2 cores".to_owned(),
    };
    let run = |phase| PastRun { key: key.clone(), ended: 1000, ..past(phase, 1e-3, 0.25) };
    let runs = [vec![run(0.5); 6], vec![run(1.0)]].concat();
    let history = ProgramHistory { key: key.clone(), runs, unusable: 1 };
    let text = list(std::slice::from_ref(&history), 8200);
    let line = "     7  2 h ago  6.50 s     0 %  /bin/model 64? (2 ranks on 1 machine, EPYC, 2 \
                cores) [1 unusable]";
    assert!(text.lines().any(|one| one.trim() == line.trim()), "{text}");
    let text = details(&history, 1060);
    let line = "1.00 s   500 ms     0 %     6      4  slower  phase assembly";
    assert!(text.lines().any(|one| one.trim() == line), "{text}");
    let line = "1.00 ms  1.00 ms     0 %     6  1 000          MPI_Allreduce in solve (a.c), to 8 \
                bytes";
    assert!(text.lines().any(|one| one.trim() == line), "{text}");
}
