//! The table of drivers: the only place that names technologies.

use base::GateId;
use driver::{
    Directory, Driver, DriverError, FoundRail, NetworkSelection, PassedDescriptors, Settings,
};

/// The networks between machines. All that are used by themselves, or that a person names, and that
/// can be had, are used.
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

/// Inside a machine; an [`InlineDriver`](driver::InlineDriver) with [`Regions`](driver::Regions).
pub(crate) type MachineDriver = driver_shm::Shm;

/// Under which name it publishes its card.
pub(crate) const MACHINE: &str = "shm";

/// What rings a process of the same machine for which something was published in memory that
/// both use.
pub use driver_shm::PeerBell;

/// How processes of one machine come to memory that they share.
pub use driver_shm::{Invitation, OpeningTrial, open_memory, share_memory, try_opening};

/// The ways by which messages inside a machine go, and what is done in each.
pub use driver_shm::LocalWay;

/// By which names processes tell whether they can share memory, and what follows from the names of
/// all.
pub use driver_shm::{machine_name, machines};

/// A driver between machines.
pub(crate) struct NetworkDriver {
    /// Under which name it publishes its card.
    pub name: &'static str,
    /// Whether it is used although nobody names it.
    pub is_usual: bool,
    /// Makes it ready for a process; none: the settings do not want it, or it has no rails here.
    pub open: fn(GateId, &Settings, Box<dyn Directory>) -> Opened,
    /// The rails that it would have here, by what the person says about networks.
    pub survey: fn(&NetworkSelection) -> Vec<FoundRail>,
    /// Opens, before there are processes, what they may not: for so many of them, by what the
    /// person says about networks.
    pub open_ahead: Option<fn(&str, usize) -> Vec<PassedDescriptors>>,
}

/// A driver that is ready, if there is one, or why it cannot be.
pub(crate) type Opened = Result<Option<Box<dyn Driver>>, DriverError>;
