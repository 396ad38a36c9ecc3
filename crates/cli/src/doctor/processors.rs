//! Graphics processors, whose memory programs may pass to any call.

use std::env;

use devices::{DeviceDescription, ProcessesOfDevice};

use super::finding::Finding;

/// The variables by which drivers let programs see only some devices.
const VISIBLE: [&str; 3] = ["CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"];

const SUBJECT: &str = "graphics processors";

pub fn findings() -> Vec<Finding> {
    let visible: Vec<String> = VISIBLE
        .iter()
        .filter_map(|name| Some(format!("{name}={}", env::var(name).ok()?)))
        .collect();
    devices::describe().map(|found| of_devices(found, &visible)).unwrap_or_default()
}

fn of_devices(found: Result<Vec<DeviceDescription>, String>, visible: &[String]) -> Vec<Finding> {
    let devices = match found {
        Ok(devices) => devices,
        Err(cause) => {
            return vec![Finding::note(
                SUBJECT,
                format!("none can be used: {cause}"),
                "install the driver of the devices, or let the container have them (docker --gpus, \
                 --nv of Apptainer), if programs are to use them",
            )];
        }
    };
    let mut drivers: Vec<&str> = devices.iter().map(|device| &*device.driver).collect();
    drivers.dedup();
    let each = devices.iter().map(|device| {
        let DeviceDescription { name, bus, bytes, .. } = device;
        format!("{name} ({:.0} GiB, {bus})", *bytes as f64 / f64::from(1 << 30))
    });
    let all = each.collect::<Vec<_>>().join(", ");
    let all = if all.is_empty() { "none is visible".to_owned() } else { all };
    let shown = match drivers.is_empty() {
        true => all,
        false => format!("{all}; {}", drivers.join(", ")),
    };
    let mut findings = vec![match visible.is_empty() {
        true => Finding::fit(SUBJECT, shown),
        false => Finding::note(
            SUBJECT,
            format!("{shown}; programs see only those of {}", visible.join(" and ")),
            "processes that see different devices cannot read each other's memory on them, so \
             messages between them go through memory of the processor; let all see all \
             (--map-by gpu sets COMBRAY_LOCAL_GPU)",
        ),
    }];
    findings.extend(shared_use(&devices));
    findings.extend(peer_access(&devices));
    findings
}

/// Whether several processes may use a device, as ranks that share one do.
fn shared_use(devices: &[DeviceDescription]) -> Option<Finding> {
    let of = |processes| {
        let all = devices.iter().filter(move |device| device.processes == processes);
        all.map(|device| &*device.bus).collect::<Vec<_>>().join(", ")
    };
    let (one, none) = (of(ProcessesOfDevice::One), of(ProcessesOfDevice::None));
    let subject = "processes of a graphics processor";
    let remedy = "nvidia-smi -c DEFAULT lets several processes use one, as does NVIDIA's MPS";
    match (one.is_empty(), none.is_empty()) {
        (true, true) => None,
        (_, false) => Some(Finding::note(subject, format!("none may use {none}"), remedy)),
        _ => Some(Finding::note(subject, format!("only one at a time may use {one}"), remedy)),
    }
}

/// Whether the devices access each other's memory.
fn peer_access(devices: &[DeviceDescription]) -> Option<Finding> {
    let subject = "memory of other graphics processors";
    if devices.len() < 2 {
        return None;
    }
    let apart = devices.iter().filter(|device| !device.apart.is_empty());
    let each =
        apart.map(|device| format!("{} not that of {}", device.bus, device.apart.join(", ")));
    let each: Vec<String> = each.collect();
    Some(match each.is_empty() {
        true => Finding::fit(subject, "all access each other's"),
        false => Finding::note(
            subject,
            format!("some do not access it: {}", each.join("; ")),
            "messages between them go through memory of the processor; NVLink, one PCI switch, or \
             an IOMMU that is off (or in passthrough mode) may change that",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(bus: &str) -> DeviceDescription {
        DeviceDescription {
            name: "Device".to_owned(),
            bus: bus.to_owned(),
            bytes: 3 << 30,
            driver: "CUDA 12.4".to_owned(),
            apart: Vec::new(),
            processes: ProcessesOfDevice::Any,
        }
    }

    fn shown(devices: Vec<DeviceDescription>, visible: &[String]) -> Vec<String> {
        let findings = of_devices(Ok(devices), visible);
        findings.into_iter().map(|one| format!("{:?} {}", one.verdict, one.found)).collect()
    }

    #[test]
    fn one_device_is_named_with_its_driver() {
        assert_eq!(shown(vec![device("a")], &[]), ["Fit Device (3 GiB, a); CUDA 12.4"]);
        assert_eq!(shown(Vec::new(), &[]), ["Fit none is visible"]);
    }

    #[test]
    fn devices_that_are_hidden_apart_or_exclusive_are_reported() {
        let mut first = device("a");
        first.apart.push("b".to_owned());
        first.processes = ProcessesOfDevice::One;
        let visible = ["CUDA_VISIBLE_DEVICES=0,1".to_owned()];
        assert_eq!(
            shown(vec![first, device("b")], &visible),
            [
                "Note Device (3 GiB, a), Device (3 GiB, b); CUDA 12.4; programs see only those of \
                 CUDA_VISIBLE_DEVICES=0,1",
                "Note only one at a time may use a",
                "Note some do not access it: a not that of b",
            ]
        );
        let findings = shown(vec![device("a"), device("b")], &[]);
        assert_eq!(findings[1], "Fit all access each other's");
    }

    #[test]
    fn a_driver_that_does_not_work_is_named() {
        let findings = of_devices(Err("cuInit returned X".to_owned()), &[]);
        assert!(findings[0].found.contains("cuInit returned X") && findings.len() == 1);
    }
}
