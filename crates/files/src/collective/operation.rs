//! A collective transfer of a file: all processes exchange announcements, then either each
//! transfers its own bytes, or the bytes go through aggregators.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::mem;
use std::rc::Rc;
use std::sync::Arc;

use base::Result;
use engine::RequestId;
use memory::{Buffer, LentBuffer};
use mpi::collective::{self, Invocation};
use mpi::communicator::Communicator;
use mpi::exchange::{exchange, unpacked};
use mpi::{ActiveOperation, MemberMessages, MessageStatus, Process, Request, Step};
use wire::Codec;

use super::domains::{AccessExtent, DomainSituation, FileDomain};
use super::{MemberBytes, TransferContext, TransferExchange};
use crate::File;
use crate::fault::Fault;
use crate::pool::{PoolTask, SystemCaller};
use crate::preferences::{self, Aggregation};
use crate::prepared::Prepared;
use crate::storage::{Direction, repeated};
use crate::transfer::Progress;

/// A collective transfer that is underway.
pub(crate) struct CollectiveTransfer {
    communicator: Rc<Communicator>,
    /// The name of the file for users.
    name: String,
    context: Rc<TransferContext>,
    state: RefCell<CollectiveState>,
}

struct CollectiveState {
    /// Removed when the transfer is complete.
    prepared: Option<Prepared>,
    stage: CollectiveStage,
}

enum CollectiveStage {
    /// The processes exchange their announcements.
    Announcing(Request, Buffer),
    /// The announcements of all processes are known.
    Announced(Vec<TransferAnnouncement>),
    Moving(Box<TransferExchange>),
    Alone(PoolTask<(LentBuffer, Progress)>),
    /// The bytes are transferred, and not yet converted.
    Moved(LentBuffer, Progress),
    Over(MessageStatus),
    /// A temporary value during a change.
    Changing,
}

/// What each process announces about its part of a transfer. The fields after `goes_upwards` are
/// used from rank 0 only.
#[derive(Clone, Copy, Debug)]
struct TransferAnnouncement {
    extent: AccessExtent,
    /// Whether the offsets of its bytes grow.
    goes_upwards: bool,
    /// The size of the file, for reads.
    size: u64,
    /// The costs of a system call, in bytes: [`DomainSituation`].
    call_bytes: u64,
    sent_bytes: u64,
    hints: Aggregation,
}

wire::codec!(TransferAnnouncement { extent, goes_upwards, size, call_bytes, sent_bytes, hints });

/// The default number of aggregators on each machine.
const AGGREGATORS_PER_MACHINE: usize = 2;

/// The messages of a file, on its own communicator.
struct FileLink<'a> {
    process: &'a Process,
    communicator: &'a Communicator,
}

impl CollectiveTransfer {
    fn new(
        file: &File,
        context: TransferContext,
        prepared: Prepared,
        stage: CollectiveStage,
    ) -> Rc<Self> {
        Rc::new(Self {
            communicator: Rc::clone(&file.communicator),
            name: file.shown.clone(),
            context: Rc::new(context),
            state: RefCell::new(CollectiveState { prepared: Some(prepared), stage }),
        })
    }

    /// Begins a collective transfer, which continues in rounds of progress.
    ///
    /// # Errors
    /// Those of collective operations.
    pub fn begin(process: &Process, file: &File, prepared: Prepared) -> Result<Rc<Self>> {
        let context = TransferContext::of_next(file, prepared.direction, file.threads(process));
        let mine = TransferAnnouncement::of(file, &prepared).to_bytes();
        let communicator = &file.communicator;
        let all = Buffer::zeroed(mine.len() * communicator.size() as usize);
        all.write(communicator.rank() as usize * mine.len(), &mine);
        let invocation = Invocation::nonblocking(communicator);
        let gathering = collective::allgather_packed(&invocation, all.clone(), mine.len())?;
        let stage = CollectiveStage::Announcing(gathering.into_request(process), all);
        let transfer = Self::new(file, context, prepared, stage);
        if transfer.advance(process) != Step::Over {
            process.keep_advancing(transfer.clone());
        }
        Ok(transfer)
    }

    /// Executes a collective transfer.
    ///
    /// # Errors
    /// Those of collective operations.
    pub fn carry_out(process: &Process, file: &File, prepared: Prepared) -> Result<MessageStatus> {
        let context = TransferContext::of_next(file, prepared.direction, SystemCaller::Here);
        let mine = TransferAnnouncement::of(file, &prepared);
        let stage = CollectiveStage::Announced(exchange(process, &file.communicator, &mine)?);
        let transfer = Self::new(file, context, prepared, stage);
        if transfer.advance(process) != Step::Over {
            process.wait_until(&mut |process| transfer.advance(process) == Step::Over);
        }
        transfer.convert();
        Ok(transfer.status())
    }

    /// Converts the data that was read; functions of the program may run here.
    fn convert(&self) {
        let mut state = self.state.borrow_mut();
        let (memory, progress) = match mem::replace(&mut state.stage, CollectiveStage::Changing) {
            CollectiveStage::Moved(memory, progress) => (memory, progress),
            same => {
                state.stage = same;
                return;
            }
        };
        let mut prepared = state.prepared.take().expect("it is underway");
        // No borrow may be held while functions of the program run.
        drop(state);
        prepared.return_memory(memory);
        let status = prepared.conclude(&self.name, progress);
        self.state.borrow_mut().stage = CollectiveStage::Over(status);
    }

    /// Moves on to the next stage, if that is possible; returns whether it was.
    fn step(&self, process: &Process, state: &mut CollectiveState) -> bool {
        let CollectiveState { prepared, stage } = state;
        let mut has_moved = true;
        *stage = match mem::replace(stage, CollectiveStage::Changing) {
            CollectiveStage::Announcing(mut request, all) if request.is_ready(process) => {
                match announcements(process, &mut request, &all) {
                    Ok(all) => CollectiveStage::Announced(all),
                    Err(error) => {
                        let memory = prepared.as_mut().expect("it is underway").take_memory();
                        let fault = Some(Fault::of_message(&error));
                        CollectiveStage::Moved(memory, Progress { bytes: 0, fault })
                    }
                }
            }
            CollectiveStage::Announced(all) => {
                self.decide(process, &all, prepared.as_mut().expect("it is underway"))
            }
            CollectiveStage::Moving(mut exchange) => {
                let communicator = &self.communicator;
                if exchange.advance(&FileLink { process, communicator }) {
                    let (memory, progress) = exchange.into_outcome();
                    CollectiveStage::Moved(memory, progress)
                } else {
                    has_moved = false;
                    CollectiveStage::Moving(exchange)
                }
            }
            CollectiveStage::Alone(task) => match task.take() {
                Some((memory, progress)) => CollectiveStage::Moved(memory, progress),
                None => {
                    has_moved = false;
                    CollectiveStage::Alone(task)
                }
            },
            same => {
                has_moved = false;
                same
            }
        };
        has_moved
    }

    /// Decides, equally on all processes, whether the bytes go through aggregators, and begins to
    /// transfer them.
    fn decide(
        &self,
        process: &Process,
        all: &[TransferAnnouncement],
        prepared: &mut Prepared,
    ) -> CollectiveStage {
        let (direction, position) = (prepared.direction, prepared.position);
        let size = all[0].size;
        let extent = |one: &TransferAnnouncement| match direction {
            Direction::Read => one.extent.before(size),
            Direction::Write => one.extent,
        };
        let extents: Vec<AccessExtent> = all.iter().map(extent).collect();
        let Some(domains) = self.domains(process, all, &extents) else {
            let work = prepared.take_work(self.context.access.clone());
            return CollectiveStage::Alone(self.context.caller.begin(work));
        };
        let view = Arc::clone(&prepared.view.bytes);
        let length = match direction {
            Direction::Read => {
                let part = position..position + prepared.bytes();
                view.position_within(size, part) - position
            }
            Direction::Write => prepared.bytes(),
        };
        let bytes = MemberBytes { view, position, length, memory: prepared.take_memory() };
        let exchange = TransferExchange::new(&self.context, &domains, &extents, bytes);
        CollectiveStage::Moving(Box::new(exchange))
    }

    /// Returns the domains of the aggregators; none: each process transfers its own bytes.
    fn domains(
        &self,
        process: &Process,
        all: &[TransferAnnouncement],
        extents: &[AccessExtent],
    ) -> Option<Vec<FileDomain>> {
        // Domains and windows require bytes in the order of their offsets.
        if !all.iter().all(|one| one.goes_upwards) {
            return None;
        }
        let TransferAnnouncement { call_bytes, sent_bytes, hints, .. } = all[0];
        let machines = self.machines(process);
        let situation = DomainSituation {
            direction: self.context.direction,
            near: machines.len() == 1,
            call_bytes,
            sent_bytes,
            choice: hints.choice,
            aggregators: aggregators(&machines, hints.aggregators as usize),
            window_bytes: hints.window_bytes.max(1),
            alignment: hints.alignment.max(1),
        };
        situation.share(extents)
    }

    /// Returns the ranks of each machine.
    fn machines(&self, process: &Process) -> Vec<Vec<u32>> {
        let nodes = self.communicator.group().nodes(process);
        let mut machines: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (rank, node) in (0..).zip(nodes) {
            machines.entry(node).or_default().push(rank);
        }
        machines.into_values().collect()
    }
}

impl ActiveOperation for CollectiveTransfer {
    fn noun(&self) -> &'static str {
        "a collective operation on a file"
    }

    fn advance(&self, process: &Process) -> Step {
        let Ok(mut state) = self.state.try_borrow_mut() else { return Step::Idle };
        while self.step(process, &mut state) {}
        match state.stage {
            CollectiveStage::Moved(..) | CollectiveStage::Over(_) | CollectiveStage::Changing => {
                Step::Over
            }
            _ => Step::Idle,
        }
    }

    fn must_end(&self) -> bool {
        true
    }

    fn is_complete(&self, _process: &Process) -> bool {
        let is_moved = {
            let Ok(state) = self.state.try_borrow() else { return false };
            matches!(state.stage, CollectiveStage::Moved(..))
        };
        if is_moved {
            self.convert();
        }
        matches!(self.state.borrow().stage, CollectiveStage::Over(_))
    }

    fn status(&self) -> MessageStatus {
        match &self.state.borrow().stage {
            CollectiveStage::Over(status) => status.clone(),
            _ => MessageStatus::EMPTY,
        }
    }
}

impl TransferContext {
    /// Counts the transfer, also if it fails later, as its number must be equal on all processes.
    fn of_next(file: &File, direction: Direction, caller: SystemCaller) -> Self {
        let (rank, number) = (file.communicator.rank(), file.calls.get());
        file.calls.set(number.wrapping_add(1));
        Self { direction, rank, number, access: file.access(), caller }
    }
}

impl TransferAnnouncement {
    fn of(file: &File, prepared: &Prepared) -> Self {
        let Prepared { direction, position, .. } = *prepared;
        let (view, bytes) = (&prepared.view.bytes, prepared.bytes());
        let range = view.range(position, bytes);
        let is_asked = file.communicator.rank() == 0 && direction == Direction::Read;
        let storage = &file.storage;
        Self {
            extent: AccessExtent {
                start: range.start,
                end: range.end,
                run_bytes: view.run_bytes().min(bytes),
                bytes,
            },
            goes_upwards: view.goes_upwards(position, bytes),
            // If the size cannot be determined, reading yields nothing either.
            size: if is_asked { repeated(|| storage.size()).unwrap_or(0) } else { 0 },
            call_bytes: storage.call_bytes(direction, range.start),
            sent_bytes: storage.sent_bytes(direction, range.start),
            hints: preferences::aggregation(&file.hints, direction),
        }
    }
}

/// Returns the announcements that a completed request has gathered.
fn announcements(
    process: &Process,
    request: &mut Request,
    all: &Buffer,
) -> Result<Vec<TransferAnnouncement>> {
    if let Some(error) = request.take_status(process).error {
        return Err(*error);
    }
    unpacked(all)
}

/// Chooses some of the processes of each machine; `wanted` is their total number, or 0.
fn aggregators(machines: &[Vec<u32>], wanted: usize) -> Vec<u32> {
    let each = match wanted {
        0 => AGGREGATORS_PER_MACHINE,
        _ => wanted.div_ceil(machines.len()),
    };
    let chosen = machines.iter().flat_map(|ranks| {
        let number = ranks.len().min(each);
        (0..number).map(move |index| ranks[index * ranks.len() / number])
    });
    let most = if wanted == 0 { usize::MAX } else { wanted };
    let mut chosen: Vec<u32> = chosen.take(most).collect();
    chosen.sort_unstable();
    chosen
}

impl MemberMessages for FileLink<'_> {
    fn send(&self, peer: u32, tag: i32, buffer: Buffer) -> Option<RequestId> {
        let gate = self.communicator.gate(peer).expect("peers are in the communicator");
        let context = self.communicator.point_to_point_context();
        self.process.post_send(gate, context, peer, tag, buffer)
    }

    fn receive(&self, peer: u32, tag: i32, buffer: Buffer) -> RequestId {
        let context = self.communicator.point_to_point_context();
        self.process.post_receive(context, peer, tag, buffer)
    }

    fn take(&self, id: RequestId) -> Option<Result<()>> {
        if !self.process.is_complete(id) {
            return None;
        }
        Some(self.process.finish(id))
    }
}

impl fmt::Debug for CollectiveTransfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CollectiveTransfer({} of \"{}\")", self.context.number, self.name)
    }
}
