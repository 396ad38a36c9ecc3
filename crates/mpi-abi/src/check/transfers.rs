//! Extracts from a call's arguments the messages that it sends or receives.

use checks::{MemoryRanges, ReceiveSelection, TypeSignature};
use datatype::{Predefined, ValueKind};
use mpi::{MessageSource, SendMode};
use serde::{Deserialize, Serialize};

use super::SeenCall;
use super::memory::{self, MemoryOfCall};
use crate::arguments::{KnownCommunicator, KnownDatatype};
use crate::c::{Datatype, Handle};
use crate::generated::constants::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_PROC_NULL};

/// One side of a transfer.
#[derive(Clone)]
pub struct TransferSide {
    pub communicator: KnownCommunicator<'static>,
    /// The identifier of the communicator, equal in all its processes.
    pub number: u64,
    /// The rank of the peer; `None` for any.
    pub peer: Option<u32>,
    /// The tag; `None` for any.
    pub tag: Option<i32>,
    /// The number of bytes that are sent, or that there is room for.
    pub bytes: u64,
    pub signature: Option<TypeSignature>,
    /// The memory of the data; `None` if it has too many pieces.
    pub memory: Option<MemoryRanges>,
    pub mode: SendMode,
    /// Whether the data is copied before the call returns.
    pub is_buffered: bool,
}

/// What a call sends and receives.
#[derive(Clone, Default)]
pub struct SeenTransfer {
    pub send: Option<TransferSide>,
    pub receive: Option<TransferSide>,
    /// The memory that the call uses besides that of both sides, for collective and one-sided
    /// operations.
    pub uses: MemoryOfCall,
}

/// The names of the parameters that describe one side.
pub struct SideNames {
    buffer: &'static str,
    count: &'static str,
    datatype: &'static str,
    peer: &'static str,
    tag: &'static str,
}

const SEND: SideNames =
    SideNames { buffer: "buf", count: "count", datatype: "datatype", peer: "dest", tag: "tag" };
pub const RECEIVE: SideNames = SideNames { peer: "source", ..SEND };
const SEND_OF_BOTH: SideNames = SideNames {
    buffer: "sendbuf",
    count: "sendcount",
    datatype: "sendtype",
    peer: "dest",
    tag: "sendtag",
};
const RECEIVE_OF_BOTH: SideNames = SideNames {
    buffer: "recvbuf",
    count: "recvcount",
    datatype: "recvtype",
    peer: "source",
    tag: "recvtag",
};
const SEND_OF_REPLACE: SideNames = SideNames { tag: "sendtag", ..SEND };
const RECEIVE_OF_REPLACE: SideNames = SideNames { tag: "recvtag", ..RECEIVE };

/// Returns what a call sends and receives, if it is a transfer or prepares one.
pub fn transfer_of(seen: &SeenCall) -> Option<SeenTransfer> {
    let (send, receive) = match seen.function() {
        "MPI_Send" | "MPI_Ssend" | "MPI_Bsend" | "MPI_Rsend" | "MPI_Isend" | "MPI_Issend"
        | "MPI_Ibsend" | "MPI_Irsend" | "MPI_Send_init" | "MPI_Ssend_init" | "MPI_Bsend_init"
        | "MPI_Rsend_init" => (Some(SEND), None),
        "MPI_Recv" | "MPI_Irecv" | "MPI_Recv_init" => (None, Some(RECEIVE)),
        "MPI_Sendrecv" | "MPI_Isendrecv" => (Some(SEND_OF_BOTH), Some(RECEIVE_OF_BOTH)),
        "MPI_Sendrecv_replace" | "MPI_Isendrecv_replace" => {
            (Some(SEND_OF_REPLACE), Some(RECEIVE_OF_REPLACE))
        }
        "MPI_Mrecv" | "MPI_Imrecv" => {
            let writes = memory::elements_of(seen, "buf", "count", "datatype");
            return Some(SeenTransfer::of(MemoryOfCall { reads: None, writes }));
        }
        "MPI_Reduce_local" => {
            let reads = memory::elements_of(seen, "inbuf", "count", "datatype");
            let writes = memory::elements_of(seen, "inoutbuf", "count", "datatype");
            return Some(SeenTransfer::of(MemoryOfCall { reads, writes }));
        }
        _ => {
            let uses = memory::of_one_sided(seen).or_else(|| memory::of_collective(seen));
            return uses.map(SeenTransfer::of);
        }
    };
    let name = seen.function();
    let send = send.and_then(|names| side(seen, &names)).map(|side| TransferSide {
        mode: mode_of(name),
        // `MPI_Sendrecv_replace` copies the data first.
        is_buffered: mode_of(name) == SendMode::Buffered || name.contains("replace"),
        ..side
    });
    let receive = receive.and_then(|names| side(seen, &names));
    Some(SeenTransfer { send, receive, uses: MemoryOfCall::default() })
}

impl SeenTransfer {
    fn of(uses: MemoryOfCall) -> Self {
        Self { uses, ..Self::default() }
    }
}

fn mode_of(function: &str) -> SendMode {
    match function {
        "MPI_Ssend" | "MPI_Issend" | "MPI_Ssend_init" => SendMode::Synchronous,
        "MPI_Bsend" | "MPI_Ibsend" | "MPI_Bsend_init" => SendMode::Buffered,
        "MPI_Rsend" | "MPI_Irsend" | "MPI_Rsend_init" => SendMode::Ready,
        _ => SendMode::Standard,
    }
}

/// Returns the receive side of a matched probe that has found a message.
pub fn probe_of(seen: &SeenCall) -> Option<TransferSide> {
    let communicator = seen.communicator("comm")?;
    let number = communicator.number()?;
    let (peer, tag) = (seen.integer("source")? as i32, seen.integer("tag")? as i32);
    let found = match seen.word("flag") {
        // SAFETY: the call has succeeded, and has stored an integer there.
        Some(flag) => unsafe { *std::ptr::with_exposed_provenance::<i32>(flag) != 0 },
        None => true,
    };
    if !found || peer == MPI_PROC_NULL {
        return None;
    }
    Some(TransferSide {
        communicator,
        number,
        peer: u32::try_from(peer).ok(),
        tag: (tag != MPI_ANY_TAG).then_some(tag),
        // The receive determines these later.
        bytes: u64::MAX,
        signature: None,
        memory: None,
        mode: SendMode::Standard,
        is_buffered: false,
    })
}

fn side(seen: &SeenCall, names: &SideNames) -> Option<TransferSide> {
    let communicator = seen.communicator("comm")?;
    let number = communicator.number()?;
    let (peer, tag) = (seen.integer(names.peer)? as i32, seen.integer(names.tag)? as i32);
    if peer == MPI_PROC_NULL {
        return None;
    }
    let peer = if peer == MPI_ANY_SOURCE { None } else { Some(u32::try_from(peer).ok()?) };
    if peer.is_some_and(|peer| peer >= communicator.peer_count()) {
        return None;
    }
    if tag < 0 && tag != MPI_ANY_TAG || !is_usable(seen, names) {
        return None;
    }
    let tag = (tag != MPI_ANY_TAG).then_some(tag);
    let ElementData { bytes, signature } = data_of(seen, names)?;
    let memory = memory::elements_of(seen, names.buffer, names.count, names.datatype);
    Some(TransferSide {
        communicator,
        number,
        peer,
        tag,
        bytes,
        signature,
        memory,
        mode: SendMode::Standard,
        is_buffered: false,
    })
}

/// Whether the buffer of one side is valid. Otherwise the call returns an error, and does not wait.
fn is_usable(seen: &SeenCall, names: &SideNames) -> bool {
    let words = (seen.word(names.buffer), seen.integer(names.count), seen.word(names.datatype));
    let (Some(address), Some(count), Some(datatype)) = words else { return false };
    let address = std::ptr::with_exposed_provenance(address);
    // SAFETY: the memory is neither read nor written here, but only by the call itself, which gets
    // these arguments, too.
    unsafe { seen.call().buffer(1, address, count, Datatype::from_raw(datatype)) }.is_ok()
}

/// The size and types of elements.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ElementData {
    pub bytes: u64,
    /// The type signature; `None` if it is too long.
    pub signature: Option<TypeSignature>,
}

/// Returns the elements of one side.
pub fn data_of(seen: &SeenCall, names: &SideNames) -> Option<ElementData> {
    data(seen.integer(names.count)?, &seen.datatype(names.datatype)?)
}

/// Returns the data of `count` elements of a datatype.
pub fn data(count: i64, datatype: &KnownDatatype) -> Option<ElementData> {
    let count = u64::try_from(count).ok()?;
    let bytes = count.checked_mul(datatype.size() as u64)?;
    Some(ElementData { bytes, signature: signature_of(datatype, count as usize) })
}

/// Returns the type signature of `count` elements of a datatype, if it is short.
fn signature_of(datatype: &KnownDatatype, count: usize) -> Option<TypeSignature> {
    let mut signature = TypeSignature::default();
    let is_whole = datatype.basic_elements(count, &mut |element, count| {
        signature.add(&element_kind(element).unwrap_or_default(), count as u64)
    });
    is_whole.then_some(signature)
}

impl TransferSide {
    /// Returns the source and tag that a receive of this side accepts.
    pub fn selection(&self) -> ReceiveSelection {
        ReceiveSelection { source: self.peer, tag: self.tag }
    }

    /// Returns the source of a receive.
    pub fn source(&self) -> MessageSource {
        self.peer.map_or(MessageSource::Any, MessageSource::Rank)
    }
}

/// Returns the kind of a datatype's values, if another kind at the other end is a mistake. `None`
/// for bytes and characters, which match any kind.
pub fn element_kind(element: Predefined) -> Option<String> {
    let bytes = element.size();
    match element.kind() {
        ValueKind::Byte | ValueKind::Packed | ValueKind::Character | ValueKind::WideCharacter => {
            None
        }
        ValueKind::Signed | ValueKind::Unsigned | ValueKind::Logical if bytes == 1 => None,
        ValueKind::Signed | ValueKind::Unsigned | ValueKind::Logical => {
            Some(format!("integers of {bytes} bytes"))
        }
        ValueKind::Real(_) => Some(format!("floating-point numbers of {bytes} bytes")),
        ValueKind::Complex(_) => Some(format!("complex numbers of {bytes} bytes")),
        ValueKind::Pair(..) => Some(format!("elements of {}", element.name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_elements_are_those_of_the_representation() {
        assert_eq!(element_kind(Predefined::Int), element_kind(Predefined::FortranInteger));
        assert_eq!(element_kind(Predefined::Int), element_kind(Predefined::Unsigned));
        assert_ne!(element_kind(Predefined::Int), element_kind(Predefined::Float));
        assert_eq!(element_kind(Predefined::Packed), None);
    }
}
