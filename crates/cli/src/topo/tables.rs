//! Tables of distances between NUMA nodes, localities of devices, and bindings of processes.

use topology::{Kind, ObjectId, Topology};

use super::processes::ShownProcess;

/// The distances between NUMA nodes.
pub fn distances(topology: &Topology) -> Option<String> {
    let distances = topology.distances()?;
    let mut text =
        String::from("Distances between NUMA nodes as the kernel reports them (10: own memory)\n");
    let row = |name: String, cells: Vec<String>| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>5}")).collect();
        format!("{name:>8}{cells}\n")
    };
    text += &row(String::new(), distances.nodes.iter().map(u32::to_string).collect());
    for from in &distances.nodes {
        let to = distances.nodes.iter().map(|to| distances.between(*from, *to).unwrap_or_default());
        text += &row(from.to_string(), to.map(|value| value.to_string()).collect());
    }
    Some(text)
}

/// The locality of each device.
pub fn devices(topology: &Topology) -> Option<String> {
    let devices = topology.devices();
    let rows: Vec<[String; 4]> = devices
        .iter()
        .map(|id| {
            let place = match topology.near(*id) {
                Some(place) => place_of(topology, place),
                None => "not known".to_owned(),
            };
            let threads = topology.near(*id).map(|place| topology[place].threads.to_string());
            let kind = topology[*id].kind.to_string();
            [topology[*id].label(), kind, place, threads.unwrap_or_default()]
        })
        .collect();
    table("Devices", ["name", "kind", "near", "hardware threads"], rows)
}

/// Names a place: with its machine, if there are several, and with its NUMA node, unless the place
/// is the node.
fn place_of(topology: &Topology, place: ObjectId) -> String {
    let machine = topology.holder(place, Kind::Machine);
    let machine = machine.filter(|machine| *machine != topology.root() && *machine != place);
    let node = topology.numa_node(place).filter(|node| *node != place);
    let named = machine.into_iter().chain([place]).chain(node);
    named.map(|id| topology[id].label()).collect::<Vec<_>>().join(", ")
}

/// Where the processes of a job may run.
pub fn processes(topology: &Topology, processes: &[ShownProcess]) -> Option<String> {
    let mut rows = Vec::new();
    for process in processes {
        let machine = process.machine(topology);
        let cpuset = process.cpuset(topology, machine);
        let mut cpuset = launcher::binding::describe(topology, machine, &cpuset);
        if machine != topology.root() {
            cpuset = format!("{}: {cpuset}", topology[machine].label());
        }
        rows.push([
            process.name(),
            process.number.to_string(),
            process.threads.len().to_string(),
            cpuset,
        ]);
        for (number, threads) in &process.threads {
            if *threads != process.allowed {
                rows.push([
                    String::new(),
                    number.to_string(),
                    String::new(),
                    format!("this thread only on {threads}"),
                ]);
            }
        }
    }
    table("Processes", ["rank", "process", "threads", "may run on"], rows)
}

fn table<const N: usize>(title: &str, head: [&str; N], rows: Vec<[String; N]>) -> Option<String> {
    if rows.is_empty() {
        return None;
    }
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].len()]).max().unwrap_or_default()
    };
    let line = |cells: [&str; N]| {
        let padded =
            cells.iter().enumerate().map(|(column, cell)| format!("{cell:<0$}", width(column)));
        format!("  {}", padded.collect::<Vec<_>>().join("  ")).trim_end().to_owned() + "\n"
    };
    let mut text = format!("{title}\n{}", line(head));
    for row in &rows {
        text += &line(std::array::from_fn(|column| row[column].as_str()));
    }
    Some(text)
}
