//! `combray topo` and `combray run --dry-run` on the described machines of tests/machines.

use std::fs;
use std::process::Command;

#[path = "../../../tests/machines/reviewed.rs"]
// Not all machines have a reviewed tree.
#[allow(dead_code)]
mod reviewed;

/// Exit code, output and errors of the command.
fn combray(words: &[&str]) -> (i32, Vec<u8>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_combray")).args(words).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap(), output.stdout, errors)
}

fn text(words: &[&str]) -> String {
    let (code, out, errors) = combray(words);
    assert_eq!(code, 0, "{errors}");
    String::from_utf8(out).unwrap()
}

#[test]
fn trees_are_as_reviewed() {
    for name in [
        "two-sockets.xml",
        "odd-numbers.xml",
        "two-memories.xml",
        "many-chiplets.xml",
        "emulated.xml",
        "cluster.txt",
    ] {
        let machine = reviewed::machine(name);
        let found = text(&["topo", "--input", machine.to_str().unwrap()]);
        reviewed::compare(&machine, "tree", &found);
    }
}

/// Each host reports its topology. Here all hosts are this machine.
#[test]
fn hosts_are_one_tree() {
    let rsh = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rsh");
    let private = tempfile::tempdir().unwrap();
    let folder = private.path().join("cluster");
    fs::write(&folder, "switch top: a,b\nSwitchName=other Nodes=c").unwrap();
    let switches = folder.to_str().unwrap();
    let words =
        ["topo", "--hosts", "a,b,c", "--launch-agent", rsh, "--switches", switches, "--json"];
    let (code, out, errors) = combray(&words);
    fs::remove_file(&folder).unwrap();
    if errors.contains("libhwloc") {
        eprintln!("skipped: {errors}");
        return;
    }
    assert_eq!(code, 0, "{errors}");
    let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
    let names = |value: &serde_json::Value| -> Vec<String> {
        let children = value["children"].as_array().unwrap().iter();
        children.map(|child| child["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(json["tree"]["kind"], "cluster");
    assert_eq!(names(&json["tree"]), ["top", "other"]);
    assert_eq!(names(&json["tree"]["children"][0]), ["a", "b"]);
    assert_eq!(json["tree"]["children"][1]["children"][0]["kind"], "machine");
    let (code, _, errors) = combray(&["topo", "--hosts", "a,unreachable", "--launch-agent", rsh]);
    assert_eq!(code, 2);
    assert!(errors.contains("unreachable cannot be reached"), "{errors}");
}

#[test]
fn pictures_are_written() {
    let private = tempfile::tempdir().unwrap();
    let folder = private.path().join("topo");
    fs::create_dir(&folder).unwrap();
    let machine = reviewed::machine("two-sockets.xml");
    let written = |name: &str| {
        let path = folder.join(name);
        let words = ["topo", "--input", machine.to_str().unwrap(), "-o", path.to_str().unwrap()];
        let (code, _, errors) = combray(&words);
        (code, fs::read(&path).unwrap_or_default(), errors)
    };
    let [svg, png, json, xml, other] = ["m.svg", "m.png", "m.json", "m.xml", "m.gif"].map(written);
    fs::remove_dir_all(&folder).unwrap();
    let svg = String::from_utf8(svg.1).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("white: hardware thread") && !svg.contains("coloured:"));
    for word in ["two-sockets", "NUMA node 1, 60 GiB", ">31</text>", "network eth0"] {
        assert!(svg.contains(word), "{word}");
    }
    assert!(png.1.starts_with(b"\x89PNG") && png.1.len() > 2000);
    let json: serde_json::Value = serde_json::from_slice(&json.1).unwrap();
    assert_eq!(json["tree"]["children"][1]["threads"], "16-31");
    assert_eq!(json["distances"]["values"][0][1], 21);
    assert_eq!(xml.1, fs::read(&machine).unwrap());
    assert!(other.0 == 2 && other.2.contains(".svg, .png"), "{}", other.2);
}

#[test]
fn what_would_run_where_is_reported() {
    let machine = reviewed::machine("sub-numa.xml");
    let machine = machine.to_str().unwrap();
    let plan = |words: &[&str]| {
        let mut all = vec!["run", "--dry-run", "--topology", machine];
        all.extend(words);
        all.push("program");
        combray(&all)
    };
    let (code, out, _) = plan(&["-n", "2", "--hosts", "a,b"]);
    let out = String::from_utf8(out).unwrap();
    assert_eq!(
        (code, out.as_str()),
        (
            0,
            "rank 0 on a: not bound (hardware threads 0-79)\nrank 1 on b: not bound (hardware threads 0-79)\n"
        )
    );
    let (_, out, _) = plan(&["--map-by", "ppr:1:numa", "--bind-to", "numa"]);
    let out = String::from_utf8(out).unwrap();
    assert_eq!(out.lines().count(), 4);
    assert!(
        out.contains(": package 1, NUMA node 2, cores 20-29 (hardware threads 40-59)"),
        "{out}"
    );
    // Without -n there are as many processes as the machine has hardware threads.
    let (_, out, _) = plan(&["--map-by", ":HWTCPUS"]);
    assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 80);
    // If each process gets cores of its own, there are as many processes as fit.
    let (code, out, errors) = plan(&["--map-by", "slot:PE=10"]);
    assert_eq!((code, out.iter().filter(|byte| **byte == b'\n').count()), (0, 4), "{errors}");
    let (code, _, errors) = plan(&["--map-by", "die"]);
    assert!(code == 2 && errors.contains("it has machine, package"), "{errors}");
}

#[test]
fn a_machine_that_is_not_there_is_reported() {
    let (code, _, errors) = combray(&["topo", "--input", "/nowhere.xml"]);
    assert!(code == 2 && errors.contains("/nowhere.xml cannot be read"), "{errors}");
    let (code, _, errors) = combray(&["topo", "--job", "999999999"]);
    assert!(code == 2 && !errors.is_empty(), "{errors}");
}
