#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod active_operation;
pub mod attribute;
mod buffer_place;
pub mod buffered;
pub mod collective;
pub mod communicator;
mod contexts;
pub mod error_handler;
mod errors;
pub mod exchange;
pub mod group;
pub mod hints;
pub mod info;
mod kernel;
mod message_domain;
mod messages;
mod native;
pub mod operation;
mod order;
mod partitioned;
mod point_to_point;
mod process;
mod recovery;
mod request;
pub mod session;
pub mod sharing;
mod side_channel;
mod status;
mod team;
mod thread_level;
pub mod topology;

pub use active_operation::{ActiveOperation, Step};
pub use communicator::Communicator;
pub use errors::{error_of, revoked};
pub use kernel::ProcessKernel;
pub use messages::MemberMessages;
pub use native::{Delivery, PackedReceive, PackedSend};
pub use order::{ChoiceKind, Order, RecordedResult, RecordedWait};
pub use partitioned::{Partitioned, Partitions};
pub use point_to_point::{Destination, MatchedMessage, SendMode};
pub use process::helping::{AnswerSlot, HelperAccess, Outside, RestingHelper};
pub use process::{
    CallExchange, CallFinder, CallPlace, FoundCall, PlaceName, Process, answer_without_queues,
};
pub use recovery::{ActiveAgreement, NewCommunicator};
pub use request::{EngineTransfer, Request, TransferCompletion, TransferScan};
pub use runtime::{RegionAccess, RegionError};
pub use side_channel::SideChannel;
pub use status::{MessageSource, MessageStatus};
pub use team::Team;
pub use thread_level::ThreadLevel;
