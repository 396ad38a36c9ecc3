//! Memory that processes of one machine let each other use.

use base::GateId;
use driver::Regions;

use crate::runtime::Runtime;

impl Runtime {
    /// Whether this process can read and write regions of `gate`, and the other way round; connects
    /// it if it is not connected. Where not, messages must do. Tries it: not for each message.
    pub fn reaches_regions_of(&mut self, gate: GateId) -> bool {
        self.connect(gate);
        self.rails.try_memory_of(gate)
    }

    /// The regions of this process and its peers.
    #[inline]
    pub fn regions(&mut self) -> &mut dyn Regions {
        self.rails.regions()
    }
}
