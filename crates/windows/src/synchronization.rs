//! The synchronization of windows: fences, general active targets, locks, flushes (section 12.5).

use std::time::{Duration, Instant};

use base::{Error, ErrorClass, Result};
use engine::RequestId;
use memory::{Buffer, SharedMemory, full_fence};
use mpi::collective::{self, CallForm, Invocation};
use mpi::group::Group;
use mpi::{ActiveOperation, Process, error_of};

use super::epoch::{AccessEpoch, AfterFence};
use super::exposed::ExposedParts;
use super::locks::{LockTurn, SharedLock};
use super::message::{POST_TAG, Refusal, RequestKind, WindowRequest};
use super::{LockKind, Window};

/// The time that the owner of an allocated part has to initialize it before its next call.
const HEAD_START: Duration = Duration::from_millis(10);

/// After a process has failed: a lock without exclusive holder that does not move for this long is
/// assumed to wait for that process.
const STILL_MAX: Duration = Duration::from_millis(500);

/// After this many flushes without anything to wait for, one makes a round of progress.
const FLUSHES_PER_ROUND: u64 = 64;

#[cold]
#[inline(never)]
fn make_round(process: &Process) {
    process.progress();
}

/// A request that a target answers when all earlier requests are done.
struct Question {
    target: u32,
    id: RequestId,
    answer: Buffer,
}

impl Window {
    /// `MPI_Win_fence`: ends an epoch in which all processes may access all others, and begins the
    /// next one, unless the program asserts that no operation follows.
    ///
    /// # Errors
    /// `RmaSync` in an epoch of another kind; and the refusals of targets in this one.
    pub fn fence(&self, process: &Process, after: AfterFence) -> Result<()> {
        self.epochs.borrow().check_fence()?;
        self.note_settled();
        let outcome = self.settle(process, None);
        self.epochs.borrow_mut().fenced(after);
        full_fence();
        // Invoked as if by the program: windows with many fences get a board for them.
        let invocation = Invocation::new(process, &self.communicator, CallForm::Blocking);
        let barrier = collective::barrier(&invocation);
        let met = barrier.and_then(|barrier| barrier.complete(process));
        let met = met.map_err(|error| self.communicator.explained(error));
        full_fence();
        outcome.and(met)
    }

    /// `MPI_Win_post`: lets the processes of `group` access this process's part.
    ///
    /// # Errors
    /// `RmaSync` if an exposure epoch is open, `Group` if the group has processes outside the
    /// window.
    pub fn post(&self, process: &Process, group: &Group) -> Result<()> {
        let origins = self.ranks_of(group)?;
        self.epochs.borrow_mut().post(origins.clone())?;
        full_fence();
        if let Some(shared) = self.shared_exposure() {
            origins.into_iter().for_each(|origin| shared.post(origin));
            return Ok(());
        }
        for origin in origins {
            self.send(process, origin, POST_TAG, Buffer::empty());
        }
        Ok(())
    }

    /// `MPI_Win_start`: waits until the processes of `group` have posted, and begins an access
    /// epoch to them.
    ///
    /// # Errors
    /// `RmaSync` if an access epoch is open, `Group` if the group has processes outside the window.
    pub fn start(&self, process: &Process, group: &Group) -> Result<()> {
        let mut targets = self.ranks_of(group)?;
        targets.sort_unstable();
        self.epochs.borrow_mut().start(targets.clone())?;
        if let Some(shared) = self.shared_exposure() {
            let problems = targets.into_iter().filter_map(|target| {
                self.poll_unless_failed(process, target, &mut || shared.take_post(target)).err()
            });
            return problems.last().map_or(Ok(()), Err);
        }
        let context = self.communicator.point_to_point_context();
        let post = |target| process.post_receive(context, target, POST_TAG, Buffer::empty());
        let posts: Vec<RequestId> = targets.into_iter().map(post).collect();
        let problems = posts.into_iter().filter_map(|id| process.wait_for(id).problem);
        // Waits for all of them, even if one fails.
        problems
            .last()
            .map_or(Ok(()), |problem| Err(self.communicator.explained(error_of(problem))))
    }

    /// `MPI_Win_complete`: ends the access epoch; all its operations are done.
    ///
    /// # Errors
    /// `RmaSync` if there is none; and the refusals of targets in it.
    pub fn complete(&self, process: &Process) -> Result<()> {
        let targets = self.epochs.borrow_mut().complete()?;
        self.complete_at(process, targets)
    }

    fn complete_at(&self, process: &Process, targets: Vec<u32>) -> Result<()> {
        self.note_settled();
        let outcome = self.settle(process, None);
        full_fence();
        if let Some(shared) = self.shared_exposure() {
            targets.into_iter().for_each(|target| shared.complete(target));
            return outcome;
        }
        for target in targets {
            let request = WindowRequest::plain(RequestKind::Complete);
            self.outgoing.send(process, target, |message| request.add_to(message, 0, |_| ()));
        }
        outcome
    }

    /// Ends the open access epoch when the window is freed after a process has failed: the
    /// remaining processes may wait for that. Errors of its operations are lost.
    pub(super) fn end_epochs(&self, process: &Process) {
        let access = self.epochs.borrow_mut().take_access();
        let _lost = match access {
            AccessEpoch::None | AccessEpoch::Fence { .. } => self.settle(process, None),
            AccessEpoch::Start(targets) => self.complete_at(process, targets),
            AccessEpoch::Locks(locks) => {
                let unlock = |(target, lock)| self.unlock_parts(process, &[target], lock);
                locks.into_iter().map(unlock).fold(Ok(()), Result::and)
            }
            AccessEpoch::LockAll(lock) => {
                let targets: Vec<u32> = self.ranks().collect();
                self.unlock_parts(process, &targets, lock)
            }
        };
    }

    /// `MPI_Win_wait`: waits until all processes of the exposure epoch have completed.
    ///
    /// # Errors
    /// `RmaSync` if there is none; `ProcFailed` if one of them has failed; `Revoked`.
    pub fn wait(&self, process: &Process) -> Result<()> {
        let origins = self.epochs.borrow().exposed_to()?.to_vec();
        let mut outcome = Ok(false);
        let mut done = |process: &Process| {
            outcome = self.is_completed(process, &origins);
            outcome != Ok(false)
        };
        match self.shared_exposure() {
            Some(_) => process.poll_until(&mut done),
            None => process.wait_until(&mut done),
        }
        outcome.map(|_| self.unexpose(origins.len()))
    }

    /// `MPI_Win_test`: does what [`Window::wait`] does, if that would return immediately; otherwise
    /// returns false.
    ///
    /// # Errors
    /// Those of [`Window::wait`].
    pub fn test(&self, process: &Process) -> Result<bool> {
        let origins = self.epochs.borrow().exposed_to()?.to_vec();
        process.progress();
        let over = self.is_completed(process, &origins)?;
        if over {
            self.unexpose(origins.len());
        }
        Ok(over)
    }

    /// Whether [`Window::test`] would not return false now; makes no progress.
    pub fn is_over(&self, process: &Process) -> bool {
        let origins = self.epochs.borrow().exposed_to().map(<[u32]>::to_vec);
        origins.is_ok_and(|origins| self.is_completed(process, &origins) != Ok(false))
    }

    /// Whether these processes have completed their epochs.
    fn is_completed(&self, process: &Process, origins: &[u32]) -> Result<bool> {
        if self.completed() >= origins.len() {
            return Ok(true);
        }
        let failure = |&origin| process.failure_of_source(&self.communicator, Some(origin));
        origins.iter().find_map(failure).map_or(Ok(false), Err)
    }

    /// Waits until `done`, which checks for a change in shared memory by the process with rank
    /// `rank`.
    ///
    /// # Errors
    /// `ProcFailed` if that process has failed; `Revoked`.
    pub(super) fn poll_unless_failed(
        &self,
        process: &Process,
        rank: u32,
        done: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let mut outcome = Ok(());
        process.poll_window_until(&self.communicator, rank, &mut |process| {
            done() || {
                let failure = process.failure_of_source(&self.communicator, Some(rank));
                outcome = failure.map_or(Ok(()), Err);
                outcome.is_err()
            }
        });
        outcome
    }

    fn unexpose(&self, origins: usize) {
        self.forget_completed(origins);
        self.epochs.borrow_mut().unexposed();
        full_fence();
    }

    /// `MPI_Win_lock`: waits until the part of `target` is locked, and begins an access epoch to
    /// it. Without a kind of lock (`MPI_MODE_NOCHECK`) none is taken, as the program asserts that
    /// no other process has a conflicting one.
    ///
    /// # Errors
    /// `RmaSync` if it is locked already or an epoch of another kind is open, `Rank` if there is no
    /// such process.
    pub fn lock(&self, process: &Process, target: u32, lock: Option<LockKind>) -> Result<()> {
        self.share(target)?;
        self.epochs.borrow().check_lock(target)?;
        self.lock_parts(process, &[target], lock)?;
        self.epochs.borrow_mut().locked(target, lock);
        Ok(())
    }

    /// `MPI_Win_unlock`: ends the epoch of [`Window::lock`]; all its operations are done.
    ///
    /// # Errors
    /// `RmaSync` if `target` is not locked; and its refusals.
    pub fn unlock(&self, process: &Process, target: u32) -> Result<()> {
        self.share(target)?;
        let lock = self.epochs.borrow().lock_of(target)?;
        let outcome = self.unlock_parts(process, &[target], lock);
        self.epochs.borrow_mut().unlocked(target);
        outcome
    }

    /// `MPI_Win_lock_all`: locks all parts in shared mode, or without a kind of lock takes none, as
    /// [`Window::lock`] does.
    ///
    /// # Errors
    /// `RmaSync` if an epoch is open.
    pub fn lock_all(&self, process: &Process, lock: Option<LockKind>) -> Result<()> {
        self.epochs.borrow().check_idle("MPI_Win_lock_all")?;
        let targets: Vec<u32> = self.ranks().collect();
        self.lock_parts(process, &targets, lock)?;
        self.epochs.borrow_mut().locked_all(lock);
        Ok(())
    }

    /// `MPI_Win_unlock_all`: ends the epoch of [`Window::lock_all`]; all its operations are done.
    ///
    /// # Errors
    /// `RmaSync` if there is none; and the refusals of targets in it.
    pub fn unlock_all(&self, process: &Process) -> Result<()> {
        let lock = self.epochs.borrow_mut().unlocked_all()?;
        let targets: Vec<u32> = self.ranks().collect();
        self.unlock_parts(process, &targets, lock)
    }

    /// `MPI_Win_flush`, and without a target `MPI_Win_flush_all`: waits until all operations of the
    /// epoch so far are done at the target.
    ///
    /// # Errors
    /// `RmaSync` if the target is not locked; and its refusals.
    pub fn flush(&self, process: &Process, target: Option<u32>) -> Result<()> {
        target.map_or(Ok(()), |target| self.share(target).map(|_| ()))?;
        self.epochs.borrow().check_flush(target)?;
        let settled = self.note_settled();
        if matches!(self.memory, ExposedParts::Shared { .. }) || self.is_idle(target) {
            // All operations are done. But a program that flushes in a loop until another process
            // changes something must let that process make the change.
            full_fence();
            if settled.is_multiple_of(FLUSHES_PER_ROUND) {
                make_round(process);
            }
            return Ok(());
        }
        let outcome = self.settle(process, target);
        full_fence();
        process.progress();
        outcome
    }

    /// `MPI_Win_flush_local`, and without a target `MPI_Win_flush_local_all`: waits until all
    /// operations so far are complete at the origin, so that their buffers may be reused and
    /// results are there.
    ///
    /// # Errors
    /// Those of [`Window::flush`].
    pub fn flush_local(&self, process: &Process, target: Option<u32>) -> Result<()> {
        target.map_or(Ok(()), |target| self.share(target).map(|_| ()))?;
        self.epochs.borrow().check_flush(target)?;
        let outcome = self.settle_locally(process, target);
        full_fence();
        process.progress();
        outcome
    }

    /// `MPI_Win_sync`: makes writes of other processes to this process's part visible to this
    /// process, and the writes of this process to it visible to others.
    pub fn sync(&self, process: &Process) {
        full_fence();
        process.progress();
        // A program that calls this in a loop polls for the writes of other processes.
        process.record_empty_poll();
        full_fence();
    }

    fn lock_parts(&self, process: &Process, targets: &[u32], lock: Option<LockKind>) -> Result<()> {
        if let Some(words) = &self.words {
            self.leave_head_start(process, words);
        }
        let Some(kind) = lock else {
            full_fence();
            return Ok(());
        };
        if let Some(words) = &self.words {
            for target in targets {
                // Operations at the target may need its service.
                if self.mailboxes.is_some() {
                    let failure = process.failure_of_source(&self.communicator, Some(*target));
                    failure.map_or(Ok(()), Err)?;
                }
                self.wait_for_lock(process, words, *target, kind)?;
            }
            full_fence();
            return Ok(());
        }
        let exclusive = kind == LockKind::Exclusive;
        let lock = || WindowRequest { exclusive, ..WindowRequest::plain(RequestKind::Lock) };
        self.ask_all(process, targets, lock)
    }

    /// Waits for a lock in shared words. Fails if a failed process holds the lock, or may hold it
    /// or wait in its queue: then the lock is never granted again.
    fn wait_for_lock(
        &self,
        process: &Process,
        words: &SharedMemory,
        target: u32,
        kind: LockKind,
    ) -> Result<()> {
        let lock = SharedLock::of(words, target);
        let (own, ticket) = (self.rank(), lock.take_ticket());
        let mut outcome = Ok(());
        let mut still: Option<(LockTurn, Instant)> = None;
        process.poll_window_until(&self.communicator, target, &mut |process| {
            if lock.try_lock(own, ticket, kind) {
                return true;
            }
            let failure = |rank| process.failure_of_source(&self.communicator, rank);
            let Some(some) = failure(None) else { return false };
            let turn = lock.turn();
            let problem = match (turn.excluding, still) {
                _ if self.communicator.is_revoked() => Some(some),
                (Some(holder), _) => failure(Some(holder)),
                (None, Some((last, since))) if last == turn => {
                    (since.elapsed() >= STILL_MAX).then_some(some)
                }
                (None, _) => {
                    still = Some((turn, Instant::now()));
                    None
                }
            };
            outcome = problem.map_or(Ok(()), Err);
            outcome.is_err()
        });
        outcome
    }

    /// Before the first lock, leaves all processes some time to initialize the parts that they just
    /// got. Programs do so without a barrier. That works if a lock must wait for the owner's next
    /// call, but would rarely work with shared memory.
    fn leave_head_start(&self, process: &Process, words: &SharedMemory) {
        if self.started.get() {
            return;
        }
        let since = Instant::now();
        process.progress();
        process.poll_until(&mut |_| {
            let open = self.ranks().all(|rank| SharedLock::of(words, rank).is_open());
            open || since.elapsed() >= HEAD_START
        });
        self.started.set(true);
    }

    fn unlock_parts(
        &self,
        process: &Process,
        targets: &[u32],
        lock: Option<LockKind>,
    ) -> Result<()> {
        self.note_settled();
        let mut outcome = Ok(());
        if self.words.is_some() || lock.is_none() {
            for target in targets {
                outcome = outcome.and(self.settle(process, Some(*target)));
            }
            full_fence();
            if let (Some(words), Some(kind)) = (&self.words, lock) {
                targets.iter().for_each(|target| SharedLock::of(words, *target).unlock(kind));
            }
            return outcome;
        }
        let mut asked = Vec::new();
        for target in targets {
            asked.extend(self.unflushed(Some(*target)));
            outcome = outcome.and(self.settle_locally(process, Some(*target)));
        }
        let unlocked = self.ask_all(process, targets, || WindowRequest::plain(RequestKind::Unlock));
        asked.into_iter().for_each(|(target, sent)| self.note_done(target, sent));
        outcome.and(unlocked)
    }

    /// Counts a completion of operations; returns the count.
    fn note_settled(&self) -> u64 {
        let settled = self.settled.get() + 1;
        self.settled.set(settled);
        settled
    }

    /// Waits until all operations to the target, or to all targets, are done there.
    fn settle(&self, process: &Process, target: Option<u32>) -> Result<()> {
        let asked = self.unflushed(target);
        let targets: Vec<u32> = asked.iter().map(|(target, _)| *target).collect();
        let outcome = self.settle_locally(process, target);
        let flushed = self.ask_all(process, &targets, || WindowRequest::plain(RequestKind::Flush));
        asked.into_iter().for_each(|(target, sent)| self.note_done(target, sent));
        outcome.and(flushed)
    }

    /// Waits until all operations to the target, or to all targets, are complete at the origin.
    fn settle_locally(&self, process: &Process, target: Option<u32>) -> Result<()> {
        let mut outcome = Ok(());
        for target in self.unsettled(target) {
            while let Some(operation) = self.outstanding(target) {
                process.wait_until(&mut |process| operation.is_complete(process));
                self.forget_outstanding(&operation);
                outcome = outcome.and(operation.error().map_or(Ok(()), Err));
            }
        }
        outcome
    }

    /// Sends a request to each of the targets, and waits for all answers.
    pub(super) fn ask_all(
        &self,
        process: &Process,
        targets: &[u32],
        request: impl Fn() -> WindowRequest,
    ) -> Result<()> {
        let ask = |target: &u32| self.ask(process, *target, request());
        let questions: Vec<Question> = targets.iter().map(ask).collect();
        let mut outcome = Ok(());
        for question in questions {
            outcome = outcome.and(self.receive(process, &question));
        }
        outcome
    }

    fn ask(&self, process: &Process, target: u32, request: WindowRequest) -> Question {
        let context = self.communicator.point_to_point_context();
        let (reply, answer) = (self.next_reply(), Buffer::zeroed(Refusal::BYTES));
        let id = process.post_receive(context, target, reply, answer.clone());
        let request = WindowRequest { reply, ..request };
        self.outgoing.send(process, target, |message| request.add_to(message, 0, |_| ()));
        Question { target, id, answer }
    }

    fn receive(&self, process: &Process, question: &Question) -> Result<()> {
        if let Some(problem) = process.wait_for(question.id).problem {
            return Err(self.communicator.explained(error_of(problem)));
        }
        match Refusal::of_answer(&question.answer) {
            None => Ok(()),
            Some(refusal) => Err(refusal.error(question.target)),
        }
    }
}

impl Window {
    /// Returns the ranks in the window of the processes of a group.
    ///
    /// # Errors
    /// `Group` if the group has processes outside the window.
    pub fn ranks_of(&self, group: &Group) -> Result<Vec<u32>> {
        let rank = |gate| {
            self.communicator.group().rank_of(gate).ok_or_else(|| {
                let detail = format!(
                    "the group has the process with rank {} in MPI_COMM_WORLD, which is not in \
                     the window's group",
                    gate.0
                );
                Error::new(ErrorClass::Group, detail)
            })
        };
        group.gates().map(rank).collect()
    }
}
