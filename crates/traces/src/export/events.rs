//! All events as JSON.

use serde_json::{Map, Value, json};

use crate::alignment::AlignedTrace;
use crate::{TraceEvent, TracedContent, TracedExchange, TracedMessage, TracedPacket, TracedSpan};

/// The values of one event exist at a time: those of all events take several times the memory of
/// their text.
pub(super) fn json(traces: &[AlignedTrace]) -> String {
    let mut text = "{\"unit\":\"ns\",\"ranks\":[".to_owned();
    for (index, trace) in traces.iter().enumerate() {
        text += if index > 0 { "," } else { "" };
        rank(trace, &mut text);
    }
    text += "]}\n";
    text
}

fn rank(trace: &AlignedTrace, text: &mut String) {
    let AlignedTrace { rank, host, dropped, clock_error_ns, .. } = trace;
    let host = Value::from(host.as_str());
    *text += &format!(
        "{{\"rank\":{rank},\"host\":{host},\"dropped\":{dropped},\
         \"clock_error_ns\":{clock_error_ns},\"events\":["
    );
    for (index, (time, event)) in trace.events.iter().enumerate() {
        *text += if index > 0 { "," } else { "" };
        *text += &one(trace, *time, event).to_string();
    }
    *text += "]}";
}

fn one(trace: &AlignedTrace, time: u64, event: &TraceEvent) -> Value {
    let mut value = match event {
        TraceEvent::CallBegan { thread, place, operation } => {
            let place = trace.places.get(*place as usize);
            let function = place.map_or("MPI", |place| &place.function);
            let caller = place.map_or("", |place| &place.caller);
            let mut value = json!({
                "kind": "call", "thread": thread, "function": function, "place": caller,
            });
            if let Some(operation) = operation {
                value["communicator"] = operation.communicator.into();
                value["operation"] = operation.number.into();
            }
            value
        }
        TraceEvent::CallEnded { thread } => json!({ "kind": "return", "thread": thread }),
        TraceEvent::Waited { thread, cause, peer, lasted }
        | TraceEvent::Waiting { thread, cause, peer, lasted } => json!({
            "kind": "wait", "thread": thread, "cause": cause.name(), "peer": peer,
            "lasted_ns": lasted,
        }),
        TraceEvent::Sent(message) => of_message("send", message),
        TraceEvent::Matched(message) => of_message("match", message),
        TraceEvent::PhaseBegan { name } => {
            json!({ "kind": "phase", "name": name_of(trace, *name) })
        }
        TraceEvent::PhaseEnded => json!({ "kind": "phase_end" }),
        TraceEvent::Exchanged(TracedExchange { thread, root, sent, received }) => json!({
            "kind": "exchange", "thread": thread, "root": root, "bytes_sent": sent,
            "bytes_received": received,
        }),
        TraceEvent::Ran(TracedSpan { track, name, peer, bytes, lasted, .. }) => json!({
            "kind": "work", "track": track.name(), "name": name_of(trace, *name), "peer": peer,
            "bytes": bytes, "lasted_ns": lasted,
        }),
        TraceEvent::Posted(packet) => of_packet(trace, packet),
        TraceEvent::Counted { counter, value } => json!({
            "kind": "counter", "name": counter.name(), "value": value,
        }),
    };
    let fields: Option<&mut Map<String, Value>> = value.as_object_mut();
    if let Some(fields) = fields {
        fields.insert("time".to_owned(), time.into());
    }
    value
}

fn name_of(trace: &AlignedTrace, name: u32) -> &str {
    trace.names.get(name as usize).map_or("", |name| name)
}

fn of_packet(trace: &AlignedTrace, packet: &TracedPacket) -> Value {
    let TracedPacket { rail, peer, bytes, content } = packet;
    let mut value = json!({
        "kind": "packet", "rail": name_of(trace, *rail), "peer": peer, "bytes": bytes,
    });
    match content {
        TracedContent::Records { messages, announcements, pieces, controls } => {
            value["messages"] = (*messages).into();
            value["announcements"] = (*announcements).into();
            value["pieces"] = (*pieces).into();
            value["controls"] = (*controls).into();
        }
        TracedContent::Part(offset) => value["offset"] = (*offset).into(),
        TracedContent::Again => value["again"] = true.into(),
    }
    value
}

fn of_message(kind: &str, message: &TracedMessage) -> Value {
    let TracedMessage { thread, context, peer, tag, bytes, number } = message;
    json!({
        "kind": kind, "thread": thread, "context": context, "peer": peer, "tag": tag,
        "bytes": bytes, "number": number,
    })
}
