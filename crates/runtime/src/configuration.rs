//! The configuration: environment variables with the prefix `COMBRAY_`, all in one table.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use base::variables::{self, CONTROL_VARIABLES, control_index};
use driver::{Copying, GivenCopying, MiddleWay};
use drivers::LocalWay;
use engine::strategy::{self, Strategy};
use sys::environment;
use topology::{JobNetwork, Parts};

use crate::gathering::TrafficClass;

/// What an error does until the program sets an error handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialErrorHandler {
    /// Ends the job.
    Fatal,
    /// Ends the processes of the object on which the error occurred.
    Abort,
    /// Is returned to the caller.
    Return,
}

/// Returns the value of `COMBRAY_NET`, which selects networks; empty if it is not set.
pub fn networks() -> String {
    environment::text(variables::NET).unwrap_or_default()
}

/// Returns how long another machine may be silent before it is considered failed.
///
/// # Errors
/// `COMBRAY_HOST_TIMEOUT` is not a number of seconds in the allowed range.
pub fn host_timeout() -> Result<Duration, String> {
    let value = environment::text(variables::HOST_TIMEOUT).unwrap_or_default();
    if value.is_empty() {
        return Ok(variables::HOST_TIMEOUT_DEFAULT);
    }
    variables::host_timeout(&value).ok_or_else(|| {
        let (least, most) = variables::HOST_TIMEOUT_RANGE_S.into_inner();
        format!(
            "{}: \"{value}\" is not a number of seconds from {least} to {most}",
            variables::HOST_TIMEOUT
        )
    })
}

/// Returns the name that `COMBRAY_NODE` gives to this machine, if any.
pub fn node() -> Option<String> {
    environment::text(variables::NODE).filter(|node| !node.is_empty())
}

/// Returns the directory for published names that `COMBRAY_NAMES` names, if any.
pub fn names() -> Option<PathBuf> {
    environment::value(variables::NAMES).filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// Returns the file for the communication matrix that `COMBRAY_RECORD` names, if any.
pub fn record() -> Option<PathBuf> {
    environment::value(variables::RECORD).filter(|file| !file.is_empty()).map(PathBuf::from)
}

/// Returns the file for the trace of the job that `COMBRAY_TRACE` names, if any.
pub fn trace() -> Option<PathBuf> {
    environment::value(variables::TRACE).filter(|file| !file.is_empty()).map(PathBuf::from)
}

/// Returns the folder that `COMBRAY_RECORD_ORDER` names, if any.
pub fn record_order() -> Option<PathBuf> {
    environment::value(variables::RECORD_ORDER).filter(|folder| !folder.is_empty()).map(Into::into)
}

/// Returns the folder that `COMBRAY_REPLAY_ORDER` names, if any.
pub fn replay_order() -> Option<PathBuf> {
    environment::value(variables::REPLAY_ORDER).filter(|folder| !folder.is_empty()).map(Into::into)
}

/// Returns the memory for the trace of a process, in bytes.
pub fn trace_bytes() -> usize {
    variables::trace_bytes(environment::text(variables::TRACE_MIB).as_deref())
}

/// Returns how much of the end of a trace is written, in nanoseconds, if not all.
pub fn trace_last() -> Option<u64> {
    environment::text(variables::TRACE_LAST).as_deref().and_then(variables::trace_last)
}

/// Returns the folder of the counters of energy: that of `COMBRAY_ENERGY_COUNTERS`, or the
/// kernel's.
pub fn energy_counters() -> PathBuf {
    let named = environment::value(variables::ENERGY_COUNTERS).filter(|folder| !folder.is_empty());
    named.map_or_else(|| sys::energy::COUNTERS.into(), PathBuf::from)
}

/// Returns where `COMBRAY_PROFILE` sends the profile of the job, if it is set.
pub fn profile() -> Option<ProfileTarget> {
    let wanted = environment::value(variables::PROFILE).filter(|wanted| !wanted.is_empty())?;
    Some(match wanted == "page" {
        true => ProfileTarget::Page,
        false => ProfileTarget::File(wanted.into()),
    })
}

/// Whether the durations of profiled jobs are kept, to compare later runs with them.
pub fn keeps_history() -> bool {
    environment::text(variables::HISTORY).is_none_or(|value| value != "never")
}

/// The destination of the profile of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileTarget {
    /// One page on standard error.
    Page,
    /// The page on standard error, and the whole profile in this file.
    File(PathBuf),
}

/// Returns the description of the file descriptors that the launcher has opened for this process.
pub(crate) fn descriptors() -> String {
    environment::text(variables::DESCRIPTORS).unwrap_or_default()
}

/// Returns the number of cores that all processes of this machine may use together, if the launcher
/// bound them and sent it.
pub(crate) fn cores_together() -> Option<usize> {
    environment::text(variables::CORES)?.parse().ok()
}

/// Returns the parts of this machine in which its processes run, in the order of their ranks, if
/// the launcher bound them and sent it.
pub(crate) fn parts_here() -> Option<Vec<Parts>> {
    topology::parts_from_text(&environment::text(variables::PARTS)?).ok()
}

/// Returns the local rank: the index of this process among the processes of the job on this
/// machine, if the launcher sent it.
pub(crate) fn local_rank() -> Option<usize> {
    environment::text(variables::LOCAL_RANK)?.parse().ok()
}

/// Returns the number of processes of the job on this machine, if the launcher sent it.
pub(crate) fn processes_here() -> Option<u32> {
    environment::text(variables::LOCAL_SIZE)?.parse().ok()
}

/// Returns the names of the switches above this machine, outermost first; empty if the batch system
/// does not provide them.
pub(crate) fn switches() -> Vec<String> {
    let known = topology::switches_by_slurm();
    // The names are published with separators around them, which they must not contain.
    let is_plain = |name: &String| {
        name.len() <= SWITCH_NAME_MAX
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    if known.iter().all(is_plain) { known } else { Vec::new() }
}

/// Returns the network between the machines of the job, if the launcher sent it.
pub(crate) fn network() -> Option<JobNetwork> {
    JobNetwork::from_text(&environment::text(variables::NETWORK_OF_JOB)?)
}

/// Switches with longer names are not published; in bytes.
const SWITCH_NAME_MAX: usize = 64;

/// The values of all variables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// For each variable of [`CONTROL_VARIABLES`] the index of its value.
    chosen: [usize; CONTROL_VARIABLES.len()],
}

impl Configuration {
    /// Reads the environment. Returns the configuration, and a sentence for each variable that was
    /// not understood.
    pub fn read() -> (Self, Vec<String>) {
        let (configuration, mut warnings) = Self::from_variables(environment::all());
        warnings.extend(environment::disregarded().map(disregarded));
        (configuration, warnings)
    }

    /// Returns the index of a variable's value. `variable` is its index in [`CONTROL_VARIABLES`].
    pub fn chosen(&self, variable: usize) -> usize {
        self.chosen[variable]
    }

    /// Sets a variable to a value, both given by their indices.
    pub fn choose(&mut self, variable: usize, value: usize) {
        self.chosen[variable] = value;
    }

    /// Returns the value of the variable with this index in [`CONTROL_VARIABLES`].
    fn word(&self, variable: usize) -> &'static str {
        CONTROL_VARIABLES[variable].values[self.chosen[variable]]
    }

    /// Returns the value of `COMBRAY_INITIAL_ERRHANDLER`.
    pub fn initial_error_handler(&self) -> InitialErrorHandler {
        match self.chosen[const { control_index(variables::INITIAL_ERRHANDLER) }] {
            0 => InitialErrorHandler::Fatal,
            1 => InitialErrorHandler::Abort,
            _ => InitialErrorHandler::Return,
        }
    }

    /// Whether `COMBRAY_SINGLE_COPY` is not `never`.
    pub fn single_copy(&self) -> bool {
        self.chosen[const { control_index(variables::SINGLE_COPY) }] == 0
    }

    /// Returns the value of `COMBRAY_COPYING`.
    pub fn copying(&self) -> GivenCopying {
        let name = self.word(const { control_index(variables::COPYING) });
        let middle = MiddleWay::ALL.into_iter().find(|way| LocalWay::Middle(*way).name() == name);
        let long = Copying::ALL.into_iter().find(|way| LocalWay::Long(*way).name() == name);
        GivenCopying { middle, long }
    }

    /// Returns the value of `COMBRAY_STRATEGY`, one of [`engine::strategy::NAMES`].
    pub fn strategy(&self) -> &'static str {
        self.word(const { control_index(variables::STRATEGY) })
    }

    /// Creates the strategy that `COMBRAY_STRATEGY` names.
    pub(crate) fn create_strategy(&self) -> Box<dyn Strategy> {
        let strategy = strategy::by_name(self.strategy());
        Box::new(strategy.expect("the table of variables has their names"))
    }

    /// Whether `COMBRAY_SHARED_WINDOWS` is not `never`.
    pub fn shared_windows(&self) -> bool {
        self.chosen[const { control_index(variables::SHARED_WINDOWS) }] == 0
    }

    /// Returns whether buffers may lie in memory of graphics processors, if `COMBRAY_DEVICES`
    /// decides it.
    pub fn devices(&self) -> Option<bool> {
        match self.word(const { control_index(variables::DEVICES) }) {
            "never" => Some(false),
            "always" => Some(true),
            _ => None,
        }
    }

    /// Whether `COMBRAY_BOARDS` is not `never`.
    pub fn boards(&self) -> bool {
        self.chosen[const { control_index(variables::BOARDS) }] == 0
    }

    /// Whether `COMBRAY_HELPER` is not `never`.
    pub fn helper(&self) -> bool {
        self.chosen[const { control_index(variables::HELPER) }] == 0
    }

    /// Whether `COMBRAY_CHECK` is 1.
    pub fn checks(&self) -> bool {
        self.chosen[const { control_index(variables::CHECK) }] == 1
    }

    /// Whether `COMBRAY_KEEP_GOING` is 1.
    pub fn keeps_going(&self) -> bool {
        self.chosen[const { control_index(variables::KEEP_GOING) }] == 1
    }

    /// Returns the value of `COMBRAY_PREFER`.
    pub fn traffic_class(&self) -> TrafficClass {
        TrafficClass::named(self.word(const { control_index(variables::PREFER) }).as_bytes())
            .unwrap_or_default()
    }

    pub(crate) fn from_variables(
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> (Self, Vec<String>) {
        let mut configuration = Self::default();
        let mut warnings = Vec::new();
        for (name, value) in variables {
            let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
            let Some(index) = CONTROL_VARIABLES.iter().position(|variable| variable.name == name)
            else {
                if name.starts_with(variables::PREFIX) && variables::named(&name).is_none() {
                    warnings.push(unknown(&name));
                }
                continue;
            };
            let values = CONTROL_VARIABLES[index].values;
            match values.iter().position(|known| *known == value) {
                Some(position) => configuration.choose(index, position),
                None => {
                    let values = values.join(" or ");
                    warnings.push(format!(
                        "{name} is \"{value}\", but must be {values}; it is ignored"
                    ));
                }
            }
        }
        (configuration, warnings)
    }
}

fn disregarded(name: &str) -> String {
    format!(
        "{name} is ignored: a program with more rights than its user (set-user-ID, set-group-ID or \
         file capabilities) uses no variables that name files or libraries"
    )
}

fn unknown(name: &str) -> String {
    let known = variables::all().map(|variable| variable.name);
    let nearest = known.min_by_key(|known| distance(known, name)).unwrap_or_default();
    format!("{name} is not a variable of Combray; did you mean {nearest}?")
}

/// Returns how many letters must be inserted, removed or changed to turn `a` into `b` (Levenshtein
/// distance).
pub fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> (Configuration, Vec<String>) {
        let owned = pairs.iter().map(|(name, value)| (name.into(), value.into()));
        Configuration::from_variables(owned)
    }

    #[test]
    fn defaults_and_values() {
        let (configuration, warnings) = read(&[("PATH", "x"), ("COMBRAY_RANK", "3")]);
        assert!(configuration.single_copy() && configuration.strategy() == "auto");
        assert!(warnings.is_empty());
        assert_eq!(configuration.initial_error_handler(), InitialErrorHandler::Fatal);
        let (configuration, _) = read(&[("COMBRAY_INITIAL_ERRHANDLER", "mpi_errors_return")]);
        assert_eq!(configuration.initial_error_handler(), InitialErrorHandler::Return);
        let (configuration, _) =
            read(&[("COMBRAY_SINGLE_COPY", "never"), ("COMBRAY_STRATEGY", "direct")]);
        assert!(!configuration.single_copy() && configuration.strategy() == "direct");
    }

    #[test]
    fn every_way_of_copying_can_be_given() {
        let given = |name| read(&[("COMBRAY_COPYING", name)]).0.copying();
        assert_eq!(given("auto"), GivenCopying::default());
        for way in [64 << 10, 1 << 20].into_iter().flat_map(LocalWay::all_of) {
            let (middle, long) = match way {
                LocalWay::InPacket => unreachable!("they are longer"),
                LocalWay::Middle(way) => (Some(way), None),
                LocalWay::Long(way) => (None, Some(way)),
            };
            assert_eq!(given(way.name()), GivenCopying { middle, long });
        }
    }

    #[test]
    fn every_strategy_can_be_given() {
        assert_eq!(
            CONTROL_VARIABLES[control_index(variables::STRATEGY)].values,
            engine::strategy::NAMES
        );
    }

    #[test]
    fn an_unknown_name_is_reported_with_the_nearest() {
        let (_, warnings) = read(&[("COMBRAY_STRATEGI", "direct")]);
        assert!(warnings[0].contains("did you mean COMBRAY_STRATEGY?"), "{warnings:?}");
    }

    #[test]
    fn a_wrong_value_is_reported() {
        let (configuration, warnings) = read(&[("COMBRAY_STRATEGY", "magic")]);
        assert_eq!(configuration.strategy(), "auto");
        assert!(warnings[0].contains("auto or direct or aggregate"), "{warnings:?}");
    }
}
