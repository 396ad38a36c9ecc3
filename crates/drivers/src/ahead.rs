//! Opening what processes may not open, for them.

use driver::PassedDescriptors;

use crate::networks::wanted_networks;

/// Opens, for so many processes of this machine, what the drivers that `networks` names need a
/// privilege for: by process, a text for [`driver::Settings::descriptors`], and the descriptors,
/// which the process must have under the same numbers. Nothing, where this process may not either;
/// the drivers say then what is missing.
pub fn open_ahead(networks: &str, processes: usize) -> Vec<PassedDescriptors> {
    let mut opened = Vec::new();
    for network in wanted_networks(networks).unwrap_or_default() {
        let Some(open) = network.open_ahead else { continue };
        for (process, (text, descriptors)) in open(networks, processes).into_iter().enumerate() {
            if opened.len() <= process {
                opened.resize_with(process + 1, || (String::new(), Vec::new()));
            }
            let (texts, all) = &mut opened[process];
            *texts += &format!("{}={text} ", network.name);
            all.extend(descriptors);
        }
    }
    opened
}
