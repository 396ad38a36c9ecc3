use super::*;

/// Returns a machine with that many packages, NUMA nodes in each package, cores in each node, and
/// hardware threads in each core. They are numbered as on many systems: first one thread of each
/// core.
fn machine(packages: usize, nodes: usize, cores: usize, threads: usize) -> Topology {
    let all = packages * nodes * cores;
    let mut text = String::from("<topology version='2.0'><object type='Machine'>");
    for package in 0..packages {
        text += &format!("<object type='Package' os_index='{package}'>");
        for node in 0..nodes {
            let number = package * nodes + node;
            text += "<object type='Group' kind='1001'>";
            text += &format!("<object type='NUMANode' os_index='{number}' cpuset='0x1'/>");
            for core in 0..cores {
                let core = number * cores + core;
                text += &format!("<object type='Core' os_index='{core}'>");
                for thread in 0..threads {
                    text += &format!("<object type='PU' os_index='{}'/>", thread * all + core);
                }
                text += "</object>";
            }
            text += "</object>";
        }
        text += "</object>";
    }
    Topology::from_xml(&(text + "</object></topology>")).unwrap()
}

/// Returns the cpusets of `processes` processes, with these words of the three options.
fn cpusets(topology: &Topology, processes: usize, words: [&str; 3]) -> Result<String, String> {
    let mut policy = Policy::default();
    let options = [PolicyOption::MapBy, PolicyOption::BindTo, PolicyOption::RankBy];
    for (option, words) in options.into_iter().zip(words).filter(|(_, words)| !words.is_empty()) {
        policy.set(option, words)?;
    }
    let cpusets =
        plan(topology, topology.root(), &(0..processes as u32).collect::<Vec<_>>(), &policy)?;
    let text = |cpuset: &Cpuset| cpuset.as_ref().map_or("all".to_owned(), CpuSet::to_string);
    Ok(cpusets.iter().map(text).collect::<Vec<_>>().join(" "))
}

#[test]
fn by_default_each_has_its_share() {
    let machine = machine(2, 2, 2, 1);
    let share = |processes| cpusets(&machine, processes, [""; 3]).unwrap();
    assert_eq!(share(1), "all");
    assert_eq!(share(2), "0-3 4-7");
    assert_eq!(share(3), "0-2 2-5 5-7");
    assert_eq!(share(4), "0-1 2-3 4-5 6-7");
    assert_eq!(share(8), "0 1 2 3 4 5 6 7");
    assert_eq!(share(9), "all all all all all all all all all");
}

#[test]
fn cores_reserved_for_a_process_are_not_shared() {
    let machine = machine(1, 1, 4, 2);
    let cpusets = |processes, words| cpusets(&machine, processes, [words, "", ""]);
    assert_eq!(cpusets(2, "slot:PE=2").unwrap(), "0-1,4-5 2-3,6-7");
    assert!(cpusets(3, "slot:PE=2").unwrap_err().contains("would have to share"));
    assert!(cpusets(2, "slot:PE=3").unwrap_err().contains("would have to share"));
    assert!(cpusets(3, "slot:PE=2:oversubscribe").is_ok());
}

#[test]
fn more_processes_than_hardware_threads_can_be_refused() {
    let machine = machine(1, 1, 2, 1);
    let cpusets = |processes, words| cpusets(&machine, processes, [words, "", ""]);
    assert!(cpusets(4, "slot").is_ok() && cpusets(2, "slot:nooversubscribe").is_ok());
    let error = cpusets(4, "slot:nooversubscribe").unwrap_err();
    assert!(error.contains("4 processes") && error.contains("2 usable"), "{error}");
}

#[test]
fn shares_are_of_whole_cores_while_there_are_enough() {
    let machine = machine(1, 1, 4, 2);
    let share = |processes| cpusets(&machine, processes, [""; 3]).unwrap();
    assert_eq!(share(2), "0-1,4-5 2-3,6-7");
    assert_eq!(share(4), "0,4 1,5 2,6 3,7");
    assert_eq!(share(8), "0 4 1 5 2 6 3 7");
}

#[test]
fn levels_are_mapped_in_turn() {
    let machine = machine(2, 2, 2, 1);
    let cpusets = |processes, map, bind| cpusets(&machine, processes, [map, bind, ""]).unwrap();
    assert_eq!(cpusets(4, "package", "core"), "0 4 1 5");
    assert_eq!(cpusets(5, "numa", "core"), "0 2 4 6 1");
    assert_eq!(cpusets(3, "numa", "numa"), "0-1 2-3 4-5");
    assert_eq!(cpusets(2, "core", "package"), "0-3 0-3");
    assert_eq!(cpusets(8, "package,numa,core", "core"), "0 4 2 6 1 5 3 7");
    assert_eq!(cpusets(8, "numa,package,core", "core"), "0 2 4 6 1 3 5 7");
    assert_eq!(cpusets(8, "core,package", "core"), "0 1 2 3 4 5 6 7");
    assert_eq!(cpusets(4, "ppr:1:numa", "core"), "0 2 4 6");
    assert_eq!(cpusets(4, "ppr:2:package", "numa"), "0-1 2-3 4-5 6-7");
    assert_eq!(cpusets(4, "slot:pe=2", "core"), "0-1 2-3 4-5 6-7");
    assert_eq!(cpusets(2, "numa:pe=2", ""), "0-1 2-3");
    assert_eq!(cpusets(3, "core", "none"), "all all all");
}

#[test]
fn a_mapping_alone_binds_no_tighter_than_the_share() {
    let machine = machine(2, 2, 2, 1);
    let cpusets = |processes, map| cpusets(&machine, processes, [map, "", ""]).unwrap();
    assert_eq!(cpusets(2, "numa"), "0-3 0-3");
    assert_eq!(cpusets(2, "package"), "0-3 4-7");
    assert_eq!(cpusets(4, "package"), "0-1 4-5 2-3 6-7");
    assert_eq!(cpusets(8, "core"), "0 1 2 3 4 5 6 7");
}

#[test]
fn several_cores_for_each_process_have_two_spellings() {
    let machine = machine(2, 2, 2, 2);
    let cpusets = |words| cpusets(&machine, 4, words).unwrap();
    assert_eq!(cpusets(["slot:pe=2", "", ""]), cpusets(["", "core:2", ""]));
    assert_eq!(cpusets(["", "core:2", ""]), "0-1,8-9 2-3,10-11 4-5,12-13 6-7,14-15");
    // In any order, and the last word of each option counts.
    for options in [
        &[("bind", "core:2"), ("map", "slot")][..],
        &[("map", "slot:pe=2"), ("bind", "core:2")],
        &[("bind", "core:3"), ("bind", "core:2")],
    ] {
        let mut policy = Policy::default();
        for (option, words) in options {
            let option = if *option == "map" { PolicyOption::MapBy } else { PolicyOption::BindTo };
            policy.set(option, words).unwrap();
        }
        assert_eq!((policy.cores_each.number(), policy.bind), (2, Bind::Share), "{options:?}");
    }
    let mut policy = Policy::default();
    policy.set(PolicyOption::BindTo, "core:2").unwrap();
    assert!(policy.set(PolicyOption::MapBy, "slot:pe=3").unwrap_err().contains("PE=3"));
    policy.set(PolicyOption::MapBy, "slot").unwrap();
    policy.set(PolicyOption::BindTo, "core").unwrap();
    assert_eq!((policy.cores_each.number(), policy.bind), (0, Bind::To(Kind::Core)));
}

#[test]
fn ranks_follow_their_own_order() {
    let machine = machine(2, 2, 2, 1);
    let cpusets = |words| cpusets(&machine, 4, words).unwrap();
    assert_eq!(cpusets(["package", "core", "slot"]), "0 1 4 5");
    assert_eq!(cpusets(["core", "core", "package"]), "0 1 2 3");
    assert_eq!(cpusets(["ppr:2:package", "core", "package"]), "0 4 1 5");
    assert_eq!(cpusets(["ppr:2:package", "core", "fill"]), "0 1 4 5");
}

#[test]
fn what_cannot_be_is_reported() {
    let machine = machine(1, 1, 2, 1);
    let message = |processes, words| cpusets(&machine, processes, words).unwrap_err();
    assert!(message(2, ["l3cache", "", ""]).contains("it has machine, package, numa, core"));
    assert!(message(3, ["", "core", ""]).contains("overload-allowed"));
    assert_eq!(cpusets(&machine, 3, ["", "core:overload-allowed", ""]).unwrap(), "0 1 0");
    assert!(message(3, ["ppr:1:core", "", ""]).contains("makes only 2"));
    assert!(message(1, ["slot:pe=3", "", ""]).contains("this machine has 2"));
    assert!(message(2, ["slot:pe=2", "", ""]).contains("share"));
    for words in [["moon", "", ""], ["", "moon", ""], ["", "", "moon"], ["core:moon", "", ""]] {
        assert!(message(1, words).contains("does not accept"));
    }
    assert!(message(1, ["", "core:0", ""]).contains("as in core:2"));
    assert!(message(1, ["", "package:2", ""]).contains("as in core:2"));
    assert!(message(1, ["", "core:3", ""]).contains("this machine has 2"));
    assert!(message(1, ["", "user", ""]).contains("as in user:0+1,2+3"));
    assert!(message(1, ["ppr:x:core", "", ""]).contains("above 0"));
    assert!(message(1, ["core:pe=0", "", ""]).contains("above 0"));
}

#[test]
fn a_job_may_be_restricted_to_a_part() {
    let machine = machine(2, 2, 2, 2).restricted(&CpuSet::from_list("1-3,6,14").unwrap()).unwrap();
    assert_eq!(cpusets(&machine, 2, [""; 3]).unwrap(), "1-2 3,6,14");
    assert_eq!(cpusets(&machine, 4, ["core", "core", ""]).unwrap(), "1 2 3 6,14");
    assert_eq!(cpusets(&machine, 2, ["package", "package", ""]).unwrap(), "1-3 6,14");
}

#[test]
fn the_last_words_of_an_option_hold() {
    let mut policy = Policy::default();
    for (option, words) in [
        (PolicyOption::MapBy, "slot:pe=2:oversubscribe"),
        (PolicyOption::BindTo, "core:overload-allowed"),
        (PolicyOption::RankBy, "numa"),
        (PolicyOption::MapBy, "package"),
        (PolicyOption::BindTo, "numa"),
        (PolicyOption::RankBy, "span"),
    ] {
        policy.set(option, words).unwrap();
    }
    let expected = Policy {
        mapping: ProcessMapping::Levels(vec![Kind::Package]),
        bind: Bind::To(Kind::NumaNode),
        ..Policy::default()
    };
    assert_eq!(policy, expected);
}

/// Returns a machine with two NUMA nodes of four cores, three processors for graphics near the
/// second and one near the first, in this order of PCI locations, and one device that only shows a
/// picture.
fn machine_with_gpus() -> Topology {
    let node = |number: usize, devices: String| {
        let cores = (0..4).map(|core| {
            let core = number * 4 + core;
            format!("<object type='Core' os_index='{core}'><object type='PU' os_index='{core}'/></object>")
        });
        let memory = format!("<object type='NUMANode' os_index='{number}' cpuset='0x1'/>");
        let cores: String = cores.collect();
        format!("<object type='Package' os_index='{number}'>{memory}{cores}{devices}</object>")
    };
    let gpu = |bus: usize, names: &[&str]| {
        let names: String = names
            .iter()
            .map(|name| format!("<object type='OSDev' name='{name}' osdev_type='1'/>"))
            .collect();
        format!("<object type='PCIDev' pci_busid='0000:{bus:02x}:00.0'>{names}</object>")
    };
    let first = gpu(1, &["card0"]) + &gpu(2, &["card1", "renderD128"]);
    let second = gpu(3, &["card2", "renderD129", "nvml1"]) + &gpu(4, &["renderD130"]);
    let text = node(0, first) + &node(1, second);
    let text = format!("<topology version='2.0'><object type='Machine'>{text}</object></topology>");
    Topology::from_xml(&text).unwrap()
}

#[test]
fn processes_are_placed_near_gpus_in_turn() {
    let with = machine_with_gpus();
    assert_eq!(with.near_gpus(with.root()).len(), 3);
    let near = |processes, words: &str| cpusets(&with, processes, [words, "numa", ""]);
    assert_eq!(near(4, "gpu").unwrap(), "0-3 4-7 4-7 0-3");
    assert_eq!(near(4, "ppr:2:gpu").unwrap(), "0-3 0-3 4-7 4-7");
    assert!(near(7, "ppr:2:gpu").unwrap_err().contains("makes only 6"));
    // Two processes share a node: each has its share of it.
    let shares = cpusets(&with, 4, ["gpu", "", ""]).unwrap();
    assert_eq!(shares, "0-1 4-5 6-7 2-3");
    let without = machine(1, 2, 2, 1);
    assert!(cpusets(&without, 2, ["gpu", "", ""]).unwrap_err().contains("shows no GPU"));
    assert!(cpusets(&with, 2, ["", "gpu", ""]).unwrap_err().contains("does not accept"));
}

#[test]
fn processes_know_their_gpu_where_they_have_one_in_turn() {
    let gpus = |words: &str| {
        let mut policy = Policy::default();
        policy.set(PolicyOption::MapBy, words).unwrap();
        (policy.gpus_of(5, 3), policy.shows_own_gpu)
    };
    assert_eq!(gpus("gpu"), (Some(vec![0, 1, 2, 0, 1]), false));
    assert_eq!(gpus("ppr:2:gpu:visible"), (Some(vec![0, 0, 1, 1, 2]), true));
    assert_eq!(gpus("numa"), (None, false));
    assert!(Policy::default().set(PolicyOption::MapBy, "numa:visible").is_err());
}
