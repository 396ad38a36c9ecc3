//! The figures that `combray sample` has measured of a machine's rails, kept in the user's cache
//! folder.
//!
//! There is one file for each machine, named after its host, as home folders are often shared
//! between machines. A process reads the file of its machine when it starts. If there is none, the
//! rails' models start from the figures that drivers declare.

mod memory;
mod nodes;
mod steps;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use collectives::Costs;
use engine::Engine;
use engine::model::RailFigures;
use memory_costs::CostTable;
use serde::{Deserialize, Serialize};
use sys::environment;
use tempfile::NamedTempFile;

pub use self::memory::MemorySample;
pub(crate) use self::memory::processor;
pub use self::nodes::{PlacedBlock, node_costs};

/// The version of the file format; files of other versions are rejected.
const VERSION: u32 = 1;

/// The largest size of a file of samples, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The figures of one machine's rails.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    version: u32,
    /// The name of the machine.
    pub host: String,
    /// The figures by the names of the rails, such as `shm` and `tcp:eth0`.
    pub rails: BTreeMap<String, RailFigures>,
    /// The costs of the steps of collective operations on this machine, if they were measured.
    #[serde(default)]
    pub costs: Option<Costs>,
    /// The costs of accesses to its memory, if they were measured.
    #[serde(default)]
    pub memory: Option<MemorySample>,
}

impl Samples {
    /// Returns the samples of a machine on which nothing was measured yet.
    pub fn none(host: &str) -> Self {
        let (rails, costs, memory) = Default::default();
        Self { version: VERSION, host: host.to_owned(), rails, costs, memory }
    }

    /// Returns the costs of the steps of collective operations: those that were measured; others as
    /// the costs of memory predict them, and otherwise by default.
    pub fn collective_costs(&self) -> Costs {
        let known = self.costs.unwrap_or_default();
        let Some(memory) = &self.memory else { return known };
        let predicted = steps::predicted(known, &memory.table);
        match self.costs {
            None => predicted,
            // What was measured by messages counts.
            Some(Costs { copy_ps, announced_ns, pipe_ps, reduce_ps, .. }) => {
                Costs { copy_ps, announced_ns, pipe_ps, reduce_ps, ..predicted }
            }
        }
    }

    /// Reads the samples of a machine from a folder; none if there is no file.
    ///
    /// # Errors
    /// The file cannot be read, or was not written by Combray: a sentence that says so.
    pub fn read(folder: &Path, host: &str) -> Result<Option<Self>, String> {
        match Self::read_file(&file_in(folder, host))? {
            Some(samples) if samples.host == host => Ok(Some(samples)),
            Some(_) => Err(unusable(&file_in(folder, host))),
            None => Ok(None),
        }
    }

    /// Reads the samples of a file, of any machine.
    fn read_file(path: &Path) -> Result<Option<Self>, String> {
        let length = match fs::metadata(path) {
            Ok(metadata) => metadata.len(),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(format!("{} cannot be read: {cause}", path.display())),
        };
        let text = match length {
            0..=FILE_BYTES_MAX => fs::read_to_string(path),
            _ => Err(io::Error::other("it is too long")),
        };
        let text = text.map_err(|cause| format!("{} cannot be read: {cause}", path.display()))?;
        Self::parse(&text, path).map(Some)
    }

    /// Parses the text of a file.
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self, String> {
        let samples: Self = serde_json::from_str(text).map_err(|cause| {
            format!("{} is not a file of combray sample ({cause}): {ADVICE}", path.display())
        })?;
        let known = samples.version == VERSION;
        let plausible = samples.costs.is_none_or(|costs| costs.are_plausible())
            && samples.memory.as_ref().is_none_or(|memory| memory.table.is_plausible());
        if !known || !plausible || !samples.rails.values().all(RailFigures::are_plausible) {
            return Err(unusable(path));
        }
        Ok(samples)
    }

    /// Writes the samples to a folder, which is created if it does not exist; readers see the old
    /// file or the new one. Returns the path.
    ///
    /// # Errors
    /// The file cannot be written: a sentence that says so.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, String> {
        let path = file_in(folder, &self.host);
        let text = serde_json::to_string_pretty(self).map_err(|cause| cause.to_string())?;
        let written = fs::create_dir_all(folder)
            .and_then(|()| NamedTempFile::new_in(folder))
            .and_then(|mut draft| draft.write_all(text.as_bytes()).map(|()| draft))
            .and_then(|draft| draft.persist(&path).map_err(|cause| cause.error));
        written.map_err(|cause| format!("{} cannot be written: {cause}", path.display()))?;
        Ok(path)
    }
}

/// What a user can do about a file that cannot be used.
const ADVICE: &str = "measure again with combray sample, or remove it";

fn unusable(path: &Path) -> String {
    format!("{} is of another version or machine, or damaged: {ADVICE}", path.display())
}

/// Returns the measured memory costs of another machine that has the processor model and the system
/// release of this one, as home folders are often shared between such machines. The files are read
/// in the order of their names, up to [`NEIGHBOURS_MAX`].
fn neighbours_memory(folder: &Path) -> Option<MemorySample> {
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(FILE_PREFIX) && name.ends_with(FILE_SUFFIX)
    };
    let entries = fs::read_dir(folder).ok()?;
    let mut paths: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(is_ours).collect();
    paths.sort();
    let read = |path: PathBuf| Samples::read_file(&path).ok().flatten()?.memory;
    let mut all = paths.into_iter().take(NEIGHBOURS_MAX).filter_map(read).peekable();
    all.peek()?;
    let own = MemorySample::of_now(CostTable::default());
    all.find(|memory| memory.is_of(&own))
}

/// The largest number of files of other machines that are read.
const NEIGHBOURS_MAX: usize = 16;

/// Returns the user's cache folder for Combray: `$XDG_CACHE_HOME/combray` or `~/.cache/combray`.
pub fn folder() -> Option<PathBuf> {
    let absolute =
        |name: &str| environment::value(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(caches.join("combray"))
}

/// Returns the name of this machine.
pub fn host() -> String {
    let name = sys::process::host_name();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

/// The prefix and the suffix of the names of the files.
const FILE_PREFIX: &str = "rails-";
const FILE_SUFFIX: &str = ".json";

fn file_in(folder: &Path, host: &str) -> PathBuf {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let name: String =
        host.chars().map(|letter| if plain(letter) { letter } else { '_' }).collect();
    folder.join(format!("{FILE_PREFIX}{name}{FILE_SUFFIX}"))
}

/// Returns the samples of this machine, empty if there is no file; memory costs may be those of a
/// similar machine. Also returns a sentence about a file that cannot be used.
pub fn kept() -> (Samples, Option<String>) {
    let host = host();
    let Some(folder) = folder() else { return (Samples::none(&host), None) };
    let (mut samples, warning) = match Samples::read(&folder, &host) {
        Ok(samples) => (samples.unwrap_or_else(|| Samples::none(&host)), None),
        Err(warning) => (Samples::none(&host), Some(format!("{warning}; it is ignored"))),
    };
    samples.memory = samples.memory.or_else(|| neighbours_memory(&folder));
    (samples, warning)
}

/// Initializes the models of an engine's rails with the measured figures.
pub(crate) fn follow(engine: &mut Engine, samples: &Samples) {
    for (name, figures) in &samples.rails {
        engine.believe(name, figures);
    }
}

#[cfg(test)]
mod tests {
    use base::{GateId, RailId, RailProfile};
    use engine::strategy::Auto;
    use memory_costs::SystemCosts;

    use tempfile::tempdir;

    use super::*;

    fn figures(bytes_per_us: u64) -> RailFigures {
        RailFigures {
            packet_ns: 2000,
            latency_ns: 9000,
            gap_ns: 0,
            bytes_per_us: [bytes_per_us; 5],
            copied_bytes_per_us: 7000,
        }
    }

    #[test]
    fn what_is_kept_is_found_again() {
        let folder = tempdir().unwrap();
        assert_eq!(Samples::read(folder.path(), "one"), Ok(None));
        let mut samples = Samples::none("one/../two");
        samples.rails.insert("tcp:eth0".into(), figures(118));
        let path = samples.write(folder.path()).unwrap();
        assert!(path.ends_with("rails-one_.._two.json"), "{path:?}");
        assert_eq!(Samples::read(folder.path(), "one/../two"), Ok(Some(samples)));
    }

    #[test]
    fn machines_alike_inherit_what_was_measured_of_memory() {
        let folder = tempdir().unwrap();
        assert_eq!(neighbours_memory(folder.path()), None);
        let table = CostTable {
            system: SystemCosts { copy_call_ns: 7.0, ..SystemCosts::default() },
            ..CostTable::default()
        };
        let alike = MemorySample::of_now(table);
        let other = MemorySample { processor: "another".into(), ..alike.clone() };
        for (host, memory) in [("a", Some(other)), ("b", None), ("c", Some(alike.clone()))] {
            let samples = Samples { memory, ..Samples::none(host) };
            samples.write(folder.path()).unwrap();
        }
        fs::write(file_in(folder.path(), "bad"), "nonsense").unwrap();
        assert_eq!(neighbours_memory(folder.path()), Some(alike));
    }

    #[test]
    fn bad_files_are_reported() {
        let folder = tempdir().unwrap();
        let mut samples = Samples::none("one");
        samples.rails.insert("shm".into(), figures(0));
        let path = samples.write(folder.path()).unwrap();
        let read = || Samples::read(folder.path(), "one").unwrap_err();
        assert!(read().contains("damaged"), "{}", read());
        for text in ["", "nonsense", "{}", "{\"version\":2,\"host\":\"one\",\"rails\":{}}"] {
            fs::write(&path, text).unwrap();
            assert!(read().contains("combray sample"), "{}", read());
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(read().contains("cannot be read"), "{}", read());
    }

    #[test]
    fn an_engine_believes_figures_of_rails_that_it_has() {
        let profile = RailProfile {
            name: "tcp:eth0".into(),
            packet_bytes_max: 4096,
            eager_bytes_max: 1024,
            fetch_segment_bytes_min: 0,
            latency_ns: 1,
            bandwidth_bytes_per_us: 1,
            packet_ns: 1,
            bulk: true,
            pushed_bytes: 0..0,
        };
        let mut engine = Engine::new(GateId(0), vec![profile], Box::new(Auto));
        engine.believe("tcp:eth1", &figures(500));
        assert_eq!(engine.model(RailId(0)).figures().bytes_per_us[0], 1);
        engine.believe("tcp:eth0", &figures(500));
        assert_eq!(engine.model(RailId(0)).figures(), &figures(500));
    }
}
