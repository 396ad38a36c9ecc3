//! The tree as text. Equal objects are shown once: `cores 0-7, each with 2 threads`.

use topology::{CpuSet, Kind, ObjectId, Topology};

/// The lines that show a machine.
pub fn tree(topology: &Topology) -> String {
    let mut text = String::new();
    branch(topology, topology.root(), "", "", &mut text);
    text
}

/// Formats a number of bytes.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(value < 10.0 && value.fract() > 0.05);
    format!("{value:.digits$} {}", UNITS[unit])
}

/// The title of an object: `NUMA node 1 (system's 3), 64 GiB`.
pub fn title(topology: &Topology, id: ObjectId) -> String {
    let object = &topology[id];
    let mut text = object.label();
    let numbered = matches!(object.kind, Kind::NumaNode | Kind::Package | Kind::Thread);
    if let Some(system) =
        object.system.filter(|system| numbered && *system as usize != object.logical)
    {
        text += &format!(" (system's {system})");
    }
    if object.bytes > 0 {
        text += &format!(", {}", size(object.bytes));
    }
    text
}

/// Writes an object and everything below it.
fn branch(topology: &Topology, id: ObjectId, first: &str, further: &str, out: &mut String) {
    // Objects that each contain only the next one share a line.
    let mut chain = vec![id];
    let mut last = id;
    while let [only] = topology[last].children[..] {
        if !topology[last].memories.is_empty() || !topology[last].devices.is_empty() {
            break;
        }
        chain.push(only);
        last = only;
    }
    let titles: Vec<String> = chain.iter().map(|id| title(topology, *id)).collect();
    let mut line = titles.join(" / ");
    let object = &topology[last];
    let is_outside = matches!(object.kind, Kind::Cluster | Kind::Switch);
    if object.kind != Kind::Thread && !is_outside && !object.threads.is_empty() {
        line += &format!("  [{}]", object.threads);
    }
    *out += &format!("{first}{line}\n");
    let mut lines: Vec<TreeEntry> = Vec::new();
    for group in object.children.chunk_by(|one, two| is_alike(topology, *one, *two)) {
        match group {
            [_, _, ..] if is_plain(topology, group[0]) => {
                lines.push(TreeEntry::Alike(group.to_vec()))
            }
            _ => lines.extend(group.iter().map(|id| TreeEntry::One(*id))),
        }
    }
    lines.extend(object.memories.iter().map(|id| TreeEntry::One(*id)));
    lines.extend(object.devices.iter().map(|id| TreeEntry::Device(*id)));
    let count = lines.len();
    for (index, entry) in lines.into_iter().enumerate() {
        let is_last = index + 1 == count;
        let head = format!("{further}{}", if is_last { "└─ " } else { "├─ " });
        let tail = format!("{further}{}", if is_last { "   " } else { "│  " });
        match entry {
            TreeEntry::One(id) => branch(topology, id, &head, &tail, out),
            TreeEntry::Device(id) => *out += &format!("{head}{}\n", device(topology, id)),
            TreeEntry::Alike(ids) => *out += &format!("{head}{}\n", alike(topology, &ids)),
        }
    }
}

enum TreeEntry {
    One(ObjectId),
    Device(ObjectId),
    Alike(Vec<ObjectId>),
}

/// The names of a PCI device's operating-system devices.
fn device(topology: &Topology, id: ObjectId) -> String {
    let object = &topology[id];
    let names: Vec<String> = object
        .devices
        .iter()
        .map(|id| format!("{} {}", topology[*id].kind, topology[*id].label()))
        .collect();
    match (object.kind, names.is_empty()) {
        (Kind::Pci, true) => format!("PCI {}", object.label()),
        (Kind::Pci, false) => format!("{} (PCI {})", names.join(", "), object.label()),
        (kind, _) => format!("{kind} {}", object.label()),
    }
}

/// Whether an object contains only a chain of single objects, down to hardware threads.
fn is_plain(topology: &Topology, id: ObjectId) -> bool {
    let object = &topology[id];
    let is_end = object.children.iter().all(|id| topology[*id].kind == Kind::Thread);
    let single = object.children.len() == 1 && is_plain(topology, object.children[0]);
    object.memories.is_empty() && object.devices.is_empty() && (is_end || single)
}

/// Whether two objects have equal structure.
fn is_alike(topology: &Topology, one: ObjectId, two: ObjectId) -> bool {
    let (a, b) = (&topology[one], &topology[two]);
    a.kind == b.kind
        && a.bytes == b.bytes
        && a.children.len() == b.children.len()
        && a.children.iter().zip(&b.children).all(|(one, two)| is_alike(topology, *one, *two))
}

/// Writes many objects of equal structure in one line.
fn alike(topology: &Topology, ids: &[ObjectId]) -> String {
    let first = ids[0];
    let mut chain = vec![first];
    while let [only] = topology[chain[chain.len() - 1]].children[..] {
        chain.push(only);
    }
    let inner = chain[chain.len() - 1];
    // Shows the cores, if there are any.
    let shown = chain.iter().copied().find(|id| topology[*id].kind == Kind::Core).unwrap_or(first);
    let numbers = |kind: Kind| -> CpuSet {
        let all = ids.iter().flat_map(|id| topology.of_kind_in(*id, kind));
        all.map(|id| topology[id].logical).collect()
    };
    let kind = topology[shown].kind;
    let mut parts = Vec::new();
    for id in chain.iter().filter(|id| **id != shown && topology[**id].kind != Kind::Thread) {
        let object = &topology[*id];
        parts.push(if object.bytes > 0 {
            format!("{} {}", object.kind, size(object.bytes))
        } else {
            object.kind.to_string()
        });
    }
    let threads = topology[inner].children.len().max(1);
    if threads > 1 {
        parts.push(format!("{threads} threads"));
    }
    let threads: CpuSet =
        ids.iter().flat_map(|id| topology[*id].threads.iter().collect::<Vec<_>>()).collect();
    let each =
        if parts.is_empty() { String::new() } else { format!(", each with {}", parts.join(", ")) };
    format!("{kind}s {}{each}  [{threads}]", numbers(kind))
}
