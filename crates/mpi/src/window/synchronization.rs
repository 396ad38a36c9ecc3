//! The synchronization of windows: fences, general active targets, locks, flushes (section 12.5).

use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use base::{Error, ErrorClass, Result};
use engine::RequestId;
use memory::Buffer;

use super::exposed::Exposed;
use super::locks::SharedLock;
use super::message::{Kind, POST_TAG, Refusal, Request, room};
use super::{LockKind, Window};
use crate::Process;
use crate::collective;
use crate::group::Group;

/// How long the owner of a part that came with a window may take to fill it before its next call.
const HEAD_START: Duration = Duration::from_millis(10);

/// A question that a target answers when everything before it is done.
struct Question {
    target: u32,
    id: RequestId,
    answer: Buffer,
}

impl Process {
    /// `MPI_Win_fence`: ends an epoch in which all processes may access all others, and begins the
    /// next one, unless the program promises that nothing follows.
    ///
    /// # Errors
    /// `RmaSync` in an epoch of another kind; and what targets refused to do in this one.
    pub fn fence_window(&self, window: &Window, goes_on: bool) -> Result<()> {
        window.epochs.borrow().check_fence()?;
        let outcome = self.settle(window, None);
        window.epochs.borrow_mut().fenced(goes_on);
        fence(Ordering::SeqCst);
        let met = self.complete(collective::barrier(&window.communicator));
        fence(Ordering::SeqCst);
        outcome.and(met)
    }

    /// `MPI_Win_post`: lets the processes of `group` access the own part.
    ///
    /// # Errors
    /// `RmaSync` if an exposure epoch is open, `Group` if the group has others than the window.
    pub fn post_window(&self, window: &Window, group: &Group) -> Result<()> {
        let origins = window.ranks_of(group)?;
        window.epochs.borrow_mut().post(origins.len())?;
        fence(Ordering::SeqCst);
        for origin in origins {
            window.post(self, origin, POST_TAG, Buffer::empty());
        }
        Ok(())
    }

    /// `MPI_Win_start`: waits until the processes of `group` have posted, and may then access them.
    ///
    /// # Errors
    /// `RmaSync` if an access epoch is open, `Group` if the group has others than the window.
    pub fn start_window(&self, window: &Window, group: &Group) -> Result<()> {
        let mut targets = window.ranks_of(group)?;
        targets.sort_unstable();
        window.epochs.borrow_mut().start(targets.clone())?;
        let context = window.communicator.point_to_point_context();
        let post = |target| self.post_receive(context, target, POST_TAG, Buffer::empty());
        let posts: Vec<RequestId> = targets.into_iter().map(post).collect();
        for id in posts {
            self.wait_for(id);
        }
        Ok(())
    }

    /// `MPI_Win_complete`: ends the access epoch; all its operations are done.
    ///
    /// # Errors
    /// `RmaSync` if there is none; and what targets refused to do in it.
    pub fn complete_window(&self, window: &Window) -> Result<()> {
        let targets = window.epochs.borrow_mut().complete()?;
        let outcome = self.settle(window, None);
        fence(Ordering::SeqCst);
        for target in targets {
            let message = Request::plain(Kind::Complete).message(0, |_| ());
            self.send_request(window, target, message);
        }
        outcome
    }

    /// `MPI_Win_wait`: waits until all processes of the exposure epoch have completed.
    ///
    /// # Errors
    /// `RmaSync` if there is none.
    pub fn wait_window(&self, window: &Window) -> Result<()> {
        let origins = window.epochs.borrow().exposed_to()?;
        self.wait_until(&mut |_| window.completed() >= origins);
        self.unexpose(window, origins);
        Ok(())
    }

    /// `MPI_Win_test`: as [`Process::wait_window`], if that would return at once; else false.
    ///
    /// # Errors
    /// As there.
    pub fn test_window(&self, window: &Window) -> Result<bool> {
        let origins = window.epochs.borrow().exposed_to()?;
        self.progress();
        let over = window.completed() >= origins;
        if over {
            self.unexpose(window, origins);
        }
        Ok(over)
    }

    fn unexpose(&self, window: &Window, origins: usize) {
        window.forget_completed(origins);
        window.epochs.borrow_mut().unexposed();
        fence(Ordering::SeqCst);
    }

    /// `MPI_Win_lock`: waits until the part of `target` is locked, and may then access it.
    ///
    /// # Errors
    /// `RmaSync` if it is locked already or an epoch of another kind is open, `Rank` if there is
    /// no such process.
    pub fn lock_window(&self, window: &Window, target: u32, kind: LockKind) -> Result<()> {
        window.share(target)?;
        window.epochs.borrow().check_lock(target)?;
        self.lock_parts(window, &[target], kind)?;
        window.epochs.borrow_mut().locked(target, kind);
        Ok(())
    }

    /// `MPI_Win_unlock`: ends that epoch; all its operations are done.
    ///
    /// # Errors
    /// `RmaSync` if `target` is not locked; and what it refused to do.
    pub fn unlock_window(&self, window: &Window, target: u32) -> Result<()> {
        window.share(target)?;
        let kind = window.epochs.borrow().lock_of(target)?;
        let outcome = self.unlock_parts(window, &[target], kind);
        window.epochs.borrow_mut().unlocked(target);
        outcome
    }

    /// `MPI_Win_lock_all`: shares the locks of all processes.
    ///
    /// # Errors
    /// `RmaSync` if an epoch is open.
    pub fn lock_whole_window(&self, window: &Window) -> Result<()> {
        window.epochs.borrow().check_idle("MPI_Win_lock_all")?;
        let targets: Vec<u32> = window.ranks().collect();
        self.lock_parts(window, &targets, LockKind::Shared)?;
        window.epochs.borrow_mut().locked_all();
        Ok(())
    }

    /// `MPI_Win_unlock_all`: ends that epoch; all its operations are done.
    ///
    /// # Errors
    /// `RmaSync` if there is none; and what targets refused to do in it.
    pub fn unlock_whole_window(&self, window: &Window) -> Result<()> {
        window.epochs.borrow_mut().unlocked_all()?;
        let targets: Vec<u32> = window.ranks().collect();
        self.unlock_parts(window, &targets, LockKind::Shared)
    }

    /// `MPI_Win_flush`, and without a target `MPI_Win_flush_all`: waits until all operations of
    /// the epoch so far are done at the target.
    ///
    /// # Errors
    /// `RmaSync` if it is not locked; and what it refused to do.
    pub fn flush_window(&self, window: &Window, target: Option<u32>) -> Result<()> {
        target.map_or(Ok(()), |target| window.share(target).map(|_| ()))?;
        window.epochs.borrow().check_flush(target)?;
        let outcome = self.settle(window, target);
        fence(Ordering::SeqCst);
        // Who asks again and again for a change by others must let them make it.
        self.progress();
        outcome
    }

    /// `MPI_Win_flush_local`, and without a target `MPI_Win_flush_local_all`: waits until the
    /// buffers of all operations so far are free and full.
    ///
    /// # Errors
    /// As for [`Process::flush_window`].
    pub fn flush_window_locally(&self, window: &Window, target: Option<u32>) -> Result<()> {
        target.map_or(Ok(()), |target| window.share(target).map(|_| ()))?;
        window.epochs.borrow().check_flush(target)?;
        let outcome = self.settle_locally(window, target);
        fence(Ordering::SeqCst);
        self.progress();
        outcome
    }

    /// `MPI_Win_sync`: what others wrote to the own part can be read, and what was written to it
    /// can be read by others.
    pub fn sync_window(&self, _window: &Window) {
        fence(Ordering::SeqCst);
        self.progress();
        fence(Ordering::SeqCst);
    }

    fn lock_parts(&self, window: &Window, targets: &[u32], kind: LockKind) -> Result<()> {
        if let Exposed::Shared { memory, .. } = &window.memory {
            self.leave_head_start(window);
            for target in targets {
                let lock = SharedLock::of(memory, *target);
                let ticket = lock.take_ticket();
                self.poll_until(&mut |_| lock.try_lock(ticket, kind));
            }
            fence(Ordering::SeqCst);
            return Ok(());
        }
        let exclusive = kind == LockKind::Exclusive;
        self.ask_all(window, Kind::Lock, targets, exclusive)
    }

    /// Before the first lock, leaves all processes a little time to fill the parts that they just
    /// got: programs do so without a barrier, which goes well where a lock has to wait for the
    /// owner's next call, and would rarely go well with shared memory.
    fn leave_head_start(&self, window: &Window) {
        if window.started.get() {
            return;
        }
        let Exposed::Shared { memory, .. } = &window.memory else { return };
        let since = Instant::now();
        self.progress();
        self.poll_until(&mut |_| {
            let open = window.ranks().all(|rank| SharedLock::of(memory, rank).is_open());
            open || since.elapsed() >= HEAD_START
        });
        window.started.set(true);
    }

    fn unlock_parts(&self, window: &Window, targets: &[u32], kind: LockKind) -> Result<()> {
        if let Exposed::Shared { memory, .. } = &window.memory {
            fence(Ordering::SeqCst);
            for target in targets {
                SharedLock::of(memory, *target).unlock(kind);
            }
            return Ok(());
        }
        let mut outcome = Ok(());
        let mut asked = Vec::new();
        for target in targets {
            asked.extend(window.unflushed(Some(*target)));
            outcome = outcome.and(self.settle_locally(window, Some(*target)));
        }
        let unlocked = self.ask_all(window, Kind::Unlock, targets, false);
        asked.into_iter().for_each(|(target, sent)| window.note_done(target, sent));
        outcome.and(unlocked)
    }

    /// Waits until all operations to the targets are done there.
    fn settle(&self, window: &Window, target: Option<u32>) -> Result<()> {
        let asked = window.unflushed(target);
        let targets: Vec<u32> = asked.iter().map(|(target, _)| *target).collect();
        let outcome = self.settle_locally(window, target);
        let flushed = self.ask_all(window, Kind::Flush, &targets, false);
        asked.into_iter().for_each(|(target, sent)| window.note_done(target, sent));
        outcome.and(flushed)
    }

    /// Waits until the buffers of all operations to the targets are free and full.
    fn settle_locally(&self, window: &Window, target: Option<u32>) -> Result<()> {
        let mut outcome = Ok(());
        while let Some(operation) = window.outstanding(target) {
            self.wait_until(&mut |process| operation.is_complete(process));
            window.forget_outstanding(&operation);
            outcome = outcome.and(operation.error().map_or(Ok(()), Err));
        }
        outcome
    }

    /// Asks all the targets, and waits for all the answers.
    pub(super) fn ask_all(
        &self,
        window: &Window,
        kind: Kind,
        targets: &[u32],
        exclusive: bool,
    ) -> Result<()> {
        let ask = |target: &u32| self.ask(window, *target, kind, exclusive);
        let questions: Vec<Question> = targets.iter().map(ask).collect();
        let mut outcome = Ok(());
        for question in questions {
            outcome = outcome.and(self.hear(&question));
        }
        outcome
    }

    fn ask(&self, window: &Window, target: u32, kind: Kind, exclusive: bool) -> Question {
        let context = window.communicator.point_to_point_context();
        let (reply, answer) = (window.next_reply(), room(Refusal::BYTES));
        let id = self.post_receive(context, target, reply, answer.clone());
        let request = Request { reply, exclusive, ..Request::plain(kind) };
        self.send_request(window, target, request.message(0, |_| ()));
        Question { target, id, answer }
    }

    fn hear(&self, question: &Question) -> Result<()> {
        self.wait_for(question.id);
        match Refusal::of_answer(&question.answer) {
            None => Ok(()),
            Some(refusal) => Err(refusal.error(question.target)),
        }
    }
}

impl Window {
    /// The ranks of the processes of a group in the window's.
    fn ranks_of(&self, group: &Group) -> Result<Vec<u32>> {
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
