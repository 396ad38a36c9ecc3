//! The processes of a job on one machine: the launcher's own, or an agent's.
//!
//! It takes orders and gives reports; what they mean for the job is the supervisor's to judge.

mod rank;
mod seating;
mod variables;

use std::collections::HashMap;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::process::Stdio;

use sys::process::{self, DescriptorLimit, End, Interest};

use super::{LaunchError, end_descendants, is_no_end, program};
use crate::protocol::{OUTPUT_BYTES_MAX, Order, Program, Report, Start, Target};
use rank::{Rank, Stream};
use seating::Seating;
use variables::Place;
pub(super) use variables::stale;

/// Where rank 0 reads.
pub(super) enum Input {
    /// Where the launcher itself reads.
    Inherited,
    /// What is typed at the launcher's terminal.
    Typed(PipeReader),
    /// What orders bring.
    Relayed,
}

/// The processes of one machine.
pub(super) struct Crew {
    ranks: Vec<Rank>,
    /// The limit that the person set, which the processes shall have.
    descriptors: DescriptorLimit,
    /// The position of each process in `ranks`.
    positions: HashMap<i32, usize>,
    input: Option<Input>,
    feed: Feed,
    /// How many bytes of output may be read, for each target; below 0 when a process that ended
    /// left more.
    room: [i64; 2],
    /// Whether nothing is heard from the processes for the moment.
    is_deaf: bool,
    /// What is watched, in the order of the last [`watched`](Self::watched).
    watched: Vec<Watched>,
}

#[derive(Clone, Copy)]
enum Watched {
    Feed,
    Rank(usize, Stream),
}

/// What is on its way to the standard input of rank 0.
#[derive(Default)]
struct Feed {
    pipe: Option<PipeWriter>,
    bytes: Vec<u8>,
    is_last: bool,
}

/// How many descriptors of a rank are held, and while one is started.
const DESCRIPTORS: u64 = 3;
const DESCRIPTORS_AT_START: u64 = 32;

impl Crew {
    /// No processes yet. `descriptors` is the limit that they shall have.
    pub(super) fn new(input: Input, descriptors: DescriptorLimit) -> Self {
        Self {
            ranks: Vec::new(),
            descriptors,
            positions: HashMap::new(),
            input: Some(input),
            feed: Feed::default(),
            room: [i64::from(OUTPUT_BYTES_MAX); 2],
            is_deaf: false,
            watched: Vec::new(),
        }
    }

    /// Does what is asked.
    pub(super) fn obey(&mut self, order: Order, reports: &mut Vec<Report>) {
        match order {
            Order::Start(start) => match self.start(start, reports) {
                Ok(()) => {
                    let processes = self.ranks.iter().map(|rank| rank.process).collect();
                    reports.push(Report::Started(processes));
                }
                Err(error) => {
                    end_descendants();
                    self.ranks.clear();
                    reports.push(Report::Refused(error.to_string()));
                }
            },
            Order::Input(bytes) => {
                self.feed.is_last |= bytes.is_empty();
                self.feed.bytes.extend_from_slice(&bytes);
                self.serve_input(reports);
            }
            Order::Answer(number, line) => {
                let position = self.ranks.binary_search_by_key(&number, |rank| rank.number);
                if let Ok(index) = position {
                    self.ranks[index].tell(&line);
                }
            }
            Order::Signal(only, number) => {
                let wanted =
                    self.ranks.iter().filter(|rank| only.is_none_or(|one| rank.number == one));
                wanted.for_each(|rank| rank.signal(number));
            }
            Order::Room(target, bytes) => self.room[target as usize] += i64::from(bytes),
            Order::Still => {}
            Order::Close => {
                end_descendants();
                (0..self.ranks.len()).for_each(|index| self.drain(index, reports));
                self.ranks.clear();
                self.watched.clear();
            }
        }
    }

    fn start(&mut self, mut start: Start, reports: &mut Vec<Report>) -> Result<(), LaunchError> {
        start.programs.iter_mut().try_for_each(prepare)?;
        let local_size = start.ranks.len() as u32;
        make_room(local_size)?;
        let seating = Seating::of(&start)?;
        for (local_rank, &(rank, program)) in (0..).zip(&start.ranks) {
            let program = &start.programs[program as usize];
            let place = Place { rank, size: start.size, local_rank, local_size, job: &start.job };
            let started = self
                .input_of(rank)
                .and_then(|input| Rank::start(&place, program, input, self.descriptors, &seating));
            let rank = started.map_err(|cause| LaunchError::of_program(&program.path, &cause))?;
            self.positions.insert(rank.process, self.ranks.len());
            if start.reports_bindings {
                let line = seating.describe(local_rank as usize);
                let line = format!("combray: rank {}: {line}\n", rank.number).into_bytes();
                self.room[Target::Errors as usize] -= line.len() as i64;
                reports.push(Report::Wrote(rank.number, Target::Errors, line));
            }
            self.ranks.push(rank);
        }
        Ok(())
    }

    fn input_of(&mut self, rank: u32) -> io::Result<Stdio> {
        if rank != 0 {
            return Ok(Stdio::null());
        }
        match self.input.take() {
            None => Ok(Stdio::null()),
            Some(Input::Inherited) => Ok(Stdio::inherit()),
            Some(Input::Typed(pipe)) => Ok(OwnedFd::from(pipe).into()),
            Some(Input::Relayed) => {
                let (reader, writer) = io::pipe()?;
                process::set_nonblocking(writer.as_raw_fd())?;
                self.feed.pipe = Some(writer);
                Ok(OwnedFd::from(reader).into())
            }
        }
    }

    /// Hears nothing more from the processes until told otherwise, as what they said waits.
    pub(super) fn set_deaf(&mut self, is_deaf: bool) {
        self.is_deaf = is_deaf;
    }

    /// Appends the descriptors to watch.
    pub(super) fn watched(&mut self, list: &mut Vec<(RawFd, Interest)>) {
        self.watched.clear();
        if let Some(pipe) = self.feed.pipe.as_ref().filter(|_| !self.feed.bytes.is_empty()) {
            list.push((pipe.as_raw_fd(), Interest::Write));
            self.watched.push(Watched::Feed);
        }
        let has_room = |target: Target| self.room[target as usize] > 0;
        for (index, rank) in self.ranks.iter().enumerate() {
            for (descriptor, interest, stream) in rank.watched(has_room, !self.is_deaf) {
                list.push((descriptor, interest));
                self.watched.push(Watched::Rank(index, stream));
            }
        }
    }

    /// Moves on what is ready, in the order of [`watched`](Self::watched).
    pub(super) fn serve(&mut self, ready: &[bool], reports: &mut Vec<Report>) {
        let watched = std::mem::take(&mut self.watched);
        for (what, _) in watched.iter().zip(ready).filter(|(_, ready)| **ready) {
            match *what {
                Watched::Feed => self.serve_input(reports),
                Watched::Rank(index, Stream::Writes(target)) => {
                    let room = &mut self.room[target as usize];
                    if *room > 0 {
                        let length = self.ranks[index].read(target, *room as usize, reports);
                        *room -= length as i64;
                    }
                }
                Watched::Rank(index, Stream::Pmi) => self.ranks[index].hear(reports),
            }
        }
    }

    /// A child has ended; false if it is none of the ranks.
    pub(super) fn bury(&mut self, process: i32, end: End, reports: &mut Vec<Report>) -> bool {
        let Some(index) = self.positions.remove(&process) else { return false };
        // What it said and wrote last may still be in its pipes.
        let Some(rank) = self.ranks.get_mut(index) else { return false };
        rank.hear(reports);
        rank.has_ended = true;
        let number = rank.number;
        self.drain(index, reports);
        reports.push(Report::Ended(number, end));
        true
    }

    fn drain(&mut self, index: usize, reports: &mut Vec<Report>) {
        for target in [Target::Output, Target::Errors] {
            let length = self.ranks[index].drain(target, reports);
            self.room[target as usize] -= length as i64;
        }
    }

    fn serve_input(&mut self, reports: &mut Vec<Report>) {
        let Feed { pipe, bytes, is_last } = &mut self.feed;
        while let Some(end) = pipe.as_mut().filter(|_| !bytes.is_empty()) {
            match end.write(bytes) {
                Ok(length) => {
                    bytes.drain(..length);
                    reports.push(Report::Took(length as u32));
                }
                Err(error) if is_no_end(&error) => return,
                // Rank 0 reads no more.
                Err(_) => *pipe = None,
            }
        }
        if *is_last {
            *pipe = None;
        }
        bytes.clear();
    }
}

/// Finds the program, so that nothing is started if one is missing.
pub(super) fn prepare(program: &mut Program) -> Result<(), LaunchError> {
    let search = program.variables.iter().find(|pair| pair.0 == "PATH").map(|pair| pair.1.clone());
    let search = search.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
    let folder = program.folder.as_deref().unwrap_or(Path::new("."));
    program.path = program::find(&program.path, folder, &search)?;
    Ok(())
}

/// Makes room for the descriptors of so many ranks or connections.
pub(super) fn make_room(count: u32) -> io::Result<()> {
    let descriptors = DescriptorLimit::read()?;
    let needed = u64::from(count) * DESCRIPTORS + DESCRIPTORS_AT_START;
    if needed > descriptors.soft {
        // Where even the hard limit is too low, starting the rank that is too many fails.
        let soft = needed.min(descriptors.hard);
        DescriptorLimit { soft, ..descriptors }.set()?;
    }
    Ok(())
}
