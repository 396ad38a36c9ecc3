//! A collective transfer of a file: all processes exchange their requests, then either each
//! transfers its own bytes, or the bytes go through aggregators.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use base::Result;
use engine::RequestId;
use memory::{Buffer, LentBuffer};
use mpi::collective::{self, Invocation};
use mpi::communicator::Communicator;
use mpi::{ActiveOperation, MessageStatus, Process, Request, Step};
use parking_lot::Mutex;

use super::domains::{DomainSituation, Wish};
use super::{DomainFault, MemberLink, SystemCaller, TransferContext, TransferExchange};
use crate::access::{Prepared, conclude, verb};
use crate::agreement::numbers;
use crate::pool::{PoolTask, ThreadPool};
use crate::preferences::Choice;
use crate::storage::{Storage, repeated};
use crate::transfer::{Direction, Progress, SieveManner, transfer};

/// The properties of the file that a transfer needs.
pub(crate) struct Ground {
    pub communicator: Rc<Communicator>,
    pub name: String,
    pub storage: Arc<dyn Storage>,
    pub manner: SieveManner,
    pub exclusion: Arc<Mutex<()>>,
    pub pool: ThreadPool,
    pub choice: Choice,
    /// The number of aggregators; 0: chosen automatically.
    pub nodes: u64,
    pub window_bytes: u64,
    pub alignment: u64,
    /// The number of this collective transfer of the file.
    pub number: u32,
}

/// A collective transfer that is underway.
pub(crate) struct CollectiveTransfer {
    ground: Ground,
    state: RefCell<CollectiveState>,
}

struct CollectiveState {
    /// Removed when the transfer is complete.
    prepared: Option<Prepared>,
    stage: CollectiveStage,
}

enum CollectiveStage {
    /// The processes exchange their requests.
    Asking(Request, Buffer),
    Moving(Box<TransferExchange<RequestId>>),
    Alone(PoolTask<(LentBuffer, Progress)>),
    /// The bytes are transferred, and not yet converted.
    Moved(LentBuffer, Progress, Option<DomainFault>),
    Over(MessageStatus),
    /// A temporary value during a change.
    Changing,
}

/// The number of numbers that a process sends: its request, the size of the file, costs of calls,
/// and its hints. All but the request are used from rank 0 only.
const NUMBERS: usize = 12;

/// The default number of aggregators on each machine.
const AGGREGATORS_PER_MACHINE: usize = 2;

/// The messages of a file, on its own communicator.
struct FileLink<'a> {
    process: &'a Process,
    communicator: &'a Communicator,
}

impl CollectiveTransfer {
    /// Begins a collective transfer, which continues in rounds of progress.
    ///
    /// # Errors
    /// Those of collective operations.
    pub fn begin(process: &Process, ground: Ground, prepared: Prepared) -> Result<Rc<Self>> {
        let mine = ground.told(&prepared);
        let communicator = Rc::clone(&ground.communicator);
        let all = Buffer::zeroed(mine.len() * communicator.size() as usize);
        all.write(communicator.rank() as usize * mine.len(), &mine);
        let invocation = Invocation::nonblocking(&communicator);
        let asking = collective::allgather_packed(&invocation, all.clone(), mine.len())?
            .into_request(process);
        let stage = CollectiveStage::Asking(asking, all);
        let state = RefCell::new(CollectiveState { prepared: Some(prepared), stage });
        let transfer = Rc::new(Self { ground, state });
        if transfer.advance(process) != Step::Over {
            process.keep_advancing(transfer.clone());
        }
        Ok(transfer)
    }

    /// Executes a collective transfer.
    ///
    /// # Errors
    /// Those of collective operations.
    pub fn carry_out(
        process: &Process,
        ground: Ground,
        prepared: Prepared,
    ) -> Result<MessageStatus> {
        let mine = ground.told(&prepared);
        let told = collective::allgather_bytes(process, &ground.communicator, &mine)?;
        let state = RefCell::new(CollectiveState {
            prepared: Some(prepared),
            stage: CollectiveStage::Changing,
        });
        let transfer = Self { ground, state };
        let stage = {
            let mut state = transfer.state.borrow_mut();
            let prepared = state.prepared.as_mut().expect("it is underway");
            match transfer.ground.exchange_of(process, &told, prepared, SystemCaller::Here) {
                Some(exchange) => CollectiveStage::Moving(Box::new(exchange)),
                None => {
                    let memory = prepared.take_memory();
                    let (memory, progress) = transfer.ground.alone(prepared, memory)();
                    CollectiveStage::Moved(memory, progress, None)
                }
            }
        };
        transfer.state.borrow_mut().stage = stage;
        if transfer.advance(process) != Step::Over {
            process.wait_until(&mut |process| transfer.advance(process) == Step::Over);
        }
        transfer.convert();
        Ok(transfer.status())
    }

    /// Converts the data that was read; functions of the program may run here.
    fn convert(&self) {
        let mut state = self.state.borrow_mut();
        if !matches!(state.stage, CollectiveStage::Moved(..)) {
            return;
        }
        let CollectiveStage::Moved(memory, progress, fault) =
            std::mem::replace(&mut state.stage, CollectiveStage::Changing)
        else {
            return;
        };
        let mut prepared = state.prepared.take().expect("it is underway");
        // No borrow may be held while functions of the program run.
        drop(state);
        let bytes = progress.bytes;
        prepared.return_memory(memory);
        let mut status = conclude(&self.ground.name, &prepared, progress);
        if let Some(fault) = fault {
            let verb = verb(prepared.direction);
            status.error = Some(Box::new(fault.error(verb, &self.ground.name, bytes)));
        }
        self.state.borrow_mut().stage = CollectiveStage::Over(status);
    }

    fn step(&self, process: &Process, state: &mut CollectiveState) -> bool {
        let CollectiveState { prepared, stage } = state;
        match std::mem::replace(stage, CollectiveStage::Changing) {
            CollectiveStage::Asking(mut request, all) => {
                if !request.is_ready(process) {
                    *stage = CollectiveStage::Asking(request, all);
                    return false;
                }
                let prepared = prepared.as_mut().expect("it is underway");
                if let Some(error) = request.take_status(process).error {
                    let fault = super::member::of_message(&error);
                    *stage = CollectiveStage::Moved(
                        prepared.take_memory(),
                        Progress::default(),
                        Some(fault),
                    );
                    return true;
                }
                let mut told = vec![0; all.len()];
                all.read(0, &mut told);
                let ring: Arc<dyn Fn() + Send + Sync> = match process.doorbell().cloned() {
                    Some(bell) => Arc::new(move || bell.ring()),
                    None => Arc::new(|| {}),
                };
                let pool = &self.ground.pool;
                let caller = SystemCaller::Threads(pool.clone(), Arc::clone(&ring));
                *stage = match self.ground.exchange_of(process, &told, prepared, caller) {
                    Some(exchange) => CollectiveStage::Moving(Box::new(exchange)),
                    None => {
                        let memory = prepared.take_memory();
                        let work = self.ground.alone(prepared, memory);
                        CollectiveStage::Alone(pool.begin(work, move || ring()))
                    }
                };
                true
            }
            CollectiveStage::Moving(mut exchange) => {
                let communicator = &self.ground.communicator;
                if !exchange.advance(&FileLink { process, communicator }) {
                    *stage = CollectiveStage::Moving(exchange);
                    return false;
                }
                let (memory, bytes, fault) = exchange.into_outcome();
                *stage = CollectiveStage::Moved(memory, Progress { bytes, fault: None }, fault);
                true
            }
            CollectiveStage::Alone(task) => {
                let Some((memory, progress)) = task.take() else {
                    *stage = CollectiveStage::Alone(task);
                    return false;
                };
                *stage = CollectiveStage::Moved(memory, progress, None);
                true
            }
            done => {
                *stage = done;
                false
            }
        }
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

impl Ground {
    /// Returns the numbers that this process sends.
    fn told(&self, prepared: &Prepared) -> Vec<u8> {
        let length = prepared.bytes();
        let view = &prepared.view.bytes;
        let range = view.range(prepared.position, length);
        let is_asked = self.communicator.rank() == 0 && prepared.direction == Direction::Read;
        // If the size cannot be determined, reading yields nothing either.
        let size = if is_asked { repeated(|| self.storage.size()).unwrap_or(0) } else { 0 };
        let numbers: [u64; NUMBERS] = [
            range.start,
            range.end,
            view.run_bytes().min(length),
            length,
            size,
            self.storage.call_bytes(prepared.direction, range.start),
            self.storage.sent_bytes(prepared.direction, range.start),
            self.choice as u64,
            self.nodes,
            self.window_bytes,
            self.alignment,
            u64::from(view.goes_upwards(prepared.position, length)),
        ];
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    /// Returns the exchange on which all processes decide; none: each process transfers its own
    /// bytes.
    fn exchange_of(
        &self,
        process: &Process,
        told: &[u8],
        prepared: &mut Prepared,
        caller: SystemCaller,
    ) -> Option<TransferExchange<RequestId>> {
        let all = numbers::<NUMBERS>(told);
        let [_, _, _, _, size, call_bytes, sent_bytes, choice, nodes, window_bytes, alignment, _] =
            *all.first()?;
        // Domains and windows require bytes in the order of their offsets.
        if all.iter().any(|[.., goes_upwards]| *goes_upwards == 0) {
            return None;
        }
        let (direction, view) = (prepared.direction, Arc::clone(&prepared.view.bytes));
        let wish = |[start, end, run_bytes, bytes, ..]: &[u64; NUMBERS]| {
            let (start, end) = (*start, *end);
            let wish = Wish { start, end, run_bytes: *run_bytes, bytes: *bytes };
            if direction == Direction::Read { wish.before(size) } else { wish }
        };
        let wishes: Vec<Wish> = all.iter().map(wish).collect();
        let machines = self.machines(process);
        let situation = DomainSituation {
            direction,
            near: machines.len() == 1,
            call_bytes,
            sent_bytes,
            choice: Choice::numbered(choice),
            aggregators: aggregators(&machines, nodes as usize),
            window_bytes: window_bytes.max(1),
            alignment: alignment.max(1),
        };
        let domains = situation.share(&wishes)?;
        let position = prepared.position;
        let length = match direction {
            Direction::Read => {
                let part = position..position + prepared.bytes();
                view.position_within(size, part) - position
            }
            Direction::Write => prepared.bytes(),
        };
        let shared = TransferContext {
            domains,
            wishes,
            direction,
            rank: self.communicator.rank(),
            number: self.number,
            storage: Arc::clone(&self.storage),
            locks_writes: self.manner.locks_writes,
            caller,
        };
        Some(TransferExchange::new(shared, view, position, length, prepared.take_memory()))
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

    /// Returns the transfer of this process without aggregators.
    fn alone(
        &self,
        prepared: &Prepared,
        memory: LentBuffer,
    ) -> impl FnOnce() -> (LentBuffer, Progress) + Send + use<> {
        let (storage, view) = (Arc::clone(&self.storage), Arc::clone(&prepared.view.bytes));
        let (manner, exclusion) = (self.manner, Arc::clone(&self.exclusion));
        let (position, direction) = (prepared.position, prepared.direction);
        move || {
            let _exclusion = manner.atomic.then(|| exclusion.lock());
            let progress = transfer(&*storage, &view, position, &memory, direction, manner);
            (memory, progress)
        }
    }
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

impl MemberLink for FileLink<'_> {
    type Pending = RequestId;

    fn send(&self, peer: u32, tag: i32, buffer: Buffer) -> Option<RequestId> {
        let gate = self.communicator.gate(peer).expect("peers are in the communicator");
        let context = self.communicator.point_to_point_context();
        self.process.post_send(gate, context, peer, tag, buffer)
    }

    fn receive(&self, peer: u32, tag: i32, buffer: Buffer) -> RequestId {
        let context = self.communicator.point_to_point_context();
        self.process.post_receive(context, peer, tag, buffer)
    }

    fn take(&self, pending: RequestId) -> Option<Result<()>> {
        if !self.process.is_complete(pending) {
            return None;
        }
        Some(self.process.finish(pending))
    }
}

impl fmt::Debug for CollectiveTransfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CollectiveTransfer({} of \"{}\")", self.ground.number, self.ground.name)
    }
}
