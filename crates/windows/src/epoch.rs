//! The open epochs of a window, and what is allowed in them (section 12.5).

use crate::CompletedBy;
use std::collections::BTreeMap;

use base::{Error, ErrorClass, Result};

/// Which processes may access a target at the same time (section 12.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// All processes that hold the lock in shared mode.
    Shared,
    /// Only the holder.
    Exclusive,
}

/// What follows a fence (section 12.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFence {
    /// An epoch in which all processes may access all others.
    Epoch,
    /// No epoch: the program asserts that no operation follows (`MPI_MODE_NOSUCCEED`).
    NoEpoch,
}

/// The kind of epoch that allows a process to access another one now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenEpoch {
    /// A fence.
    Fence,
    /// `MPI_Win_start`.
    Start,
    /// A lock.
    Lock,
}

/// The epochs of one process on one window.
#[derive(Debug, Default)]
pub(crate) struct Epochs {
    access: AccessEpoch,
    /// The processes that must complete the open exposure epoch.
    exposure: Option<Vec<u32>>,
}

/// An access epoch: what allows a process to access others.
#[derive(Debug, Default)]
pub(crate) enum AccessEpoch {
    /// None is open.
    #[default]
    None,
    /// Between fences; `used`: there was an operation, so another fence must follow.
    Fence { used: bool },
    /// Started for these targets, ranks in ascending order.
    Start(Vec<u32>),
    /// Targets locked one by one; `None`: accessed without a lock (`MPI_MODE_NOCHECK`).
    Locks(BTreeMap<u32, Option<LockKind>>),
    /// All targets, locked together.
    LockAll(Option<LockKind>),
}

impl Epochs {
    /// Checks that an operation may access `target` now, and records that one does.
    ///
    /// # Errors
    /// `RmaSync` if it may not.
    #[inline(always)]
    pub(crate) fn admit(&mut self, target: u32, completed_by: CompletedBy) -> Result<()> {
        match self.access {
            AccessEpoch::LockAll(_) => Ok(()),
            _ => self.admit_to_some(target, completed_by),
        }
    }

    /// Does what [`admit`](Self::admit) does, where not all targets are locked together.
    #[inline(never)]
    fn admit_to_some(&mut self, target: u32, completed_by: CompletedBy) -> Result<()> {
        match &mut self.access {
            AccessEpoch::LockAll(_) => Ok(()),
            AccessEpoch::Locks(locks) if locks.contains_key(&target) => Ok(()),
            AccessEpoch::Locks(_) => Err(not_locked(target)),
            AccessEpoch::None => Err(out_of_sync(
                "no access epoch is open: call MPI_Win_fence, MPI_Win_start or MPI_Win_lock first",
            )),
            _ if completed_by == CompletedBy::Request => Err(out_of_sync(
                "operations with requests are allowed only in epochs of MPI_Win_lock or \
                 MPI_Win_lock_all",
            )),
            AccessEpoch::Fence { used } => {
                *used = true;
                Ok(())
            }
            AccessEpoch::Start(targets) if targets.binary_search(&target).is_ok() => Ok(()),
            AccessEpoch::Start(_) => Err(out_of_sync(format!(
                "rank {target} is not in the group that was given to MPI_Win_start"
            ))),
        }
    }

    /// Returns the kind of epoch that allows the process to access `target` now.
    pub(crate) fn open_for(&self, target: u32) -> Option<OpenEpoch> {
        match &self.access {
            AccessEpoch::LockAll(_) => Some(OpenEpoch::Lock),
            AccessEpoch::Locks(locks) => locks.contains_key(&target).then_some(OpenEpoch::Lock),
            AccessEpoch::Fence { .. } => Some(OpenEpoch::Fence),
            AccessEpoch::Start(targets) => targets.contains(&target).then_some(OpenEpoch::Start),
            AccessEpoch::None => None,
        }
    }

    /// Checks that a fence may be called now.
    ///
    /// # Errors
    /// `RmaSync` in epochs of other kinds.
    pub(crate) fn check_fence(&self) -> Result<()> {
        self.check_no_other("MPI_Win_fence")?;
        match self.exposure {
            None => Ok(()),
            Some(_) => Err(out_of_sync(
                "an exposure epoch is open: call MPI_Win_wait before MPI_Win_fence",
            )),
        }
    }

    /// Records a fence.
    pub(crate) fn fenced(&mut self, after: AfterFence) {
        self.access = match after {
            AfterFence::Epoch => AccessEpoch::Fence { used: false },
            AfterFence::NoEpoch => AccessEpoch::None,
        };
    }

    /// Opens an access epoch to these targets.
    ///
    /// # Errors
    /// `RmaSync` if another one is open.
    pub(crate) fn start(&mut self, targets: Vec<u32>) -> Result<()> {
        self.check_idle("MPI_Win_start")?;
        self.access = AccessEpoch::Start(targets);
        Ok(())
    }

    /// Closes the access epoch of `MPI_Win_start`; returns its targets.
    ///
    /// # Errors
    /// `RmaSync` if there is none.
    pub(crate) fn complete(&mut self) -> Result<Vec<u32>> {
        match std::mem::take(&mut self.access) {
            AccessEpoch::Start(targets) => Ok(targets),
            other => {
                self.access = other;
                let what = "MPI_Win_start was not called, so there is no epoch to complete";
                Err(out_of_sync(what))
            }
        }
    }

    /// Opens an exposure epoch that these processes must complete.
    ///
    /// # Errors
    /// `RmaSync` if one is open.
    pub(crate) fn post(&mut self, origins: Vec<u32>) -> Result<()> {
        if self.exposure.is_some() {
            let what = "an exposure epoch is open already: call MPI_Win_wait first";
            return Err(out_of_sync(what));
        }
        self.exposure = Some(origins);
        Ok(())
    }

    /// Returns the processes that must complete the open exposure epoch.
    ///
    /// # Errors
    /// `RmaSync` if none is open.
    pub(crate) fn exposed_to(&self) -> Result<&[u32]> {
        self.exposure.as_deref().ok_or_else(|| {
            out_of_sync("MPI_Win_post was not called, so there is no epoch to wait for")
        })
    }

    /// Closes the exposure epoch.
    pub(crate) fn unexposed(&mut self) {
        self.exposure = None;
    }

    /// Checks that `target` may be locked now.
    ///
    /// # Errors
    /// `RmaSync` if it is locked already, or an epoch of another kind is open.
    pub(crate) fn check_lock(&self, target: u32) -> Result<()> {
        match &self.access {
            AccessEpoch::Locks(locks) if locks.contains_key(&target) => Err(out_of_sync(format!(
                "rank {target} is locked already: unlock it before locking it again"
            ))),
            AccessEpoch::Locks(_) => Ok(()),
            _ => self.check_idle("MPI_Win_lock"),
        }
    }

    /// Records that `target` is locked.
    pub(crate) fn locked(&mut self, target: u32, lock: Option<LockKind>) {
        match &mut self.access {
            AccessEpoch::Locks(locks) => {
                locks.insert(target, lock);
            }
            access => *access = AccessEpoch::Locks(BTreeMap::from([(target, lock)])),
        }
    }

    /// Returns the kind of lock on `target`; `None` for an access without a lock.
    ///
    /// # Errors
    /// `RmaSync` if it is not locked.
    pub(crate) fn lock_of(&self, target: u32) -> Result<Option<LockKind>> {
        let found = match &self.access {
            AccessEpoch::Locks(locks) => locks.get(&target).copied(),
            AccessEpoch::LockAll(_) => {
                let what = "all targets were locked together: call MPI_Win_unlock_all";
                return Err(out_of_sync(what));
            }
            _ => None,
        };
        found.ok_or_else(|| not_locked(target))
    }

    /// Records that `target` is no longer locked.
    pub(crate) fn unlocked(&mut self, target: u32) {
        if let AccessEpoch::Locks(locks) = &mut self.access {
            locks.remove(&target);
            if locks.is_empty() {
                self.access = AccessEpoch::None;
            }
        }
    }

    /// Records that all targets are locked.
    pub(crate) fn locked_all(&mut self, lock: Option<LockKind>) {
        self.access = AccessEpoch::LockAll(lock);
    }

    /// Records that the targets are no longer locked; returns the kind of their lock.
    ///
    /// # Errors
    /// `RmaSync` if they were not locked together.
    pub(crate) fn unlocked_all(&mut self) -> Result<Option<LockKind>> {
        let AccessEpoch::LockAll(lock) = self.access else {
            let what = "MPI_Win_lock_all was not called, so there is nothing to unlock";
            return Err(out_of_sync(what));
        };
        self.access = AccessEpoch::None;
        Ok(lock)
    }

    /// Checks that `target`, or any target if it is `None`, may be flushed now.
    ///
    /// # Errors
    /// `RmaSync` if it is not locked.
    #[inline(always)]
    pub(crate) fn check_flush(&self, target: Option<u32>) -> Result<()> {
        match self.access {
            AccessEpoch::LockAll(_) => Ok(()),
            _ => self.check_flush_of_some(target),
        }
    }

    /// Does what [`check_flush`](Self::check_flush) does, where not all targets are locked
    /// together.
    #[inline(never)]
    fn check_flush_of_some(&self, target: Option<u32>) -> Result<()> {
        match (&self.access, target) {
            (AccessEpoch::LockAll(_), _) | (AccessEpoch::Locks(_), None) => Ok(()),
            (AccessEpoch::Locks(locks), Some(target)) if locks.contains_key(&target) => Ok(()),
            (_, Some(target)) => Err(not_locked(target)),
            (_, None) => Err(out_of_sync(
                "nothing is locked: windows can be flushed only in epochs of MPI_Win_lock or \
                 MPI_Win_lock_all",
            )),
        }
    }

    /// Checks that no epoch is open, except one between fences without operations.
    ///
    /// # Errors
    /// `RmaSync` if there is one; `what` is the call that cannot be made in it.
    pub(crate) fn check_idle(&self, what: &str) -> Result<()> {
        if let AccessEpoch::Fence { used: true } = self.access {
            return Err(out_of_sync(format!(
                "an epoch with operations in it is open: call MPI_Win_fence before {what}"
            )));
        }
        self.check_no_other(what)
    }

    /// Removes and returns the open access epoch, if any.
    pub(crate) fn take_access(&mut self) -> AccessEpoch {
        std::mem::take(&mut self.access)
    }

    /// Checks that the window may be freed now.
    ///
    /// # Errors
    /// `RmaSync` while an epoch is open that must be closed by a call of its own.
    pub(crate) fn check_free(&self) -> Result<()> {
        if self.exposure.is_some() {
            let what = "an exposure epoch is open: call MPI_Win_wait before MPI_Win_free";
            return Err(out_of_sync(what));
        }
        self.check_no_other("MPI_Win_free")
    }

    fn check_no_other(&self, what: &str) -> Result<()> {
        let (open, close) = match &self.access {
            AccessEpoch::None | AccessEpoch::Fence { .. } => return Ok(()),
            AccessEpoch::Start(_) => ("an access epoch of MPI_Win_start", "MPI_Win_complete"),
            AccessEpoch::Locks(_) => ("an epoch of MPI_Win_lock", "MPI_Win_unlock"),
            AccessEpoch::LockAll(_) => ("an epoch of MPI_Win_lock_all", "MPI_Win_unlock_all"),
        };
        Err(out_of_sync(format!("{open} is open: call {close} before {what}")))
    }
}

#[cold]
fn not_locked(target: u32) -> Error {
    out_of_sync(format!("rank {target} is not locked: call MPI_Win_lock or MPI_Win_lock_all first"))
}

#[cold]
fn out_of_sync(detail: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorClass::RmaSync, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_of_different_kinds_exclude_each_other() {
        let mut epochs = Epochs::default();
        assert!(epochs.admit(0, CompletedBy::Synchronization).is_err());
        epochs.fenced(AfterFence::Epoch);
        assert!(epochs.check_lock(0).is_ok() && epochs.check_free().is_ok());
        epochs.admit(3, CompletedBy::Synchronization).unwrap();
        assert!(epochs.admit(3, CompletedBy::Request).is_err(), "requests are for locks");
        assert!(epochs.check_lock(0).is_err() && epochs.start(vec![1]).is_err());
        epochs.check_fence().unwrap();
        epochs.fenced(AfterFence::NoEpoch);
        epochs.start(vec![1, 4]).unwrap();
        assert!(
            epochs.admit(4, CompletedBy::Synchronization).is_ok()
                && epochs.admit(2, CompletedBy::Synchronization).is_err()
        );
        assert!(epochs.check_fence().is_err() && epochs.check_free().is_err());
        assert!(epochs.unlocked_all().is_err() && epochs.check_lock(1).is_err());
        assert_eq!(epochs.complete().unwrap(), [1, 4]);
        assert!(epochs.complete().is_err());
    }

    #[test]
    fn locks_are_distinguished_by_target() {
        let mut epochs = Epochs::default();
        epochs.check_lock(1).unwrap();
        epochs.locked(1, Some(LockKind::Exclusive));
        epochs.check_lock(2).unwrap();
        epochs.locked(2, None);
        assert!(epochs.check_lock(2).is_err() && epochs.check_idle("MPI_Win_lock_all").is_err());
        assert!(
            epochs.admit(2, CompletedBy::Request).is_ok()
                && epochs.admit(3, CompletedBy::Request).is_err()
        );
        assert!(epochs.check_flush(None).is_ok() && epochs.check_flush(Some(3)).is_err());
        assert_eq!(epochs.lock_of(1), Ok(Some(LockKind::Exclusive)));
        assert_eq!(epochs.lock_of(2), Ok(None));
        epochs.unlocked(1);
        assert!(epochs.lock_of(1).is_err());
        epochs.unlocked(2);
        assert!(epochs.check_flush(None).is_err() && epochs.check_free().is_ok());
    }

    #[test]
    fn exposure_stands_beside_access() {
        let mut epochs = Epochs::default();
        assert!(epochs.exposed_to().is_err());
        epochs.post(vec![3, 5]).unwrap();
        assert!(epochs.post(vec![1]).is_err() && epochs.check_fence().is_err());
        assert!(epochs.check_free().unwrap_err().to_string().contains("MPI_Win_wait"));
        epochs.start(vec![0]).unwrap();
        assert_eq!(epochs.exposed_to(), Ok(&[3, 5][..]));
        epochs.unexposed();
        epochs.complete().unwrap();
        epochs.check_free().unwrap();
        epochs.post(Vec::new()).unwrap();
    }
}
