//! The networks to other machines: which interfaces are used, and why others are not.

use runtime::{FoundRail, configuration};

use super::finding::Finding;

pub fn findings() -> Vec<Finding> {
    let rails = match runtime::found_rails(&configuration::networks()) {
        Ok(rails) => rails,
        Err(error) => {
            let remedy = "unset COMBRAY_NET, or correct it: names of interfaces, networks, drivers";
            return vec![Finding::fault("network", error.to_string(), remedy)];
        }
    };
    let mut findings = vec![summary(&rails)];
    if rails.iter().all(|rail| rail.obstacle.is_some()) {
        return findings;
    }
    findings.extend(rails.into_iter().filter_map(|rail| {
        let found = format!("not used: {}", rail.obstacle?);
        Some(Finding::fit(&format!("  {}", rail.name), found))
    }));
    findings
}

/// The finding about the interfaces in use.
fn summary(rails: &[FoundRail]) -> Finding {
    let used: Vec<&str> = rails
        .iter()
        .filter(|rail| rail.obstacle.is_none())
        .map(|rail| rail.name.as_str())
        .collect();
    if !used.is_empty() {
        return Finding::fit("network", format!("to other machines by {}", used.join(", ")));
    }
    let chosen = configuration::networks();
    let mut remedy = match chosen.is_empty() {
        true => "COMBRAY_NET can name one of them nevertheless. Why each is not used:",
        false => "unset COMBRAY_NET to use all that can be. Why each is not used:",
    }
    .to_owned();
    for rail in rails {
        remedy += &format!("\n{}: {}", rail.name, rail.obstacle.as_deref().unwrap_or_default());
    }
    let found = "no interface leads to other machines; jobs on this one need none";
    match chosen.is_empty() {
        true => Finding::note("network", found, remedy),
        false => Finding::fault("network", format!("{found} (COMBRAY_NET={chosen})"), remedy),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    #[test]
    fn a_machine_without_network_is_reported() {
        let rail = |name: &str, obstacle: Option<&str>| FoundRail {
            name: format!("tcp:{name}"),
            interface: name.to_owned(),
            obstacle: obstacle.map(str::to_owned),
        };
        let none = summary(&[rail("lo", Some("loop"))]);
        assert!(none.verdict == Verdict::Note && none.remedy.contains("tcp:lo: loop"), "{none:?}");
        let both = summary(&[rail("lo", Some("loop")), rail("eth0", None)]);
        assert!(both.verdict == Verdict::Fit && both.found.contains("by tcp:eth0"));
    }
}
