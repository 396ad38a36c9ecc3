//! What each processor ran when, written when the workers end, in the format of trace events that
//! Perfetto and the browsers' chrome://tracing show.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use base::variables;
use bubbles::MachineTree;
use parking_lot::Mutex;
use serde_json::json;
use sys::environment;

use crate::bubble::Bubble;
use crate::label::Label;
use crate::thread::Thread;

/// What has run so far.
pub(crate) struct Timeline {
    path: PathBuf,
    begun: Instant,
    /// The same, in microseconds since 1970, so that several processes have one time.
    begun_us: f64,
    /// A list for each processor.
    processors: Vec<Mutex<Ran>>,
}

/// What a processor ran.
#[derive(Default)]
struct Ran {
    spans: Vec<Span>,
    /// The address of the last thread.
    last: usize,
}

/// What one thread ran at a time.
struct Span {
    label: Label,
    bubble: u64,
    /// In nanoseconds since the workers began.
    begin: u64,
    end: u64,
}

impl Timeline {
    /// What the person asks for, for so many processors.
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

    /// A thread ran on a processor until now.
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
            // It would have let others run, and there were none.
            Some(last) if is_same && span.begin < last.end + GAP_NS => last.end = span.end,
            _ if has_room => ran.spans.push(span),
            _ => {}
        }
    }

    /// Writes the file; says where it cannot be written.
    pub fn write(&self, machine: &MachineTree) {
        if let Err(error) = self.write_to(machine) {
            eprintln!(
                "combray: {}: the timeline of threads cannot be written to {}: {error}",
                variables::THREADS_TIMELINE,
                self.path.display()
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

/// Each process has a file of its own: its number stands before the ending.
fn path_of(wanted: &Path, process: u32) -> PathBuf {
    wanted.with_extension(match wanted.extension() {
        Some(extension) => format!("{process}.{}", extension.to_string_lossy()),
        None => process.to_string(),
    })
}

/// What a thread runs is one span, in spite of shorter gaps.
const GAP_NS: u64 = 1000;

/// What is kept for each processor: with 48 bytes each, 48 MiB.
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
