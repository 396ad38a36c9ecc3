//! Formats ranks, calls and messages for display.

use crate::{
    Awaited, CollectiveWait, CommunicatorName, MessageWait, PortWait, ReturnedError, WaitingCall,
};

/// The maximum number of ranks that are named individually.
const NAMED_MAX: usize = 8;

/// Returns `rank 3`, or `ranks 0, 1 and 5`.
pub(crate) fn ranks(list: &[u32]) -> String {
    base::name_ranks(list, NAMED_MAX)
}

/// Returns the verb form for one or several ranks, such as `waits` or `wait`.
pub(crate) fn verb(list: &[u32], one: &'static str, several: &'static str) -> &'static str {
    if list.len() == 1 { one } else { several }
}

/// Returns the name of a communicator, or its size.
pub(crate) fn communicator(which: &CommunicatorName) -> String {
    match which.name.is_empty() {
        true => format!("a communicator of {} processes", which.size),
        false => which.name.clone(),
    }
}

/// Returns the function of a call.
pub(crate) fn function(call: &WaitingCall) -> String {
    let by_wait = || match &call.awaits {
        Awaited::Message(_) => "a receive".to_owned(),
        Awaited::Taken(_) => "a send".to_owned(),
        Awaited::Members(wait) => wait.operation.clone(),
        Awaited::OtherJob(PortWait::Connection) => "MPI_Comm_accept".to_owned(),
        Awaited::OtherJob(PortWait::Acceptance) => "MPI_Comm_connect".to_owned(),
        Awaited::OtherJob(PortWait::Start(..)) => "MPI_Comm_spawn".to_owned(),
        Awaited::Window(_) | Awaited::OtherJob(PortWait::Answer) | Awaited::Unknown => {
            "a call".to_owned()
        }
    };
    call.function.clone().unwrap_or_else(by_wait)
}

/// Returns the collective operation of a call, which may wait for an operation that was begun
/// earlier.
pub(crate) fn operation(call: &WaitingCall, wait: &CollectiveWait) -> String {
    let function = function(call);
    match function.starts_with("MPI_Wait") {
        true => format!("{} (begun before {function})", wait.operation),
        false => function,
    }
}

/// Returns `tag 5`, or `any tag`.
pub(crate) fn tag(wait: &MessageWait) -> String {
    wait.tag.map_or_else(|| "any tag".to_owned(), |tag| format!("tag {tag}"))
}

/// Returns the ranks of the job at the other end of a message.
pub(crate) fn peers(wait: &MessageWait) -> String {
    match (wait.peer, wait.peers.as_slice()) {
        (None, _) => "any rank".to_owned(),
        (Some(_), [one]) => format!("rank {one}"),
        (Some(peer), _) => format!("rank {peer} of {}", communicator(&wait.communicator)),
    }
}

/// Describes what a call waits for, such as `MPI_Recv for a message with tag 5 from rank 1`.
pub(crate) fn call(call: &WaitingCall) -> String {
    let function = function(call);
    let place = |which: &CommunicatorName| match which.name.as_str() {
        "MPI_COMM_WORLD" => String::new(),
        _ => format!(" on {}", communicator(which)),
    };
    match &call.awaits {
        Awaited::Message(wait) => {
            let (tag, peers) = (tag(wait), peers(wait));
            format!("{function} for {tag} from {peers}{}", place(&wait.communicator))
        }
        Awaited::Taken(wait) => {
            let (tag, peers) = (tag(wait), peers(wait));
            format!("{function} with {tag} to {peers}{}", place(&wait.communicator))
        }
        Awaited::Members(wait) => format!("{function} on {}", communicator(&wait.communicator)),
        Awaited::Window(target) => format!("{function} on memory of rank {target}"),
        Awaited::OtherJob(wait) => {
            let event = match wait {
                PortWait::Connection => "another job connects",
                PortWait::Acceptance => "another job accepts",
                PortWait::Start(..) => "the spawned processes call MPI_Init",
                PortWait::Answer => "another job answers",
            };
            format!("{function} until {event}")
        }
        Awaited::Unknown => function,
    }
}

/// Describes the error that a call returned, and when.
pub(crate) fn returned(error: &ReturnedError) -> String {
    let ReturnedError { class, detail, times, seconds: ago, .. } = error;
    let when = match times {
        0 | 1 => format!("{} ago", seconds(*ago)),
        _ => format!("{times} times, the last time {} ago", seconds(*ago)),
    };
    format!("returned {class} {when} ({detail})")
}

/// Formats a length.
pub(crate) fn bytes(length: u64) -> String {
    match length {
        1 => "1 byte".to_owned(),
        0..=9999 => format!("{length} bytes"),
        10_000..=10_485_759 => format!("{} KiB", length >> 10),
        _ => format!("{} MiB", length >> 20),
    }
}

/// Formats a time.
pub(crate) fn seconds(time: f64) -> String {
    match time {
        ..10.0 => format!("{time:.1} s"),
        10.0..600.0 => format!("{time:.0} s"),
        600.0..36_000.0 => format!("{:.0} min", time / 60.0),
        _ => format!("{:.1} h", time / 3600.0),
    }
}
