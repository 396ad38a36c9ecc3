//! What the user configures by environment variables, read once.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::OnceLock;

use base::variables;

use crate::places::{self, BindPolicy};
use crate::{borrowing, warn};

/// The kinds of schedules of loops, with the numbers of `omp_sched_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopKind {
    Static = 1,
    Dynamic = 2,
    Guided = 3,
    Auto = 4,
}

impl LoopKind {
    fn name(self) -> &'static str {
        match self {
            Self::Static => "STATIC",
            Self::Dynamic => "DYNAMIC",
            Self::Guided => "GUIDED",
            Self::Auto => "AUTO",
        }
    }

    /// The kind with this number; modifiers in the upper half are ignored.
    pub fn of(number: i64) -> Option<Self> {
        match number & 0xffff {
            1 => Some(Self::Static),
            2 => Some(Self::Dynamic),
            3 => Some(Self::Guided),
            4 => Some(Self::Auto),
            _ => None,
        }
    }
}

/// How waiting threads behave (`OMP_WAIT_POLICY`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitPolicy {
    Unset,
    Active,
    Passive,
}

/// The internal control variables that each task has.
#[derive(Clone, Copy, Debug)]
pub struct Controls {
    pub threads: u32,
    pub is_dynamic: bool,
    pub active_levels_max: u32,
    pub schedule: LoopKind,
    /// 0: the default of the schedule.
    pub chunk: u64,
    pub default_device: i32,
    /// How the threads of its next region are bound.
    pub bind: BindPolicy,
}

/// What the environment configures.
#[derive(Debug)]
pub struct UserSettings {
    pub controls: Controls,
    /// `OMP_NUM_THREADS`, a number for each level.
    pub threads: Vec<u32>,
    /// How many cores this process may use.
    pub cores: usize,
    pub wait_policy: WaitPolicy,
    pub thread_limit: u32,
    pub stack_bytes: Option<usize>,
    pub can_cancel: bool,
    pub task_priority_max: i32,
    /// `OMP_PROC_BIND`, one for each level.
    pub binds: Vec<BindPolicy>,
    /// The cores of each place; none if threads are not bound.
    pub places: Vec<Vec<usize>>,
    pub teams: i32,
    pub teams_thread_limit: i32,
    pub affinity_format: String,
    /// Whether tools observe the program (`OMP_TOOL`), and where they are.
    pub uses_tools: bool,
    pub tool_libraries: Vec<String>,
    /// Whether threads write where they run (`OMP_DISPLAY_AFFINITY`).
    pub displays_affinity: bool,
}

/// More levels than this cannot be active.
pub const ACTIVE_LEVELS_MAX: u32 = 255;

/// The settings of this process.
pub fn settings() -> &'static UserSettings {
    static SETTINGS: OnceLock<UserSettings> = OnceLock::new();
    SETTINGS.get_or_init(read)
}

fn read() -> UserSettings {
    let allowed = sys::cores::allowed();
    let cores = allowed.len().max(1);
    let threads = list("OMP_NUM_THREADS");
    let (schedule, chunk) = schedule();
    let (binds, places) = binding(&allowed);
    let has_levels = threads.len() > 1 || binds.len() > 1;
    let bind = binds.first().copied().unwrap_or(BindPolicy::False);
    let nested = flag("OMP_NESTED");
    let levels = number("OMP_MAX_ACTIVE_LEVELS", 0..=i64::from(i32::MAX));
    let levels = levels.unwrap_or(match nested {
        Some(true) => ACTIVE_LEVELS_MAX.into(),
        None if has_levels => ACTIVE_LEVELS_MAX.into(),
        _ => 1,
    });
    let positive = 1..=i64::from(i32::MAX);
    UserSettings {
        controls: Controls {
            threads: threads.first().copied().unwrap_or_else(|| {
                // Threads that are bound borrow no cores.
                if bind == BindPolicy::False { default_threads(cores) } else { cores as u32 }
            }),
            is_dynamic: flag("OMP_DYNAMIC").unwrap_or_default(),
            active_levels_max: (levels as u32).min(ACTIVE_LEVELS_MAX),
            schedule,
            chunk,
            default_device: number("OMP_DEFAULT_DEVICE", 0..=i64::from(i32::MAX)).unwrap_or(0)
                as i32,
            bind,
        },
        threads,
        cores,
        wait_policy: wait_policy(),
        thread_limit: number("OMP_THREAD_LIMIT", positive.clone()).map_or(u32::MAX, |n| n as u32),
        stack_bytes: stack_bytes("OMP_STACKSIZE").or_else(|| stack_bytes("GOMP_STACKSIZE")),
        can_cancel: flag("OMP_CANCELLATION").unwrap_or_default(),
        task_priority_max: number("OMP_MAX_TASK_PRIORITY", 0..=i64::from(i32::MAX)).unwrap_or(0)
            as i32,
        binds,
        places,
        teams: number("OMP_NUM_TEAMS", positive.clone()).unwrap_or(0) as i32,
        teams_thread_limit: number("OMP_TEAMS_THREAD_LIMIT", positive).unwrap_or(0) as i32,
        affinity_format: text("OMP_AFFINITY_FORMAT")
            .unwrap_or_else(|| "level %L thread %i affinity %A".to_owned()),
        uses_tools: !text("OMP_TOOL").is_some_and(|value| value.eq_ignore_ascii_case("disabled")),
        tool_libraries: text("OMP_TOOL_LIBRARIES")
            .map(|all| all.split(':').filter(|one| !one.is_empty()).map(str::to_owned).collect())
            .unwrap_or_default(),
        displays_affinity: flag("OMP_DISPLAY_AFFINITY").unwrap_or_default(),
    }
}

/// How many threads a team has by default.
fn default_threads(cores: usize) -> u32 {
    let together = text(variables::CORES).and_then(|number| number.parse().ok());
    let threads = match (borrowing::share(), together) {
        (Some(_), Some(together)) => borrowing::default_threads(cores, together),
        _ => cores,
    };
    threads as u32
}

/// The value of a variable, without spaces around it, in lower case except for formats.
fn text(name: &str) -> Option<String> {
    let value = sys::environment::text(name)?;
    Some(value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// Reports a value that is not understood.
fn refuse(name: &str, value: &dyn Display, expected: &str) {
    warn(&format!("the value {value} of {name} is ignored: it must be {expected}"));
}

fn number(name: &str, range: std::ops::RangeInclusive<i64>) -> Option<i64> {
    let value = text(name)?;
    let found = i64::from_str(&value).ok().filter(|number| range.contains(number));
    if found.is_none() {
        let expected = format!("a number from {} to {}", range.start(), range.end());
        refuse(name, &value, &expected);
    }
    found
}

fn list(name: &str) -> Vec<u32> {
    let Some(value) = text(name) else { return Vec::new() };
    let numbers = value.split(',').map(|one| u32::from_str(one.trim()).ok());
    let numbers = numbers.map(|one| one.filter(|number| (1..=1 << 20).contains(number)));
    numbers.collect::<Option<Vec<u32>>>().unwrap_or_else(|| {
        refuse(name, &value, "positive numbers, with commas between them");
        Vec::new()
    })
}

fn flag(name: &str) -> Option<bool> {
    let value = text(name)?;
    match value.to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => {
            refuse(name, &value, "true or false");
            None
        }
    }
}

fn wait_policy() -> WaitPolicy {
    let Some(value) = text("OMP_WAIT_POLICY") else { return WaitPolicy::Unset };
    match value.to_ascii_lowercase().as_str() {
        "active" => WaitPolicy::Active,
        "passive" => WaitPolicy::Passive,
        _ => {
            refuse("OMP_WAIT_POLICY", &value, "active or passive");
            WaitPolicy::Unset
        }
    }
}

/// How threads are bound at each level, and the places: as GNU's library, threads are bound also if
/// the user gives places only, and each has a core if he wants them bound only.
fn binding(allowed: &[usize]) -> (Vec<BindPolicy>, Vec<Vec<usize>>) {
    let binds = binds();
    if binds.as_deref() == Some(&[BindPolicy::False]) {
        return (vec![BindPolicy::False], Vec::new());
    }
    let places = given("OMP_PLACES", |text| places::parse(text, allowed), PLACES);
    let places = places.or_else(|| given("GOMP_CPU_AFFINITY", places::parse_cores, CORES));
    let (Some(places), binds) = (match (places, binds) {
        (None, None) => return (Vec::new(), Vec::new()),
        (None, Some(binds)) => (places::parse("threads", allowed), binds),
        (places, binds) => (places, binds.unwrap_or_else(|| vec![BindPolicy::True])),
    }) else {
        return (Vec::new(), Vec::new());
    };
    let usable = places::usable(places, allowed);
    if usable.is_empty() {
        warn("threads are not bound: this process may use no core of their places");
        return (Vec::new(), Vec::new());
    }
    (binds, usable)
}

const PLACES: &str =
    "places, as {0,1},{2,3}, or threads, cores, ll_caches, numa_domains or sockets";
const CORES: &str = "numbers of cores and ranges of them, as 0 2 4-7";

/// The value of a variable as `parse` understands it.
fn given<T>(name: &str, parse: impl Fn(&str) -> Option<T>, expected: &str) -> Option<T> {
    let value = text(name)?;
    let found = parse(&value);
    if found.is_none() {
        refuse(name, &value, expected);
    }
    found
}

fn binds() -> Option<Vec<BindPolicy>> {
    let parse = |value: &str| value.split(',').map(BindPolicy::named).collect::<Option<Vec<_>>>();
    let is_allowed = |binds: &Vec<BindPolicy>| {
        binds.len() == 1
            || binds.iter().all(|bind| !matches!(bind, BindPolicy::False | BindPolicy::True))
    };
    let parse = |value: &str| parse(value).filter(is_allowed);
    given("OMP_PROC_BIND", parse, "true, false, or a list of primary, close and spread")
}

/// `OMP_SCHEDULE`: a modifier, a kind and a chunk. Dynamic with chunks of 1 if it is not set.
fn schedule() -> (LoopKind, u64) {
    let Some(value) = text("OMP_SCHEDULE") else { return (LoopKind::Dynamic, 1) };
    parse_schedule(&value).unwrap_or_else(|| {
        refuse("OMP_SCHEDULE", &value, "static, dynamic, guided or auto, and a size of chunks");
        (LoopKind::Dynamic, 1)
    })
}

fn parse_schedule(value: &str) -> Option<(LoopKind, u64)> {
    let lower = value.to_ascii_lowercase();
    let (modifier, rest) = match lower.split_once(':') {
        Some((modifier, rest)) => (Some(modifier.trim()), rest),
        None => (None, lower.as_str()),
    };
    if modifier.is_some_and(|one| !["monotonic", "nonmonotonic"].contains(&one)) {
        return None;
    }
    let (kind, chunk) = match rest.split_once(',') {
        Some((kind, chunk)) => (kind, Some(chunk)),
        None => (rest, None),
    };
    let kind = match kind.trim() {
        "static" => LoopKind::Static,
        "dynamic" => LoopKind::Dynamic,
        "guided" => LoopKind::Guided,
        "auto" => LoopKind::Auto,
        _ => return None,
    };
    let chunk = match chunk {
        Some(chunk) => i32::from_str(chunk.trim()).ok().filter(|chunk| *chunk > 0)? as u64,
        None if kind == LoopKind::Static => 0,
        None => 1,
    };
    Some((kind, chunk))
}

/// A size with a unit: B, K (which is the default), M or G.
fn stack_bytes(name: &str) -> Option<usize> {
    let value = text(name)?;
    let found = parse_bytes(&value);
    if found.is_none() {
        refuse(name, &value, "a size with B, K, M or G");
    }
    found
}

fn parse_bytes(value: &str) -> Option<usize> {
    let end = value.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(value.len());
    let (digits, unit) = value.split_at(end);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "b" => 0,
        "" | "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return None,
    };
    usize::from_str(digits).ok()?.checked_mul(1 << shift)
}

/// Writes what is configured if the user asks for it (`OMP_DISPLAY_ENV`).
pub fn display_if_asked() {
    let Some(value) = text("OMP_DISPLAY_ENV") else { return };
    match value.to_ascii_lowercase().as_str() {
        "true" => display(false),
        "verbose" => display(true),
        "false" => {}
        _ => refuse("OMP_DISPLAY_ENV", &value, "true, false or verbose"),
    }
}

/// Writes what is configured, in the form that the standard gives.
pub fn display(is_verbose: bool) {
    let settings = settings();
    let own = &settings.controls;
    let threads = match settings.threads[..] {
        [] => own.threads.to_string(),
        _ => settings.threads.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
    };
    let upper = |value: bool| if value { "TRUE" } else { "FALSE" };
    let kind = own.schedule.name();
    let schedule = if own.chunk > 0 { format!("{kind},{}", own.chunk) } else { kind.to_owned() };
    let name = |bind: &BindPolicy| ["FALSE", "TRUE", "PRIMARY", "CLOSE", "SPREAD"][*bind as usize];
    let binds = match settings.binds[..] {
        [] => name(&BindPolicy::False).to_owned(),
        _ => settings.binds.iter().map(name).collect::<Vec<_>>().join(","),
    };
    let policy = if settings.wait_policy == WaitPolicy::Active { "ACTIVE" } else { "PASSIVE" };
    let bytes = settings.stack_bytes.unwrap_or_else(sys::process::stack_bytes);
    let mut lines = vec![
        ("OMP_DYNAMIC", upper(own.is_dynamic).to_owned()),
        ("OMP_NESTED", upper(own.active_levels_max > 1).to_owned()),
        ("OMP_NUM_THREADS", threads),
        ("OMP_SCHEDULE", schedule),
        ("OMP_PROC_BIND", binds),
        ("OMP_PLACES", places::show(&settings.places)),
        ("OMP_STACKSIZE", bytes.to_string()),
        ("OMP_WAIT_POLICY", policy.to_owned()),
        ("OMP_THREAD_LIMIT", settings.thread_limit.to_string()),
        ("OMP_MAX_ACTIVE_LEVELS", own.active_levels_max.to_string()),
        ("OMP_NUM_TEAMS", settings.teams.to_string()),
        ("OMP_TEAMS_THREAD_LIMIT", settings.teams_thread_limit.to_string()),
        ("OMP_CANCELLATION", upper(settings.can_cancel).to_owned()),
        ("OMP_DEFAULT_DEVICE", own.default_device.to_string()),
        ("OMP_MAX_TASK_PRIORITY", settings.task_priority_max.to_string()),
        ("OMP_AFFINITY_FORMAT", settings.affinity_format.clone()),
    ];
    if is_verbose {
        lines.push(("GOMP_STACKSIZE", bytes.to_string()));
    }
    let mut page = format!("\nOPENMP DISPLAY ENVIRONMENT BEGIN\n  _OPENMP = '{VERSION}'\n");
    for (name, value) in lines {
        page += &format!("  [host] {name} = '{value}'\n");
    }
    eprintln!("{page}OPENMP DISPLAY ENVIRONMENT END");
}

/// The version of the standard that GCC 12 announces.
const VERSION: &str = "201511";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_have_modifiers_kinds_and_chunks() {
        assert_eq!(parse_schedule("static"), Some((LoopKind::Static, 0)));
        assert_eq!(parse_schedule(" Guided , 7"), Some((LoopKind::Guided, 7)));
        assert_eq!(parse_schedule("monotonic:dynamic"), Some((LoopKind::Dynamic, 1)));
        for wrong in ["", "fast", "static,", "dynamic,0", "dynamic,-1", "odd:static"] {
            assert_eq!(parse_schedule(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_bytes("512"), Some(512 << 10));
        assert_eq!(parse_bytes("16 M"), Some(16 << 20));
        assert_eq!(parse_bytes("100b"), Some(100));
        for wrong in ["", "M", "12x", "99999999999999999999"] {
            assert_eq!(parse_bytes(wrong), None, "{wrong}");
        }
    }
}
