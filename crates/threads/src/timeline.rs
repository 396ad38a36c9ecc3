//! The timeline: what each processor ran at what time. It is written when the workers end, in the
//! trace event format that Perfetto and the browsers' chrome://tracing show.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use base::variables;
use bubbles::MachineTree;
use parking_lot::Mutex;
use serde_json::json;
use sys::environment;

use crate::label::Label;
use crate::thread::Thread;
use crate::thread::bubble::Bubble;

/// The recorded timeline.
pub(crate) struct Timeline {
    path: PathBuf,
    begun: Instant,
    /// The time of `begun` in microseconds since 1970, so that several processes share one time
    /// base.
    begun_us: f64,
    /// One list of spans for each processor.
    processors: Vec<Mutex<Ran>>,
}

/// The spans of one processor.
#[derive(Default)]
struct Ran {
    spans: Vec<Span>,
    /// The address of the thread that ran last.
    last: usize,
}

/// An uninterrupted run of one thread.
struct Span {
    label: Label,
    bubble: u64,
    /// In nanoseconds since the workers began.
    begin: u64,
    end: u64,
}

impl Timeline {
    /// Returns a timeline for this many processors if the user configured one, otherwise `None`.
    pub fn wanted(processors: usize) -> Option<Self> {
        let wanted =
            environment::value(variables::THREADS_TIMELINE).filter(|path| !path.is_empty())?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Some(Self {
            path: path_of(Path::new(&wanted), std::process::id()),
            begun: Instant::now(),
            begun_us: since.as_secs_f64() * 1e6,
            processors: (0..processors).map(|_| Mutex::default()).collect(),
        })
    }

    /// Records that a thread ran on a processor from `begin` until now.
    pub fn note(&self, processor: usize, thread: &Thread, begin: Instant) {
        let since = |when: Instant| when.duration_since(self.begun).as_nanos() as u64;
        let bubble = thread.bubble.as_ref().map_or(0, Bubble::number);
        let span =
            Span { label: thread.label, bubble, begin: since(begin), end: since(Instant::now()) };
        let address = std::ptr::from_ref(thread).addr();
        let ran = &mut *self.processors[processor].lock();
        let is_same = std::mem::replace(&mut ran.last, address) == address;
        let has_room = ran.spans.len() < SPANS_MAX;
        match ran.spans.last_mut() {
            // The thread yielded, but no other thread was ready.
            Some(last) if is_same && span.begin < last.end + GAP_NS => last.end = span.end,
            _ if has_room => ran.spans.push(span),
            _ => {}
        }
    }

    /// Writes the file. Prints an error message if it cannot be written.
    pub fn write(&self, machine: &MachineTree) {
        if let Err(error) = self.write_to(machine) {
            eprintln!(
                "combray: {}: the timeline of threads cannot be written to {}: {}",
                variables::THREADS_TIMELINE,
                self.path.display(),
                base::without_error_numbers(&error.to_string())
            );
        }
    }

    fn write_to(&self, machine: &MachineTree) -> io::Result<()> {
        let mut file = BufWriter::new(File::create(&self.path)?);
        let process = std::process::id();
        let rank = environment::text(variables::RANK)
            .map_or(String::new(), |rank| format!("rank {rank}, "));
        let name = json!({ "name": format!("{rank}process {process}") });
        let head = json!({ "ph": "M", "name": "process_name", "pid": process, "args": name });
        write!(file, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{head}")?;
        for (number, spans) in (0..).zip(&self.processors) {
            let spans = &spans.lock().spans;
            let cut = if spans.len() < SPANS_MAX { "" } else { " (cut: too many)" };
            let name = format!("processor {}{cut}", machine.system_number(number));
            let head = json!({ "ph": "M", "name": "thread_name", "pid": process, "tid": number,
                               "args": { "name": name } });
            write!(file, ",\n{head}")?;
            for Span { label, bubble, begin, end } in spans {
                let name = label.text();
                let name = if name.is_empty() { "(no name)" } else { &name };
                let begin_us = self.begun_us + *begin as f64 / 1e3;
                let mut event = json!({ "ph": "X", "name": name, "pid": process, "tid": number,
                                        "ts": begin_us, "dur": (end - begin) as f64 / 1e3 });
                if *bubble > 0 {
                    event["cat"] = json!(format!("bubble {bubble}"));
                    event["args"] = json!({ "bubble": bubble });
                }
                write!(file, ",\n{event}")?;
            }
        }
        writeln!(file, "\n]}}")?;
        file.flush()
    }
}

/// The path for one process: the process number is inserted before the extension, so that each
/// process has its own file.
fn path_of(wanted: &Path, process: u32) -> PathBuf {
    wanted.with_extension(match wanted.extension() {
        Some(extension) => format!("{process}.{}", extension.to_string_lossy()),
        None => process.to_string(),
    })
}

/// Shorter gaps between two runs of a thread do not end its span.
const GAP_NS: u64 = 1000;

/// The maximum number of spans for each processor: with 48 bytes each, 48 MiB.
const SPANS_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_a_file() {
        assert_eq!(path_of(Path::new("/tmp/a.b/run.json"), 7), Path::new("/tmp/a.b/run.7.json"));
        assert_eq!(path_of(Path::new("run"), 7), Path::new("run.7"));
        assert_eq!(size_of::<Span>(), 48);
    }
}
