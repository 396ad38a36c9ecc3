//! The table of drivers: the only place that names technologies.
//!
//! Why: docs/internals/decisions/0032-drivers-are-equal.md

use base::GateId;
use driver::{
    Directory, Driver, DriverError, FoundRail, NetworkSelection, PassedDescriptors, Settings,
};

/// The networks between machines. All available networks are used that are on by default or that
/// the user names.
pub(crate) const NETWORKS: &[NetworkDriver] = &[
    NetworkDriver {
        name: "tcp",
        is_usual: true,
        open: driver_tcp::open,
        survey: driver_tcp::survey,
        open_ahead: None,
    },
    NetworkDriver {
        name: "ether",
        is_usual: false,
        open: driver_ether::open,
        survey: driver_ether::survey,
        open_ahead: Some(driver_ether::open_ahead),
    },
    NetworkDriver {
        name: "ofi",
        is_usual: false,
        open: driver_ofi::open,
        survey: driver_ofi::survey,
        open_ahead: None,
    },
    NetworkDriver {
        name: "datagram",
        is_usual: false,
        open: driver_datagram::open,
        survey: |_| Vec::new(),
        open_ahead: None,
    },
];

/// The driver within a machine, an [`InlineDriver`](driver::InlineDriver) with
/// [`Regions`](driver::Regions).
pub(crate) type MachineDriver = driver_shm::Shm;

/// The name under which it publishes its card.
pub const MACHINE: &str = "shm";

/// Wakes a process of this machine after something was published for it in shared memory.
pub use driver_shm::PeerBell;

/// Creates and opens memory that processes of one machine share.
pub use driver_shm::{Invitation, OpeningTrial, open_memory, share_memory, try_opening};

/// The ways in which messages within a machine are sent, and what each way does.
pub use driver_shm::LocalWay;

/// The names by which processes find out whether they can share memory, and the groups of processes
/// that can.
pub use driver_shm::{machine_name, machines};

/// A driver between machines.
pub(crate) struct NetworkDriver {
    /// The name under which it publishes its card.
    pub name: &'static str,
    /// Whether it is used by default.
    pub is_usual: bool,
    /// Creates the driver of a process; `None`: the settings exclude it, or it has no rails here.
    pub open: fn(GateId, &Settings, Box<dyn Directory>) -> Opened,
    /// Returns the rails that it would have here with this configuration of networks.
    pub survey: fn(&NetworkSelection) -> Vec<FoundRail>,
    /// Opens, before processes start, descriptors that they may not open themselves. The
    /// arguments are the configuration of networks and the number of processes.
    pub open_ahead: Option<fn(&str, usize) -> Vec<PassedDescriptors>>,
}

/// A driver, if it is used; or why it cannot be used.
pub(crate) type Opened = Result<Option<Box<dyn Driver>>, DriverError>;
