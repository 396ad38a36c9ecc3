//! Receives that wait for a message while an older one, for a later receive, is there.

use std::collections::HashMap;

use super::{RankSummary, WaitKind};
use crate::TraceEvent;
use crate::alignment::{AlignedTrace, message_name};

/// The messages of one context that a rank has received, in the order of their matches.
#[derive(Debug, Default)]
struct Received {
    /// When each one was matched.
    matched: Vec<u64>,
    /// When each one was sent; then, when the first one was sent of it and all later ones.
    sent: Vec<u64>,
}

/// Changes the kind of those waits for late senders in which a message of the awaited one's context
/// was there: it was sent before the wait began, and received after the wait.
pub(super) fn mark(traces: &[AlignedTrace], summaries: &mut [RankSummary]) {
    let mut sent = HashMap::new();
    for trace in traces {
        for (time, event) in &trace.events {
            if let TraceEvent::Sent(message) = event {
                sent.insert(message_name(trace.rank, message.peer, message), *time);
            }
        }
    }
    for (trace, summary) in traces.iter().zip(summaries) {
        let mut contexts: HashMap<u64, Received> = HashMap::new();
        // The contexts of all messages, in the order of their matches.
        let mut matches = Vec::new();
        for (time, event) in &trace.events {
            let TraceEvent::Matched(message) = event else { continue };
            let name = message_name(message.peer, trace.rank, message);
            let received = contexts.entry(message.context).or_default();
            received.matched.push(*time);
            received.sent.push(sent.get(&name).copied().unwrap_or(u64::MAX));
            matches.push((*time, message.context));
        }
        for received in contexts.values_mut() {
            let mut first = u64::MAX;
            for sent in received.sent.iter_mut().rev() {
                first = first.min(*sent);
                *sent = first;
            }
        }
        for wait in summary.waits.iter_mut().filter(|wait| wait.kind == WaitKind::LateSender) {
            // The message that ended the wait.
            let place = matches.partition_point(|(time, _)| *time <= wait.resumed);
            let awaited = place.checked_sub(1).map(|place| matches[place]);
            let Some((_, context)) = awaited.filter(|(time, _)| *time >= wait.begun) else {
                continue;
            };
            let Some(received) = contexts.get(&context) else { continue };
            let later = received.matched.partition_point(|time| *time <= wait.resumed);
            if received.sent.get(later).is_some_and(|sent| *sent < wait.begun) {
                wait.kind = WaitKind::WrongOrder;
            }
        }
    }
}
