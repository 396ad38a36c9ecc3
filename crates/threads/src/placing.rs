//! Runs the schedulers of `bubbles`. A scheduler sees a snapshot of the queues; its moves are then
//! carried out on the queues themselves.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bubbles::{EntityId, Move, Place, Pool};

use crate::home::{ANYWHERE, LOAD, number, place};
use crate::shared::Shared;
use crate::thread::bubble::Bubble;
use crate::thread::{Ready, Thread};
use crate::usage::{MemoryUse, UsedMemory};
use crate::worker;

impl Bubble {
    /// Makes all threads of the bubble ready, where the scheduler puts them. Threads that are
    /// created in the bubble after this call are ready immediately.
    ///
    /// # Panics
    /// The caller is not a thread of [`Workers`](crate::Workers).
    pub fn submit(&self) {
        worker::with(|local| local.shared.submit(self, local.slot()));
    }

    /// Declares that the threads of this bubble share the memory at these addresses.
    ///
    /// The scheduler `memory` puts the threads on the NUMA node that holds most of this memory. If
    /// load forces the threads onto another node, the written memory is migrated there
    /// (move_pages(2)). The location of the memory is looked up when the bubble is submitted and
    /// when this function is called. A page that was never touched before the lookup counts for no
    /// node.
    pub fn uses(&self, addresses: Range<usize>, access: MemoryUse) {
        let machine = worker::local().map(|local| local.shared.machine.clone());
        self.memory().add(addresses, access, machine.as_deref());
    }
}

/// The state that a scheduler sees, and the threads and bubbles that its entities stand for.
struct Snapshot {
    pool: Pool,
    bubbles: HashMap<u64, (EntityId, Bubble)>,
    /// Each ready thread: its entity, its address, and its place in the queues.
    found: Vec<(EntityId, usize, Place)>,
    /// The threads that are being submitted and are in no queue yet.
    new: HashMap<EntityId, Arc<Thread>>,
    /// The threads and bubbles for which the program declared memory.
    users: HashMap<EntityId, MemoryUser>,
}

enum MemoryUser {
    Thread(Arc<Thread>),
    Bubble(Bubble),
}

impl MemoryUser {
    fn memory(&self) -> &UsedMemory {
        match self {
            Self::Thread(thread) => &thread.memory,
            Self::Bubble(bubble) => bubble.memory(),
        }
    }
}

impl Shared {
    /// Returns what a worker with an empty queue runs next, if the scheduler finds anything.
    pub fn find(&self, slot: usize) -> Option<Ready> {
        let mut scheduler = self.scheduler.lock();
        let mut snapshot = self.snapshot();
        let before = snapshot.pool.clone();
        let chosen = snapshot.pool.next(slot as u32, &mut **scheduler)?;
        let moves = differences(&before, &snapshot.pool);
        let (_, address, place) = *snapshot.found.iter().find(|found| found.0 == chosen)?;
        // Take it out of its old queue first; another worker may have taken it in the meantime.
        let taken = self.queue_at(place)?.take(|ready| ready.address() == address).pop();
        // If only its bubble was moved, the thread keeps no place of its own and follows the
        // bubble.
        let is_moved = moves.iter().any(|one| matches!(one, Move::Put(id, _) if *id == chosen));
        if let Some(Ready::Thread(thread)) = &taken
            && is_moved
        {
            set_home(thread, snapshot.pool.entity(chosen).place());
        }
        self.carry_out(&snapshot, &moves);
        drop(scheduler);
        self.bring_memory(&snapshot, &moves);
        taken
    }

    /// Reports the end of a time slice to the scheduler.
    pub fn end_slice(&self, now: u64) {
        let mut scheduler = self.scheduler.lock();
        let mut snapshot = self.snapshot();
        let moves = snapshot.pool.end_slice(now, &mut **scheduler);
        self.carry_out(&snapshot, &moves);
        drop(scheduler);
        self.bring_memory(&snapshot, &moves);
    }

    /// Makes all threads of a bubble ready, where the scheduler puts them.
    pub fn submit(&self, bubble: &Bubble, slot: usize) {
        let mut scheduler = self.scheduler.lock();
        let mut snapshot = self.snapshot();
        bubble.memory().locate(&self.machine);
        let top = snapshot.bubble(bubble);
        let mut rest = vec![bubble.clone()];
        while let Some(next) = rest.pop() {
            let (threads, bubbles) = next.open();
            bubbles.iter().for_each(|bubble| bubble.memory().locate(&self.machine));
            let entity = snapshot.bubble(&next);
            for thread in threads {
                let id = snapshot.pool.add_thread(Some(entity), LOAD);
                snapshot.new.insert(id, thread);
            }
            rest.extend(bubbles);
        }
        let moves = snapshot.pool.submit(top, slot as u32, &mut **scheduler);
        self.carry_out(&snapshot, &moves);
        let mut new: Vec<_> = snapshot.new.drain().collect();
        new.sort_unstable_by_key(|(id, _)| *id);
        for (id, thread) in new {
            let place = snapshot.pool.location_of(id);
            if let Some(queue) = self.standing_queue(place) {
                queue.push(Ready::Thread(thread));
            }
        }
        drop(scheduler);
        self.wake(usize::MAX);
        self.bring_memory(&snapshot, &moves);
    }

    fn snapshot(&self) -> Snapshot {
        let pool = Pool::new(self.machine.clone());
        let mut snapshot = Snapshot {
            pool,
            bubbles: HashMap::new(),
            found: Vec::new(),
            new: HashMap::new(),
            users: HashMap::new(),
        };
        for (vertex, _) in self.machine.vertices() {
            for place in [Place::Queue(vertex), Place::Aside(vertex)] {
                let queue = self.queue_at(place).expect("each vertex has both");
                if queue.len() > 0 {
                    queue.inspect(CHECK_MAX, |ready| snapshot.add(ready, place, self));
                }
            }
        }
        for (processor, slot) in self.slots.iter().enumerate() {
            let running = slot.running.load(Ordering::Relaxed);
            if let Some(&(bubble, _)) = snapshot.bubbles.get(&running) {
                let thread = snapshot.pool.add_thread(Some(bubble), LOAD);
                snapshot.pool.mark_running(thread, processor as u32);
            }
        }
        snapshot
    }

    /// Migrates the memory for which a scheduler chose another node. Only the caller waits for the
    /// migration.
    fn bring_memory(&self, snapshot: &Snapshot, moves: &[Move]) {
        for user in moves.iter().filter_map(|one| snapshot.user(one)) {
            user.memory().bring(&self.machine);
        }
    }

    /// Applies the moves of a scheduler to the queues.
    fn carry_out(&self, snapshot: &Snapshot, moves: &[Move]) {
        let pool = &snapshot.pool;
        for one in moves {
            if let (Move::Bring(_, node), Some(user)) = (one, snapshot.user(one)) {
                user.memory().plan(*node);
            }
        }
        for (id, bubble) in snapshot.bubbles.values() {
            if moves.iter().any(|one| matches!(one, Move::Put(moved, _) if moved == id)) {
                bubble.set_home(number(pool.entity(*id).place()));
            }
        }
        for (id, thread) in &snapshot.new {
            set_home(thread, pool.entity(*id).place());
        }
        for &(id, address, place) in &snapshot.found {
            let target = pool.location_of(id);
            if target == place {
                continue;
            }
            let (Some(from), Some(to)) = (self.queue_at(place), self.queue_at(target)) else {
                continue;
            };
            for ready in from.take(|ready| ready.address() == address) {
                if let Ready::Thread(thread) = &ready {
                    set_home(thread, pool.entity(id).place());
                }
                to.push(ready);
            }
        }
    }
}

impl Snapshot {
    fn add(&mut self, ready: &Ready, place: Place, shared: &Shared) {
        let own_home = match ready {
            Ready::Thread(thread) => thread.home.load(Ordering::Relaxed),
            Ready::Seed(_) => ANYWHERE,
        };
        let bubble = ready.bubble().map(|bubble| (self.bubble(bubble), bubble.home()));
        let id = self.pool.add_thread(bubble.map(|(id, _)| id), LOAD);
        // The thread is inside its bubble unless it was taken out of it, or all processors of the
        // bubble's queue are withdrawn. If it came back while the bubble was moved, it may stand
        // elsewhere; it then goes where the bubble is.
        let is_inside = own_home == ANYWHERE
            && bubble.is_some_and(|(_, home)| {
                home == number(place) || home != ANYWHERE && shared.is_in_use(self::place(home))
            });
        if let Ready::Thread(thread) = ready {
            self.attach(id, &thread.memory, || MemoryUser::Thread(thread.clone()));
            if thread.communicates.load(Ordering::Relaxed) {
                self.pool.mark_communicating(id);
            }
        }
        self.pool.stand(id, if is_inside { Place::Inside } else { place });
        self.found.push((id, ready.address(), place));
    }

    /// The user of the memory that a move migrates.
    fn user(&self, one: &Move) -> Option<&MemoryUser> {
        let Move::Bring(id, _) = one else { return None };
        self.users.get(id)
    }

    fn attach(&mut self, id: EntityId, memory: &UsedMemory, user: impl FnOnce() -> MemoryUser) {
        let nodes = memory.nodes();
        if !nodes.is_empty() {
            nodes.into_iter().for_each(|(node, bytes)| self.pool.attach(id, node, bytes));
            self.users.insert(id, user());
        }
    }

    /// Returns the entity of a bubble, at the place where the bubble was put.
    fn bubble(&mut self, bubble: &Bubble) -> EntityId {
        if let Some((id, _)) = self.bubbles.get(&bubble.number()) {
            return *id;
        }
        let above = bubble.bubble().map(|above| self.bubble(above));
        let id = self.pool.add_bubble(above, bubble.relation());
        self.attach(id, bubble.memory(), || MemoryUser::Bubble(bubble.clone()));
        self.pool.stand(id, place(bubble.own_home()));
        self.bubbles.insert(bubble.number(), (id, bubble.clone()));
        id
    }
}

/// The moves between two states of a pool with the same entities.
fn differences(before: &Pool, after: &Pool) -> Vec<Move> {
    let mut moves = Vec::new();
    for ((_, before), (id, after)) in before.entities().zip(after.entities()) {
        if before.place() != after.place() {
            moves.push(Move::Put(id, after.place()));
        }
        if let [(node, _)] = *after.memory()
            && before.memory() != after.memory()
        {
            moves.push(Move::Bring(id, node));
        }
    }
    moves
}

/// Sets the place of a thread. A thread in no bubble always belongs to the worker that makes it
/// ready.
fn set_home(thread: &Thread, place: Place) {
    if thread.bubble.is_some() {
        thread.home.store(number(place), Ordering::Relaxed);
    }
}

/// The maximum number of entries of each queue that a scheduler sees.
const CHECK_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use bubbles::{MachineTree, Relation, schedulers};

    use super::*;
    use crate::spawn::ThreadBuilder;

    /// Makes two gangs of three threads on two processors, one gang in the queue, the other one set
    /// aside. Returns the queue and the first thread in it, too.
    fn two_gangs() -> (Arc<Shared>, Place, Arc<Thread>) {
        let machine = MachineTree::flat(&[0, 1]);
        let root = Place::Queue(machine.root());
        let shared = Shared::new(machine, Box::new(schedulers::Gang), 64 << 10);
        let all = Bubble::new(Relation::Unrelated);
        let mut threads = Vec::new();
        for gang in [all.inside(Relation::WaitsTogether), all.inside(Relation::WaitsTogether)] {
            for _ in 0..3 {
                let (thread, _join) = ThreadBuilder::new().bubble(&gang).made(|| ());
                assert!(gang.keep(&thread), "the bubble is not submitted yet");
                threads.push(thread);
            }
        }
        shared.submit(&all, 0);
        let queued = |thread: &Arc<Thread>| standing(&shared, root).contains(&address(thread));
        let first = threads.iter().find(|thread| queued(thread)).expect("one gang is queued");
        let first = Arc::clone(first);
        (shared, root, first)
    }

    fn address(thread: &Arc<Thread>) -> usize {
        Ready::Thread(Arc::clone(thread)).address()
    }

    fn standing(shared: &Shared, place: Place) -> Vec<usize> {
        let mut found = Vec::new();
        shared.queue_at(place).unwrap().inspect(CHECK_MAX, |ready| found.push(ready.address()));
        found
    }

    /// Takes the thread away, as a worker does that runs it, lets a time slice end, and puts the
    /// thread back where its gang was when it was taken.
    fn come_back_late(shared: &Shared, thread: &Arc<Thread>, place: Place) {
        let queue = shared.queue_at(place).unwrap();
        assert_eq!(queue.take(|ready| ready.address() == address(thread)).len(), 1);
        shared.end_slice(1);
        queue.push(Ready::Thread(Arc::clone(thread)));
    }

    #[test]
    fn a_thread_that_comes_back_as_its_gang_is_set_aside_stays_in_the_gang() {
        let (shared, queue, thread) = two_gangs();
        let Place::Queue(root) = queue else { panic!("the queue of the machine") };
        come_back_late(&shared, &thread, queue);
        // The gang is aside; its thread follows it instead of taking turns of its own.
        shared.find(0).expect("the other gang runs");
        assert_eq!(thread.home.load(Ordering::Relaxed), ANYWHERE);
        assert!(!standing(&shared, queue).contains(&address(&thread)));
        assert!(standing(&shared, Place::Aside(root)).contains(&address(&thread)));
        // In the gang's next slice all three stand in the queue.
        shared.end_slice(2);
        assert!(standing(&shared, queue).contains(&address(&thread)));
        assert_eq!(standing(&shared, queue).len(), 3);
    }

    #[test]
    fn a_thread_that_comes_back_as_its_slice_ends_again_keeps_its_gang() {
        let (shared, queue, thread) = two_gangs();
        come_back_late(&shared, &thread, queue);
        shared.end_slice(2);
        assert_eq!(thread.home.load(Ordering::Relaxed), ANYWHERE);
        assert!(standing(&shared, queue).contains(&address(&thread)));
        assert_eq!(standing(&shared, queue).len(), 3);
    }

    #[test]
    fn a_thread_that_comes_back_aside_goes_to_its_gang_in_the_queue() {
        let (shared, queue, thread) = two_gangs();
        let Place::Queue(root) = queue else { panic!("the queue of the machine") };
        shared.end_slice(1);
        come_back_late(&shared, &thread, Place::Aside(root));
        shared.find(0).expect("the gang runs");
        assert_eq!(thread.home.load(Ordering::Relaxed), ANYWHERE);
        assert!(!standing(&shared, Place::Aside(root)).contains(&address(&thread)));
    }
}
