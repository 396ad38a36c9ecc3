//! Opens for processes what they may not open themselves.

use driver::PassedDescriptors;

use crate::networks::wanted_networks;

/// Opens, for `processes` processes of this machine, what the drivers that `networks` names need a
/// privilege for. Returns for each process a text for [`driver::Settings::descriptors`], and the
/// descriptors, which the process must inherit under these numbers. Returns nothing if this process
/// lacks the privilege, too; then the drivers report what is missing.
pub fn open_ahead(networks: &str, processes: usize) -> Vec<PassedDescriptors> {
    let wanted = wanted_networks(networks).unwrap_or_default().into_iter();
    together(
        wanted.filter_map(|network| Some((network.name, network.open_ahead?(networks, processes)))),
    )
}

/// Joins what several networks opened, by process. Each text is preceded by the network's name.
fn together(
    by_network: impl Iterator<Item = (&'static str, Vec<PassedDescriptors>)>,
) -> Vec<PassedDescriptors> {
    let mut opened = Vec::new();
    for (name, of_network) in by_network {
        for (process, (text, descriptors)) in of_network.into_iter().enumerate() {
            if opened.len() <= process {
                opened.resize_with(process + 1, || (String::new(), Vec::new()));
            }
            let (texts, all) = &mut opened[process];
            *texts += &format!("{name}={text} ");
            all.extend(descriptors);
        }
    }
    opened
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;

    /// What is opened depends on the available privileges and interfaces.
    #[test]
    fn descriptors_that_need_a_privilege_are_opened_for_their_drivers() {
        assert!(open_ahead("tcp", 3).is_empty(), "it needs none");
        assert!(open_ahead("nosuch", 3).is_empty());
        let texts: Vec<String> = open_ahead("ether", 3).into_iter().map(|(text, _)| text).collect();
        assert_eq!(texts.len(), driver_ether::open_ahead("ether", 3).len());
        assert!(texts.iter().all(|text| text.starts_with("ether=")), "{texts:?}");
    }

    #[test]
    fn what_several_networks_open_is_put_together_by_process() {
        let file = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let one = vec![("3".to_owned(), vec![file()]), ("4".to_owned(), vec![file()])];
        let other = vec![("5,6".to_owned(), vec![file(), file()])];
        let opened = together([("one", one), ("other", other)].into_iter());
        let reported: Vec<_> =
            opened.iter().map(|(text, all)| (text.as_str(), all.len())).collect();
        assert_eq!(reported, [("one=3 other=5,6 ", 3), ("one=4 ", 1)]);
    }
}
