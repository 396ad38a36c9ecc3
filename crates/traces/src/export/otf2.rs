//! Traces for OTF2, the format of Score-P's tools, as plain data that the crate `otf2` writes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use profiles::CollectiveKind;

use crate::alignment::AlignedTrace;
use crate::{
    TraceCounter, TraceEvent, TraceTrack, TracedExchange, TracedMessage, TracedOperation,
    TracedSpan,
};

/// An archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Otf2Archive {
    /// The names of the hosts.
    pub hosts: Vec<String>,
    /// The ranks: each with its name and the number of its host.
    pub ranks: Vec<(String, u32)>,
    /// What events enter and leave.
    pub regions: Vec<Otf2Region>,
    /// The groups of ranks that communicate; messages refer to them, and collective operations.
    pub communicators: Vec<Otf2Communicator>,
    /// Where events happen.
    pub locations: Vec<Otf2Location>,
    /// The names of the counters.
    pub counters: Vec<&'static str>,
    /// The first moment, in nanoseconds, and how long the trace lasts.
    pub begun: u64,
    /// From the first moment to the last one, in nanoseconds.
    pub lasted: u64,
}

/// A region.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Otf2Region {
    /// The name.
    pub name: String,
    /// `OTF2_RegionRole`.
    pub role: u8,
    /// `OTF2_Paradigm`.
    pub paradigm: u8,
}

/// A group of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Otf2Communicator {
    /// The name.
    pub name: String,
    /// The indices of its ranks.
    pub ranks: Vec<u32>,
}

/// A thread, or another track, of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Otf2Location {
    /// The name.
    pub name: String,
    /// The index of the rank. The first location of a rank is its first thread.
    pub rank: u32,
    /// The events with their times in nanoseconds, in order; regions are properly nested.
    pub events: Vec<(u64, Otf2Event)>,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otf2Event {
    /// A region begins.
    Enter(u32),
    /// The region ends.
    Leave(u32),
    /// A message was sent: the receiver, the communicator, the tag and the bytes.
    Send(u32, u32, u32, u64),
    /// A message was received: the sender, the communicator, the tag and the bytes.
    Receive(u32, u32, u32, u64),
    /// A collective operation begins.
    OperationBegan,
    /// A collective operation ends.
    OperationEnded {
        /// `OTF2_CollectiveOp`.
        operation: u8,
        /// The communicator.
        communicator: u32,
        /// The root by its rank in the communicator, if there is one.
        root: Option<u32>,
        /// The bytes that the rank contributes.
        sent: u64,
        /// The bytes that it gets.
        received: u64,
    },
    /// The value of a counter.
    Counted(u32, u64),
}

/// The values of `OTF2_Paradigm` and `OTF2_RegionRole` that are used.
mod values {
    pub const USER: u8 = 1;
    pub const MPI: u8 = 4;
    pub const MEASUREMENT_SYSTEM: u8 = 6;

    pub const FUNCTION: u8 = 1;
    pub const CODE: u8 = 4;
    pub const BARRIER: u8 = 15;
    pub const TASK: u8 = 20;
    pub const ONE_TO_ALL: u8 = 23;
    pub const ALL_TO_ONE: u8 = 24;
    pub const ALL_TO_ALL: u8 = 25;
    pub const OTHER_COLLECTIVE: u8 = 26;
    pub const FILE: u8 = 27;
    pub const POINT_TO_POINT: u8 = 28;
    pub const ONE_SIDED: u8 = 29;
    pub const TRANSFER: u8 = 30;
    pub const ARTIFICIAL: u8 = 31;
}

/// Converts the traces of the ranks of a job.
pub(super) fn archive(traces: &[AlignedTrace]) -> Otf2Archive {
    let mut writer = Converter::new(traces);
    for (rank, trace) in (0..).zip(traces) {
        writer.rank(rank, trace);
    }
    writer.archive
}

/// The numbers of what was defined so far.
struct Converter {
    archive: Otf2Archive,
    regions: HashMap<Otf2Region, u32>,
    /// By the rank in the job: the index of the rank.
    indices: HashMap<u32, u32>,
    /// By context: the communicator of its messages.
    contexts: HashMap<u64, u32>,
    /// By the number of a communicator: that of its operations, with its ranks in order.
    members: BTreeMap<u64, (u32, Vec<u32>)>,
}

/// What a location is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Thread(u64),
    Phases,
    Lane(TraceTrack, usize),
}

/// A call that has begun.
struct OpenCall {
    region: u32,
    began: u64,
    operation: Option<(u8, TracedOperation)>,
    exchange: Option<TracedExchange>,
}

/// The locations of one rank while it is converted.
struct Rank {
    main: Place,
    places: Vec<Place>,
    locations: Vec<Vec<(u64, Otf2Event)>>,
    open: HashMap<u64, Vec<OpenCall>>,
    /// The end of the last wait or call of each thread.
    left: HashMap<u64, u64>,
    lanes: HashMap<TraceTrack, Vec<u64>>,
    phase: Option<u32>,
}

impl Converter {
    fn new(traces: &[AlignedTrace]) -> Self {
        let hosts: BTreeSet<&str> = traces.iter().map(|trace| trace.host.as_str()).collect();
        let hosts: Vec<String> = hosts.into_iter().map(str::to_owned).collect();
        let host_of = |host: &String| hosts.iter().position(|one| one == host).unwrap_or(0) as u32;
        let name = |trace: &AlignedTrace| format!("rank {}", trace.rank);
        let ranks = traces.iter().map(|trace| (name(trace), host_of(&trace.host))).collect();
        let times = || traces.iter().flat_map(|trace| trace.events.iter());
        // Spans may have begun before the first event.
        let first = |(time, event): &(u64, TraceEvent)| match event {
            TraceEvent::Ran(TracedSpan { lasted, .. }) | TraceEvent::Waited { lasted, .. } => {
                time.saturating_sub(*lasted)
            }
            _ => *time,
        };
        let begun = times().map(first).min().unwrap_or(0);
        let lasted = times().map(|event| event.0).max().unwrap_or(0).saturating_sub(begun);
        let counters = TraceCounter::ALL.map(TraceCounter::name).to_vec();
        let indices = (0..).zip(traces).map(|(index, trace)| (trace.rank, index)).collect();
        let mut members: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
        for (index, trace) in (0..).zip(traces) {
            for (_, event) in &trace.events {
                if let TraceEvent::CallBegan { operation: Some(one), .. } = event {
                    members.entry(one.communicator).or_default().insert(index);
                }
            }
        }
        let (regions, contexts) = Default::default();
        let mut converter = Self {
            archive: Otf2Archive { hosts, ranks, counters, begun, lasted, ..Default::default() },
            regions,
            indices,
            contexts,
            members: BTreeMap::new(),
        };
        for (communicator, ranks) in members {
            let ranks: Vec<u32> = ranks.into_iter().collect();
            let number = converter.communicator(format!("communicator {communicator}"), &ranks);
            converter.members.insert(communicator, (number, ranks));
        }
        converter
    }

    fn communicator(&mut self, name: String, ranks: &[u32]) -> u32 {
        self.archive.communicators.push(Otf2Communicator { name, ranks: ranks.to_vec() });
        self.archive.communicators.len() as u32 - 1
    }

    /// Returns the communicator of the messages of a context.
    fn context(&mut self, context: u64) -> u32 {
        if let Some(known) = self.contexts.get(&context) {
            return *known;
        }
        let all: Vec<u32> = (0..self.archive.ranks.len() as u32).collect();
        let number = self.communicator(format!("message space {context:x}"), &all);
        self.contexts.insert(context, number);
        number
    }

    fn region(&mut self, name: &str, role: u8, paradigm: u8) -> u32 {
        let region = Otf2Region { name: name.to_owned(), role, paradigm };
        let next = self.archive.regions.len() as u32;
        let number = *self.regions.entry(region.clone()).or_insert(next);
        if number == next {
            self.archive.regions.push(region);
        }
        number
    }

    fn rank(&mut self, index: u32, trace: &AlignedTrace) {
        let main = trace.events.iter().find_map(|(_, event)| match event {
            TraceEvent::CallBegan { thread, .. } => Some(*thread),
            _ => None,
        });
        let main = Place::Thread(main.unwrap_or(0));
        let mut rank = Rank {
            main,
            places: vec![main],
            locations: vec![Vec::new()],
            open: HashMap::new(),
            left: HashMap::new(),
            lanes: HashMap::new(),
            phase: None,
        };
        let mut end = self.archive.begun;
        for (time, event) in &trace.events {
            end = end.max(*time);
            self.event(&mut rank, trace, *time, event);
        }
        for (thread, calls) in std::mem::take(&mut rank.open) {
            for call in calls.into_iter().rev() {
                rank.add(Place::Thread(thread), end, Otf2Event::Leave(call.region));
            }
        }
        if let Some(region) = rank.phase {
            rank.add(Place::Phases, end, Otf2Event::Leave(region));
        }
        for (number, (place, mut events)) in rank.places.iter().zip(rank.locations).enumerate() {
            events.sort_by_key(|(time, _)| *time);
            let name = match place {
                Place::Thread(_) if number == 0 => "main".to_owned(),
                Place::Thread(_) => format!("thread {number}"),
                Place::Phases => "phases".to_owned(),
                Place::Lane(track, _) => track.name(),
            };
            self.archive.locations.push(Otf2Location { name, rank: index, events });
        }
    }

    fn event(&mut self, rank: &mut Rank, trace: &AlignedTrace, time: u64, event: &TraceEvent) {
        match *event {
            TraceEvent::CallBegan { thread, place, operation } => {
                let function = trace.places.get(place as usize).map_or("MPI", |one| &one.function);
                let region = self.region(function, role_of(function), values::MPI);
                let operation =
                    operation.zip(operation_of(function)).map(|(one, kind)| (kind, one));
                rank.add(Place::Thread(thread), time, Otf2Event::Enter(region));
                if operation.is_some() {
                    rank.add(Place::Thread(thread), time, Otf2Event::OperationBegan);
                }
                let call = OpenCall { region, began: time, operation, exchange: None };
                rank.open.entry(thread).or_default().push(call);
            }
            TraceEvent::Exchanged(one) => {
                let calls = rank.open.get_mut(&one.thread);
                let call = calls.and_then(|calls| calls.last_mut());
                call.into_iter().for_each(|call| call.exchange = Some(one));
            }
            TraceEvent::CallEnded { thread } => {
                let Some(call) = rank.open.get_mut(&thread).and_then(Vec::pop) else { return };
                if let Some(operation) = call.operation {
                    let ended = self.operation(operation, call.exchange);
                    rank.add(Place::Thread(thread), time, ended);
                }
                rank.left.insert(thread, time);
                rank.add(Place::Thread(thread), time, Otf2Event::Leave(call.region));
            }
            TraceEvent::Waited { thread, cause, lasted, .. } => {
                let call = rank.open.get(&thread).and_then(|calls| calls.last());
                let Some(began) = call.map(|call| call.began) else { return };
                let last = rank.left.insert(thread, time).unwrap_or(0);
                let begun = time.saturating_sub(lasted).max(began).max(last);
                let region =
                    self.region(cause.name(), values::ARTIFICIAL, values::MEASUREMENT_SYSTEM);
                rank.add(Place::Thread(thread), begun, Otf2Event::Enter(region));
                rank.add(Place::Thread(thread), time, Otf2Event::Leave(region));
            }
            TraceEvent::Sent(message) | TraceEvent::Matched(message) => {
                let TracedMessage { context, peer, tag, bytes, .. } = message;
                let (Some(peer), communicator) =
                    (self.indices.get(&peer).copied(), self.context(context))
                else {
                    return;
                };
                let tag = tag as u32;
                let event = match event {
                    TraceEvent::Sent(_) => Otf2Event::Send(peer, communicator, tag, bytes),
                    _ => Otf2Event::Receive(peer, communicator, tag, bytes),
                };
                rank.add(rank.main, time, event);
            }
            TraceEvent::PhaseBegan { .. } | TraceEvent::PhaseEnded => {
                self.phase(rank, trace, time, event);
            }
            TraceEvent::Ran(span) => self.span(rank, trace, time, span),
            TraceEvent::Counted { counter, value } => {
                rank.add(rank.main, time, Otf2Event::Counted(counter as u32, value));
            }
            // OTF2 has no records for packets.
            TraceEvent::Posted(_) | TraceEvent::Waiting { .. } => {}
        }
    }

    fn phase(&mut self, rank: &mut Rank, trace: &AlignedTrace, time: u64, event: &TraceEvent) {
        if let Some(last) = rank.phase.take() {
            rank.add(Place::Phases, time, Otf2Event::Leave(last));
        }
        if let TraceEvent::PhaseBegan { name } = event {
            let name = trace.names.get(*name as usize).map_or("phase", |name| name);
            let region = self.region(name, values::CODE, values::USER);
            rank.phase = Some(region);
            rank.add(Place::Phases, time, Otf2Event::Enter(region));
        }
    }

    fn span(&mut self, rank: &mut Rank, trace: &AlignedTrace, time: u64, span: TracedSpan) {
        let TracedSpan { track, name, lasted, .. } = span;
        let begun = time.saturating_sub(lasted);
        let lanes = rank.lanes.entry(track).or_default();
        let free = lanes.iter().position(|last| *last <= begun);
        let lane = free.unwrap_or_else(|| {
            lanes.push(0);
            lanes.len() - 1
        });
        lanes[lane] = time;
        let name = trace.names.get(name as usize).map_or("work", |name| name);
        let (role, paradigm) = match track {
            TraceTrack::Copies => (values::TRANSFER, values::MEASUREMENT_SYSTEM),
            TraceTrack::Files => (values::FILE, values::MEASUREMENT_SYSTEM),
            TraceTrack::Served => (values::ONE_SIDED, values::MEASUREMENT_SYSTEM),
            TraceTrack::Helper(_) => (values::FUNCTION, values::MEASUREMENT_SYSTEM),
            TraceTrack::Processor(_) | TraceTrack::Team(_) => (values::TASK, values::USER),
        };
        let region = self.region(name, role, paradigm);
        rank.add(Place::Lane(track, lane), begun, Otf2Event::Enter(region));
        rank.add(Place::Lane(track, lane), time, Otf2Event::Leave(region));
    }

    fn operation(
        &self,
        (operation, TracedOperation { communicator, .. }): (u8, TracedOperation),
        exchange: Option<TracedExchange>,
    ) -> Otf2Event {
        let known = self.members.get(&communicator);
        let root = exchange.and_then(|one| one.root).and_then(|root| self.indices.get(&root));
        let place_of = |root: &u32| Some(known?.1.binary_search(root).ok()? as u32);
        let (sent, received) = exchange.map_or((0, 0), |one| (one.sent, one.received));
        let (communicator, root) = (known.map_or(0, |known| known.0), root.and_then(place_of));
        Otf2Event::OperationEnded { operation, communicator, root, sent, received }
    }
}

impl Rank {
    fn add(&mut self, place: Place, time: u64, event: Otf2Event) {
        let known = self.places.iter().position(|one| *one == place);
        let number = known.unwrap_or_else(|| {
            self.places.push(place);
            self.locations.push(Vec::new());
            self.places.len() - 1
        });
        self.locations[number].push((time, event));
    }
}

/// Returns the `OTF2_CollectiveOp` of a blocking function, if it has one.
fn operation_of(function: &str) -> Option<u8> {
    let name = function.strip_prefix("MPI_")?;
    let name = name.strip_suffix("_c").unwrap_or(name);
    let all = [
        "Barrier",
        "Bcast",
        "Gather",
        "Gatherv",
        "Scatter",
        "Scatterv",
        "Allgather",
        "Allgatherv",
        "Alltoall",
        "Alltoallv",
        "Alltoallw",
        "Allreduce",
        "Reduce",
        "Reduce_scatter",
        "Scan",
        "Exscan",
        "Reduce_scatter_block",
    ];
    if let Some(number) = all.iter().position(|one| *one == name) {
        return Some(number as u8);
    }
    const CREATE_HANDLE: u8 = 17;
    let creates = ["Comm_", "Cart_", "Graph_", "Dist_graph_", "Win_create", "Win_allocate"];
    creates.iter().any(|one| name.starts_with(one)).then_some(CREATE_HANDLE)
}

/// Returns the `OTF2_RegionRole` of a function.
fn role_of(function: &str) -> u8 {
    let name = function.strip_prefix("MPI_").unwrap_or(function);
    let begins = |all: &[&str]| all.iter().any(|one| name.starts_with(one));
    match CollectiveKind::of(function) {
        Some(CollectiveKind::Barrier) => return values::BARRIER,
        Some(CollectiveKind::OneToAll) => return values::ONE_TO_ALL,
        Some(CollectiveKind::AllToAll) => return values::ALL_TO_ALL,
        Some(CollectiveKind::AllToOne) => return values::ALL_TO_ONE,
        Some(CollectiveKind::Other) if !begins(&["File_", "Win_"]) => {
            return values::OTHER_COLLECTIVE;
        }
        Some(CollectiveKind::Other) | None => {}
    }
    if begins(&["File_"]) {
        values::FILE
    } else if begins(&["Win_", "Put", "Get", "Accumulate", "Rput", "Rget", "Raccumulate", "Fetch"])
        && !begins(&["Get_"])
        || begins(&["Get_accumulate"])
    {
        values::ONE_SIDED
    } else if begins(&["Send", "Recv", "Isend", "Irecv", "Ssend", "Bsend", "Rsend", "Issend"])
        || begins(&["Ibsend", "Irsend", "Mrecv", "Imrecv", "Probe", "Iprobe", "Wait", "Test"])
    {
        values::POINT_TO_POINT
    } else {
        values::FUNCTION
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::tests::job;
    use crate::{TracedPlace, WaitCause};

    /// Checks that regions are nested and times rise.
    fn check(archive: &Otf2Archive) {
        for location in &archive.locations {
            let (mut open, mut last) = (Vec::new(), archive.begun);
            for (time, event) in &location.events {
                assert!(*time >= last && *time <= archive.begun + archive.lasted, "{location:?}");
                last = *time;
                match event {
                    Otf2Event::Enter(region) => open.push(*region),
                    Otf2Event::Leave(region) => {
                        assert_eq!(open.pop(), Some(*region), "{location:?}");
                    }
                    _ => {}
                }
            }
            assert!(open.is_empty(), "{location:?}");
        }
    }

    #[test]
    fn messages_operations_and_waits_are_converted() {
        let archive = archive(&job());
        check(&archive);
        let names: Vec<&str> = archive.regions.iter().map(|region| region.name.as_str()).collect();
        assert_eq!(names, ["one", "MPI_Send", "MPI_Barrier", "MPI_Recv", "late sender"]);
        let main = |rank: u32| {
            let found = archive.locations.iter().find(|one| one.rank == rank).unwrap();
            assert_eq!(found.name, "main");
            &found.events
        };
        let space = archive.communicators.len() as u32 - 1;
        assert!(main(0).contains(&(100, Otf2Event::Send(1, space, -3_i32 as u32, 8))));
        assert!(main(1).contains(&(101, Otf2Event::Receive(0, space, -3_i32 as u32, 8))));
        let (operation, communicator, root, sent, received) = (0, 0, None, 0, 0);
        let ended = Otf2Event::OperationEnded { operation, communicator, root, sent, received };
        assert_eq!(main(1).iter().filter(|(_, event)| *event == ended).count(), 1);
        assert_eq!(archive.communicators[0].ranks, [0, 1]);
    }

    #[test]
    fn any_trace_is_well_formed() {
        for seed in 0..500 {
            let mut random = fastrand::Rng::with_seed(seed);
            let place = |function: &str| TracedPlace {
                function: function.to_owned(),
                caller: String::new(),
            };
            let places = vec![place("MPI_Recv"), place("MPI_Reduce")];
            let (host, names) = ("one".to_owned(), vec!["a".to_owned()]);
            let mut trace = AlignedTrace { host, places, names, ..AlignedTrace::default() };
            let mut time = random.u64(0..1000);
            for _ in 0..random.u32(0..80) {
                time += random.u64(0..100);
                trace.events.push((time, any(&mut random)));
            }
            check(&archive(&[trace]));
        }
    }

    fn any(random: &mut fastrand::Rng) -> TraceEvent {
        let (thread, peer) = (random.u64(0..2), random.bool().then(|| random.u32(0..2)));
        match random.u32(0..9) {
            0 | 1 => TraceEvent::CallBegan {
                thread,
                place: random.u32(0..3),
                operation: random
                    .bool()
                    .then(|| TracedOperation { communicator: 1, number: random.u32(0..5) }),
            },
            2 => TraceEvent::CallEnded { thread },
            3 => {
                let (cause, lasted) = (WaitCause::Members, random.u64(0..300));
                TraceEvent::Waited { thread, cause, peer, lasted }
            }
            4 => TraceEvent::PhaseBegan { name: 0 },
            5 => TraceEvent::PhaseEnded,
            6 => TraceEvent::Exchanged(TracedExchange { thread, root: peer, sent: 1, received: 2 }),
            7 => {
                let (track, lasted, ago) = (TraceTrack::Files, random.u64(0..300), 0);
                TraceEvent::Ran(TracedSpan { track, name: 0, peer, bytes: 3, lasted, ago })
            }
            _ => TraceEvent::Counted { counter: TraceCounter::Outbox, value: 3 },
        }
    }

    #[test]
    fn roles_follow_the_functions() {
        for (function, expected) in [
            ("MPI_Get", values::ONE_SIDED),
            ("MPI_Get_count", values::FUNCTION),
            ("MPI_Get_accumulate", values::ONE_SIDED),
            ("MPI_Reduce_scatter", values::ALL_TO_ALL),
            ("MPI_Reduce", values::ALL_TO_ONE),
            ("MPI_Waitall", values::POINT_TO_POINT),
        ] {
            assert_eq!(role_of(function), expected, "{function}");
        }
        assert_eq!(operation_of("MPI_Allreduce_c"), Some(11));
        assert_eq!(operation_of("MPI_Iallreduce"), None);
    }
}
