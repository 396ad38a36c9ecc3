#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod causes;
pub mod error;
mod folding;
pub mod hashing;
pub mod ids;
pub mod label;
pub mod limits;
pub mod network;
pub mod peers;
pub mod rail;
pub mod ranks;
pub mod region;
pub mod slots;
pub mod variables;
mod version;

pub use causes::without_error_numbers;
pub use error::{Error, ErrorClass, Result};
pub use folding::folded;
pub use ids::{ContextId, GateId, RailId};
pub use label::MessageLabel;
pub use network::{GridDimension, NetworkDistances};
pub use peers::PeerTable;
pub use rail::{FragmentLengths, Fragmentation, RailProfile};
pub use ranks::name_ranks;
pub use region::RegionToken;
pub use slots::SlotSize;
pub use version::VERSION;
