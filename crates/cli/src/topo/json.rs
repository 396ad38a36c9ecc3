//! The tree as JSON.

use serde_json::{Value, json};
use topology::{ObjectId, Topology};

use super::network;
use super::processes::ShownProcess;

/// A machine with its distances and the processes on it.
pub fn value(topology: &Topology, processes: &[ShownProcess]) -> Value {
    let distances = topology.distances().map(|distances| {
        let rows = distances.values.chunks(distances.nodes.len());
        json!({ "nodes": distances.nodes, "values": rows.collect::<Vec<_>>() })
    });
    let processes: Vec<Value> = processes.iter().map(ShownProcess::to_json).collect();
    json!({
        "tree": object(topology, topology.root()),
        "distances": distances,
        "network": topology.network().map(network::json),
        "processes": processes,
    })
}

fn object(topology: &Topology, id: ObjectId) -> Value {
    let one = &topology[id];
    let mut value = json!({ "kind": one.kind.name(), "number": one.logical });
    let several = |ids: &[ObjectId]| ids.iter().map(|id| object(topology, *id)).collect::<Vec<_>>();
    let mut set = |name: &str, member: Value| {
        value[name] = member;
    };
    if let Some(system) = one.system {
        set("system", json!(system));
    }
    if let Some(name) = &one.name {
        set("name", json!(name));
    }
    if one.bytes > 0 {
        set("bytes", json!(one.bytes));
    }
    if one.kind.is_device() {
        set("near", json!(topology.near(id).map(|place| topology[place].label())));
    } else {
        set("threads", json!(one.threads.to_string()));
    }
    for (name, ids) in
        [("children", &one.children), ("memories", &one.memories), ("devices", &one.devices)]
    {
        if !ids.is_empty() {
            set(name, json!(several(ids)));
        }
    }
    value
}
