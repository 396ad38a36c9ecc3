//! Descriptions of messages, communicators and functions for users.

use base::GateId;
use hangs::{CommunicatorName, MessageWait};

use crate::message_domain::MessageDomain;

/// Describes the peer, tag and length of a message.
pub(super) fn end_of_message(
    communicator: &MessageDomain,
    peer: Option<u32>,
    tag: Option<i32>,
    bytes: Option<u64>,
) -> MessageWait {
    let peers = match peer {
        Some(rank) => communicator.gate(rank).map(|GateId(rank)| rank).into_iter().collect(),
        None => {
            let own = communicator.group().gate(communicator.rank());
            let others = communicator.peers().gates().filter(|gate| Some(*gate) != own);
            others.map(|GateId(rank)| rank).collect()
        }
    };
    MessageWait { communicator: described(communicator), peer, peers, tag, bytes }
}

/// Describes a communicator.
pub(super) fn described(communicator: &MessageDomain) -> CommunicatorName {
    let id = communicator.number().unwrap_or(0);
    let name = String::from_utf8_lossy(&communicator.name()).into_owned();
    let name = if name.is_empty() && id == 0 { "MPI_COMM_WORLD".to_owned() } else { name };
    CommunicatorName { id, name, size: communicator.size() }
}

/// Whether a function belongs to one-sided communication.
pub(super) fn is_one_sided(function: &str) -> bool {
    let names =
        ["MPI_Put", "MPI_Get", "MPI_Accumulate", "MPI_Fetch_and_op", "MPI_Compare_and_swap"];
    let prefixes = ["MPI_Win_", "MPI_Rput", "MPI_Rget", "MPI_Raccumulate", "MPI_Get_accumulate"];
    names.contains(&function) || prefixes.iter().any(|prefix| function.starts_with(prefix))
}
