//! Memory that processes of one machine share for direct access.

use base::GateId;
use driver::Regions;

use crate::runtime::Runtime;

impl Runtime {
    /// Whether this process and `gate` can read and write each other's regions; if not, messages
    /// must be used. Connects `gate` if necessary, and makes a trial access, so this is too slow
    /// for each message.
    pub fn reaches_regions_of(&mut self, gate: GateId) -> bool {
        self.connect(gate);
        self.rails.try_memory_of(gate)
    }

    /// Returns the regions of this process and its peers.
    #[inline]
    pub fn regions(&mut self) -> &mut dyn Regions {
        self.rails.regions()
    }
}
