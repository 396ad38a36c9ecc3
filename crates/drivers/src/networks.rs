//! Decides which networks are used, by the configuration in `COMBRAY_NET`.

use driver::{DriverError, FoundRail, NetworkSelection};

use crate::table::{NETWORKS, NetworkDriver};

/// Returns the networks that the user selects in `COMBRAY_NET`: the ones that are used by default,
/// unless they are excluded, and the ones that are named. If all default networks are excluded,
/// returns the others.
pub(crate) fn wanted_networks(text: &str) -> Result<Vec<&'static NetworkDriver>, DriverError> {
    let error = |wrong| DriverError { message: format!("COMBRAY_NET: {wrong}") };
    let selection = NetworkSelection::parse(text).map_err(error)?;
    let is_known = |name: &str| NETWORKS.iter().any(|network| network.name == name);
    if let Some(unknown) = selection.drivers().find(|name| !is_known(name)) {
        let names: Vec<&str> = NETWORKS.iter().map(|network| network.name).collect();
        let names = names.join(", ");
        return Err(error(format!("there is no driver \"{unknown}\"; there are: {names}")));
    }
    let is_left = |network: &&NetworkDriver| !selection.excludes_driver(network.name);
    let has_usual = NETWORKS.iter().filter(is_left).any(|network| network.is_usual);
    let is_wanted = |network: &&NetworkDriver| match network.is_usual {
        true => selection.concerns(network.name, is_known),
        false => selection.names_driver(network.name) || !has_usual,
    };
    Ok(NETWORKS.iter().filter(is_left).filter(is_wanted).collect())
}

/// Returns all rails to other machines that a process here could have, and why some of them are not
/// used.
///
/// # Errors
/// The user's configuration makes no sense.
pub fn found_rails(text: &str) -> Result<Vec<FoundRail>, DriverError> {
    let wanted = wanted_networks(text)?;
    let message = |wrong| DriverError { message: wrong };
    let selection = NetworkSelection::parse(text).map_err(message)?;
    let mut all = Vec::new();
    for network in NETWORKS {
        if wanted.iter().any(|one| one.name == network.name) {
            all.extend((network.survey)(&selection));
            continue;
        }
        for mut rail in (network.survey)(&NetworkSelection::default()) {
            let unnamed = format!("COMBRAY_NET does not name it (COMBRAY_NET={} would)", rail.name);
            let obstacle = rail.obstacle.map(|obstacle| format!(", and {obstacle}"));
            rail.obstacle = Some(unnamed + &obstacle.unwrap_or_default());
            all.push(rail);
        }
    }
    Ok(all)
}

/// Returns the names of the rails to other machines that a process here can have if `COMBRAY_NET`
/// names them: of all drivers, without those that `text` excludes.
///
/// # Errors
/// The user's configuration makes no sense.
pub fn possible_rails(text: &str) -> Result<Vec<String>, DriverError> {
    wanted_networks(text)?;
    let selection = NetworkSelection::parse(text).map_err(|message| DriverError { message })?;
    let is_left = |network: &&NetworkDriver| !selection.excludes_driver(network.name);
    let surveyed = NETWORKS.iter().filter(is_left).flat_map(|network| (network.survey)(&selection));
    Ok(surveyed.filter(|rail| rail.obstacle.is_none()).map(|rail| rail.name).collect())
}

/// Describes to users that their configuration selects no network interface of this machine, and
/// which ones the default would use; `None`: it selects one, or is the default or invalid.
pub fn describe_unfitting(text: &str) -> Option<String> {
    let rails = |text: &str| {
        let selection = NetworkSelection::parse(text).ok()?;
        let wanted = wanted_networks(text).ok()?.into_iter();
        Some(wanted.map(|network| (network.survey)(&selection)).collect::<Vec<_>>())
    };
    // A driver that lists no rails at all may have one nevertheless.
    let is_fitting =
        |all: &Vec<FoundRail>| all.is_empty() || all.iter().any(|rail| rail.obstacle.is_none());
    if text.trim().is_empty() || rails(text)?.iter().any(is_fitting) {
        return None;
    }
    let usual = rails("")?.into_iter().flatten().filter(|rail| rail.obstacle.is_none());
    let usual: Vec<String> = usual.map(|rail| rail.name).collect();
    let usual = if usual.is_empty() { "none".to_owned() } else { usual.join(", ") };
    Some(format!(
        "COMBRAY_NET is \"{text}\", which selects no network interface of this machine; by default \
         it uses {usual}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_that_no_interface_fits_is_described() {
        let described = describe_unfitting("nosuch0").unwrap();
        assert!(
            described.contains("\"nosuch0\"") && described.contains("by default"),
            "{described}"
        );
        for fitting in ["", " ", "lo", "tcp:lo", "datagram", "nosuch0,datagram", "10.0.0.0/99"] {
            assert_eq!(describe_unfitting(fitting), None, "{fitting}");
        }
    }

    #[test]
    fn what_is_said_chooses_drivers() {
        let wanted = |text: &str| {
            let wanted = wanted_networks(text).map_err(|error| error.message)?;
            Ok::<_, String>(wanted.iter().map(|network| network.name).collect::<Vec<_>>())
        };
        let is = |text: &str, names: &[&str]| assert_eq!(wanted(text).unwrap(), names, "{text}");
        is("", &["tcp"]);
        is("eth0,10.0.0.0/8", &["tcp"]);
        is("^eth0", &["tcp"]);
        is("ether", &["ether"]);
        is("ether:eth1, tcp:eth0", &["tcp", "ether"]);
        is("ether,eth0", &["tcp", "ether"]);
        is("datagram", &["datagram"]);
        is("ofi:tcp:eth0", &["ofi"]);
        is("^tcp", &["ether", "ofi", "datagram"]);
        is("^tcp:eth0", &["tcp"]);
        let error = wanted("ehter:eth0").unwrap_err();
        assert!(error.contains("\"ehter\"; there are: tcp, ether, ofi, datagram"), "{error}");
        assert!(wanted("10.0.0.0/99").unwrap_err().contains("10.0.0.0/99"));
    }

    #[test]
    fn rails_of_networks_that_are_not_wanted_are_found_and_say_what_would_name_them() {
        let tcp = |text: &str| {
            let all = found_rails(text).unwrap().into_iter();
            let own = all.filter(|rail| rail.name.starts_with("tcp:"));
            own.map(|rail| rail.obstacle.unwrap_or_default()).collect::<Vec<_>>()
        };
        let is_unnamed =
            |why: &String| why.starts_with("COMBRAY_NET does not name it (COMBRAY_NET=tcp:");
        let (wanted, unwanted) = (tcp("tcp"), tcp("datagram"));
        assert!(!wanted.is_empty(), "a machine has a loopback interface");
        assert!(!wanted.iter().any(is_unnamed), "{wanted:?}");
        assert!(unwanted.len() == wanted.len() && unwanted.iter().all(is_unnamed), "{unwanted:?}");
    }

    #[test]
    fn possible_rails_are_of_all_drivers_that_are_not_excluded() {
        assert_eq!(possible_rails("tcp:lo").unwrap(), ["tcp:lo"]);
        let rails = possible_rails("^tcp").unwrap();
        assert!(!rails.iter().any(|name| name.starts_with("tcp:")), "{rails:?}");
        assert!(possible_rails("ehter:eth0").is_err());
    }
}
