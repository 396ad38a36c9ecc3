//! The dump of an InfiniBand network as `ibnetdiscover` prints it: a block for each switch and
//! each adapter, with a line for each port that has a cable.

use std::collections::HashMap;

use crate::network::{Builder, HostNetwork};

/// A switch or an adapter of the dump.
enum Node {
    Switch,
    /// The host name, which is the first word of the description of the adapter.
    Adapter(String),
}

/// Whether a text is such a dump: it begins with a block of a switch or an adapter.
pub(crate) fn is_dump(text: &str) -> bool {
    let mut lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#') && !line.contains('='));
    lines.next().is_some_and(|line| head(line).is_some())
}

/// Parses a dump. Cables between switches and hosts become links; a host with several adapters has
/// several.
///
/// # Errors
/// A sentence with the number of the line, or about the whole.
pub(crate) fn parse(text: &str) -> Result<HostNetwork, String> {
    let mut nodes: HashMap<&str, Node> = HashMap::new();
    let mut hosts = Vec::new();
    // The ports: of which node, and to which node.
    let mut ports: Vec<(&str, &str)> = Vec::new();
    let mut current = None;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if let Some((id, node)) = head(line) {
            if let Node::Adapter(host) = &node {
                hosts.push(host.clone());
            }
            nodes.insert(id, node);
            current = Some(id);
        } else if line.starts_with('[') {
            let here = current.ok_or_else(|| format!("line {number}: a port without a switch"))?;
            let there = quoted(line)
                .ok_or_else(|| format!("line {number}: a port without the name of its peer"))?;
            ports.push((here, there));
        }
    }
    let mut seen = std::collections::HashSet::new();
    hosts.retain(|host| seen.insert(host.clone()));
    let name = |id: &str| match nodes.get(id) {
        Some(Node::Adapter(host)) => host.clone(),
        Some(Node::Switch) | None => id.to_owned(),
    };
    let mut links = Builder::default();
    for (here, there) in ports {
        // The dump contains each cable twice, once from each end.
        let is_second = nodes.contains_key(there) && there < here;
        if !is_second && name(here) != name(there) {
            links.link(&name(here), &name(there), 1)?;
        }
    }
    if hosts.is_empty() || links.is_empty() {
        return Err("the dump of the network contains no adapter with a cable".to_owned());
    }
    links.finish(hosts)
}

/// The id of the switch or adapter whose block begins here, and what it is.
fn head(line: &str) -> Option<(&str, Node)> {
    let (kind, rest) = line.split_once(char::is_whitespace)?;
    let id = quoted(rest)?;
    match kind {
        "Switch" => Some((id, Node::Switch)),
        "Ca" => {
            let description = quoted(rest.split_once('#')?.1)?;
            let host = description.split_whitespace().next()?;
            Some((id, Node::Adapter(host.trim_matches('\'').to_owned())))
        }
        _ => None,
    }
}

/// The first text in quotation marks.
fn quoted(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('"')?;
    rest.split_once('"').map(|(inside, _)| inside).filter(|inside| !inside.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = "#\n# Topology file: generated on a day\n#\n\
        vendid=0x2c9\ndevid=0xbd36\nsysimgguid=0x2c90200423e70\nswitchguid=0x1(1)\n\
        Switch\t36 \"S-1\"\t\t# \"leaf one\" enhanced port 0 lid 2 lmc 0\n\
        [1]\t\"H-1\"[1](11) \t\t# \"n1 HCA-1\" lid 5 4xQDR\n\
        [2]\t\"H-2\"[1](12) \t\t# \"n2 HCA-1\" lid 6 4xQDR\n\
        [19]\t\"S-2\"[19]\t\t# \"leaf two\" lid 3 4xQDR\n\
        [20]\t\"S-2\"[20]\t\t# \"leaf two\" lid 3 4xQDR\n\n\
        Switch\t36 \"S-2\"\t\t# \"leaf two\" enhanced port 0 lid 3 lmc 0\n\
        [1]\t\"H-3\"[1](13) \t\t# \"n3 HCA-1\" lid 7 4xQDR\n\
        [19]\t\"S-1\"[19]\t\t# \"leaf one\" lid 2 4xQDR\n\
        [20]\t\"S-1\"[20]\t\t# \"leaf one\" lid 2 4xQDR\n\n\
        vendid=0x2c9\ncaguid=0x11\n\
        Ca\t1 \"H-1\"\t\t# \"n1 HCA-1\"\n[1](11) \t\"S-1\"[1]\t\t# lid 5 lmc 0 \"leaf one\" lid 2\n\n\
        Ca\t1 \"H-2\"\t\t# \"n2 HCA-1\"\n[1](12) \t\"S-1\"[2]\t\t# lid 6 lmc 0 \"leaf one\" lid 2\n\n\
        Ca\t1 \"H-3\"\t\t# \"n3 HCA-1\"\n[1](13) \t\"S-2\"[1]\t\t# lid 7 lmc 0 \"leaf two\" lid 3\n";

    #[test]
    fn switches_adapters_and_cables_are_read() {
        assert!(is_dump(DUMP) && !is_dump("switch a: b"));
        let network = parse(DUMP).unwrap();
        assert_eq!(network.hosts(), ["n1", "n2", "n3"]);
        assert_eq!(network.switches(), ["S-1", "S-2"]);
        let mut cables: Vec<u32> = network.links().iter().map(|link| link.cables).collect();
        cables.sort_unstable();
        assert_eq!(cables, [1, 1, 1, 2]);
        let distances = network.distances().unwrap();
        assert_eq!([distances.between(0, 1), distances.between(0, 2)], [2, 3]);
    }

    #[test]
    fn what_is_wrong_is_reported() {
        assert!(parse("Switch 36 \"S-1\" # \"x\"\n[1] nothing").unwrap_err().contains("line 2"));
        assert!(parse("Switch 36 \"S-1\" # \"x\"").unwrap_err().contains("no adapter"));
    }
}
