//! Where the threads of the library run or wait, as reported by the processes.

use std::fmt::Write;

use threads::census::{Census, QueueCensus, ThreadCensus};
use topology::CpuSet;

use super::processes::ShownProcess;

/// The number of threads of a queue that are named in a line.
const NAMED_MAX: usize = 6;

/// The reports of all processes as text.
pub fn text(processes: &[ShownProcess]) -> Option<String> {
    let sets =
        processes.iter().flat_map(|process| process.workers.iter().map(move |one| (process, one)));
    let texts: Vec<String> = sets.map(|(process, census)| of_workers(process, census)).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

fn of_workers(process: &ShownProcess, census: &Census) -> String {
    let who = match process.rank {
        Some(rank) => format!("rank {rank} (process {})", process.number),
        None => format!("process {}", process.number),
    };
    let running = census.processors.iter().filter(|one| one.running.is_some()).count();
    let ready: u64 = census.queues.iter().map(|queue| queue.length).sum();
    let mut text = format!(
        "Threads of {who}: {running} running, {ready} ready, {} waiting, {} that have lent their \
         processor; scheduler {}\n",
        census.waiting, census.lent, census.scheduler
    );
    // Writing to a string does not fail.
    for processor in &census.processors {
        let runs = processor
            .running
            .as_ref()
            .map_or("runs nothing".to_owned(), |thread| format!("runs {}", name(thread)));
        let _ = writeln!(text, "  processor {}: {runs}", processor.number);
    }
    for queue in &census.queues {
        let _ = writeln!(text, "  {}", of_queue(queue));
    }
    for bubble in &census.bubbles {
        let inside = bubble.bubble.map_or(String::new(), |above| format!(", in bubble {above}"));
        let _ = writeln!(text, "  bubble {}: {}{inside}", bubble.number, bubble.relation);
    }
    text
}

fn of_queue(queue: &QueueCensus) -> String {
    let set: CpuSet = queue.processors.iter().map(|&number| number as usize).collect();
    let noun = if queue.processors.len() == 1 { "processor" } else { "processors" };
    let state = if queue.is_aside { "put aside" } else { "ready" };
    let mut named: Vec<String> = queue.first.iter().take(NAMED_MAX).map(name).collect();
    let rest = queue.length as usize - named.len().min(queue.length as usize);
    if rest > 0 {
        named.push(format!("{rest} more"));
    }
    format!("{state} on {noun} {set}: {}", named.join(", "))
}

/// The name of a thread, with its bubble.
fn name(thread: &ThreadCensus) -> String {
    let name = if thread.name.is_empty() { "(no name)" } else { &thread.name };
    thread.bubble.map_or(name.to_owned(), |bubble| format!("{name} (bubble {bubble})"))
}

/// The text in a picture for one processor, and for a larger part, in the box of a process.
impl ShownProcess {
    /// What the process runs on a processor, and how many threads are ready there. `None` if it has
    /// no worker there.
    pub fn on_processor(&self, number: u32) -> Option<String> {
        let (census, here) = self.workers.iter().find_map(|census| {
            let here = census.processors.iter().find(|one| one.number == number)?;
            Some((census, here))
        })?;
        let mut text = here.running.as_ref().map_or("idle".to_owned(), name);
        let ready = ready_at(census, |queue| queue.processors == [number]);
        if ready > 0 {
            text += &format!(" +{ready}");
        }
        Some(text)
    }

    /// The number of threads that are ready at a part with several processors.
    pub fn ready_at(&self, part: &CpuSet) -> u64 {
        let is_part = |queue: &QueueCensus| {
            let set: CpuSet = queue.processors.iter().map(|&number| number as usize).collect();
            queue.processors.len() > 1 && set == *part
        };
        self.workers.iter().map(|census| ready_at(census, is_part)).sum()
    }
}

fn ready_at(census: &Census, is_meant: impl Fn(&QueueCensus) -> bool) -> u64 {
    census.queues.iter().filter(|queue| is_meant(queue)).map(|queue| queue.length).sum()
}

#[cfg(test)]
mod tests {
    use threads::census::{BubbleCensus, ProcessorCensus};

    use super::*;

    fn example() -> ShownProcess {
        let thread = |name: &str, bubble| ThreadCensus { name: name.to_owned(), bubble };
        let queue = |processors: &[u32], is_aside, length, first| QueueCensus {
            processors: processors.to_vec(),
            is_aside,
            length,
            first,
        };
        let census = Census {
            scheduler: "cache".to_owned(),
            processors: vec![
                ProcessorCensus { number: 0, running: Some(thread("exchange", Some(3))) },
                ProcessorCensus { number: 1, running: None },
            ],
            queues: vec![
                queue(&[0, 1], false, 9, vec![thread("", None); 7]),
                queue(&[0], false, 1, vec![thread("halo", Some(3))]),
                queue(&[1], true, 1, vec![thread("later", None)]),
            ],
            bubbles: vec![BubbleCensus {
                number: 3,
                bubble: Some(1),
                relation: "waits together".to_owned(),
            }],
            alive: 112,
            lent: 0,
            waiting: 100,
        };
        ShownProcess {
            host: None,
            number: 4711,
            rank: Some(2),
            allowed: CpuSet::default(),
            threads: Vec::new(),
            workers: vec![census],
        }
    }

    #[test]
    fn threads_are_told_by_where_they_are() {
        let no_name = "(no name), ".repeat(6);
        let wanted = format!(
            "Threads of rank 2 (process 4711): 1 running, 11 ready, 100 waiting, 0 that have lent \
             their processor; scheduler cache\n  \
             processor 0: runs exchange (bubble 3)\n  processor 1: runs nothing\n  \
             ready on processors 0-1: {no_name}3 more\n  \
             ready on processor 0: halo (bubble 3)\n  \
             put aside on processor 1: later\n  bubble 3: waits together, in bubble 1\n"
        );
        assert_eq!(text(&[example()]).as_deref(), Some(wanted.as_str()));
        assert_eq!(text(&[]), None);
    }

    #[test]
    fn pictures_show_what_runs_and_how_many_wait() {
        let process = example();
        assert_eq!(process.on_processor(0).as_deref(), Some("exchange (bubble 3) +1"));
        assert_eq!(process.on_processor(1).as_deref(), Some("idle +1"));
        assert_eq!(process.on_processor(2), None);
        assert_eq!(process.ready_at(&[0, 1].into_iter().collect()), 9);
        assert_eq!(process.ready_at(&[0].into_iter().collect()), 0);
    }

    #[test]
    fn other_hosts_tell_of_threads_too() {
        let reported =
            ShownProcess::from_json(&example().to_json(), "one").expect("it is understood");
        assert_eq!(reported.workers, example().workers);
    }
}
