//! Parts that are memory of the program, accessed by other processes of one machine: the system
//! copies, without the target. Parts in memory of a device are copied by the origin's device.
//!
//! Only puts and gets are done in this way: the standard orders them with no other operation before
//! the next synchronization (section 12.7), and they are complete when the call returns. All
//! accumulates of a part are done by one thread of the target, so they are atomic and in order. A
//! system call costs as much as a message with an answer, but three times as much as one without.
//! So several short operations between two flushes use messages, and after one such group the next
//! operations do, too.

use std::cell::Cell;

use base::{GateId, RegionToken, Result};
use memory::{Buffer, Segment};
use mpi::exchange::exchange;
use mpi::{Process, RegionAccess, RegionError, Team};

use super::action::{AccessKind, WindowAccess};
use super::creation::uses_messages_only;

/// The regions of the parts of a window.
#[derive(Debug, Default)]
pub(super) struct Reach {
    own: Option<RegionToken>,
    /// The parts by rank; empty if all are accessed by messages.
    parts: Vec<Cell<ReachedPart>>,
}

/// Below this many bytes a message is cheaper than the system call, unless the target must answer
/// for a single operation. Then a mailbox or the system is used (`super::ways`).
pub(super) const SYSTEM_BYTES_MIN: usize = 2 << 10;

/// How one part is accessed.
#[derive(Clone, Copy, Debug)]
enum ReachedPart {
    /// By messages.
    Asked,
    /// Perhaps as this region; the access was not tried yet.
    Untried(RegionToken),
    /// As this region of that process.
    Region(GateId, RegionToken),
}

impl Reach {
    /// Declares this process's part as a region, and exchanges the declarations with the other
    /// processes.
    ///
    /// # Errors
    /// Those of [`exchange`].
    pub(super) fn among(
        process: &Process,
        communicator: &std::rc::Rc<Team>,
        part: &Buffer,
    ) -> Result<Self> {
        let wanted = !part.is_empty() && communicator.size() > 1 && !uses_messages_only(process);
        let declare = || process.runtime().regions().declare(part, RegionAccess::ReadAndWrite);
        let own = wanted.then(declare).flatten();
        let all = exchange(process, communicator, &own.unwrap_or(RegionToken::NONE));
        let all = all.inspect_err(|_| revoke(process, own))?;
        let part_of = |token| match token {
            RegionToken::NONE => ReachedPart::Asked,
            token => ReachedPart::Untried(token),
        };
        let parts = all.into_iter().map(|token| Cell::new(part_of(token))).collect();
        Ok(Self { own, parts })
    }

    /// Revokes this process's region.
    pub(super) fn end(&self, process: &Process) {
        revoke(process, self.own);
    }

    /// Puts or gets data that lies in one run at the target. Returns false if nothing was done; the
    /// origin must then send a request to the target.
    pub(super) fn apply(
        &self,
        process: &Process,
        communicator: &Team,
        target: u32,
        access: &WindowAccess,
        run: Segment,
    ) -> bool {
        if !may_copy(access) {
            return false;
        }
        let Some(region) = self.region_of(process, communicator, target) else {
            return false;
        };
        match copy(process, region, access, (run.displacement as usize, run.length)) {
            Ok(()) => true,
            // Another buffer of this process may reach the part.
            Err(RegionError::OtherMemory(_)) => false,
            Err(_) => {
                // The target, or the failure of a message to it, reports the error.
                self.parts[target as usize].set(ReachedPart::Asked);
                false
            }
        }
    }

    fn region_of(
        &self,
        process: &Process,
        communicator: &Team,
        target: u32,
    ) -> Option<(GateId, RegionToken)> {
        let part = self.parts.get(target as usize)?;
        match part.get() {
            ReachedPart::Asked => None,
            ReachedPart::Region(gate, token) => Some((gate, token)),
            ReachedPart::Untried(token) => {
                let gate = communicator.gate(target)?;
                let reaches = process.runtime().reaches_regions_of(gate);
                let found =
                    if reaches { ReachedPart::Region(gate, token) } else { ReachedPart::Asked };
                part.set(found);
                reaches.then_some((gate, token))
            }
        }
    }
}

/// Whether the system can do this operation.
pub(super) fn may_copy(access: &WindowAccess) -> bool {
    matches!(access.action, AccessKind::Put | AccessKind::Get)
}

/// Puts into a region of a peer, or gets from it, `length` bytes at `offset`.
pub(super) fn copy(
    process: &Process,
    (gate, token): (GateId, RegionToken),
    access: &WindowAccess,
    (offset, length): (usize, usize),
) -> std::result::Result<(), RegionError> {
    let mut runtime = process.runtime();
    let regions = runtime.regions();
    match access.action {
        AccessKind::Put => regions.write_region(gate, token, offset, length, &access.origin, 0),
        _ => regions.read_region(gate, token, offset, length, &access.result, 0),
    }
}

/// Revokes the region, if there is one.
pub(super) fn revoke(process: &Process, own: Option<RegionToken>) {
    if let Some(own) = own {
        let revoked = process.runtime().regions().revoke(own);
        debug_assert!(revoked.is_ok(), "it was declared when the window was made");
    }
}
